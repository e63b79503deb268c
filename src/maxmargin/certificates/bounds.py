"""Upper bounds on the best margin: every one that a certificate rests on, with its proof.

Every learner's weight vector is ``w = sum_i a_i y_i x_i`` with ``a_i >= 0``. Then for every unit
vector u,

    (sum_i a_i) * min_i y_i u.x_i  <=  sum_i a_i y_i u.x_i  =  u.w  <=  |w|,

so ``|w| / sum_i a_i`` bounds the best margin from above (the *plain* bound, without intercept; in
p-norms with the dual of the norm of u). With an intercept the masses of the two classes must
balance; rescaling each class to mass 1/2 gives the *split* bound
``|w_pos / A_pos - w_neg / A_neg| / 2``, with ``w = w_pos - w_neg``. Where that second vector is not
kept, the *imbalance* bound ``(|w| + R |A_pos - A_neg|) / (A + |A_pos - A_neg|)`` needs scalars
only, for rows of norm at most R.

The coefficients since a snapshot are such a sum as well, and so are the sums of several machines
together. All bounds are rounded up by more than the errors in the sums behind them.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.numba_backend import Compiled
from maxmargin.spaces.pnorm import LARGEST_SUM, SMALLEST_SUM
from maxmargin.spaces.problem_scalars import ALL_COEFFICIENTS, ROUNDING, SINCE_SNAPSHOT, Scalars

# Coordinates that are processed together: few enough to stay in the cache.
AT_A_TIME = 2**12
RELATIVE_SLACK = 1e-9
SLACK_PER_RADIUS = 1e-12


def without_intercept(square: Any, offset: float) -> Any:
    """An upper bound on the squared norm of a row without the intercept's coordinate."""
    return np.maximum(square * (1.0 + 4.0 * ROUNDING) - offset * offset, 0.0)


def radius_of_features(largest_xx: float, offset: float, p: float = 2.0) -> float:
    """An upper bound on the largest norm of a row without the intercept's coordinate."""
    square = without_intercept(largest_xx, offset) if p == 2.0 else largest_xx
    return float(np.sqrt(square))


def rounding_of_products(weights: np.ndarray) -> np.ndarray:
    """The largest rounding error of ``w.x``, over ``|x|``, for each line."""
    return ROUNDING * (weights.shape[1] + 16.0) * np.linalg.norm(weights, axis=1)


def ceiling(radius: float, joint: bool = False) -> float:
    """An upper bound on margins if at least two classes have rows, of at most this norm."""
    return 1.000001 * (float(np.sqrt(2.0)) * radius if joint else radius)


# --------------------------------------------------------------------------------- from few numbers
def soft_margin(
    square: float, losses: float, total_weight: float, error: float, rows: int, penalty: float
) -> float:
    """At least the margin of a hyperplane on rows with coordinates of their own, at their best.

    Row i has ``sqrt(penalty / s_i)`` there. With slacks ``z_i = max(0, 1 - y (w.x + b))`` the
    vector of w and of all ``y sqrt(s_i / penalty) z_i`` gives each row an output of 1 at least, so
    its margin is one over its length. ``square`` is ``|w|^2``, ``losses`` the sum of
    ``s_i z_i^2``, where each z has been rounded by no more than ``error``, and ``total_weight``
    that of the ``s_i``.
    """
    rounded_up = 1.0 + ROUNDING * (rows + 16.0)
    lost = np.sqrt(losses * rounded_up) + error * np.sqrt(total_weight)
    whole = square * rounded_up + lost * lost / penalty
    return float(1.0 / np.sqrt(whole * (1.0 + 8.0 * ROUNDING)))


def projected_bound(
    length: float, slack: float, masses: tuple[float, float], radius: float, intercept: bool
) -> float:
    """The plain or the imbalance bound where steps were projected.

    The full steps have the masses, and their sum is at most ``slack``, all that projections have
    cut off, longer than ``w``, whose length is given.
    """
    mass, excess = masses[0] + masses[1], abs(masses[0] - masses[1])
    if mass <= 0.0 or (intercept and min(masses) <= 0.0):
        return np.inf
    if intercept:
        return (length + slack + radius * excess) / (mass + excess)
    return (length + slack) / mass


