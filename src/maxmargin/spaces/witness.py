"""What is written down beside the weights: certificates and averages.

Every learner's weight vector is ``w = sum_i a_i y_i x_i`` with ``a_i >= 0``. Then for every unit
vector u,

    (sum_i a_i) * min_i y_i u.x_i  <=  sum_i a_i y_i u.x_i  =  u.w  <=  |w|,

so ``|w| / sum_i a_i`` bounds the best margin from above (without intercept). With an intercept the
masses of the two classes must balance; rescaling each class to mass 1/2 gives the *split* bound
``|w_pos/A_pos - w_neg/A_neg| / 2``, with ``w = w_pos - w_neg``. Where that second vector is not
kept, the *imbalance* bound ``(|w| + R |A_pos - A_neg|) / (A + |A_pos - A_neg|)`` needs scalars
only.

Learners that never shrink old coefficients carry their first, bad ones for ever. The difference of
``w`` now and at an earlier moment is again such a sum, so a snapshot, renewed whenever the number
of updates has doubled, gives a second bound made of recent coefficients only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.core.bridge import bridge

# Bounds are rounded up by more than the rounding errors in the sums behind them.
RELATIVE_SLACK = 1e-9
SLACK_PER_RADIUS = 1e-12


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

    def norm_over_mass(self, geometry, weights, width, c, since, masses, hidden):
        """Upper bound from the coefficients gathered since the mark (``since=1``) or ever (0).

        ``masses`` are the sums of the coefficients of the positive and of the negative rows, and
        ``hidden`` the sums of squares in the private coordinates that are not recorded.
        """
        positive, negative = masses
        if not self.split:
            if positive + negative <= 0.0 or (since > 0.0 and c >= self.mark.shape[0]):
                return np.inf
            total = hidden[0] + hidden[1]
            for j in range(weights.shape[1]):
                gone = self.mark[c, j] if since > 0.0 else 0.0
                total += geometry.term(weights[c, j] - gone)
            return geometry.root(total) / (positive + negative)
        if positive <= 0.0 or negative <= 0.0 or c >= self.share.shape[0]:
            return np.inf
        total = hidden[0] / (positive * positive) + hidden[1] / (negative * negative)
        for j in range(weights.shape[1]):
            if j != width:  # the intercept is free
                for_positive = self.share[c, j] - since * self.mark_share[c, j]
                for_both = weights[c, j] - since * self.mark[c, j]
                total += geometry.term(
                    for_positive / positive - (for_positive - for_both) / negative
                )
        return 0.5 * geometry.root(total)


bridge("follow", "scale")
bridge("snapshot", "norm_over_mass", inline=False)
