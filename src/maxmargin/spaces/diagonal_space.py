"""Linear spaces with a scale or variance for each column.

Steps move along ``Sigma x`` for a diagonal matrix Sigma, so that rules stay functions of the margin
and its variance ``x' Sigma x``. Sigma is a `Confidence`, `AdaptiveRates` or `Leader`. All of them
keep the peak ``s_j`` of each column, its largest absolute value in the learned rows including the
current one, and divide the column by it, so that the units of columns do not matter, up to
rounding. Without scaling all peaks are 1.

When a peak grows, the weight of its column changes to what the steps so far would have produced
with the new peak from the start, as in S. Ross, P. Mineiro and J. Langford, "Normalized online
learning", UAI 2013. Only learned rows change peaks, before their margin is computed.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Array, Buffer, Saved
from maxmargin.core.numba_backend import bridge, with_methods_of
from maxmargin.spaces.linear_space import LinearSpace

# The smallest peak, so that squares of peaks do not underflow.
SMALLEST_PEAK = 1e-50

Columns = Annotated[np.ndarray, Array("problems", "coordinates", at_least=0.0, finite=True)]


class Peaks:
    """Common methods: peaks, which follow the columns if ``follows`` is true."""

    peaks: np.ndarray
    follows: bool

    def peak_with(self, x):
        """The least peak of a column that has this value."""
        if not self.follows:
            return 1.0
        return max(abs(x), SMALLEST_PEAK) if x != 0.0 else 0.0

    def exceeds(self, c, j, x):
        """True if a value is beyond the peak of its column."""
        return self.peaks[c, j] < self.peak_with(x)

    def has_new_peaks(self, rows, i, c, width):
        """True if any value of row ``i`` is beyond its peak."""
        found = self.exceeds(c, width, rows.tail.offset)
        for k in range(rows.own_entries(i)):
            j, x = rows.own_entry(i, k)
            found |= self.exceeds(c, j, x)
        return found


@with_methods_of(Peaks)
class Confidence(NamedTuple):
    """``Sigma_jj = 1 / (s_j**2 + g_1 x_1j**2 + g_2 x_2j**2 + ...)``, with the gains of a rule.

    Without gains this is the metric of the peaks, in which the squared length of a row is
    ``sum_j x_j**2 / s_j**2``. When a peak grows, ``w_j / Sigma_jj`` stays the same. Peaks and
    ``variances``, the Sigma_jj, are 0 before the first nonzero value.
    """

    follows: bool
    peaks: Columns
    variances: Columns

    def measure(self, rows, i, c, xx):
        """``x' Sigma x``."""
        return rows.weighted_square(i, self.variances, c)

    def widen(self, weights, c, j, now):
        before, old = self.peaks[c, j], self.variances[c, j]
        self.peaks[c, j] = now
        if old == 0.0:
            self.variances[c, j] = 1.0 / (now * now)
        else:
            part = 1.0 / (1.0 + old * (now - before) * (now + before))
            self.variances[c, j] = old * part
            weights[c, j] *= part

    def push_column(self, weights, c, j, x, amount, gain):
        variance = self.variances[c, j]
        along = variance * x
        weights[c, j] += amount * along
        self.variances[c, j] = variance / (1.0 + gain * x * along)


@with_methods_of(Peaks)
class AdaptiveRates(NamedTuple):
    """``Sigma_jj = 1 / (s_j sqrt(G_j))`` with the squares ``G_j = g_1 x_1j**2 + g_2 x_2j**2 + ...``

    of the gradients so far, including the current one. When a peak grows, ``s_j w_j`` stays the
    same. ``squares`` are the G_j.
    """

    follows: bool
    peaks: Columns
    squares: Columns

    def measure(self, rows, i, c, xx):
        """Sigma depends on the step, so there is no length before it."""
        return xx

    def widen(self, weights, c, j, now):
        weights[c, j] *= self.peaks[c, j] / now
        self.peaks[c, j] = now

    def push_column(self, weights, c, j, x, amount, gain):
        square = self.squares[c, j] + gain * x * x
        self.squares[c, j] = square
        if square > 0.0:
            weights[c, j] += amount * x / (self.peaks[c, j] * math.sqrt(square))


