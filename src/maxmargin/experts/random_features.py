"""Random Fourier features of rows, in several widths, those of landmarks, and experts on them.

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
features. The first landmark is the row after that (`experts.landmark_features`).
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Array, Buffer, Saved
from maxmargin.core.numba_backend import bridge
from maxmargin.experts.expert_lines import add_line, push_confident
from maxmargin.experts.expert_steps import expert_step
from maxmargin.experts.landmark_features import NEAR_LANDMARKS, Landmarks

# The rows that decide on the widths; of 16, 32, 64 and 128 on phishing, segments and bananas.
FIRST_ROWS = 32
# Widths in terms of the median distance, each half of the one before: where columns are measured by
# their ranges, and by joined ranges. Chosen on segments, phishing, bananas, USPS and electricity.
BY_RANGES, BY_JOINED_RANGES = (1.0, 0.5, 0.25, 0.125), (0.5, 0.25)
# Those of random features come first, then those of landmarks, which are by joined ranges, too.
OF_WAVES = BY_RANGES + BY_JOINED_RANGES
WIDTHS = OF_WAVES + NEAR_LANDMARKS
# So that a row far from all landmarks, whose features are 0, has a length.
SMALLEST_LENGTH = 1e-300
# So that squares of values in these units are finite.
LARGEST_UNIT = 1e90
# The kind of an expert on features, besides those of linear ones.
ON_FEATURES = "on features"
LINES = f"problems * {len(WIDTHS)}"

OnFeatures = Annotated[np.ndarray, Array(LINES, "components", "members", finite=True)]
Members = Annotated[np.ndarray, Buffer("members")]


class FeatureScratch(NamedTuple):
    """Room for the features of one row, and of one of the first rows, by width.

    ``sums``, ``steps`` and ``gains`` are of the experts of one width.
    """

    angles: Annotated[np.ndarray, Buffer("directions")]
    features: Annotated[np.ndarray, Buffer(len(WIDTHS), "components")]
    kept_features: Annotated[np.ndarray, Buffer(len(WIDTHS), "components")]
    sums: Members
    steps: Members
    gains: Members


class RandomFeatures(NamedTuple):
    """Features of a row, and the experts on those of each width.

    Experts of one rule are numbered one after another, for all widths, from ``first`` on, the
    number of all other experts.

    Attributes
    ----------
    kept, signs, worth : the first rows, their labels in each problem, and their weights; zeros
        once they are learned
    taken : how many rows were kept
    pending : of each problem, are the first rows still to be learned?
    seed : that of the directions
    medians : the median distances of the first rows, in both measures; 0 until they are known
    directions : ``w`` for the largest widths, column by column, those of both measures in turn
    landmarks : what makes the features of the last widths
    weights, variances : of the experts, for each problem and width; all variances begin with 1
    """

    kept: Annotated[np.ndarray, Array(FIRST_ROWS, "coordinates", omit_zeros=True, finite=True)]
    signs: Annotated[np.ndarray, Array(FIRST_ROWS, "problems", omit_zeros=True, finite=True)]
    worth: Annotated[np.ndarray, Array(FIRST_ROWS, omit_zeros=True, at_least=0.0, finite=True)]
    taken: Annotated[np.ndarray, Array(1, dtype=np.int64, below=FIRST_ROWS + 1)]
    pending: Annotated[np.ndarray, Array("problems", dtype=np.int64, below=2)]
    seed: Annotated[np.ndarray, Array(1, dtype=np.int64)]
    medians: Annotated[np.ndarray, Array(2, at_least=0.0, finite=True)]
    directions: Annotated[np.ndarray, Array(1, "coordinates", "directions", finite=True)]
    landmarks: Annotated[Landmarks, Saved()]
    weights: OnFeatures
    variances: Annotated[
        np.ndarray,
        Array(LINES, "components", "members", fill=1.0, at_least=0.0, finite=True),
    ]
    scratch: FeatureScratch

    def have_features(self):
        return self.medians[0] > 0.0

    def awake(self, c, experts, first):
        """How many of all experts can predict: these after they have learned the first rows."""
        return experts if self.have_features() and self.pending[c] == 0 else first

    def read_features(self, rows, i):
        """Compute the features of row ``i``."""
        angles = self.scratch.angles
        self.landmarks.begin_landmarks()
        for k in range(angles.size):
            angles[k] = 0.0
        for k in range(rows.own_entries(i)):
            j, x = rows.own_entry(i, k)
            if x != 0.0:
                add_line(self.directions, 0, j, x, angles, 0)
                self.landmarks.read_value(j, x)
        self.turn(self.scratch.features)
        self.landmarks.compare(self.scratch.features, len(OF_WAVES))

    def read_kept(self, i):
        """Compute the features of the first row number ``i``; landmarks come after these."""
        angles = self.scratch.angles
        for k in range(angles.size):
            angles[k] = 0.0
        for j in range(self.kept.shape[1]):
            if self.kept[i, j] != 0.0:
                add_line(self.directions, 0, j, self.kept[i, j], angles, 0)
        self.turn(self.scratch.kept_features)

    def turn(self, features):
        """Compute the features of the angles."""
        angles = self.scratch.angles
        count = angles.size // 2
        unit = 1.0 / math.sqrt(count)
        for k in range(angles.size):
            cosine, sine = math.cos(angles[k]), math.sin(angles[k])
            j, first, stop = 2 * k, 0, len(BY_RANGES)
            if k >= count:
                j, first, stop = j - 2 * count, stop, len(OF_WAVES)
            for w in range(first, stop):
                features[w, j], features[w, j + 1] = unit * cosine, unit * sine
                cosine, sine = 1.0 - 2.0 * sine * sine, 2.0 * sine * cosine

    def predict_features(self, features, c, outputs, first):
        """Put the outputs of the experts of problem ``c`` into ``outputs``."""
        widths, sums = features.shape[0], self.scratch.sums
        for w in range(widths):
            for e in range(sums.size):
                sums[e] = 0.0
            if self.have_features():
                for j in range(features.shape[1]):
                    add_line(self.weights, widths * c + w, j, features[w, j], sums, 0)
            for e in range(sums.size):
                outputs[first + widths * e + w] = sums[e]

    def measure_features(self, features, c, lengths, first):
        """Put ``z' Sigma z`` of the features z into ``lengths``."""
        widths, sums = features.shape[0], self.scratch.sums
        for w in range(widths):
            for e in range(sums.size):
                sums[e] = SMALLEST_LENGTH if self.have_features() else 1.0
            if self.have_features():
                for j in range(features.shape[1]):
                    x = features[w, j]
                    add_line(self.variances, widths * c + w, j, x * x, sums, 0)
            for e in range(sums.size):
                lengths[first + widths * e + w] = sums[e]

    def push_features(self, features, c, all_steps, all_gains, first):
        """Let the experts step along ``Sigma z``, and add the gains to their precisions."""
        weights, variances, widths = self.weights, self.variances, features.shape[0]
        steps, gains, members = self.scratch.steps, self.scratch.gains, self.scratch.steps.size
        for w in range(widths):
            for e in range(members):
                steps[e] = all_steps[first + widths * e + w]
                gains[e] = all_gains[first + widths * e + w]
            for j in range(features.shape[1]):
                x, line = features[w, j], widths * c + w
                push_confident(weights, variances, line, j, members, x, steps, gains, 0)

    def predict_curves(self, c, outputs, first):
        self.predict_features(self.scratch.features, c, outputs, first)

    def measure_curves(self, c, lengths, first):
        self.measure_features(self.scratch.features, c, lengths, first)

    def push_curves(self, c, steps, gains, first):
        """The experts learn, if there are features."""
        if self.have_features():
            self.push_features(self.scratch.features, c, steps, gains, first)

    def prepare(self, table, mixture, c, y, weight, scratch, first):
        """Before the row is learned, learn from the first rows, or keep its label as one of them.

        ``scratch`` has the margins and lengths of the row; its steps and gains are overwritten.
        """
        if self.pending[c] > 0:
            self.catch_up(table, mixture, c, scratch, first)
            self.predict_curves(c, scratch.margins, first)
            self.measure_curves(c, scratch.lengths, first)
            for e in range(first, scratch.margins.size):
                scratch.margins[e] *= y
        elif not self.have_features() and self.taken[0] < FIRST_ROWS:
            self.signs[self.taken[0], c], self.worth[self.taken[0]] = y, weight

    def catch_up(self, table, mixture, c, scratch, first):
        """Learn from the first rows, each predicted before it is learned, for the sigmoids."""
        outputs, chances, lengths = scratch.margins, scratch.steps, scratch.lengths
        steps, gains, features = scratch.steps, scratch.gains, self.scratch.kept_features
        for i in range(FIRST_ROWS):
            y, weight = self.signs[i, c], self.worth[i]
            self.read_kept(i)
            self.predict_features(features, c, outputs, first)
            self.measure_features(features, c, lengths, first)
            for e in range(first, outputs.size):
                chances[e] = mixture.chance_of(c, e, outputs[e], 0.0)
            mixture.learn_sigmoids(c, y, outputs, chances, first, outputs.size, 0.0, weight)
            for e in range(first, outputs.size):
                family, number, margin = table.families[e], table.numbers[e], y * outputs[e]
                step, gains[e] = expert_step(family, number, margin, lengths[e], weight)
                steps[e] = y * step
            self.push_features(features, c, steps, gains, first)
        self.pending[c] = 0
        if c == self.pending.size - 1:
            self.forget_first_rows()

    def forget_first_rows(self):
        for i in range(FIRST_ROWS):
            self.worth[i] = 0.0
            for j in range(self.kept.shape[1]):
                self.kept[i, j] = 0.0
            for c in range(self.signs.shape[1]):
                self.signs[i, c] = 0.0

    def keep_row(self, rows, i):
        """Keep row ``i``, after its labels; are the first rows complete now?

        Later rows may become landmarks.
        """
        if self.have_features():
            self.landmarks.add_landmarks(rows, i, self.scratch.features, len(OF_WAVES))
        if self.taken[0] < FIRST_ROWS:
            for k in range(rows.own_entries(i)):
                j, x = rows.own_entry(i, k)
                self.kept[self.taken[0], j] = x
            self.taken[0] += 1
        return self.taken[0] == FIRST_ROWS and not self.have_features()


