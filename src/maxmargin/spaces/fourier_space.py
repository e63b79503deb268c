"""Random Fourier features of rows, in several widths, and experts on them beside linear ones.

The kernel ``exp(-|x - z|**2 / (2 width**2))`` is the mean of ``cos(w.(x - z))`` over normal
directions w, so that the cosines and sines of ``w_k.x`` for some of them, over the square root of
their number, are features whose inner products approach it (A. Rahimi and B. Recht, "Random
features for large-scale kernel machines", NIPS 2007). A kernel of half the width has twice the
angles, whose cosines and sines follow from those of the angles themselves: one look at a row serves
all widths.

The widths go by the median distance of the first rows, twice: with columns measured by their ranges
in these rows, and by these ranges joined with that of all columns, so that a column whose values
differ little in the first rows, but more later, does not swamp the others. Until then the rows are
kept, and the experts on features predict as the mixture of the others does; with the next row they
learn from all of them. Columns that do not vary in the first rows, or come later, have no part in
features.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Array, Buffer, Saved
from maxmargin.core.expert_lines import add_line, push_confident
from maxmargin.core.numba_backend import bridge
from maxmargin.core.rule import Trial
from maxmargin.spaces.expert_space import ExpertSpace

# The rows that decide on the widths; of 16, 32, 64 and 128 on phishing, segments and bananas.
FIRST_ROWS = 32
# Widths in terms of the median distance, each half of the one before: where columns are measured by
# their ranges, and by joined ranges. Chosen on segments, phishing, bananas, USPS and electricity.
BY_RANGES, BY_JOINED_RANGES = (1.0, 0.5, 0.25, 0.125), (0.5, 0.25)
WIDTHS = BY_RANGES + BY_JOINED_RANGES
# The kind of an expert on features, beside those of linear ones.
ON_FEATURES = "on features"
LINES = f"problems * {len(WIDTHS)}"

OnFeatures = Annotated[np.ndarray, Array(LINES, "components", "members", finite=True)]
Members = Annotated[np.ndarray, Buffer("members")]


class FourierExperts(NamedTuple):
    """Features of a row, and the experts on those of each width.

    Attributes
    ----------
    kept, signs, worth : the first rows, their labels in each problem, and their weights; zeros
        once they are learned
    taken : how many rows were kept
    pending : of each problem, are the first rows still to be learned?
    seed : that of the directions
    medians : the median distances of the first rows, in both measures; 0 until they are known
    directions : ``w`` for the largest widths, column by column, those of both measures in turn
    weights, variances : of the experts, for each problem and width; all variances begin with 1
    angles, latest : ``w_k.x`` of the row, and of the one whose features are there
    present_angles : those of the row that is learned from, while others are looked at
    filled : are there features?
    features : of that row, for each width
    sums, steps, gains : of the experts of one width
    """

    kept: Annotated[np.ndarray, Array(FIRST_ROWS, "coordinates", omit_zeros=True, finite=True)]
    signs: Annotated[np.ndarray, Array(FIRST_ROWS, "problems", omit_zeros=True, finite=True)]
    worth: Annotated[np.ndarray, Array(FIRST_ROWS, omit_zeros=True, at_least=0.0, finite=True)]
    taken: Annotated[np.ndarray, Array(1, dtype=np.int64, below=FIRST_ROWS + 1)]
    pending: Annotated[np.ndarray, Array("problems", dtype=np.int64, below=2)]
    seed: Annotated[np.ndarray, Array(1, dtype=np.int64)]
    medians: Annotated[np.ndarray, Array(2, at_least=0.0, finite=True)]
    directions: Annotated[np.ndarray, Array(1, "coordinates", "directions", finite=True)]
    weights: OnFeatures
    variances: Annotated[
        np.ndarray,
        Array(LINES, "components", "members", fill=1.0, at_least=0.0, finite=True),
    ]
    angles: Annotated[np.ndarray, Buffer("directions")]
    latest: Annotated[np.ndarray, Buffer("directions")]
    present_angles: Annotated[np.ndarray, Buffer("directions")]
    filled: Annotated[np.ndarray, Buffer(1)]
    features: Annotated[np.ndarray, Buffer(len(WIDTHS), "components")]
    sums: Members
    steps: Members
    gains: Members

    def keep_label(self, c, y, weight):
        """Keep the label of the row in problem ``c``, if it is among the first."""
        if self.taken[0] < FIRST_ROWS:
            self.signs[self.taken[0], c], self.worth[self.taken[0]] = y, weight

    def keep_row(self, rows, i):
        """Keep row ``i``, after its labels; are the first rows complete now?"""
        if self.taken[0] == FIRST_ROWS:
            return False
        for k in range(rows.own_entries(i)):
            j, x = rows.own_entry(i, k)
            self.kept[self.taken[0], j] = x
        self.taken[0] += 1
        return self.taken[0] == FIRST_ROWS

    def look_at_kept(self, i):
        """Compute the features of the first row number ``i``."""
        for k in range(self.angles.size):
            self.angles[k] = 0.0
        for j in range(self.kept.shape[1]):
            if self.kept[i, j] != 0.0:
                add_line(self.directions, 0, j, self.kept[i, j], self.angles)
        self.turn()

    def forget_first_rows(self):
        for i in range(FIRST_ROWS):
            self.worth[i] = 0.0
            for j in range(self.kept.shape[1]):
                self.kept[i, j] = 0.0
            for c in range(self.signs.shape[1]):
                self.signs[i, c] = 0.0

    def read_features(self, rows, i):
        """Compute the features of row ``i``, unless it is the one whose features are there."""
        for k in range(self.angles.size):
            self.angles[k] = 0.0
        for k in range(rows.own_entries(i)):
            j, x = rows.own_entry(i, k)
            if x != 0.0:
                add_line(self.directions, 0, j, x, self.angles)
        same = self.filled[0] > 0.0
        for k in range(self.angles.size):
            same &= self.angles[k] == self.latest[k]
        if not same:
            self.turn()

    def turn(self):
        """Compute the features of the angles."""
        count = self.angles.size // 2
        unit = 1.0 / math.sqrt(count)
        for k in range(self.angles.size):
            cosine, sine = math.cos(self.angles[k]), math.sin(self.angles[k])
            j, first, stop = 2 * k, 0, len(BY_RANGES)
            if k >= count:
                j, first, stop = j - 2 * count, stop, len(WIDTHS)
            for w in range(first, stop):
                self.features[w, j], self.features[w, j + 1] = unit * cosine, unit * sine
                cosine, sine = 1.0 - 2.0 * sine * sine, 2.0 * sine * cosine
            self.latest[k] = self.angles[k]
        self.filled[0] = 1.0

    def predict_features(self, c, outputs, first):
        """Put the outputs of the experts of problem ``c`` into ``outputs``, from ``first`` on.

        Those of one rule stand side by side, for all widths.
        """
        widths = self.features.shape[0]
        for w in range(widths):
            for e in range(self.sums.size):
                self.sums[e] = 0.0
            if self.medians[0] > 0.0:
                for j in range(self.features.shape[1]):
                    add_line(self.weights, widths * c + w, j, self.features[w, j], self.sums)
            for e in range(self.sums.size):
                outputs[first + widths * e + w] = self.sums[e]

    def measure_features(self, c, lengths, first):
        """Put ``z' Sigma z`` of the features z into ``lengths``, in the same order."""
        widths = self.features.shape[0]
        for w in range(widths):
            for e in range(self.sums.size):
                self.sums[e] = 0.0 if self.medians[0] > 0.0 else 1.0
            if self.medians[0] > 0.0:
                for j in range(self.features.shape[1]):
                    x = self.features[w, j]
                    add_line(self.variances, widths * c + w, j, x * x, self.sums)
            for e in range(self.sums.size):
                lengths[first + widths * e + w] = self.sums[e]

    def push_features(self, c, steps, gains, first):
        """Let the experts step along ``Sigma z``, and add the gains to their precisions."""
        widths, members = self.features.shape[0], self.sums.size
        for w in range(widths):
            for e in range(members):
                self.steps[e] = steps[first + widths * e + w]
                self.gains[e] = gains[first + widths * e + w]
            for j in range(self.features.shape[1]):
                x, line = self.features[w, j], widths * c + w
                push_confident(
                    self.weights, self.variances, line, j, members, x, self.steps, self.gains
                )


