"""A linear space with a scale or a variance of each column beside its weight.

A step goes along ``Sigma x``, where Sigma is a diagonal matrix, so that rules stay functions of the
margin and of its variance ``x' Sigma x``. What Sigma is made of is a `Confidence`, `AdaptiveRates`
or `Leader`. All of them know the peak ``s_j`` of each column, its largest absolute value in the
rows learned from, the present one included, and measure the column by it: columns in other units
then give the same outputs, up to rounding. Where columns are taken as they are, all peaks are 1.

When a peak grows, the weight of its column becomes what the steps so far would have made of it with
the new peak from the start. (S. Ross, P. Mineiro and J. Langford, "Normalized online learning",
UAI 2013, do the same.) Predictions are made by the weights as they are: only rows that are learned
from move peaks, before their margin is measured.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Array, Buffer, Saved
from maxmargin.core.numba_backend import bridge, with_methods_of
from maxmargin.spaces.linear_space import LinearSpace

# A column of smaller values is measured by this, so that the squares of peaks are numbers.
SMALLEST_PEAK = 1e-50

Columns = Annotated[np.ndarray, Array("problems", "coordinates", at_least=0.0, finite=True)]


class Peaks:
    """What all kinds have in common: peaks, and whether they follow the columns."""

    peaks: np.ndarray
    follows: bool

    def peak_with(self, x):
        """The least peak of a column that has this value."""
        if not self.follows:
            return 1.0
        return max(abs(x), SMALLEST_PEAK) if x != 0.0 else 0.0

    def exceeds(self, c, j, x):
        """Is a value beyond the peak of its column?"""
        return self.peaks[c, j] < self.peak_with(x)

    def has_new_peaks(self, rows, i, c, width):
        """Is any value of row ``i``?"""
        found = self.exceeds(c, width, rows.tail.offset)
        for k in range(rows.own_entries(i)):
            j, x = rows.own_entry(i, k)
            found |= self.exceeds(c, j, x)
        return found


@with_methods_of(Peaks)
class Confidence(NamedTuple):
    """``Sigma_jj = 1 / (s_j**2 + g_1 x_1j**2 + g_2 x_2j**2 + ...)``, with the gains of a rule.

    Without gains this is the metric of the peaks, in which the squared length of a row is
    ``sum_j x_j**2 / s_j**2``. When a peak grows, ``w_j / Sigma_jj`` stays the same.

    Attributes
    ----------
    follows : do peaks follow the columns?
    peaks : s_j; 0 before anything else was seen
    variances : Sigma_jj, for each problem; 0 before that
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

    of the gradients so far, that of the present row included. When a peak grows, ``s_j w_j`` stays
    the same.

    Attributes
    ----------
    follows, peaks : as in `Confidence`
    squares : G_j, for each problem
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

    When a peak grows, the gradients of the past shrink with the column. Roots and divisions take
    most of the time of a pass: of n the root is kept, and nothing is divided by alpha.

    Attributes
    ----------
    alpha, beta, l1, l2 : float
    follows, peaks : as in `Confidence`
    sums, roots : z_j and sqrt(n_j), for each problem
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
    """Weights of one or more problems, each with a diagonal matrix Sigma of its own.

    Certificates are not followed: no bound on margins rests on such weights, which are no sum of
    rows. The length of w is not followed either (``norm2`` stays 0).

    Attributes
    ----------
    linear : the weights
    metric : `Confidence`, `AdaptiveRates` or `Leader`
    gains : what a rule adds to the precision, between `decide` and `move`
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

    def look_mean(self, rows, i, c, trials):
        return self.linear.look_mean(rows, i, c, trials)

    def square_of(self, rows, i):
        return self.linear.square_of(rows, i)

    def square_bound(self, rows, i):
        return self.linear.square_bound(rows, i)

    def take_in(self, rows, i, c, f, trial):
        """Let peaks take in row ``i``; its output then, which was ``f``."""
        if not self.metric.has_new_peaks(rows, i, c, self.linear.width):
            return f
        self.widen_columns(rows, i, c, trial)
        return self.output(rows, i, c)

    def widen_columns(self, rows, i, c, trial):
        """Let the peaks of row ``i`` grow, and the weights follow."""
        weights = self.linear.weights
        self.shift_mean(rows, i, c, -1.0, trial)
        for k in range(rows.entries(i, weights)):
            j, x = rows.entry(i, k)
            if self.metric.exceeds(c, j, x):
                self.metric.widen(weights, c, j, self.metric.peak_with(x))
        self.shift_mean(rows, i, c, 1.0, trial)

    def shift_mean(self, rows, i, c, sign, trial):
        """Let what gives the mean of weights (`certificate_vectors`) follow those of row ``i``.

        To be called before (-1) and after (+1) they change.
        """
        linear = self.linear
        average = linear.witness.average
        if c < average.shape[0]:
            scale = linear.scalars.table[c].scale
            past = sign * linear.witness.past_scales(c, scale, trial)
            for k in range(rows.entries(i, average)):
                j, _ = rows.entry(i, k)
                average[c, j] += past * linear.weights[c, j]

    def length2(self, rows, i, c, xx):
        """``x' Sigma x``, where that is known before a step."""
        return self.metric.measure(rows, i, c, xx)

    def aim(self, rows, i, c, y, f, xx):
        return y * f, self.metric.measure(rows, i, c, xx)

    def decide(self, rule, trial, c):
        self.gains[c] = rule.precision_gain(trial)
        return rule.step(trial)

    def move(self, rows, i, c, y, shrink, step, margin, along2, trial):
        """``w <- shrink * w + step * y * Sigma x``, and Sigma as its kind says."""
        due = shrink != 1.0 and self.rescale(c, shrink, trial)
        linear, weights = self.linear, self.linear.weights
        amount, gain = y * step / linear.scalars.table[c].scale, self.gains[c]
        self.shift_mean(rows, i, c, -1.0, trial)
        for k in range(rows.own_entries(i)):
            j, x = rows.own_entry(i, k)
            self.metric.push_column(weights, c, j, x, amount, gain)
        self.metric.push_column(weights, c, linear.width, rows.tail.offset, amount, gain)
        self.shift_mean(rows, i, c, 1.0, trial)
        return linear.scalars.count_update(c, step) or due

    def rescale(self, c, factor, trial):
        return self.linear.rescale(c, factor, trial)

    def maintain(self, c):
        self.linear.maintain(c)


bridge("has_new_peaks", "exceeds", "peak_with", "measure", "push_column", "minimiser")
bridge("widen", "widen_columns", "shift_mean", inline=False)