class NoFeatures(NamedTuple):
    """The same without random features.

    ``members`` is 0, the number of experts: Numba passes no empty tuples.
    """

    members: int = 0

    def have_features(self):
        return False

    def awake(self, c, experts, first):
        return experts

    def read_features(self, rows, i):
        pass

    def predict_curves(self, c, outputs, first):
        pass

    def measure_curves(self, c, lengths, first):
        pass

    def push_curves(self, c, steps, gains, first):
        pass

    def prepare(self, table, mixture, c, y, weight, scratch, first):
        pass

    def keep_row(self, rows, i):
        return False


bridge("turn", "read_kept", "forget_first_rows", "keep_row", "catch_up", inline=False)
bridge("have_features", "awake", "read_features", "prepare")
bridge("predict_features", "measure_features", "push_features")
bridge("predict_curves", "measure_curves", "push_curves")


def median_distance(rows: np.ndarray) -> float:
    """The median of the positive distances between two of the rows; 1 if all are equal."""
    squares = np.zeros((rows.shape[0], rows.shape[0]))
    for column in rows.T:  # in an order that does not depend on the machine
        squares += np.square(column[:, None] - column)
    distinct = squares[squares > 0.0]
    return float(np.median(np.sqrt(distinct))) if distinct.size else 1.0


