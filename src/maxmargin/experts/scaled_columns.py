"""Experts on columns as they are, each with a step size for every column.

The weights of all experts for one column are adjacent, so that a value of a row is read once for
all of them. An expert's weights move along ``Sigma x`` for a diagonal matrix Sigma of its own, one
of four kinds, in terms of the peak ``s_j`` of the column (its largest absolute value in the rows
learned from, the current one included) or of the peak s of all columns:

    BY_COLUMN   1 / (s_j**2 + G_j)
    BY_ALL      1 / (s**2 + G_j)
    AS_IT_IS    1 / (1 + G_j)
    ROOTED      1 / (s_j sqrt(DELTA s_j**2 + G_j)),     which come last

where ``G_j = g_1 x_1j**2 + g_2 x_2j**2 + ...`` with the gains of the expert's steps (0 of some).
Columns in other units give the same outputs for experts that go by the peaks of columns. When a
peak grows, Sigma follows, and ``w_j / sqrt(Sigma_jj)`` stays the same. Only rows that are learned
from move peaks, after they are predicted.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Array, Follows
from maxmargin.core.numba_backend import bridge
from maxmargin.experts.standardized_columns import DELTA

# A column of smaller values is measured by this, so that the squares of peaks are numbers.
SMALLEST_PEAK = 1e-50
# The kinds of Sigma.
BY_COLUMN, BY_ALL, AS_IT_IS, ROOTED = "by column", "by all", "as it is", "rooted"
SCALES = (BY_COLUMN, BY_ALL, AS_IT_IS)

OfExperts = Annotated[np.ndarray, Array("problems", "coordinates", "linear", finite=True)]
Peaks = Annotated[np.ndarray, Array(1, "coordinates", at_least=0.0, finite=True)]


class ScaledColumns(NamedTuple):
    """Weights and variances of the experts, column by column.

    Peaks are the same for all problems.

    Attributes
    ----------
    confident : how many experts are not `ROOTED`
    scales : their places in `SCALES`
    width : number of features
    weights, variances : w and the diagonal of Sigma; 0 for columns that never had a value
    peaks : s_j of each column
    known : s as it was when the column was learned from last
    highest : s now
    """

    confident: int
    scales: Annotated[np.ndarray, Array("linear", dtype=np.int64, saved=False)]
    width: Annotated[int, Follows("coordinates")]
    weights: OfExperts
    variances: Annotated[
        np.ndarray, Array("problems", "coordinates", "linear", at_least=0.0, finite=True)
    ]
    peaks: Peaks
    known: Peaks
    highest: Annotated[np.ndarray, Array(1, at_least=0.0, finite=True)]

    def read_row(self, rows, i, row):
        """Put the values of row ``i`` into ``row``, with the peaks before it as units."""
        row.length[0] = 0
        for k in range(rows.own_entries(i)):
            j, x = rows.own_entry(i, k)
            if x != 0.0:
                row.add_entry(j, x, self.peaks[0, j])
        if rows.tail.offset != 0.0:
            row.add_entry(self.width, rows.tail.offset, self.peaks[0, self.width])

    def highest_with(self, row):
        """The peak of all columns, with a row."""
        highest = self.highest[0]
        for n in range(row.length[0]):
            if row.columns[n] != self.width:
                highest = max(highest, abs(row.values[n]), SMALLEST_PEAK)
        return highest

    def raise_units(self, row):
        """Let the units of a row follow its own values; is a peak new?"""
        highest, is_new = self.highest[0], False  # a new highest value is the peak of its column
        for n in range(row.length[0]):
            j, x = row.columns[n], abs(row.values[n])
            is_new |= x > row.units[n] or (j != self.width and highest > self.known[0, j])
            row.units[n] = max(row.units[n], x, SMALLEST_PEAK)
        return is_new

    def widen_row(self, c, row):
        """Let the variances of problem ``c`` follow the peaks with a row."""
        highest = self.highest_with(row)
        for n in range(row.length[0]):
            j, peak = row.columns[n], row.units[n]
            most = highest if j != self.width else peak  # an intercept has no other unit
            if peak > self.peaks[0, j] or most > self.known[0, j]:
                self.widen_experts(c, j, peak, most)

    def learn_peaks(self, row):
        """Let the peaks follow a row, after all problems have."""
        self.highest[0] = highest = self.highest_with(row)
        for n in range(row.length[0]):
            j, peak = row.columns[n], row.units[n]
            self.peaks[0, j], self.known[0, j] = peak, highest if j != self.width else peak

    def widen_experts(self, c, j, now, highest):
        """Let the variances of a column follow its peak and that of all."""
        peak, known = self.peaks[0, j], self.known[0, j]
        for e in range(self.weights.shape[2]):
            variance = self.variances[c, j, e]
            if e >= self.confident:
                part = self.rooted_part(variance, peak, now)
            elif self.scales[e] == 0:
                part = self.confident_part(variance, peak, now)
            elif self.scales[e] == 1:
                part = self.confident_part(variance, known, highest)
            else:
                part = self.confident_part(variance, 1.0, 1.0)
            if peak == 0.0:
                self.variances[c, j, e] = part
            elif part < 1.0:
                self.variances[c, j, e] = variance * part
                self.weights[c, j, e] *= math.sqrt(part)

    def confident_part(self, variance, before, now):
        """Which part of a variance is left with another peak; of none before, the variance."""
        if variance == 0.0:
            return 1.0 / (now * now)
        return 1.0 / (1.0 + variance * (now - before) * (now + before))

    def rooted_part(self, variance, before, now):
        if variance == 0.0:
            return 1.0 / (now * now * math.sqrt(DELTA))
        if now == before:
            return 1.0
        gathered = 1.0 / (before * variance)  # its square is DELTA s_j**2 + G_j
        gathered = max(0.0, gathered * gathered - DELTA * before * before)
        return 1.0 / (now * math.sqrt(DELTA * now * now + gathered)) / variance


bridge("read_row", "highest_with", "raise_units", "confident_part", "rooted_part")
bridge("widen_row", "learn_peaks", "widen_experts", inline=False)
