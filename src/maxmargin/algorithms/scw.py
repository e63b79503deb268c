"""Soft confidence-weighted learning: SCW-I and SCW-II."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from statistics import NormalDist
from typing import NamedTuple

from maxmargin._validation import Interval, StrOptions
from maxmargin.algorithms.diagonal_learner import DiagonalLearner
from maxmargin.core.numba_backend import bridge, with_methods_of
from maxmargin.core.rule import Trial, rule
from maxmargin.estimator.parameters import Facts


class Confident:
    """What both rules have in common: the margin must exceed ``phi`` standard deviations."""

    phi: float
    multiplier: Callable[[Trial], float]

    def active(self, trial):
        return trial.margin < self.phi * math.sqrt(trial.xx)

    def needs_norm(self):
        return True

    def step(self, trial):
        return 1.0, self.multiplier(trial)

    def precision_gain(self, trial):
        # alpha phi / sqrt(u), where u is the variance of the margin after a full update.
        along = self.multiplier(trial) * self.phi
        spread = along * trial.xx
        root = math.sqrt(spread * spread + 4.0 * trial.xx)
        return along * (spread + root) / (2.0 * trial.xx)


@rule
@with_methods_of(Confident)
class SCW1Rule(NamedTuple):
    """The slack costs ``cost`` times itself: the multiplier is at most that."""

    cost: float
    phi: float

    def multiplier(self, trial):
        """alpha, of proposition 1."""
        square = self.phi * self.phi
        half = 0.5 * square * trial.margin
        root = math.sqrt(half * half + trial.xx * square * (1.0 + square))
        alpha = (root - half - trial.margin) / (trial.xx * (1.0 + square))
        return min(self.cost * trial.weight, max(0.0, alpha))


@rule
@with_methods_of(Confident)
class SCW2Rule(NamedTuple):
    """The slack costs ``cost`` times its square."""

    cost: float
    phi: float

    def multiplier(self, trial):
        """alpha, of proposition 2, over the variance, so that squares of it do not occur."""
        square = self.phi * self.phi
        n = trial.xx + 0.5 / (self.cost * trial.weight)
        part = trial.xx / n
        spread = square * trial.margin * part
        root = math.sqrt(spread * spread + 4.0 * square * trial.xx * (1.0 + square * part))
        alpha = (root - spread - 2.0 * trial.margin) / (2.0 * n * (1.0 + square * part))
        return max(0.0, alpha)


bridge("multiplier")


@dataclass(eq=False, repr=False, kw_only=True)
class SCW(DiagonalLearner):
    """Soft confidence-weighted learning: margins that exceed their own standard deviation.

    The weights are the mean of a Gaussian with the diagonal covariance Sigma. A row changes it as
    little as possible, in the Kullback-Leibler divergence, but so that the probability of its label
    comes to `eta`, or nearly ::

        v = x' Sigma x,  m = y (w.x),  phi = the quantile of eta of the normal distribution
        if m < phi sqrt(v):  w <- w + alpha * y * Sigma x
                             1 / Sigma_jj <- 1 / Sigma_jj + alpha phi / sqrt(u) * x_j**2
        sqrt(u) = (sqrt(alpha**2 v**2 phi**2 + 4 v) - alpha v phi) / 2

        I:   alpha = min(C, (sqrt(m**2 phi**4 / 4 + v phi**2 zeta) - m psi) / (v zeta))
             psi = 1 + phi**2 / 2,  zeta = 1 + phi**2
        II:  alpha = (gamma - 2 m n - phi**2 m v) / (2 (n**2 + n v phi**2)),  n = v + 1 / (2 C)
             gamma = phi sqrt(phi**2 m**2 v**2 + 4 n v (n + v phi**2))

    Parameters
    ----------
    C : float, default=1.0
        Cost of a probability below `eta`; smaller values suit noisier labels. It is multiplied by
        the sample weight.
    eta : float, default=0.9
        Required probability, from 0.5 to below 1.
    variant : {"I", "II"}, default="I"
        Whether C multiplies the violation or its square.
    <shared>

    Notes
    -----
    Guarantee: none. The paper proves no bound on mistakes or losses; each step is the exact
    solution of its problem. The weights are not sums of rows, so the certificate only has the bound
    by the norms of the rows; `certify` proves more. `fit` always makes all passes.

    Sigma starts as in `AROW`, and follows columns in the same way.

    References
    ----------
    J. Wang, P. Zhao and S. Hoi, "Exact soft confidence-weighted learning", ICML 2012, propositions
    1 and 2, with the diagonal of the precision.

    Examples
    --------
    >>> from maxmargin import SCW
    >>> clf = SCW(shuffle=False).fit([[0.0, 1000.0], [0.002, 1000.0]], [0, 1])
    >>> clf.predict([[0.005, 0.0]]).tolist()
    [1]
    """

    C: float = 1.0
    eta: float = 0.9
    variant: str = "I"

    facts = Facts(
        guarantee="no bound is proved",
        updates="-",
        drift=False,
        paper="Wang, Zhao & Hoi 2012",
        kernel=False,
    )
    metric = "confidence"
    _parameter_constraints = {
        "C": [Interval(Real, 0, None, closed="neither")],
        "eta": [Interval(Real, 0.5, 1, closed="left")],
        "variant": [StrOptions({"I", "II"})],
    }

    def _rule(self, p: float) -> SCW1Rule | SCW2Rule:
        phi = NormalDist().inv_cdf(self.eta)
        return (SCW1Rule if self.variant == "I" else SCW2Rule)(float(self.C), phi)
