"""Perceptrons with a fixed directional margin."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

from maxmargin._validation import Interval, StrOptions
from maxmargin.algorithms.bound_arguments import (
    bound,
    check_factors,
    quotient,
    squared_ratio,
)
from maxmargin.core.numba_backend import bridge
from maxmargin.core.rule import rule
from maxmargin.estimator import KernelClassifier
from maxmargin.estimator.parameters import Averaged, Facts, Patience, ScaledIntercept
from maxmargin.models.base import OnlineModel
from maxmargin.training.passes import FitPlan, Outcome, run_passes
from maxmargin.training.state import Rows, Targets


@rule
class DirectionalRule(NamedTuple):
    """``pull`` is beta for relaxed steps, else 0; ``length`` is beta if fixed, else 0.

    A ``rate`` of 0 stands for the best one for rows as long as the longest so far, a best margin of
    2 beta, and the largest factor that this row can have.
    """

    beta: float
    rate: float
    pull: float
    length: float

    def active(self, trial):
        return trial.margin <= self.beta * math.sqrt(trial.ww)

    def step(self, trial):
        rate = self.rate if self.rate > 0.0 else self.best_rate_of(trial)
        if trial.ww == 0.0:
            return 1.0, rate
        # (2.32); the factor is negative only if beta > |x|, and then no w can satisfy the row.
        factor = 1.0 - self.pull * trial.margin / (math.sqrt(trial.ww) * trial.xx)
        step, gap = rate * max(factor, 0.0), self.beta * math.sqrt(trial.ww) - trial.margin
        return 1.0, step * trial.repeats(gap, step * trial.xx)

    def best_rate_of(self, trial):
        f_max = 1.0 + self.pull / math.sqrt(trial.xx)
        radius = math.sqrt(trial.largest_xx)
        return self.beta * self.beta / (f_max * radius * (radius + 2.0 * self.beta))

    def project(self, norm2):
        return self.length / math.sqrt(norm2) if self.length > 0.0 and norm2 > 0.0 else 1.0


bridge("best_rate_of")


@dataclass(eq=False, repr=False, kw_only=True)
class DirectionalPerceptron(Averaged, ScaledIntercept, Patience, KernelClassifier):
    """Perceptron that asks for a given directional margin: success proves that margin.

    ::

        if y (w.x) / |w| <= beta:  w <- w + rate * f * y * x
        f = 1                                   (step="constant")
            1 - beta * y (w.x) / (|w| |x|**2)   (step="relaxed")
        length="fixed":  then  w <- beta * w / |w|

    When it converges the margin is larger than ``beta`` (both *directional*: in the space with the
    intercept's coordinate). With free length it converges if and only if ``beta`` is smaller than
    the best margin; with fixed length if the rate is small enough besides. `fit` ends as soon as
    its certificate proves that ``beta`` is out of reach and a pass makes no mistakes.

    Parameters
    ----------
    beta : float, default=0.01
        The directional margin asked for, in the units of the data.
    length : {"free", "fixed"}, default="free"
        Let the weights grow, or keep them at length ``beta``.
    step : {"constant", "relaxed"}, default="constant"
        The factor f.
    rate : float, default=None
        Step length. With free length it does not matter. With fixed length None is the `best_rate`
        for a best margin of ``2 * beta``, with which it converges if the margin is not smaller than
        that; closer to the best margin it takes a smaller rate.
    <shared>

    Notes
    -----
    Guarantee: at most `max_updates` updates with free length if ``beta`` can be reached, and at
    most `max_updates_fixed` with fixed length. With sample weights, see `docs/weights.md`.

    With defaults it is 2.9 points behind ``LinearSVC`` on digits (93.6 and 96.4 % accuracy), with
    ``soft_margin=1.0`` 1.1; on Adult it has 83.3, and 84.4 with ``average=True``.

    References
    ----------
    P. Tsampouka and J. Shawe-Taylor, "Perceptron-like large margin classifiers", section 2.2.

    Examples
    --------
    >>> from maxmargin import DirectionalPerceptron
    >>> clf = DirectionalPerceptron(beta=0.5, shuffle=False).fit([[0.0, 1.0], [2.0, 1.0]], [0, 1])
    >>> clf.converged_
    True
    >>> clf.certificate_.margin > 0.5
    True
    """

    beta: float = 0.01
    length: str = "free"
    step: str = "constant"
    rate: float | None = None

    facts = Facts(
        guarantee="more than β, if possible",
        updates="see `max_updates`",
        drift=False,
        paper="Tsampouka & Shawe-Taylor, section 2.2",
    )
    _parameter_constraints = {
        "beta": [Interval(Real, 0, None, closed="neither")],
        "length": [StrOptions({"free", "fixed"})],
        "step": [StrOptions({"constant", "relaxed"})],
        "rate": [Interval(Real, 0, None, closed="neither"), None],
    }

    def _rule(self, p: float) -> DirectionalRule:
        beta = float(self.beta)
        pull = beta if self.step == "relaxed" else 0.0
        length = beta if self.length == "fixed" else 0.0
        rate = self.rate
        if rate is None:
            rate = 0.0 if self.length == "fixed" else 1.0
        return DirectionalRule(beta, float(rate), pull, length)

    def _run_passes(
        self, model: OnlineModel, rows: Rows, targets: Targets, plan: FitPlan
    ) -> Outcome:
        plan = plan._replace(wanted_margin=float(self.beta))
        return run_passes(model, rows, targets, self._rule(model.p), plan)

    @staticmethod
    @bound()
    def step_spread(beta: float, smallest: float) -> float:
        """F, the largest over the smallest relaxed factor, for rows of norm ``smallest`` or more.

        ``(1 + beta/r) / (1 - (beta/r)**2)``; constant steps have F = 1. Infinite unless beta is
        below r.
        """
        return quotient(smallest, smallest - beta)

    @staticmethod
    @bound()
    def max_updates(beta: float, radius: float, margin: float, spread: float = 1.0) -> float:
        """Bound (2.45) on the updates with free length; infinite unless ``spread * beta < margin``.

        The largest t with ``(t-1) / (3 + 2 ln(t-1)) <= (F R / gamma)**2 / (4 (1 - F beta /
        gamma))``, where F is ``spread``, the largest over the smallest factor f (see
        `step_spread`); it holds for any factors, which may change from one update to the next.
        """
        if not _reaches(beta, radius, margin, spread):
            return math.inf
        limit = 0.25 * (spread * radius / margin) ** 2 / (1.0 - spread * beta / margin)
        return _largest(lambda t: (t - 1.0) / (3.0 + 2.0 * math.log(t - 1.0)) - limit, 2.0)

    @staticmethod
    @bound()
    def max_updates_refined(
        beta: float, radius: float, margin: float, spread: float = 1.0
    ) -> float:
        """A sharper bound than `max_updates`, from (2.48) with N of (2.46).

        The largest t with ``(t - N) / (1 + 1/N + ln((t - 1) / N)) <= L``, where
        ``L = (F R / gamma)**2 / (2 (1 - F beta / gamma))`` and N is the whole part of
        ``(F R / (2 gamma)) / (1 - beta / R)``, at least 1.
        """
        if not _reaches(beta, radius, margin, spread):
            return math.inf
        start = max(1, math.floor(spread * radius / (2.0 * margin) / (1.0 - beta / radius)))
        limit = 0.5 * (spread * radius / margin) ** 2 / (1.0 - spread * beta / margin)

        def excess(t: float) -> float:
            return (t - start) / (1.0 + 1.0 / start + math.log((t - 1.0) / start)) - limit

        return _largest(excess, start + 1.0)

    @staticmethod
    @bound()
    def max_updates_after(
        start: int, beta: float, radius: float, margin: float, spread: float = 1.0
    ) -> float:
        """The bound (2.43), of which `max_updates` and `max_updates_refined` are special cases.

        The largest t with ``(t - N) / (N (1 - 1/k) / k + 1 / (2 N) + ln((t - 1) / N) / 2) <=
        k**2 / (1 - F beta / gamma)`` where ``k = F R / gamma``. For any N, here ``start``, from 1
        on: it says how many of the first updates are bounded by their lengths alone.
        """
        if not _reaches(beta, radius, margin, spread):
            return math.inf
        k = spread * radius / margin
        limit, begun = k**2 / (1.0 - spread * beta / margin), start * (1.0 - 1.0 / k) / k

        def excess(t: float) -> float:
            later = 0.5 / start + 0.5 * math.log((t - 1.0) / start)
            return (t - start) / (begun + later) - limit

        return _largest(excess, start + 1.0)

    @staticmethod
    @bound()
    def stepwise_from(beta: float, radius: float, margin: float, spread: float = 1.0) -> float:
        """With free length, every update after this many turns w towards the best direction.

        Infinite unless ``beta < margin``.
        """
        if not _reaches(beta, radius, margin):
            return math.inf
        return 0.5 * spread * (squared_ratio(radius, margin) - 1.0) / (1.0 - beta / margin)

    @staticmethod
    @bound(nothing=0.0)
    def critical_rate(beta: float, radius: float, margin: float, f_max: float = 1.0) -> float:
        """With fixed length and a smaller rate, every update turns w towards the best direction.

        ``2 (gamma - beta) beta / (f_max (R**2 - gamma**2))``; 0 unless ``beta < margin``.
        """
        if not _reaches(beta, radius, margin):
            return 0.0
        return quotient(2.0 * (margin - beta) * beta, f_max * (radius**2 - margin**2))

    @staticmethod
    @bound()
    def max_updates_fixed(
        beta: float,
        rate: float,
        radius: float,
        margin: float,
        f_min: float = 1.0,
        f_max: float = 1.0,
    ) -> float:
        """Bound (2.56) with fixed length; infinite if the rate, or beta, is too large for a proof.

        ``F / (c X - (m/2) X**2 - X**3 / 2)`` with ``X = rate f_max R / beta``, ``c = (gamma - beta)
        / R``, ``m = 1 + 2 beta / R`` and ``F = f_max / f_min``.
        """
        check_factors(f_min, f_max)
        if beta == 0.0 or not _reaches(beta, radius, margin):
            return math.inf
        stride = rate * f_max * radius / beta
        gap, bend = (margin - beta) / radius, 1.0 + 2.0 * beta / radius
        gain = gap * stride - 0.5 * bend * stride**2 - 0.5 * stride**3
        return quotient(f_max, f_min * gain)

    @staticmethod
    @bound(nothing=0.0)
    def best_rate(beta: float, radius: float, margin: float, f_max: float = 1.0) -> float:
        """The rate for fixed length: ``(gamma - beta) beta / (f_max R**2 (1 + 2 beta / R))``.

        0 unless ``beta < margin``: no rate is proved to reach more than there is.
        """
        if not _reaches(beta, radius, margin):
            return 0.0
        return (margin - beta) * beta / (f_max * (radius**2 + 2.0 * beta * radius))

    @staticmethod
    @bound()
    def max_updates_at_best_rate(
        beta: float, radius: float, margin: float, f_min: float = 1.0, f_max: float = 1.0
    ) -> float:
        """`max_updates_fixed` at the `best_rate`, (2.58); infinite unless ``0 < beta < margin``."""
        check_factors(f_min, f_max)
        if beta == 0.0 or not _reaches(beta, radius, margin):
            return math.inf
        gap, bend = (margin - beta) / radius, 1.0 + 2.0 * beta / radius
        return 2.0 * f_max / f_min / gap**2 * bend / (1.0 - gap / bend**2)

    @staticmethod
    @bound()
    def largest_ratio(radius: float, intercept_scaling: float) -> float:
        """``sqrt(1 + (R / rho)**2)``: the best geometric over the best directional margin, at most.

        ``radius`` is the largest norm of a row without the intercept's coordinate.
        """
        return math.sqrt(1.0 + (radius / intercept_scaling) ** 2)


def _reaches(beta: float, radius: float, margin: float, spread: float = 1.0) -> bool:
    """Is beta proved to be reached, with steps of this spread? ValueError if margin > radius."""
    return squared_ratio(radius, margin) < math.inf and spread * beta < margin


def _largest(excess: Callable[[float], float], first: float) -> float:
    """Where an increasing function of the updates has its root, if after ``first``."""
    high = 2.0 * first
    while excess(high) <= 0.0:
        high *= 2.0
    if high == math.inf:
        return high
    if excess(first) >= 0.0:
        return first
    from scipy.optimize import brentq  # which takes as long to import as the rest of SciPy

    return brentq(excess, first, high)
