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
from maxmargin.spaces.euclid import ROUNDING

# What certificates may count: all coefficients, those since the last snapshot, or none (0).
LAWFUL, SINCE_MARK = 1.0, 0.5

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

    def upper_bound(self, space, c, rr, offset):
        """See `LinearSpace.bound`."""
        mine = space.scalars[c]
        if mine.lawful == 0.0:
            return np.inf
        radius = np.sqrt(rr)
        if space.geometry.p == 2.0:  # the offset is orthogonal to the features
            radius = np.sqrt(max(rr * (1.0 + 4.0 * ROUNDING) - offset * offset, 0.0))
        masses = mine.positive - mine.mark_positive, mine.negative - mine.mark_negative
        hidden = (
            mine.hidden_positive - mine.mark_hidden_positive,
            mine.hidden_negative - mine.mark_hidden_negative,
        )
        lowest = self.hull_bound(space, c, 1.0, masses, hidden, radius)
        if mine.lawful == LAWFUL:
            masses = mine.positive, mine.negative
            hidden = mine.hidden_positive, mine.hidden_negative
            lowest = min(lowest, self.hull_bound(space, c, 0.0, masses, hidden, radius))
            if self.split:
                lowest = min(lowest, self.imbalance_bound(space, c, radius))
        return min(mine.bound, lowest * (1.0 + RELATIVE_SLACK) + SLACK_PER_RADIUS * radius)

    def hull_bound(self, space, c, since, masses, hidden, radius):
        """`norm_over_mass`, rounded up by all that the sums behind it can have lost.

        Each update may have rounded a sum by a fraction of all that it holds, also of what it held
        before the mark; so small differences to the mark mean little.
        """
        mine = space.scalars[c]
        positive, negative = masses
        lowest = self.norm_over_mass(
            space.geometry, space.weights, space.width, c, since, masses, hidden
        )
        if lowest == np.inf:
            return lowest
        updates = mine.updates + 1.0 - since * (mine.next_mark // 2)
        lost = 8.0 * ROUNDING * updates * (mine.positive + mine.negative)
        if self.split:
            return lowest + radius * (lost / positive + lost / negative)
        return lowest + radius * lost / (positive + negative)

    def imbalance_bound(self, space, c, radius):
        """The bound that needs no second vector; all rows have norm at most ``radius``."""
        mine = space.scalars[c]
        mass = abs(mine.scale) * (mine.positive + mine.negative)
        excess = abs(mine.scale) * abs(mine.positive - mine.negative)
        if mine.positive <= 0.0 or mine.negative <= 0.0:
            return np.inf
        total = mine.hidden_positive + mine.hidden_negative
        for j in range(space.weights.shape[1]):
            if j != space.width:  # the intercept is free
                total += space.geometry.term(space.weights[c, j])
        norm = abs(mine.scale) * space.geometry.root(total)
        return (norm + radius * excess) / (mass + excess)

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
bridge("snapshot", "upper_bound", "hull_bound", "imbalance_bound", "norm_over_mass", inline=False)
