"""PUMMA: the maximum margin with a true intercept."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

from maxmargin._validation import Interval, StrOptions
from maxmargin.algorithms.bound_arguments import bound, squared_ratio
from maxmargin.algorithms.romma import LARGEST_RATIO2, ROMMARule, updates_below_2
from maxmargin.core.rule import rule
from maxmargin.estimator import KernelClassifier
from maxmargin.estimator.parameters import ALL_EXPONENTS, Facts, Patience
from maxmargin.models.base import OnlineModel
from maxmargin.models.spec import WeightsSpec
from maxmargin.training.passes import FitPlan, Outcome, run_passes


@rule
class PUMMARule(NamedTuple):
    """ROMMA's step for p other than 2, where its two demands are equations without a formula.

    In the units of the plane the shortest weights are the dual g of a point ``a z' + b t'`` with
    ``g.z' = demand`` and ``g.t' = 1``, see `Plane`.
    """

    delta: float
    anew: bool

    def active(self, trial):
        if trial.largest_xx * trial.ww > LARGEST_RATIO2 and not self.anew:
            return False
        return trial.margin < 1.0 - self.delta or trial.margin <= 0.0

    def step_in_plane(self, trial, plane):
        """The point of the shortest weights."""
        demand = 1.0 / math.sqrt(trial.xx * trial.ww)
        _, _, g_t = plane.slope(1.0, 0.0)
        if demand * g_t >= 1.0 or (trial.xx * trial.ww > LARGEST_RATIO2 and self.anew):
            return demand, 0.0  # the dual of z alone meets the other demand, or w starts anew
        a, b, solved = plane.newton(demand, trial.margin)
        if not solved:
            a, b = plane.bisection(demand)
        if not (math.isfinite(a) and math.isfinite(b)):  # z is opposite to theta, but for rounding
            return demand, 0.0
        return a, b

    def uses_weight(self):
        return False


@dataclass(eq=False, repr=False, kw_only=True)
class PUMMA(Patience, KernelClassifier):
    """PUMMA: ROMMA on pairs of a positive and a negative example, in which the intercept cancels.

    ::

        if y (w.x + b) < 1 - delta:
            x replaces the last positive or negative example,  z = (x_pos - x_neg) / 2
            w <- the shortest w' with  w'.z >= 1  and  w'.w >= w.w     (p = 2, see ROMMA)
            b <- -(w.x_pos + w.x_neg) / 2

    After an update both examples have margin exactly 1. The intercept costs nothing, however large
    it is: shifting all examples by a vector changes the intercept alone, and the margin that is
    maximised is the geometric one. Learners that make the intercept one more weight lose margin
    and need more updates.

    Parameters
    ----------
    delta : float, default=0.1
        The margin reached is at least ``1 - delta`` of the best one; between 0 and 1.
    p : float or "log", default=2.0
        The norm in which distances are measured, above 1 and at most 1000. Large p suits targets
        that depend on few of many features; "log" is 2 ln(n_features), to the nearest quarter. With
        p below 2 the weights of all features tend to be of the same size, and updates may be many:
        see `max_updates`.
    <shared>

    Notes
    -----
    Guarantee on separable data: at most `max_updates` updates after the first pair, and on return
    at least `margin_fraction` of the best margin with intercept. (Without one, rows take the place
    of pairs, and `ROMMA.max_updates` holds, for any p.) ``1 / |w|`` bounds that margin, so the
    smallest output is itself the certified ratio. A point with both labels has the bound 0 (unless
    there is a `soft_margin`). Below p = 2 rounding moves the weight of a coordinate that cancels by
    2e-16 to the power ``p - 1``, and margins are met no better than that: with p below 1.25 `fit`
    may not converge, or end with less margin than `delta` asks for. Certificates hold as ever, so
    ``certificate_.ratio`` says what was reached. On other data that are not separable
    ``|w|`` grows until margins of 1 are less than the rounding of ``w.x``; there `fit` ends, and a
    stream starts anew.

    On inseparable rows there is no margin to find: use `soft_margin` (Adult: 80.7 % accuracy with
    defaults, 84.5 with ``soft_margin=1.0``; digits: 90.9 and 95.8, ``LinearSVC`` 96.4).

    References
    ----------
    K. Ishibashi, K. Hatano and M. Takeda, "Online learning of approximate maximum p-norm margin
    classifiers with bias", COLT 2008. (The constant of Theorem 2 is 4, not 2.)

    Examples
    --------
    >>> from maxmargin import PUMMA
    >>> clf = PUMMA(delta=0.01).fit([[100.0, 1.0], [102.0, 1.0]], [0, 1])
    >>> print(clf.certificate_)
    margin 0.999999, certified to be at least 99.99 % of the best possible (at most 1.00001)
    """

    delta: float = 0.1
    p: float | str = 2.0

    facts = Facts(
        guarantee="1−δ of the geometric margin",
        updates="1 + (p−1)(D²/γ² − 4)/δ², for p ≥ 2",
        drift=False,
        paper="Ishibashi, Hatano & Takeda 2008",
        cost="2d; about 10d for p ≠ 2",
    )
    _parameter_constraints = {
        "delta": [Interval(Real, 0, 1, closed="both")],
        "p": [ALL_EXPONENTS, StrOptions({"log"})],
    }

    def _rule(self, p: float) -> ROMMARule | PUMMARule:
        kind = ROMMARule if p == 2.0 else PUMMARule
        return kind(float(self.delta), anew=True)

    def _run_passes(self, model: OnlineModel, rows: Any, targets: Any, plan: FitPlan) -> Outcome:
        return run_passes(model, rows, targets, self._rule(model.p)._replace(anew=False), plan)

    def _spec(self) -> WeightsSpec:
        return self._weights_spec(intercept="pair", in_plane=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # What cannot be separated has no margin, and nothing good comes of looking for it.
        tags.classifier_tags.poor_score = self.soft_margin == 0.0
        return tags

    @staticmethod
    @bound(p=[ALL_EXPONENTS])
    def max_updates(
        delta: float, diameter: float, margin: float, p: float = 2.0, distortion: float = 1.0
    ) -> float:
        """``1 + (p - 1) ((c D / gamma)**2 - 4) / delta**2``: bound on updates (Theorem 2).

        Below p = 2, for which the paper has no theorem, it is ``1 + 2**(q - 2) ((c D / gamma)**q -
        2**q) / delta**q`` with ``1/p + 1/q = 1``; proof in ``docs/theory.md``.

        ``diameter`` is the largest distance D of a positive and a negative example, ``margin`` the
        best margin gamma with intercept; if not in the p-norm, c is their `distortion`.
        """
        square = squared_ratio(distortion * diameter, margin, least=2.0)
        if p < 2.0:
            return updates_below_2(0.5 * delta, 0.25 * square, p)
        return 1.0 + (p - 1.0) * (square - 4.0) / (delta * delta)

    @staticmethod
    @bound(nothing=0.0)
    def margin_fraction(delta: float, distortion: float = 1.0) -> float:
        """``(1 - delta) / c``: guaranteed fraction of the best margin."""
        return (1.0 - delta) / distortion

    @staticmethod
    @bound(norm=[Interval(Real, 1, None, closed="both")])
    def distortion(p: float, norm: float, features: int) -> float:
        """``c = n**|1/p - 1/r|``, the price of r-norms, 1 <= r <= inf: see ``docs/theory.md``.

        r is ``norm``, n ``features``. For Corollary 3, r = inf and p = a ln n, it is exp(1/a).
        """
        return features ** abs(1.0 / p - 1.0 / norm)
