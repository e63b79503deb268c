"""The geometry of p-norms: |x|_p for examples, the dual |w|_q for weights, 1/p + 1/q = 1.

Steps are made on a vector theta, and the weights are its dual,

    w_j = sign(theta_j) |theta_j|^(p-1) / |theta|_p^(p-2),     |w|_q = |theta|_p.

With ``theta = scale * v`` the powers ``u_j = sign(v_j) |v_j|^(p-1)`` and ``S = sum |v_j|^p`` are
kept for all coordinates, so that a look at an example costs what it costs for p = 2, and a step
only has to raise the coordinates that it changes. (C. Gentile, "The robustness of the p-norm
algorithms", Machine Learning 53, 2003.)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin.core.bridge import bridge
from maxmargin.spaces.euclid import DRIFT_TOLERANCE, ROUNDING
from maxmargin.spaces.plane import Plane

QUARTER = 0.25


class Power(NamedTuple):
    """``x**exponent`` for x >= 0; by square roots if the exponent is a multiple of a quarter.

    Attributes
    ----------
    exponent : the exponent
    whole, quarters : its whole part and the quarters beyond, or -1 quarters for any other number
    """

    exponent: float
    whole: int
    quarters: int

    def power_of(self, x):
        if self.quarters < 0:
            return math.pow(x, self.exponent)
        result, square, left = 1.0, x, self.whole
        while left > 0:
            if left & 1:
                result *= square
            square *= square
            left >>= 1
        if self.quarters > 0:
            root = math.sqrt(x)
            if self.quarters >= 2:
                result *= root
            if self.quarters & 1:
                result *= math.sqrt(root)
        return result


def power(exponent: float) -> Power:
    quarters = exponent / QUARTER
    if quarters != round(quarters):
        return Power(float(exponent), 0, -1)
    return Power(float(exponent), int(quarters) // 4, int(quarters) % 4)


class PNorm(NamedTuple):
    """The geometry for p > 2; see `Euclid` for what a space asks.

    Attributes
    ----------
    p : the exponent of the norm in which examples are measured
    dual_power : raises to p - 1
    powers : u, for each problem
    sums : S, for each problem
    slops : bounds on the rounding errors in the sums
    gains : S**((2 - p) / p), so that ``w = scale * gain * u``
    curvature : raises to p - 2
    z, t : room for the vectors of a `Plane`
    stamps, serial : which columns the present z has got already, its number, and its size
    evaluations : how often points of planes were computed, for each problem
    """

    p: float
    dual_power: Power
    powers: np.ndarray
    sums: np.ndarray
    slops: np.ndarray
    gains: np.ndarray
    curvature: Power
    z: np.ndarray
    t: np.ndarray
    stamps: np.ndarray
    serial: np.ndarray
    evaluations: np.ndarray

    def product(self, rows, i, weights, c):
        return self.gains[c] * rows.dot(i, self.powers, c)

    def push(self, rows, i, weights, c, amount):
        for k in range(rows.entries(i, weights)):
            j, x = rows.entry(i, k)
            self.change(weights, c, j, amount * x)

    def push_vector(self, vectors, at, weights, c, amount):
        for j in range(weights.shape[1]):
            if vectors[at, j] != 0.0:
                self.change(weights, c, j, amount * vectors[at, j])

    def change(self, weights, c, j, amount):
        """``v_j += amount``, with its power and the sum."""
        before = weights[c, j] * self.powers[c, j]
        value = weights[c, j] + amount
        size = abs(value)
        raised = self.dual_power.power_of(size)
        weights[c, j] = value
        self.powers[c, j] = raised if value >= 0.0 else -raised
        after = size * raised
        self.sums[c] += after - before
        self.slops[c] += ROUNDING * (before + after + abs(self.sums[c]))

    def square_of(self, rows, i):
        total = 0.0
        for k in range(rows.own_entries(i)):
            _, x = rows.entry(i, k)
            total += self.term(x)
        total += self.term(rows.tail.offset) + self.term(rows.tail.private)
        norm = self.root(total)
        return norm * norm

    def next_norm2(self, weights, c, scale, norm2, slop, cross, square, hidden):
        if self.slops[c] > DRIFT_TOLERANCE * self.sums[c]:
            self.sum_powers(weights, c)
        return self.current_norm2(c, scale), 0.0

    def sum_norm2(self, weights, c, scale, hidden):
        self.sum_powers(weights, c)
        return self.current_norm2(c, scale)

    def current_norm2(self, c, scale):
        """``|w|**2 = scale**2 S**(2/p)``, and the gain that goes with it."""
        if self.sums[c] <= 0.0:
            self.gains[c] = 0.0
            return 0.0
        size = math.pow(self.sums[c], 1.0 / self.p)
        self.gains[c] = size * size / self.sums[c]
        return scale * size * scale * size

    def sum_powers(self, weights, c):
        """Compute the powers and their sum from the weights, free of drift."""
        total = 0.0
        for j in range(weights.shape[1]):
            size = abs(weights[c, j])
            raised = self.dual_power.power_of(size)
            self.powers[c, j] = raised if weights[c, j] >= 0.0 else -raised
            total += size * raised
        self.sums[c] = total
        self.slops[c] = 0.0

    def half_distance2(self, pair, rows, i, c, other, xx, weights):
        """Gather half the difference on its support, beside theta; its squared norm."""
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
        self.serial[1] = size
        total = 0.0
        for k in range(size):
            total += self.term(self.z[k])
        norm = self.root(total)
        return norm * norm

    def gather(self, weights, c, j, z, size):
        """Add a coordinate to the vectors of the plane; their new size."""
        if z == 0.0:
            return size
        self.z[size] = z
        self.t[size] = weights[c, j]
        return size + 1

    def decide(self, rule, seen, c):
        """The step of the rule in the plane of z and theta, which `half_distance2` has gathered."""
        size = self.serial[1]
        z_norm = math.sqrt(seen.xx)
        if seen.ww == 0.0:
            return 0.0, 1.0 / seen.xx
        t_norm = self.root(self.sums[c])
        inside = 0.0
        for k in range(size):
            inside += self.term(self.t[k])
            self.z[k] /= z_norm
            self.t[k] /= t_norm
        outside = max(0.0, 1.0 - inside / self.sums[c])
        plane = Plane(self.z, self.t, size, outside, self.p, self.curvature)
        a, b, evaluations = rule.step_in_plane(seen, plane)
        self.evaluations[c] += evaluations
        # a z' + b t' in units of |theta|, as factors of theta and of z.
        return b, a * math.sqrt(seen.ww) / z_norm

    def dual(self, weights):
        return self.gains[:, None] * self.powers

    def term(self, value):
        size = abs(value)
        return size * self.dual_power.power_of(size)

    def root(self, total):
        return math.pow(total, 1.0 / self.p)


bridge("power_of", "change", "current_norm2", "gather")
bridge("sum_powers", inline=False)


def new_pnorm(p: float, problems: int, size: int) -> PNorm:
    """The geometry at w = 0 for weight vectors of ``size`` coordinates."""
    return PNorm(
        p=float(p),
        dual_power=power(p - 1.0),
        powers=np.zeros((problems, size)),
        sums=np.zeros(problems),
        slops=np.zeros(problems),
        gains=np.zeros(problems),
        curvature=power(p - 2.0),
        z=np.zeros(size),
        t=np.zeros(size),
        stamps=np.zeros(size, dtype=np.int64),
        serial=np.zeros(2, dtype=np.int64),
        evaluations=np.zeros(problems, dtype=np.int64),
    )


def exponent_for(p: float | str, width: int) -> float:
    """The number that ``p`` stands for, with ``width`` features.

    "log" is 2 ln n, rounded to a multiple of a quarter, for which powers need only square roots.
    """
    if p == "log":
        return max(2.0, QUARTER * round(2.0 * math.log(max(width, 1)) / QUARTER))
    return float(p)
