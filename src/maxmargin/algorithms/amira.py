"""AMIRA, the family between MIRA and passive-aggressive learning."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import NamedTuple

from maxmargin._validation import Interval, StrOptions
from maxmargin.algorithms.bound_arguments import bound, quotient, squared_ratio
from maxmargin.core.rule import rule
from maxmargin.estimator import KernelClassifier
from maxmargin.estimator.parameters import (
    Averaged,
    Budgeted,
    Facts,
    Patience,
    ScaledIntercept,
    SmoothNorms,
)
from maxmargin.models.spec import WeightsSpec

# With epsilon = 0 an example that was just projected onto margin 1 must not come back for its
# rounding.
SMALLEST_LOSS = 1e-12


@rule
class AMIRARule(NamedTuple):
    epsilon: float

    def active(self, trial):
        return trial.margin <= 1.0 - max(self.epsilon, SMALLEST_LOSS)

    def step(self, trial):
        return 1.0, (1.0 - trial.margin) / trial.xx

    def step_in_plane(self, trial, plane):
        """The same for p > 2, where the step to margin 1 is the root of an equation."""
        return plane.rise(1.0 / math.sqrt(trial.xx * trial.ww), trial.margin), 1.0

    def uses_weight(self):
        return False


@dataclass(eq=False, repr=False, kw_only=True)
class AMIRA(Averaged, SmoothNorms, Budgeted, ScaledIntercept, Patience, KernelClassifier):
    """Aggressive MIRA: project onto margin 1 whenever the margin is not above ``1 - epsilon``.

    ::

        if y (w.x) <= 1 - epsilon:  w <- w + (1 - y (w.x)) / |x|**2 * y * x

    ``epsilon=1`` learns from mistakes only (MIRA), ``epsilon=0`` is passive-aggressive learning.
    In p-norms the step is made on theta, whose dual is w: ``theta <- theta + a y x`` with the
    ``a > 0`` that gives ``y (w.x) = 1``.

    Parameters
    ----------
    epsilon : float, default=0.1
        How far below 1 a margin may stay uncorrected, between 0 and 1. Smaller values give larger
        margins and more updates.
    p : float or "log", default=2.0
        The norm in which distances are measured, at least 2. Large p suits targets that depend on
        few of many features; "log" is 2 ln(n_features), to the nearest quarter. For more than two
        classes only with ``multiclass="ovr"`` or pairs.
    multiclass : {"k-best", "1-best", "ovr"}, default="k-best"
        With more than two classes: one weight vector per class, all learned together, where a step
        lifts the margin over the `k` highest rivals of a row's class to 1 (or over the highest one
        alone), or one independent problem per class against the rest.
    k : int, default=None
        For "k-best"; all classes by default.
    intercept : {"coordinate", "pair"}, default="coordinate"
        How the intercept is learned: as the weight of one more coordinate, or freely, from pairs of
        a positive and a negative example as in `PUMMA`. Pairs reach a good margin in few updates;
        with them several classes are always learned one-vs-rest.
    <shared>

    Notes
    -----
    Guarantee on separable data: at most `max_updates` updates, ``(R / gamma)**2`` of them for
    mistakes (`max_mistakes`), ``|w| <= (2 - epsilon) / gamma`` at all times, and on return at least
    the fraction `margin_fraction` of the best margin gamma; R and gamma are those of the space with
    the intercept's coordinate. In practice the margin is often much better, but AMIRA need not
    approach the best one; `ROMMA` does. With pairs the same holds for ``epsilon / 2``, half
    differences of examples, and the geometric margin. With several classes it holds for the joint
    margin, the least lead of a row's class over a rival divided by the length of all weights, and
    the radius ``sqrt(2) max |x|``. In p-norms the number of updates grows by the factor ``p - 1``,
    and ``|w| <= 2 / gamma``: see ``docs/theory.md``. For `PUMMA` and `ALMA` that number grows with
    ``1 / delta**2`` and ``1 / alpha**2``, here with ``1 / epsilon``.

    With defaults it is 2.4 points behind ``LinearSVC`` on digits (94.0 and 96.4 % accuracy), with
    ``average=True`` 0.9, with ``soft_margin=1.0`` 0.2.

    References
    ----------
    K. Zhao and L. Huang, "Simple online learning with approximate max margin and fast convergence",
    Algorithms 1 to 3 and Theorems 1 to 3.

    Examples
    --------
    >>> from maxmargin import AMIRA
    >>> clf = AMIRA(epsilon=0.1, shuffle=False).fit([[0.0, 1.0], [2.0, 1.0]], [0, 1])
    >>> clf.predict([[5.0, 0.0]]).tolist()
    [1]
    >>> AMIRA.max_updates(epsilon=0.5, radius=1.0, margin=0.125)
    192.0
    """

    epsilon: float = 0.1
    multiclass: str = "k-best"
    k: int | None = None
    intercept: str = "coordinate"

    facts = Facts(
        guarantee="(1−ε)/(2−ε) of the margin",
        updates="(p−1)(2−ε)/ε · R²/γ²",
        drift=False,
        paper="Zhao & Huang 2013",
        cost="d; about 10d for p > 2",
    )
    _parameter_constraints = {
        "epsilon": [Interval(Real, 0, 1, closed="both")],
        "multiclass": [StrOptions({"k-best", "1-best", "ovr"})],
        "k": [Interval(Integral, 1, None, closed="left"), None],
        "intercept": [StrOptions({"coordinate", "pair"})],
    }

    def _spec(self) -> WeightsSpec:
        return self._weights_spec(in_plane=True)

    def _rule(self, p: float) -> AMIRARule:
        return AMIRARule(float(self.epsilon))

    @staticmethod
    @bound()
    def max_updates(epsilon: float, radius: float, margin: float, p: float = 2.0) -> float:
        """``(p - 1) (2 - epsilon) / epsilon * (R / gamma)**2``: bound on updates.

        R and gamma are those of the p-norm. Proof for p > 2 in ``docs/theory.md``.
        """
        return (p - 1.0) * (2.0 - epsilon) / epsilon * squared_ratio(radius, margin)

    @staticmethod
    @bound()
    def max_updates_inseparable(
        epsilon: float,
        radius: float,
        margin: float,
        *,
        squared_losses: float,
        smallest: float = 1.0,
        k: int | None = None,
    ) -> float:
        """``(R / gamma)**2 B / epsilon``: bound on updates on any rows.

        ``B = 2 (1 + E)``, or ``(sqrt(2 - epsilon) + sqrt(epsilon E))**2`` if E is below
        ``epsilon / (2 - epsilon)``. Proof in ``docs/theory.md``.

        Parameters
        ----------
        epsilon : float
            That of the learner.
        radius, margin : float
            The largest norm R of a row, and any margin gamma of any unit vector u.
        squared_losses : float
            E: the sum of ``(max(0, gamma - y u.x) / |x|)**2`` over all updates (or over all trials
            of all passes).
        smallest : float
            If losses are not divided by the norms of their rows, the smallest of these norms.
        k : int or None
            For several classes that are learned together: how many rivals a step lifts, 1 for
            "1-best" and at most one less than there are classes. The radius is then
            ``sqrt(2) max |x|``, and ``y u.x`` the least lead of a row's class.

        Examples
        --------
        >>> from maxmargin import AMIRA
        >>> AMIRA.max_updates_inseparable(1.0, radius=1.0, margin=0.5, squared_losses=4.0)
        40.0
        """
        if margin <= 0.0:
            return math.inf
        losses = _relative_losses(squared_losses, smallest, k)
        square = (radius / margin) * (radius / margin)
        return square * _largest_growth(epsilon, losses) / epsilon

    @staticmethod
    @bound()
    def max_mistakes(
        epsilon: float,
        radius: float,
        margin: float,
        *,
        squared_losses: float = 0.0,
        smallest: float = 1.0,
        k: int | None = None,
    ) -> float:
        """``(R / gamma)**2 min(B, (sqrt(E) + sqrt(1 + E))**2)``: bound on mistakes, any rows.

        With the arguments of `max_updates_inseparable`. Without losses, which is on separable rows,
        it is ``(R / gamma)**2`` for every epsilon, also for 0. Proof in ``docs/theory.md``.

        Examples
        --------
        >>> from maxmargin import AMIRA
        >>> AMIRA.max_mistakes(0.1, radius=1.0, margin=0.5)
        4.0
        """
        if margin <= 0.0:
            return math.inf
        losses = _relative_losses(squared_losses, smallest, k)
        ratio, distance = radius / margin, math.sqrt(losses) + math.sqrt(1.0 + losses)
        return ratio * ratio * min(_largest_growth(epsilon, losses), distance * distance)

    @staticmethod
    @bound()
    def max_norm(epsilon: float, margin: float, p: float = 2.0) -> float:
        """``(2 - epsilon) / gamma``, or ``2 / gamma`` for p > 2: bound on the norm of w."""
        return quotient(2.0 - epsilon if p == 2.0 else 2.0, margin)

    @staticmethod
    @bound(nothing=0.0)
    def margin_fraction(epsilon: float, p: float = 2.0) -> float:
        """``(1 - epsilon) / (2 - epsilon)``: guaranteed fraction of the best margin.

        For p > 2 it is ``(1 - epsilon) / 2``.
        """
        return (1.0 - epsilon) / (2.0 - epsilon if p == 2.0 else 2.0)


def _relative_losses(squared_losses: float, smallest: float, k: int | None) -> float:
    """E, each loss divided by the least length of what a step of size 1 adds."""
    if squared_losses == 0.0:
        return 0.0
    rivals = 1.0 if k is None else 1.0 + 1.0 / k
    return squared_losses / (smallest * smallest * rivals)


def _largest_growth(epsilon: float, losses: float) -> float:
    """B: the sum of all steps is at most B over the squared margin."""
    if losses * (2.0 - epsilon) >= epsilon:
        return 2.0 * (1.0 + losses)
    return (math.sqrt(2.0 - epsilon) + math.sqrt(epsilon * losses)) ** 2
