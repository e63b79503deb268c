"""Learning and predicting by a mixture of experts, row by row.

A row is learned in one call of `Experts.learn_row`, one problem after another: all experts predict,
measure the row, find their steps and make them, and the mixture learns from what they predicted.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Array, Buffer, Saved
from maxmargin.core.numba_backend import Compiled, bridge
from maxmargin.experts.expert_lines import RowEntries, measure_row, predict_row, push_row
from maxmargin.experts.expert_steps import expert_step
from maxmargin.experts.full_matrix import FullMatrix
from maxmargin.experts.mixture import ExpertMixture
from maxmargin.experts.scaled_columns import ScaledColumns
from maxmargin.experts.standardized_columns import StandardizedColumns

OfExperts = Annotated[np.ndarray, Buffer("experts")]


class RowScratch(NamedTuple):
    """Room for what is computed of one row; nothing is read from it that an earlier call wrote.

    Attributes
    ----------
    direct, standardized : its values, and its standardized features
    values : by column, all 0 between two rows
    odds : of each problem, before the row is learned
    outputs, chances : of the experts, before the row is learned
    margins, lengths, steps, gains : of the experts, see `expert_steps`
    """

    direct: RowEntries
    standardized: RowEntries
    values: Annotated[np.ndarray, Buffer("coordinates")]
    odds: Annotated[np.ndarray, Buffer("problems")]
    outputs: OfExperts
    chances: OfExperts
    margins: OfExperts
    lengths: OfExperts
    steps: OfExperts
    gains: OfExperts


class Experts(NamedTuple):
    """The experts of one or more problems, and their mixture.

    The expert with a full matrix comes first, then those on columns as they are, those on
    standardized columns, and those on random features, if any.

    Attributes
    ----------
    full : the expert with a full matrix
    columns, standardized : experts on columns
    curves : experts on random features: `RandomFeatures`, or `NoFeatures`
    mixture : of all experts
    updates_made : of each problem; every row is one
    scratch : room for intermediate results
    """

    full: Annotated[FullMatrix, Saved()]
    columns: Annotated[ScaledColumns, Saved()]
    standardized: Annotated[StandardizedColumns, Saved()]
    curves: Annotated[Any, Saved()]
    mixture: Annotated[ExpertMixture, Saved()]
    updates_made: Annotated[np.ndarray, Array("problems", dtype=np.int64)]
    scratch: RowScratch

    def on_standardized(self):
        """The number of the first expert with a diagonal matrix on standardized columns."""
        return 1 + self.columns.weights.shape[2]

    def on_columns(self):
        """The number of experts on columns, standardized or not."""
        return self.on_standardized() + self.standardized.weights.shape[2]

    def read_row_of_all(self, rows, i):
        """Read row ``i`` for all experts."""
        scratch = self.scratch
        self.columns.read_row(rows, i, scratch.direct)
        self.standardized.standardize(rows, i, scratch.standardized, scratch.values)
        if self.full.left[0] == 0:
            self.full.read_slots(scratch.standardized)
        self.curves.read_features(rows, i)

    def fill_outputs(self, rows, i, first, found):
        """Put the log-odds of row ``i`` in the problems from ``first`` on into ``found``."""
        self.read_row_of_all(rows, i)
        for c in range(found.size):
            found[c] = self.log_odds(first + c)

    def log_odds(self, c):
        """The log-odds of problem ``c`` for the row that was read."""
        scratch, first, on_columns = self.scratch, self.full.left[0], self.on_columns()
        outputs = scratch.outputs
        if first == 0:
            outputs[0] = self.full.predict_full(c)
        predict_row(self.columns, c, scratch.direct, outputs, 1)
        predict_row(self.standardized, c, scratch.standardized, outputs, self.on_standardized())
        self.curves.predict_curves(c, outputs, on_columns)
        awake = self.curves.awake(c, outputs.size, on_columns)
        return self.mixture.log_odds_of(c, outputs, scratch.chances, first, awake)

    def learn_row(self, table, rows, i, targets, trials):
        """Learn row ``i``, the trial number ``trials``; are the first rows complete with it?

        The log-odds of all problems before that are put into ``scratch.odds``.
        """
        self.read_row_of_all(rows, i)
        row, weight = self.scratch.direct, targets.weight_of(i)
        has_peak = self.columns.raise_units(row)
        for c in range(targets.problems()):
            self.scratch.odds[c] = self.log_odds(c)
            self.learn_problem(table, c, targets.sign(i, c), weight, trials, has_peak)
        if has_peak:
            self.columns.learn_peaks(row)
        self.standardized.learn_statistics(rows, i)
        if self.full.outgrown(rows, i):
            self.full.leave()
            self.mixture.dismiss_first()
        return self.curves.keep_row(rows, i)

    def learn_problem(self, table, c, y, weight, trials, has_peak):
        """Learn the row in problem ``c``, given the outputs of the experts for it.

        Weights on columns whose peak is new change before they learn.
        """
        full, columns, standardized, curves = (
            self.full,
            self.columns,
            self.standardized,
            self.curves,
        )
        scratch, on_columns = self.scratch, self.on_columns()
        margins, lengths, steps, gains = (
            scratch.margins,
            scratch.lengths,
            scratch.steps,
            scratch.gains,
        )
        experts, first, on_standardized = margins.size, full.left[0], self.on_standardized()
        for e in range(experts):
            margins[e] = scratch.outputs[e]
        if has_peak:
            columns.widen_row(c, scratch.direct)
            predict_row(columns, c, scratch.direct, margins, 1)
        margins[0], lengths[0] = full.measures[0], full.measures[1]
        for e in range(experts):
            margins[e] *= y
        standardized.begin_columns(c, scratch.standardized)
        measure_row(columns, c, scratch.direct, lengths, 1)
        measure_row(standardized, c, scratch.standardized, lengths, on_standardized)
        curves.measure_curves(c, lengths, on_columns)
        awake = curves.awake(c, experts, on_columns)
        curves.prepare(table, self.mixture, c, y, weight, scratch, on_columns)
        for e in range(first, experts):
            family, number = table.families[e], table.numbers[e]
            steps[e], gains[e] = expert_step(family, number, margins[e], lengths[e], weight)
        outputs, chances = scratch.outputs, scratch.chances
        self.mixture.learn_outcome(c, y, outputs, chances, weight, trials, first, awake)
        for e in range(first, experts):
            steps[e] *= y
        if first == 0:
            full.push_full(c, steps[0], gains[0])
        push_row(columns, c, scratch.direct, steps, gains, 1)
        push_row(standardized, c, scratch.standardized, steps, gains, on_standardized)
        curves.push_curves(c, steps, gains, on_columns)
        self.updates_made[c] += 1


bridge("on_standardized", "on_columns", "read_row_of_all", "log_odds", "learn_row", "learn_problem")


@Compiled
def learn_rows(rows, targets, order, start, table, experts, tally, trace):  # type: ignore[no-untyped-def]
    """Learn the rows ``order[start:]``, until the first rows are complete; see `core.loop.learn`.

    An entry ``-1 - i`` only computes outputs for row i. Returns the number of entries that are
    done, and whether the widths of random features have to be found.
    """
    trials, mistakes, odds = tally[0].trials, tally[0].mistakes, experts.scratch.odds
    n, is_due, made = start, False, trace.updates_before(start)
    while n < order.size and not is_due:
        i = order[n]
        rows.prefetch(order, n)
        if i < 0:
            experts.fill_outputs(rows, -1 - i, 0, odds)
        else:
            trials += 1
            is_due = experts.learn_row(table, rows, i, targets, trials)
            made += float(odds.size)
            own, rival, least = 0.0, -np.inf, np.inf
            for c in range(odds.size):
                y = targets.sign(i, c)
                least = min(least, y * odds[c])
                if y > 0.0:
                    own = odds[c]
                elif targets.is_shown(c):
                    rival = max(rival, odds[c])
            mistakes += targets.is_mistake(own, rival, least)
            if i < trace.touched.size:
                trace.touched[i] = trace.stamp
        if n < trace.history.shape[0]:
            for c in range(odds.size):
                trace.history[n, c] = odds[c]
            trace.history[n, odds.size] = made
        n += 1
    tally[0].trials, tally[0].mistakes = trials, mistakes
    return n, is_due


@Compiled
def outputs_of_all(rows, experts, found):  # type: ignore[no-untyped-def]
    """Put the outputs of all rows and problems into ``found``."""
    odds = experts.scratch.odds
    for i in range(rows.size()):
        rows.prefetch_behind(i)
        experts.fill_outputs(rows, i, 0, odds)
        for c in range(odds.size):
            found[i, c] = odds[c]
