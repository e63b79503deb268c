"""The relaxed online maximum margin algorithm."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

from maxmargin._validation import Interval
from maxmargin.algorithms.bound_arguments import bound, squared_ratio
from maxmargin.core.rule import rule
from maxmargin.estimator import KernelClassifier
from maxmargin.estimator.parameters import (
    ALL_EXPONENTS,
    Averaged,
    Facts,
    MulticlassChoice,
    Patience,
    ScaledIntercept,
)
from maxmargin.models.base import OnlineModel
from maxmargin.spaces.problem_scalars import ROUNDING
from maxmargin.training.passes import FitPlan, Outcome, run_passes

# |w| grows until its inverse is the best margin, and for ever if there is none. Where |x| |w| has
# passed this, squared, a margin of 1 is less than what rounding does to w.x.
LARGEST_RATIO2 = 1.0 / ROUNDING**2
# Below this sine squared of their angle, x and w count as parallel.
PARALLEL = 1e-14


@rule
class ROMMARule(NamedTuple):
    """See `ROMMA`; ``anew`` says whether w starts anew where float64 ends, or stays as it is."""

    delta: float
    anew: bool

    def active(self, trial):
        if trial.largest_xx * trial.ww > LARGEST_RATIO2 and not self.anew:
            return False
        return trial.margin < 1.0 - self.delta or trial.margin <= 0.0

    def step(self, trial):
        xx_ww = trial.xx * trial.ww
        # The shortest w' with y w'.x >= 1 alone also satisfies w'.w >= w.w (always so at w = 0).
        if xx_ww <= trial.margin or (xx_ww > LARGEST_RATIO2 and self.anew):
            return 0.0, 1.0 / trial.xx
        difference = xx_ww - trial.margin * trial.margin
        if difference <= PARALLEL * xx_ww:
            return 1.0, 0.0  # x is opposite to w: the two demands contradict each other
        return (xx_ww - trial.margin) / difference, trial.ww * (1.0 - trial.margin) / difference

    def uses_weight(self):
        return False


@dataclass(eq=False, repr=False, kw_only=True)
class ROMMA(Averaged, MulticlassChoice, ScaledIntercept, Patience, KernelClassifier):
    """Relaxed online maximum margin algorithm: the shortest ``w`` under two constraints.

    ::

        if y (w.x) < 1 - delta or y (w.x) <= 0:
            w <- the shortest w' with  y (w'.x) >= 1  and  w'.w >= w.w
               = c * w + d * y * x,   c = (X V - m) / D,  d = V (1 - m) / D,
                 m = y (w.x),  X = |x|**2,  V = |w|**2,  D = X V - m**2
              or y * x / X if X V <= m, where the second constraint holds by itself

    ``delta=1`` corrects mistakes only (the original ROMMA), ``delta=0`` everything below margin 1
    (aggressive ROMMA). In between, the margin reached is at least ``1 - delta`` of the best one.

    Parameters
    ----------
    delta : float, default=1.0
        How far below 1 a margin may stay uncorrected, between 0 and 1.
    <shared>

    Notes
    -----
    Guarantee on separable data: at most `max_updates` updates, and on return at least ``1 - delta``
    of the best margin. ``1 / |w|`` bounds the best margin at all times, so the smallest output is
    itself the certified ratio (in the space with the intercept's coordinate). On other data ``|w|``
    grows until margins of 1 are less than the rounding of ``w.x``, from which `fit` concludes that
    no margin is left to find; a stream starts anew there.

    On inseparable rows there is no margin to find: use `soft_margin` (Adult: 81.7 % accuracy with
    defaults, 84.4 with ``soft_margin=1.0``; digits: 92.2 and 94.9, ``LinearSVC`` 96.4). A mean
    helps less, since the last weights are the longest: 83.9 and 92.9 with ``average=True``.

    References
    ----------
    Y. Li and P. Long, "The relaxed online maximum margin algorithm", Machine Learning 46, 2002.

    Examples
    --------
    >>> from maxmargin import ROMMA
    >>> clf = ROMMA(delta=0.01, intercept_scaling=10.0, shuffle=False)
    >>> print(clf.fit([[0.0, 1.0], [2.0, 1.0]], [0, 1]).certificate_)
    margin 0.99995, certified to be at least 99.99 % of the best possible (at most 1.00001)
    """

    delta: float = 1.0

    facts = Facts(
        guarantee="1−δ of the margin",
        updates="1 + (R²/γ² − 1)/δ²",
        drift=False,
        paper="Li & Long 2002",
    )
    _parameter_constraints = {
        "delta": [Interval(Real, 0, 1, closed="both")],
    }

    def _rule(self, p: float) -> ROMMARule:
        return ROMMARule(float(self.delta), anew=True)

    def _run_passes(self, model: OnlineModel, rows: Any, targets: Any, plan: FitPlan) -> Outcome:
        return run_passes(model, rows, targets, self._rule(model.p)._replace(anew=False), plan)

    @staticmethod
    @bound(p=[ALL_EXPONENTS])
    def max_updates(delta: float, radius: float, margin: float, p: float = 2.0) -> float:
        """``1 + (p - 1) ((R / gamma)**2 - 1) / delta**2``: bound on updates, in any passes.

        Other p are those of `PUMMA` without intercept, R and gamma then in the p-norm. Below 2 it
        is ``1 + 2**(q - 2) ((R / gamma)**q - 1) / delta**q`` with ``1/p + 1/q = 1``. Proofs in
        ``docs/theory.md``.
        """
        square = squared_ratio(radius, margin)
        if p < 2.0:
            return updates_below_2(delta, square, p)
        return 1.0 + (p - 1.0) * (square - 1.0) / (delta * delta)

    @staticmethod
    @bound(nothing=0.0)
    def margin_fraction(delta: float) -> float:
        """``1 - delta``: guaranteed fraction of the best margin."""
        return 1.0 - delta


def updates_below_2(delta: float, square: float, p: float) -> float:
    """The bound for p < 2 and ``square = (R / gamma)**2``."""
    q, ratio = p / (p - 1.0), math.sqrt(square)
    return 1.0 + 0.25 * (2.0 * ratio / delta) ** q * (1.0 - ratio**-q)
