"""Many linear experts that read each row once, and the mixture of their probabilities.

Some see columns as they are, others see them standardized (`spaces.standardized_columns`). The
weights of all experts for one column lie side by side, so that one look at a value of a row
serves all of them. An expert's weights move along ``Sigma x`` for a diagonal matrix Sigma of its
own, one of four kinds, in terms of the peak ``s_j`` of the column (its largest absolute value in
the rows learned from, the present one included) or of the peak s of all columns:

    BY_COLUMN   1 / (s_j**2 + G_j)
    BY_ALL      1 / (s**2 + G_j)
    AS_IT_IS    1 / (1 + G_j)
    ROOTED      1 / (s_j sqrt(DELTA s_j**2 + G_j)),     which come last

where ``G_j = g_1 x_1j**2 + g_2 x_2j**2 + ...`` with the gains of the expert's rule (0 of some).
Columns in other units give the same outputs for experts that go by the peaks of columns. When a
peak grows, Sigma follows, and ``w_j / sqrt(Sigma_jj)`` stays the same. Only rows that are learned
from move peaks, after they are predicted.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Array, Buffer, Follows, Saved
from maxmargin.core.expert_lines import add_line, push_confident, push_rooted
from maxmargin.core.experts import Mixture
from maxmargin.core.loop import AnyRow
from maxmargin.core.numba_backend import bridge, with_methods_of
from maxmargin.core.rule import Trial
from maxmargin.spaces.standardized_columns import DELTA, StandardizedColumns

# A column of smaller values is measured by this, so that the squares of peaks are numbers.
SMALLEST_PEAK = 1e-50
# The kinds of Sigma.
BY_COLUMN, BY_ALL, AS_IT_IS, ROOTED = "by column", "by all", "as it is", "rooted"
SCALES = (BY_COLUMN, BY_ALL, AS_IT_IS)

OfExperts = Annotated[np.ndarray, Array("problems", "coordinates", "linear", finite=True)]
Peaks = Annotated[np.ndarray, Array("problems", "coordinates", at_least=0.0, finite=True)]
Scratch = Annotated[np.ndarray, Buffer("experts")]


class ExpertColumns(NamedTuple):
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
            add_line(self.weights, c, j, x, outputs)

    def predict_row(self, rows, i, c, outputs):
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
            add_line(self.variances, c, j, x * x, lengths)

    def measure_row(self, rows, i, c, lengths):
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
            push_confident(weights, variances, c, j, confident, x, steps, gains)
            push_rooted(weights, variances, c, j, confident, x, self.peaks[c, j], steps, gains)

    def push_all_experts(self, rows, i, c, steps, gains):
        for k in range(rows.own_entries(i)):
            j, x = rows.own_entry(i, k)
            self.push_experts(c, j, x, steps, gains)
        self.push_experts(c, self.width, rows.tail.offset, steps, gains)


@with_methods_of(AnyRow)
class ExpertSpace(NamedTuple):
    """The experts of one or more problems, and their mixture, as a space of `core.loop.learn`.

    Its output is the log-odds of the mixture. Every row is an update.

    Attributes
    ----------
    columns : ExpertColumns
    standardized : StandardizedColumns
    mixture : Mixture
    updates_made : of each problem
    outputs, chances : of the experts, for the row that was predicted last
    leads : the margins of the experts on the row that is learned from
    lengths, steps, precision_gains : of the experts, for that row
    label_sign : of that row
    """

    columns: Annotated[ExpertColumns, Saved()]
    standardized: Annotated[StandardizedColumns, Saved()]
    mixture: Annotated[Mixture, Saved()]
    updates_made: Annotated[np.ndarray, Array("problems", dtype=np.int64)]
    outputs: Scratch
    chances: Scratch
    leads: Scratch
    lengths: Scratch
    steps: Scratch
    precision_gains: Scratch
    label_sign: Annotated[np.ndarray, Buffer(1)]

    def problems(self):
        return self.updates_made.size

    def updates(self, c):
        return self.updates_made[c]

    def direct_experts(self):
        """How many experts take columns as they are, and come first."""
        return self.columns.weights.shape[2]

    def column_experts(self):
        """How many experts there are on columns, standardized or not; others come behind them."""
        return self.direct_experts() + self.standardized.weights.shape[2]

    def norm2(self, c):
        return 0.0

    def square_of(self, rows, i):
        return rows.square(i)

    def square_bound(self, rows, i):
        """No rule of an expert asks for the largest row."""
        return 0.0

    def output(self, rows, i, c):
        """The log-odds of the positive class of problem ``c``."""
        self.predict_linear(rows, i, c)
        return self.mixture.log_odds_of(c, self.outputs, self.chances, self.outputs.size)

    def predict_linear(self, rows, i, c):
        """Compute the outputs of the experts on columns."""
        self.columns.predict_row(rows, i, c, self.outputs)
        self.standardized.read_row(rows, i, c)
        offset, first = rows.tail.offset, self.direct_experts()
        self.standardized.predict_standardized(offset, c, self.outputs, first)

    def aim(self, rows, i, c, y, f, xx):
        """Measure the row for each expert, in peaks that include it; it is always learned from."""
        has_new_peak = self.columns.measure_row(rows, i, c, self.lengths)
        for e in range(self.outputs.size):
            self.leads[e] = self.outputs[e]
        if has_new_peak:
            self.columns.take_in_row(rows, i, c)
            self.columns.measure_row(rows, i, c, self.lengths)
            self.columns.predict_row(rows, i, c, self.leads)
        for e in range(self.outputs.size):
            self.leads[e] *= y
        offset, first = rows.tail.offset, self.direct_experts()
        self.standardized.measure_standardized(offset, c, self.lengths, first)
        self.label_sign[0] = y
        return y * f, 1.0

    def decide(self, rule, trial, c):
        return self.ask_experts(rule, trial, c, self.outputs.size)

    def ask_experts(self, rule, trial, c, awake):
        """Ask the rule of each expert, and let the mixture learn from what they predicted."""
        for e in range(self.outputs.size):
            margin, length = self.leads[e], self.lengths[e]
            own = Trial(margin, 0.0, length, length, trial.t, trial.k, trial.weight)
            self.steps[e], self.precision_gains[e] = rule.answer(e, own)
        self.mixture.judge_label(
            c, self.label_sign[0], self.outputs, self.chances, trial.weight, trial.t, awake
        )
        return 1.0, 1.0

    def move(self, rows, i, c, y, keep, step, margin, along2, trials):
        for e in range(self.steps.size):
            self.steps[e] *= y
        offset, first = rows.tail.offset, self.direct_experts()
        steps, gains, standardized = self.steps, self.precision_gains, self.standardized
        self.columns.push_all_experts(rows, i, c, steps, gains)
        standardized.push_standardized(offset, c, steps, gains, first)
        if c == self.problems() - 1:
            standardized.learn_statistics(rows, i)
        self.updates_made[c] += 1
        return False

    def rescale(self, c, factor, trials):
        """No rule of experts scales weights."""
        return False


bridge("direct_experts", "column_experts", "predict_linear")
bridge("add_products", "predict_row", "add_lengths", "measure_row")
bridge("confident_part", "rooted_part", "push_experts", "push_all_experts", "ask_experts")
bridge("take_in_row", "widen_experts", inline=False)
