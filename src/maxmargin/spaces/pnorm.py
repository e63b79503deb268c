"""The geometry of p-norms: |x|_p for examples, the dual |w|_q for weights, 1/p + 1/q = 1.

Steps are made on a vector theta, and the weights are its dual,

    w_j = sign(theta_j) |theta_j|^(p-1) / |theta|_p^(p-2),     |w|_q = |theta|_p.

With ``theta = scale * v`` the powers ``u_j = sign(v_j) |v_j|^(p-1)`` and ``S = sum |v_j|^p`` are
kept for all coordinates, so that an output costs what it costs for p = 2, and a step computes
powers only of coordinates that it changes. (C. Gentile, "The robustness of the p-norm algorithms",
Machine Learning 53, 2003.)

If p-th powers would leave the range of float64, v is divided by its largest coordinate first.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Array, Buffer, blank
from maxmargin.core.numba_backend import bridge
from maxmargin.spaces.pnorm_plane import Plane
from maxmargin.spaces.power import Power, PowerBuffer, power
from maxmargin.spaces.problem_scalars import DRIFT_TOLERANCE, LARGEST_SCALE, ROUNDING

# The relative rounding error of a two-part sum in an update of up to 2**20 coordinates.
SUM_ROUNDING = 2**20 * ROUNDING * ROUNDING
# Sums of p-th powers in this range are not affected by underflow, nor near overflow.
SMALLEST_SUM, LARGEST_SUM = 1e-200, 1e200


class PNorm(NamedTuple):
    """The geometry for p > 1 other than 2; see `Euclid` for the interface.

    Attributes
    ----------
    largest_scale : see `scale_limit`
    dual_power, curvature : raise to p - 1, and to p - 2
    units : the factor of v before powers are computed, for each problem
    powers : u, for each problem
    sums, lows : S in two parts, for each problem
    sum_errors : bounds on the rounding errors in the sums
    gains : S**((2 - p) / p) / unit, so that ``w = scale * gain * u``
    z, t : the vectors of a `Plane`
    stamps, serial : the columns that the current z already has, its number, and its size
    """

    p: float
    largest_scale: float
    dual_power: Power
    units: Annotated[np.ndarray, Array("problems", fill=1.0)]
    powers: Annotated[np.ndarray, Array("problems", "coordinates")]
    sums: Annotated[np.ndarray, Array("problems")]
    lows: Annotated[np.ndarray, Array("problems")]
    sum_errors: Annotated[np.ndarray, Array("problems")]
    gains: Annotated[np.ndarray, Array("problems")]
    curvature: Power
    buffer: PowerBuffer
    z: Annotated[np.ndarray, Buffer("coordinates")]
    t: Annotated[np.ndarray, Buffer("coordinates")]
    stamps: Annotated[np.ndarray, Buffer("coordinates", dtype=np.int64)]
    serial: Annotated[np.ndarray, Buffer(2, dtype=np.int64)]

    def scale_limit(self):
        return self.largest_scale

    def product(self, rows, i, weights, c):
        return self.gains[c] * rows.dot(i, self.powers, c)

    def push(self, rows, i, weights, c, amount):
        count, unit = rows.entries(i, weights), self.units[c]
        for k in range(count):
            j, x = rows.entry(i, k)
            self.buffer.base[k] = unit * abs(weights[c, j] + amount * x)
        self.dual_power.raise_all(self.buffer, count)
        left, left_low, come, come_low = self.sums[c], self.lows[c], 0.0, 0.0
        for k in range(count):
            j, x = rows.entry(i, k)
            before, after = self.change(weights, c, j, amount * x, k)
            left, left_low = self.add_exactly(left, left_low, -before)
            come, come_low = self.add_exactly(come, come_low, after)
        self.settle(weights, c, left, left_low, come, come_low)

    def push_vector(self, vectors, at, weights, c, amount):
        count, unit = 0, self.units[c]
        for j in range(weights.shape[1]):
            if vectors[at, j] != 0.0:
                self.buffer.base[count] = unit * abs(weights[c, j] + amount * vectors[at, j])
                count += 1
        self.dual_power.raise_all(self.buffer, count)
        left, left_low, come, come_low = self.sums[c], self.lows[c], 0.0, 0.0
        count = 0
        for j in range(weights.shape[1]):
            if vectors[at, j] != 0.0:
                before, after = self.change(weights, c, j, amount * vectors[at, j], count)
                left, left_low = self.add_exactly(left, left_low, -before)
                come, come_low = self.add_exactly(come, come_low, after)
                count += 1
        self.settle(weights, c, left, left_low, come, come_low)

    def change(self, weights, c, j, amount, k):
        """``v_j += amount``, whose power is the k-th in the buffer; its terms of S, old and new."""
        before = self.units[c] * weights[c, j] * self.powers[c, j]
        raised = self.buffer.raised[k]
        weights[c, j] += amount
        self.powers[c, j] = raised if weights[c, j] >= 0.0 else -raised
        return before, self.buffer.base[k] * raised

    def add_exactly(self, total, low, term):
        """``total + low + term``, the part that ``total`` cannot hold in ``low`` (Knuth's 2Sum)."""
        new = total + term
        added = new - total
        return new, low + ((total - (new - added)) + (term - added))

    def settle(self, weights, c, left, left_low, come, come_low):
        """Store S: what was left of it, and what has come to it.

        A term is the same number when it comes and when it goes, so only sums of low parts round.
        """
        extent = self.sums[c] + come
        total, low = self.add_exactly(left, left_low + come_low, come)
        self.sums[c], self.lows[c] = self.add_exactly(total, 0.0, low)
        self.sum_errors[c] += SUM_ROUNDING * extent
        if not SMALLEST_SUM <= self.sums[c] <= LARGEST_SUM:
            self.sum_powers(weights, c)

    def square_bound(self, rows, i):
        if self.p < 2.0:
            return self.square_of(rows, i)
        return rows.square(i)  # |x|_p <= |x|_2, without a power

    def square_of(self, rows, i):
        count = rows.own_entries(i)
        for k in range(count):
            _, x = rows.entry(i, k)
            self.buffer.base[k] = abs(x)
        total = self.term(rows.tail.offset) + self.term(rows.tail.private) + self.sum_terms(count)
        norm = self.root(total)
        if not SMALLEST_SUM <= total <= LARGEST_SUM:
            self.buffer.base[count] = rows.tail.offset
            self.buffer.base[count + 1] = rows.tail.private
            norm = self.norm_of_buffer(count + 2)
        return norm * norm

    def sum_terms(self, count):
        """Sum of the p-th powers of what is in the buffer."""
        self.dual_power.raise_all(self.buffer, count)
        total = 0.0
        for k in range(count):
            total += self.buffer.base[k] * self.buffer.raised[k]
        return total

    def norm_of_buffer(self, count):
        """The norm of what is in the buffer, also where its powers are not finite."""
        total = self.sum_terms(count)
        if SMALLEST_SUM <= total <= LARGEST_SUM:
            return self.root(total)
        unit = self.fit_unit(1.0, count)
        return self.root(self.sum_terms(count)) / unit

    def fit_unit(self, unit, count):
        """Measure what is in the buffer by its largest number; the unit that goes with it.

        ``unit`` is the one in which it is measured so far.
        """
        largest = 0.0
        for k in range(count):
            largest = max(largest, self.buffer.base[k])
        if not SMALLEST_SUM <= largest <= LARGEST_SUM:
            return unit
        for k in range(count):
            self.buffer.base[k] /= largest
        return unit / largest

    def follow_norm2(self, scalars, c, weights, first, stop, cross, square):
        if self.sum_errors[c] > DRIFT_TOLERANCE * self.sums[c]:
            self.sum_powers(weights, c)
        self.set_norm2(scalars, c)

    def sum_norm2(self, scalars, c, weights, first, stop):
        self.sum_powers(weights, c)
        self.set_norm2(scalars, c)

    def set_norm2(self, scalars, c):
        """``|w|**2 = scale**2 S**(2/p)``, and the gain that goes with it."""
        record = scalars.table[c]
        record.norm_error = 0.0
        if self.sums[c] <= 0.0:
            self.gains[c] = 0.0
            record.norm2 = 0.0
            return
        size = math.pow(self.sums[c], 1.0 / self.p)
        self.gains[c] = size * size / self.sums[c] / self.units[c]
        size /= self.units[c]
        record.norm2 = record.scale * size * record.scale * size

    def sum_powers(self, weights, c):
        """Compute the powers and their sum from the weights, free of drift."""
        size = weights.shape[1]
        for j in range(size):
            self.buffer.base[j] = self.units[c] * abs(weights[c, j])
        self.sums[c] = self.sum_terms(size)
        if not SMALLEST_SUM <= self.sums[c] <= LARGEST_SUM:
            self.units[c] = self.fit_unit(self.units[c], size)
            self.sums[c] = self.sum_terms(size)
        for j in range(size):
            raised = self.buffer.raised[j]
            self.powers[c, j] = raised if weights[c, j] >= 0.0 else -raised
        self.lows[c] = 0.0
        self.sum_errors[c] = 0.0

    def fold(self, c, factor):
        pass  # the powers are computed anew by `sum_norm2`

    def half_distance2(self, pair, rows, i, c, other, xx, weights):
        """Gather half the difference on its support, and theta; its squared norm."""
        y = 1.0 if other == 1 else -1.0  # the negative member is the other one of a positive row
        at, number = 2 * c + other, pair.numbers[c, other]
        self.serial[0] += 1
        size = 0
        for k in range(rows.entries(i, weights)):
            j, x = rows.entry(i, k)
            self.stamps[j] = self.serial[0]
            size = self.gather(weights, c, j, 0.5 * y * (x - pair.members[at, j]), size)
        if number >= 0:
            for k in range(rows.entries(number, weights)):
                j, x = rows.entry(number, k)
                if self.stamps[j] != self.serial[0]:
                    size = self.gather(weights, c, j, -0.5 * y * x, size)
        else:
            for j in range(weights.shape[1]):
                if self.stamps[j] != self.serial[0]:
                    size = self.gather(weights, c, j, -0.5 * y * pair.members[at, j], size)
        norm = self.norm_of_gathered(size)
        return norm * norm, norm

    def gather_row(self, rows, i, c, y, weights):
        """Gather the reflected row and theta; its squared norm."""
        size = 0
        for k in range(rows.entries(i, weights)):
            j, x = rows.entry(i, k)
            size = self.gather(weights, c, j, y * x, size)
        norm = self.norm_of_gathered(size)
        return norm * norm

    def norm_of_gathered(self, size):
        """The norm of what was gathered for the plane."""
        self.serial[1] = size
        for k in range(size):
            self.buffer.base[k] = abs(self.z[k])
        return self.norm_of_buffer(size)

    def gather(self, weights, c, j, z, size):
        """Add a coordinate to the vectors of the plane; their new size."""
        if z == 0.0:
            return size
        self.z[size] = z
        self.t[size] = weights[c, j]
        return size + 1

    def decide(self, rule, trial, c):
        """The step of the rule in the plane of z and theta, which were gathered before."""
        size = self.serial[1]
        z_norm = math.sqrt(trial.xx)
        if trial.ww == 0.0:
            return 0.0, 1.0 / trial.xx
        t_norm = self.root(self.sums[c])
        for k in range(size):
            self.t[k] *= self.units[c]
            self.buffer.base[k] = abs(self.t[k])
        inside = self.sum_terms(size)
        for k in range(size):
            self.z[k] /= z_norm
            self.t[k] /= t_norm
        outside = max(0.0, 1.0 - inside / self.sums[c])
        plane = Plane(self.z, self.t, size, outside, self.p, self.curvature, self.buffer)
        a, b = rule.step_in_plane(trial, plane)
        # a z' + b t' in units of |theta|, as factors of theta and of z.
        return b, a * math.sqrt(trial.ww) / z_norm

    def dual(self):
        """The weights to predict by, over the scale."""
        return self.gains[:, None] * self.powers

    def term(self, value):
        size = abs(value)
        return size * self.dual_power.power_of(size)

    def terms(self, values: np.ndarray) -> np.ndarray:
        """`term` of each."""
        sizes = np.abs(values)
        return sizes * self.dual_power.powers_of(sizes)

    def root(self, total):
        return math.pow(total, 1.0 / self.p)


bridge("change", "add_exactly", "settle", "set_norm2", "gather", "gather_row", "norm_of_gathered")
bridge("sum_powers", "sum_terms", "norm_of_buffer", "fit_unit", "term", "root", inline=False)


def new_pnorm(p: float, problems: int, size: int) -> PNorm:
    """The geometry at w = 0 for weight vectors of ``size`` coordinates."""
    return blank(
        PNorm,
        {"problems": problems, "coordinates": size},
        p=float(p),
        largest_scale=LARGEST_SCALE ** min(1.0, 2.0 / p),
        dual_power=power(p - 1.0),
        curvature=power(p - 2.0),
    )
