"""Experts on columns as they are, each with a step size for every column.

The weights of all experts for one column are adjacent, so that a value of a row is read once for
all of them. An expert's weights move along ``Sigma x`` for a diagonal matrix Sigma of its own, one
of four kinds, in terms of the peak ``s_j`` of the column (its largest absolute value in the rows
learned from, the present one included) or of the peak s of all columns:

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
from maxmargin.experts.expert_lines import add_line, push_confident, push_rooted
from maxmargin.experts.standardized_columns import DELTA

# A column of smaller values is measured by this, so that the squares of peaks are numbers.
SMALLEST_PEAK = 1e-50
# The kinds of Sigma.
BY_COLUMN, BY_ALL, AS_IT_IS, ROOTED = "by column", "by all", "as it is", "rooted"
SCALES = (BY_COLUMN, BY_ALL, AS_IT_IS)

OfExperts = Annotated[np.ndarray, Array("problems", "coordinates", "linear", finite=True)]
Peaks = Annotated[np.ndarray, Array("problems", "coordinates", at_least=0.0, finite=True)]


class ScaledColumns(NamedTuple):
    """Weights and variances of the experts, column by column.

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
    highest: Annotated[np.ndarray, Array("problems", at_least=0.0, finite=True)]

    def add_products(self, c, j, x, outputs):
        """``f += w_j x`` for each expert."""
        if x != 0.0:
            add_line(self.weights, c, j, x, outputs, 0)

    def predict_scaled(self, rows, i, c, outputs):
        """Put the output of each expert of problem ``c`` for row ``i`` into ``outputs``."""
        for e in range(self.weights.shape[2]):
            outputs[e] = 0.0
        for k in range(rows.own_entries(i)):
            j, x = rows.own_entry(i, k)
            self.add_products(c, j, x, outputs)
        self.add_products(c, self.width, rows.tail.offset, outputs)

    def add_lengths(self, c, j, x, lengths):
        """``v += Sigma_jj x**2`` for each expert."""
        if x != 0.0:
            add_line(self.variances, c, j, x * x, lengths, 0)

    def measure_scaled(self, rows, i, c, lengths):
        """Put ``x' Sigma x`` of each expert into ``lengths``; is there a new peak in the row?"""
        highest, found = self.highest[c], rows.tail.offset > self.peaks[c, self.width]
        for e in range(self.weights.shape[2]):
            lengths[e] = 0.0
        for k in range(rows.own_entries(i)):
            j, x = rows.own_entry(i, k)
            found |= abs(x) > self.peaks[c, j] or (x != 0.0 and highest > self.known[c, j])
            self.add_lengths(c, j, x, lengths)
        self.add_lengths(c, self.width, rows.tail.offset, lengths)
        return found

    def take_in_row(self, rows, i, c):
        """Let peaks follow row ``i``."""
        highest = self.highest[c]
        for k in range(rows.own_entries(i)):
            highest = max(highest, abs(rows.own_entry(i, k)[1]))
        if highest > 0.0:
            self.highest[c] = highest = max(highest, SMALLEST_PEAK)
        for k in range(rows.own_entries(i)):
            j, x = rows.own_entry(i, k)
            if x != 0.0 and (abs(x) > self.peaks[c, j] or highest > self.known[c, j]):
                self.widen_experts(c, j, max(abs(x), SMALLEST_PEAK), highest)
        offset = rows.tail.offset
        if offset > self.peaks[c, self.width]:
            self.widen_experts(c, self.width, offset, offset)  # an intercept has no other unit

    def widen_experts(self, c, j, value, highest):
        """Let the variances of a column follow its peak and that of all."""
        peak, known = self.peaks[c, j], self.known[c, j]
        now = max(peak, value)
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
        self.peaks[c, j], self.known[c, j] = now, highest

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

    def push_experts(self, c, j, x, steps, gains):
        """``w_j += step Sigma_jj x``, and Sigma with the gains."""
        if x != 0.0:
            weights, variances, confident = self.weights, self.variances, self.confident
            push_confident(weights, variances, c, j, confident, x, steps, gains, 0)
            peak = self.peaks[c, j]
            push_rooted(weights, variances, c, j, confident, x, peak, steps, gains, 0)

    def push_scaled(self, rows, i, c, steps, gains):
        for k in range(rows.own_entries(i)):
            j, x = rows.own_entry(i, k)
            self.push_experts(c, j, x, steps, gains)
        self.push_experts(c, self.width, rows.tail.offset, steps, gains)


bridge("add_products", "predict_scaled", "add_lengths", "measure_scaled")
bridge("confident_part", "rooted_part", "push_experts", "push_scaled")
bridge("take_in_row", "widen_experts", inline=False)
