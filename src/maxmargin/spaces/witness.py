"""What is written down beside the weights: certificates and averages.

Learners that never shrink old coefficients carry their first, bad ones for ever. The difference of
``w`` now and at an earlier moment is again a sum of rows, so a snapshot, renewed whenever the
number of updates has doubled, gives a second bound made of recent coefficients only; see
`maxmargin.certificates.bounds`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.core.bridge import bridge


class Witness(NamedTuple):
    """Vectors that follow ``w``, one row per problem; an array without rows is switched off.

    All but ``average`` are under the space's lazy scale, like the weights.

    Attributes
    ----------
    share : the part of ``w`` owed to positive examples
    mark, mark_share : ``w`` and ``share`` at the last snapshot
    average : sum of (trial - 1) * (step along x), which gives the mean of ``w`` over all trials
    split : is there an intercept?
    """

    share: np.ndarray
    mark: np.ndarray
    mark_share: np.ndarray
    average: np.ndarray
    split: bool

    def follow(self, rows, i, c, y, step, scaled_step, trial):
        """``w`` has moved by ``step * y * x``, in lazily scaled units ``scaled_step``."""
        if y > 0.0 and c < self.share.shape[0]:
            rows.add(i, self.share, c, scaled_step)
        if c < self.average.shape[0]:
            rows.add(i, self.average, c, step * y * (trial - 1))

    def scale(self, c, factor):
        """The lazy scale is being folded into the vectors."""
        if c < self.share.shape[0]:
            for j in range(self.share.shape[1]):
                self.share[c, j] *= factor
                self.mark_share[c, j] *= factor
        if c < self.mark.shape[0]:
            for j in range(self.mark.shape[1]):
                self.mark[c, j] *= factor

    def snapshot(self, weights, c):
        """Remember ``w`` and ``share`` as they are now."""
        if c < self.share.shape[0]:
            for j in range(self.share.shape[1]):
                self.mark_share[c, j] = self.share[c, j]
        if c < self.mark.shape[0]:
            for j in range(self.mark.shape[1]):
                self.mark[c, j] = weights[c, j]


bridge("follow", "scale")
bridge("snapshot", inline=False)
