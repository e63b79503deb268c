"""Mistake-controlled rule algorithm (MICRA)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

from maxmargin._validation import Interval
from maxmargin.core.rule import rule
from maxmargin.estimator import KernelClassifier
from maxmargin.estimator.parameters import Averaged, Facts, Patience, ScaledIntercept


@rule
class MICRARule(NamedTuple):
    """``beta = 0`` stands for the largest norm of a row so far."""

    beta: float
    eta: float
    epsilon: float
    zeta: float

    def needs_norm(self):
        return True  # for the largest norm so far

    def asked(self, trial):
        """The margin that is asked for."""
        beta = self.beta if self.beta > 0.0 else math.sqrt(trial.largest_xx)
        return beta / math.pow(max(trial.k, 1), self.epsilon) * math.sqrt(trial.ww)

    def active(self, trial):
        return trial.ww == 0.0 or trial.margin <= self.asked(trial)

    def step(self, trial):
        if trial.ww == 0.0:
            return 1.0, 1.0
        rate = self.eta / math.pow(max(trial.k, 1), self.zeta)
        step = rate * math.sqrt(trial.ww / trial.largest_xx)
        return 1.0, step * trial.repeats(self.asked(trial) - trial.margin, step * trial.xx)

    def project(self, norm2):
        # Only the direction of w matters to the rule, and its length would grow exponentially.
        return 1.0 / math.sqrt(norm2) if norm2 > 0.0 else 1.0


@dataclass(eq=False, repr=False, kw_only=True)
class MICRA(Averaged, ScaledIntercept, Patience, KernelClassifier):
    """MICRA: directional margins and effective rates that shrink with the number of updates.

    ::

        t = updates so far (the first example starts w)
        if y (w.x) / |w| <= beta / t**epsilon:
            w <- w + eta / t**zeta * |w| / R * y * x,   R = the largest |x| so far

    Only the direction of ``w`` matters; it is kept at length 1.

    Parameters
    ----------
    beta : float, default=None
        The directional margin asked for at first, in the units of the data. Larger values give
        larger margins and more updates. None means R, whatever the scale of the data.
    eta : float, default=1.0
        Effective learning rate at first.
    epsilon : float, default=0.5
        How fast the margin asked for shrinks; positive.
    zeta : float, default=0.5
        How fast the rate shrinks; between 0 and 1.
    <shared>

    Notes
    -----
    Guarantee: the maximum margin in the limit of large ``beta``, with ``eta`` tied to it; for fixed
    parameters no fraction is known beforehand. What was reached is in `certificate_`.

    With defaults it is 1.6 points behind ``LinearSVC`` on digits (94.9 and 96.4 % accuracy), with
    ``average=True`` 0.7; on Adult it has 83.8, and 84.3 with ``average=True``.

    References
    ----------
    P. Tsampouka and J. Shawe-Taylor, "Approximate maximum margin algorithms with rules controlled
    by the number of mistakes", ICML 2007.

    Examples
    --------
    >>> from maxmargin import MICRA
    >>> clf = MICRA(shuffle=False).fit([[0.0, 1.0], [2.0, 1.0]], [0, 1])
    >>> clf.predict([[5.0, 0.0]]).tolist()
    [1]
    """

    beta: float | None = None
    eta: float = 1.0
    epsilon: float = 0.5
    zeta: float = 0.5

    facts = Facts(
        guarantee="the margin, in the limit of large β",
        updates="-",
        drift=False,
        paper="Tsampouka & Shawe-Taylor 2007",
    )
    _parameter_constraints = {
        "beta": [Interval(Real, 0, None, closed="neither"), None],
        "eta": [Interval(Real, 0, None, closed="neither")],
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "zeta": [Interval(Real, 0, 1, closed="both")],
    }

    def _rule(self, p: float) -> MICRARule:
        beta = 0.0 if self.beta is None else float(self.beta)
        return MICRARule(beta, float(self.eta), float(self.epsilon), float(self.zeta))