@with_methods_of(Peaks)
class Leader(NamedTuple):
    """The regularised leader: weights that minimise the linearised losses so far.

    In units of the peaks, with the gradients g of the steps, each column minimises ::

        z w + ((beta + sqrt(n)) / alpha + l2) w**2 / 2 + l1 |w|
        z = sum g - (sqrt(n) - sqrt(n before)) / alpha * (w before),    n = sum g**2

    When a peak grows, past gradients shrink with the column. Roots and divisions take most of the
    time of a pass, so ``roots`` has sqrt(n_j), and nothing is divided by alpha. ``sums`` are z_j.
    """

    alpha: float
    beta: float
    l1: float
    l2: float
    follows: bool
    peaks: Columns
    sums: Annotated[np.ndarray, Array("problems", "coordinates", finite=True)]
    roots: Columns

    def measure(self, rows, i, c, xx):
        return xx

    def minimiser(self, z, root):
        """The weight of a column, in units of its peak."""
        beyond = abs(z) - self.l1
        curvature = (self.beta + root) * (1.0 / self.alpha) + self.l2
        return math.copysign(beyond, -z) / curvature if beyond > 0.0 else 0.0

    def widen(self, weights, c, j, now):
        part = self.peaks[c, j] / now
        self.peaks[c, j] = now
        self.sums[c, j] *= part
        self.roots[c, j] *= part
        weights[c, j] = self.minimiser(self.sums[c, j], self.roots[c, j]) * (1.0 / now)

    def push_column(self, weights, c, j, x, amount, gain):
        # Without branches around stores, so that it becomes vector instructions; a column that is 0
        # keeps its numbers, to the bit.
        peak, root = self.peaks[c, j], self.roots[c, j]
        unit = 1.0 / peak if peak > 0.0 else 0.0
        g = -amount * x * unit
        later = math.sqrt(root * root + g * g) if g != 0.0 else root
        curved = (later - root) * (1.0 / self.alpha)
        z = self.sums[c, j] + g - curved * peak * weights[c, j]
        self.sums[c, j], self.roots[c, j] = z, later
        weights[c, j] = self.minimiser(z, later) * unit


class DiagonalSpace(NamedTuple):
    """Weights of one or more problems, each with a diagonal matrix Sigma.

    Such weights are no sums of rows and prove no bounds, so certificate vectors are not kept, nor
    is the length of w (``norm2`` stays 0). ``gains`` passes the precision gain of a rule from
    `decide` to `move`.
    """

    linear: Annotated[LinearSpace, Saved()]
    metric: Annotated[Any, Saved()]
    gains: Annotated[np.ndarray, Buffer("problems")]

    def problems(self):
        return self.gains.size

    def updates(self, c):
        return self.linear.scalars.table[c].updates

    def norm2(self, c):
        return 0.0

    def output(self, rows, i, c):
        """``w.x``."""
        return self.linear.output(rows, i, c)

    def mean_output(self, rows, i, c, trials):
        return self.linear.mean_output(rows, i, c, trials)

    def square_of(self, rows, i):
        return self.linear.square_of(rows, i)

    def square_bound(self, rows, i):
        return self.linear.square_bound(rows, i)

    def take_in(self, rows, i, c, f, trial):
        """Update the peaks by row ``i``, whose output was ``f``; returns its new output."""
        if not self.metric.has_new_peaks(rows, i, c, self.linear.width):
            return f
        self.widen_columns(rows, i, c, trial)
        return self.output(rows, i, c)

    def widen_columns(self, rows, i, c, trial):
        """Raise the peaks to the values of row ``i``, and adapt the weights."""
        weights = self.linear.weights
        self.shift_mean(rows, i, c, -1.0, trial)
        for k in range(rows.entries(i, weights)):
            j, x = rows.entry(i, k)
            if self.metric.exceeds(c, j, x):
                self.metric.widen(weights, c, j, self.metric.peak_with(x))
        self.shift_mean(rows, i, c, 1.0, trial)

    def shift_mean(self, rows, i, c, sign, trial):
        """Update the average (`certificate_vectors`) before (-1) and after (+1) weights change."""
        linear = self.linear
        average = linear.witness.average
        if c < average.shape[0]:
            scale = linear.scalars.table[c].scale
            past = sign * linear.witness.past_scales(c, scale, trial)
            for k in range(rows.entries(i, average)):
                j, _ = rows.entry(i, k)
                average[c, j] += past * linear.weights[c, j]

    def length2(self, rows, i, c, xx):
        """``x' Sigma x``, if it is known before a step."""
        return self.metric.measure(rows, i, c, xx)

    def aim(self, rows, i, c, y, f, xx):
        return y * f, self.metric.measure(rows, i, c, xx)

    def decide(self, rule, trial, c):
        self.gains[c] = rule.precision_gain(trial)
        return rule.step(trial)

    def move(self, rows, i, c, y, shrink, step, margin, along2, trial):
        """``w <- shrink * w + step * y * Sigma x``, and Sigma as its kind says."""
        must_maintain = shrink != 1.0 and self.rescale(c, shrink, trial)
        linear, weights = self.linear, self.linear.weights
        amount, gain = y * step / linear.scalars.table[c].scale, self.gains[c]
        self.shift_mean(rows, i, c, -1.0, trial)
        for k in range(rows.own_entries(i)):
            j, x = rows.own_entry(i, k)
            self.metric.push_column(weights, c, j, x, amount, gain)
        self.metric.push_column(weights, c, linear.width, rows.tail.offset, amount, gain)
        self.shift_mean(rows, i, c, 1.0, trial)
        return linear.scalars.count_update(c, step) or must_maintain

    def rescale(self, c, factor, trial):
        return self.linear.rescale(c, factor, trial)

    def maintain(self, c):
        self.linear.maintain(c)


bridge("has_new_peaks", "exceeds", "peak_with", "measure", "push_column", "minimiser")
bridge("widen", "widen_columns", "shift_mean", inline=False)