class Measures(NamedTuple):
    """What the first rows decide: directions, the median distances, and the units of landmarks."""

    directions: np.ndarray
    medians: np.ndarray
    units: np.ndarray


def measures_of(rows: np.ndarray, seed: int, count: int) -> Measures:
    """Normal directions over the largest width, ``count`` for each measure, and so on.

    Columns that do not vary have no part. The numbers of a column do not depend on how many columns
    there are.
    """
    ranges = rows.max(axis=0) - rows.min(axis=0)
    varies = ranges > 0.0
    drawn = np.random.RandomState(seed).normal(size=(rows.shape[1], count))
    directions, medians = np.zeros((rows.shape[1], 2 * count)), np.ones(2)
    scales = np.zeros(rows.shape[1])
    joined = np.hypot(ranges, root_mean_square(ranges[varies]))
    for k, (units, widths) in enumerate([(ranges, BY_RANGES), (joined, BY_JOINED_RANGES)]):
        own = units[varies]
        medians[k] = median_distance(rows[:, varies] / own)
        part = drawn[varies] / (own * (widths[0] * medians[k]))[:, None]
        directions[varies, k * count : (k + 1) * count] = part
        scales[varies] = np.minimum(1.0 / (own * medians[k]), LARGEST_UNIT)
    return Measures(directions, medians, scales)


def root_mean_square(numbers: np.ndarray) -> float:
    """The root mean square of numbers that are not negative; 0 if all are 0."""
    largest = numbers.max(initial=0.0)
    return float(largest * np.sqrt(np.square(numbers / largest).mean())) if largest > 0.0 else 0.0