def directional_bound(length: float, mass: float) -> float:
    """``|w| / sum of the coefficients``, in the space with the intercept's coordinate."""
    return length / mass


# ------------------------------------------------------------------------------- weights as vectors
@Compiled
def sum_of_squares(  # type: ignore[no-untyped-def]
    weights, mark, share, mark_share, width, c, since, positive, negative, total, unit, room
):
    """`Hull.sum_of_terms` for p = 2, as fast as a tenth of a pass over short sparse rows."""
    for first in range(0, weights.shape[1], room.size):
        count = min(room.size, weights.shape[1] - first)
        for k in range(count):
            room[k] = weights[c, first + k]
        if since > 0.0:
            for k in range(count):
                room[k] -= mark[c, first + k]
        if positive != 0.0:
            for k in range(count):
                own = share[c, first + k] - since * mark_share[c, first + k]
                room[k] = own / positive - (own - room[k]) / negative
        if 0 <= width - first < count:
            room[width - first] = 0.0
        if unit != 1.0:
            for k in range(count):
                room[k] /= unit
        for k in range(count):
            total += room[k] * room[k]
    return total


class Hull(NamedTuple):
    """Sums of rows with the masses of their coefficients, for one or more problems.

    Attributes
    ----------
    width : place of the intercept's coordinate
    split : there is an intercept
    weights, mark : the sums of all rows, now and at the last snapshot
    share, mark_share : the sums of positive rows, now and then, for the split bound
    scalars : masses, and sums of squares of private coordinates that are not stored
    radius : the largest norm of a row, without the intercept's coordinate
    """

    geometry: Any
    width: int
    split: bool
    weights: np.ndarray
    mark: np.ndarray
    share: np.ndarray
    mark_share: np.ndarray
    scalars: Scalars
    radius: float

    def upper_bound(self, c):
        """The smallest bound on the best geometric margin, in the user's own space."""
        scalars = line(self.scalars, c)
        if scalars.certifiable < SINCE_SNAPSHOT:
            return np.inf
        masses = scalars.positive - scalars.mark_positive, scalars.negative - scalars.mark_negative
        rounded_up = 1.0 + 8.0 * ROUNDING * (scalars.updates + 1.0)
        hidden = (
            scalars.hidden_positive * rounded_up - scalars.mark_hidden_positive,
            scalars.hidden_negative * rounded_up - scalars.mark_hidden_negative,
        )
        lowest = self.hull_bound(c, scalars, 1.0, masses, hidden)
        if scalars.certifiable == ALL_COEFFICIENTS:
            masses = scalars.positive, scalars.negative
            hidden = scalars.hidden_positive, scalars.hidden_negative
            lowest = min(lowest, self.hull_bound(c, scalars, 0.0, masses, hidden))
            if self.split:
                lowest = min(lowest, self.imbalance_bound(c, scalars))
        return min(scalars.bound, lowest * (1.0 + RELATIVE_SLACK) + SLACK_PER_RADIUS * self.radius)

    def hull_bound(self, c, scalars, since, masses, hidden):
        """`norm_over_mass`, rounded up by the rounding errors of its sums.

        Each update rounds a sum by a fraction of its total, including the part from before the
        snapshot, so small differences since then are imprecise.
        """
        positive, negative = masses
        lowest = self.norm_over_mass(c, since, masses, hidden)
        if lowest == np.inf:
            return lowest
        updates = scalars.updates + 1.0 - since * (scalars.next_mark // 2)
        lost = 8.0 * ROUNDING * updates * (scalars.positive + scalars.negative)
        if self.split:
            return lowest + self.radius * (lost / positive + lost / negative)
        return lowest + self.radius * lost / (positive + negative)

    def norm_over_mass(self, c, since, masses, hidden):
        """The plain or split bound, from the sums since the snapshot (``since=1``) or all (0).

        ``masses`` are the sums of coefficients of positive and negative rows, ``hidden`` the sums
        of squares in private coordinates that are not stored.
        """
        positive, negative = masses
        if not self.split:
            if positive + negative <= 0.0 or (since > 0.0 and c >= self.mark.shape[0]):
                return np.inf
            norm = self.norm(c, since, 0.0, 0.0, hidden[0] + hidden[1])
            return norm / (positive + negative)
        if positive <= 0.0 or negative <= 0.0 or c >= self.share.shape[0]:
            return np.inf
        unseen = hidden[0] / (positive * positive) + hidden[1] / (negative * negative)
        return 0.5 * self.norm(c, since, positive, negative, unseen)

    def norm(self, c, since, positive, negative, hidden):
        """The norm of the sum of rows or, with masses, of the difference of the class means."""
        which = c, since, positive, negative
        total = self.sum_of_terms(which, hidden)
        if SMALLEST_SUM <= total <= LARGEST_SUM:
            return self.root(total)
        largest = max(np.sqrt(hidden), *(np.abs(part).max() for part in self.coordinates(*which)))
        if largest == 0.0:
            return 0.0
        total = self.sum_of_terms(which, hidden / largest / largest, largest)
        return largest * self.root(total)

    def sum_of_terms(self, which, total, unit=1.0):
        """``total`` and the terms of all coordinates over ``unit``, added one after another."""
        if self.geometry.p == 2.0:
            vectors = self.weights, self.mark, self.share, self.mark_share
            return sum_of_squares(*vectors, self.width, *which, total, unit, np.empty(AT_A_TIME))
        for part in self.coordinates(*which):
            terms = self.geometry.terms(part if unit == 1.0 else part / unit)
            terms[0] += total
            total = np.add.accumulate(terms)[-1]
        return total

    def root(self, total):
        """The norm, from the sum of the terms."""
        return np.sqrt(total) if self.geometry.p == 2.0 else self.geometry.root(total)

    def coordinates(self, c, since, positive, negative):
        """The coordinates of that sum in blocks; the intercept's is 0."""
        for first in range(0, self.weights.shape[1], AT_A_TIME):
            here = slice(first, first + AT_A_TIME)
            both = self.weights[c, here] - (self.mark[c, here] if since > 0.0 else 0.0)
            if positive != 0.0:
                own = self.share[c, here] - since * self.mark_share[c, here]
                both = own / positive - (own - both) / negative
            if 0 <= self.width - first < both.size:
                both[self.width - first] = 0.0
            yield both

    def imbalance_bound(self, c, scalars):
        """The bound that needs no second vector."""
        mass = abs(scalars.scale) * (scalars.positive + scalars.negative)
        excess = abs(scalars.scale) * abs(scalars.positive - scalars.negative)
        if scalars.positive <= 0.0 or scalars.negative <= 0.0:
            return np.inf
        norm = self.norm(c, 0.0, 0.0, 0.0, scalars.hidden_positive + scalars.hidden_negative)
        return (abs(scalars.scale) * norm + self.radius * excess) / (mass + excess)


def hull_bounds(hull: Hull, problems: np.ndarray | None = None) -> np.ndarray:
    """The smallest upper bound on the best margin, for each of the problems (by default all)."""
    if problems is None:
        problems = np.arange(hull.scalars.table.size)
    with np.errstate(all="ignore"):
        return np.array([hull.upper_bound(c) for c in problems.tolist()], dtype=np.float64)


def line(scalars: Scalars, c: int) -> Any:
    """The scalars of a problem; each access to a record would take microseconds."""
    values = np.array(scalars.table[c].item())  # counts are exact in double precision
    return SimpleNamespace(**dict(zip(scalars.table.dtype.names or (), values, strict=True)))
