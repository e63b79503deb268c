"""Vectors besides the weights, for certificates and averages.

Learners that never shrink old coefficients keep their first, bad ones forever. The difference of
``w`` now and at an earlier time is also a sum of rows, so a snapshot, renewed whenever the number
of updates has doubled, gives a second bound from recent coefficients; see
`maxmargin.certificates.bounds`.

The mean of ``w = scale * v`` over all trials is kept without adding vectors in each trial. With the
sum S of the scales after each trial, which needs no work while the scale is constant,

    sum of w = S * v - average,

where a step of v by d adds ``S * d`` to the average, with S from the trials before. Very different
scales would cancel in this difference, so scales are kept near 1: when one is folded into the
vectors, ``S * v`` is moved to the average, and S restarts at 0.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Array
from maxmargin.core.loop import AnyRow
from maxmargin.core.numba_backend import bridge, with_methods_of

# Averaged scales beyond this, or its inverse, are folded; it bounds the loss of digits.
LARGEST_AVERAGED_SCALE = 1e4

# The sum of the scales after each trial up to ``trial``, after which the scale did not change.
PAST = np.dtype([("scales", "f8"), ("trial", "i8")], align=True)

# Vectors that follow the weights, and sums of scales; empty if not needed.
Vectors = Annotated[np.ndarray, Array("problems", "coordinates", optional=True)]
Past = Annotated[np.recarray, Array("problems", dtype=PAST, optional=True, omit_zeros=True)]


class Means:
    """Methods that keep the mean, for classes with ``average`` and ``past``."""

    average: np.ndarray
    past: np.recarray

    def past_scales(self, c, scale, trial):
        """The sum of the scales after each trial before this one, given the current scale."""
        return self.past[c].scales + scale * (trial - 1 - self.past[c].trial)

    def count_trials(self, c, scale, trial):
        """Call before the scale changes in this trial."""
        if c < self.past.shape[0]:
            self.past[c].scales = self.past_scales(c, scale, trial)
            self.past[c].trial = trial - 1

    def is_averaged_under(self, c, scale):
        """True unless this scale would cost the mean too many digits."""
        size = abs(scale)
        return c >= self.past.shape[0] or (
            1.0 / LARGEST_AVERAGED_SCALE <= size <= LARGEST_AVERAGED_SCALE
        )

    def follow_mean(self, rows, i, c, scale, amount, trial):
        """Call after the weights, under this scale, have moved by ``amount * x``."""
        if c < self.average.shape[0]:
            rows.add(i, self.average, c, amount * self.past_scales(c, scale, trial))

    def close_past(self, weights, c):
        """Call before the weights are folded."""
        if c < self.past.shape[0]:
            scales = self.past[c].scales
            for j in range(weights.shape[1]):
                self.average[c, j] -= scales * weights[c, j]
            self.past[c].scales = 0.0


@with_methods_of(Means)
class MeanWitness(NamedTuple):
    """Only the fields for the mean: enough to predict."""

    average: np.ndarray
    past: np.recarray


@with_methods_of(Means)
class Witness(NamedTuple):
    """Vectors that follow ``w``, one line per problem; empty arrays are not needed.

    All but ``average`` are under the space's lazy scale, like the weights.

    Attributes
    ----------
    share : the part of ``w`` from positive examples
    mark, mark_share : ``w`` and ``share`` at the last snapshot
    average, past : for the mean of ``w`` over all trials; see `PAST`
    split : there is an intercept
    """

    share: Vectors
    mark: Vectors
    mark_share: Vectors
    average: Vectors
    past: Past
    split: bool

    def follow(self, rows, i, c, y, scaled_step):
        """Call after the weights have moved by ``scaled_step * y * x``."""
        if y > 0.0 and c < self.share.shape[0]:
            rows.add(i, self.share, c, scaled_step)

    def scale(self, c, factor):
        """Call before the weights are multiplied by ``factor``, the scale or 0."""
        if c < self.share.shape[0]:
            for j in range(self.share.shape[1]):
                self.share[c, j] *= factor
                self.mark_share[c, j] *= factor
        if c < self.mark.shape[0]:
            for j in range(self.mark.shape[1]):
                self.mark[c, j] *= factor


bridge("follow", "scale", "past_scales", "count_trials", "is_averaged_under", "follow_mean")


@with_methods_of(AnyRow)
class MeanSpace(NamedTuple):
    """Outputs of the mean of the weights of ``space`` over all trials in ``tally``."""

    space: Any
    tally: np.recarray

    def output(self, rows, i, c):
        return self.space.mean_output(rows, i, c, self.tally[0].trials)


bridge("close_past", inline=False)


def mean_weights(
    weights: np.ndarray, scales: np.ndarray, average: np.ndarray, past: np.recarray, trials: int
) -> np.ndarray:
    """The mean over all trials of weights, which are now under these scales."""
    summed = past.scales + scales * (trials - past.trial)
    return weights * (summed / trials)[:, None] - average / trials