class FourierSpace(NamedTuple):
    """Linear experts, experts on random features, and the mixture of all, as a space.

    Attributes
    ----------
    linear : the linear experts; its mixture, and what is computed of a row, is that of all experts
    curves : the others
    """

    linear: Annotated[ExpertSpace, Saved()]
    curves: Annotated[FourierExperts, Saved()]

    def problems(self):
        return self.linear.problems()

    def updates(self, c):
        return self.linear.updates(c)

    def norm2(self, c):
        return 0.0

    def square_of(self, rows, i):
        return rows.square(i)

    def square_bound(self, rows, i):
        return 0.0

    def take_in(self, rows, i, c, f, trial):
        return f

    def length2(self, rows, i, c, xx):
        return xx

    def output(self, rows, i, c):
        """The log-odds of the positive class of problem ``c``."""
        linear, curves = self.linear, self.curves
        linear.predict_linear(rows, i, c)
        curves.read_features(rows, i)
        curves.predict_features(c, linear.outputs, linear.column_experts())
        return linear.mixture.log_odds_of(c, linear.outputs, linear.chances, self.awake(c))

    def awake(self, c):
        """How many experts can predict: all, once those on features have learned the first rows."""
        if self.curves.medians[0] > 0.0 and self.curves.pending[c] == 0:
            return self.linear.outputs.size
        return self.linear.column_experts()

    def aim(self, rows, i, c, y, f, xx):
        """The same as of linear experts; the features of the row are those just computed."""
        lead = self.linear.aim(rows, i, c, y, f, xx)
        self.curves.measure_features(c, self.linear.lengths, self.linear.column_experts())
        return lead

    def decide(self, rule, trial, c):
        awake = self.awake(c)
        if self.curves.pending[c] > 0:
            self.catch_up(rule, c)
        elif self.curves.medians[0] == 0.0:
            self.curves.keep_label(c, self.linear.label_sign[0], trial.weight)
        return self.linear.ask_experts(rule, trial, c, awake)

    def catch_up(self, rule, c):
        """Let the experts on features learn from the first rows, and then look at the present one.

        Each row is predicted before it is learned from, so that sigmoids learn as well.
        """
        linear, curves, first = self.linear, self.curves, self.linear.column_experts()
        for k in range(curves.angles.size):
            curves.present_angles[k] = curves.angles[k]
        for i in range(FIRST_ROWS):
            y, weight = curves.signs[i, c], curves.worth[i]
            curves.look_at_kept(i)
            curves.predict_features(c, linear.leads, first)
            curves.measure_features(c, linear.lengths, first)
            for e in range(first, linear.leads.size):
                linear.steps[e] = linear.mixture.chance_of(c, e, linear.leads[e], 0.0)
            linear.mixture.bend_sigmoids(
                c, y, linear.leads, linear.steps, first, linear.leads.size, 0.0, weight
            )
            for e in range(first, linear.leads.size):
                margin, length = y * linear.leads[e], linear.lengths[e]
                own = Trial(margin, 0.0, length, length, i + 1, i, weight)
                step, linear.precision_gains[e] = rule.answer(e, own)
                linear.steps[e] = y * step
            curves.push_features(c, linear.steps, linear.precision_gains, first)
        for k in range(curves.angles.size):
            curves.angles[k] = curves.present_angles[k]
        curves.turn()
        curves.predict_features(c, linear.leads, first)
        curves.measure_features(c, linear.lengths, first)
        for e in range(first, linear.leads.size):
            linear.leads[e] *= linear.label_sign[0]
        curves.pending[c] = 0
        if c == self.problems() - 1:
            curves.forget_first_rows()

    def move(self, rows, i, c, y, keep, step, margin, along2, trials):
        """Every expert learns; is it time to find the widths?"""
        linear = self.linear
        linear.move(rows, i, c, y, keep, step, margin, along2, trials)
        if self.curves.medians[0] > 0.0:
            steps, gains = linear.steps, linear.precision_gains
            self.curves.push_features(c, steps, gains, linear.column_experts())
            return False
        return c == self.problems() - 1 and self.curves.keep_row(rows, i)

    def rescale(self, c, factor, trials):
        """No rule of experts scales weights."""
        return False


