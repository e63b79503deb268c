"""What is written down beside the weights: certificates and means.

Learners that never shrink old coefficients carry their first, bad ones for ever. The difference of
``w`` now and at an earlier moment is again a sum of rows, so a snapshot, renewed whenever the
number of updates has doubled, gives a second bound made of recent coefficients only; see
`maxmargin.certificates.bounds`.

The mean of ``w = scale * v`` over all trials is kept without a sum of vectors in each trial. With
the sum S of the scales after each trial so far, which costs nothing where the scale stays the same,

    sum of w = S * v - average,

where a step of v by d adds ``S * d`` to the average, S of the trials before. In the product and in
the average old scales count that a small one must cancel, so scales are kept near 1: when one is
folded into the vectors ``S * v`` goes into the average, and S starts at 0.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Array
from maxmargin.core.numba_backend import Compiled, bridge, with_methods_of

# Of a mean no more digits are lost than this has: beyond it, or its inverse, scales are folded.
LARGEST_AVERAGED_SCALE = 1e4

# The sum of the scales after each trial up to this one, since which the scale is the same.
PAST = np.dtype([("scales", "f8"), ("trial", "i8")], align=True)

# Vectors that follow the weights, and sums of scales; without lines where they are switched off.
Vectors = Annotated[np.ndarray, Array("problems", "coordinates", optional=True)]
Past = Annotated[np.recarray, Array("problems", dtype=PAST, optional=True, omit_zeros=True)]


class Means:
    """What keeps the mean, for a witness with ``average`` and ``past``."""

    average: np.ndarray
    past: np.recarray

    def past_scales(self, c, scale, trial):
        """The sum of the scales after each trial before this one, which finds ``scale``."""
        return self.past[c].scales + scale * (trial - 1 - self.past[c].trial)

    def count_trials(self, c, scale, trial):
        """In this trial the scale is about to change."""
        if c < self.past.shape[0]:
            self.past[c].scales = self.past_scales(c, scale, trial)
            self.past[c].trial = trial - 1

    def is_averaged_under(self, c, scale):
        """Can the mean be kept with so many digits?"""
        size = abs(scale)
        return c >= self.past.shape[0] or (
            1.0 / LARGEST_AVERAGED_SCALE <= size <= LARGEST_AVERAGED_SCALE
        )

    def follow_mean(self, rows, i, c, scale, amount, trial):
        """The weights, under this scale, have moved by ``amount * x``."""
        if c < self.average.shape[0]:
            rows.add(i, self.average, c, amount * self.past_scales(c, scale, trial))

    def close_past(self, weights, c):
        """The weights are about to be folded."""
        if c < self.past.shape[0]:
            scales = self.past[c].scales
            for j in range(weights.shape[1]):
                self.average[c, j] -= scales * weights[c, j]
            self.past[c].scales = 0.0


@with_methods_of(Means)
class MeanWitness(NamedTuple):
    """What gives the mean, and nothing else: enough to look at rows by it."""

    average: np.ndarray
    past: np.recarray


@with_methods_of(Means)
class Witness(NamedTuple):
    """Vectors that follow ``w``, one row per problem; an array without rows is switched off.

    All but ``average`` are under the space's lazy scale, like the weights.

    Attributes
    ----------
    share : the part of ``w`` owed to positive examples
    mark, mark_share : ``w`` and ``share`` at the last snapshot
    average, past : what gives the mean of ``w`` over all trials; see `PAST`
    split : is there an intercept?
    """

    share: Vectors
    mark: Vectors
    mark_share: Vectors
    average: Vectors
    past: Past
    split: bool

    def follow(self, rows, i, c, y, scaled_step):
        """The weights have moved by ``scaled_step * y * x``."""
        if y > 0.0 and c < self.share.shape[0]:
            rows.add(i, self.share, c, scaled_step)

    def scale(self, c, factor):
        """The weights are about to be multiplied by ``factor``, the scale or 0."""
        if c < self.share.shape[0]:
            for j in range(self.share.shape[1]):
                self.share[c, j] *= factor
                self.mark_share[c, j] *= factor
        if c < self.mark.shape[0]:
            for j in range(self.mark.shape[1]):
                self.mark[c, j] *= factor


bridge("follow", "scale", "past_scales", "count_trials", "is_averaged_under", "follow_mean")


class MeanSpace(NamedTuple):
    """The mean of the weights of ``space`` over all trials so far, to output at rows by.

    Attributes
    ----------
    space : `LinearSpace` or `JointSpace`
    tally : the counts of its model, see `core.loop.TALLY`
    """

    space: Any
    tally: np.recarray

    def output(self, rows, i, c):
        return self.space.look_mean(rows, i, c, self.tally[0].trials)


bridge("close_past", inline=False)


@Compiled
def remember(weights, share, mark, mark_share, table, due):  # type: ignore[no-untyped-def]
    """Take snapshots of the vectors and masses of the problems ``due``, in one step.

    The next ones are at twice as many updates, so that their cost vanishes in the mean.
    """
    for n in range(due.size):
        c = due[n]
        if c < share.shape[0]:
            for j in range(share.shape[1]):
                mark_share[c, j] = share[c, j]
        if c < mark.shape[0]:
            for j in range(mark.shape[1]):
                mark[c, j] = weights[c, j]
        mine = table[c]
        mine.mark_positive = mine.positive
        mine.mark_negative = mine.negative
        mine.mark_hidden_positive = mine.hidden_positive
        mine.mark_hidden_negative = mine.hidden_negative
        mine.next_mark = 2 * mine.updates


def mean_weights(
    weights: np.ndarray, scales: np.ndarray, average: np.ndarray, past: np.recarray, trials: int
) -> np.ndarray:
    """The mean over all trials of weights, which are now under these scales."""
    summed = past.scales + scales * (trials - past.trial)
    return weights * (summed / trials)[:, None] - average / trials