bridge("keep_label", "keep_row", "turn", "look_at_kept", "forget_first_rows", inline=False)
bridge("catch_up", inline=False)
bridge("awake")
bridge("read_features", "predict_features", "measure_features", "push_features")


def median_distance(rows: np.ndarray) -> float:
    """The median of the positive distances between two of the rows; 1 if all are equal."""
    squares = np.zeros((rows.shape[0], rows.shape[0]))
    for column in rows.T:  # in an order that does not depend on the machine
        squares += np.square(column[:, None] - column)
    apart = squares[squares > 0.0]
    return float(np.median(np.sqrt(apart))) if apart.size else 1.0


def directions_for(rows: np.ndarray, seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal directions over the largest width, ``count`` for each measure; the median distances.

    Columns that do not vary have no part. The numbers of a column do not depend on how many columns
    there are.
    """
    ranges = rows.max(axis=0) - rows.min(axis=0)
    varies = ranges > 0.0
    drawn = np.random.RandomState(seed).normal(size=(rows.shape[1], count))
    directions, medians = np.zeros((rows.shape[1], 2 * count)), np.ones(2)
    joined = np.hypot(ranges, root_mean_square(ranges[varies]))
    for k, (units, widths) in enumerate([(ranges, BY_RANGES), (joined, BY_JOINED_RANGES)]):
        own = units[varies]
        medians[k] = median_distance(rows[:, varies] / own)
        part = drawn[varies] / (own * (widths[0] * medians[k]))[:, None]
        directions[varies, k * count : (k + 1) * count] = part
    return directions, medians


def root_mean_square(numbers: np.ndarray) -> float:
    """Of positive numbers; 0 if there are none."""
    largest = numbers.max(initial=0.0)
    return float(largest * np.sqrt(np.square(numbers / largest).mean())) if largest > 0.0 else 0.0
