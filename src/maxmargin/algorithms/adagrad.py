"""Adaptive sub-gradient steps (AdaGrad)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

from maxmargin._validation import Interval, StrOptions
from maxmargin.algorithms.bound_arguments import bound
from maxmargin.algorithms.diagonal_learner import DiagonalLearner
from maxmargin.core.numba_backend import bridge, with_methods_of
from maxmargin.core.rule import Trial, rule
from maxmargin.estimator.parameters import Facts

# Beyond it the logistic loss is 0 in double precision, and the exponential soon no number.
LARGEST_MARGIN = 700.0


class Descent:
    """A gradient step, of the loss times the sample weight: its gradient is ``-slope * y * x``."""

    rate: float
    loss_slope: Callable[[Trial], float]

    def step(self, trial):
        return 1.0, self.rate * self.loss_slope(trial) * trial.weight

    def precision_gain(self, trial):
        slope = self.loss_slope(trial) * trial.weight
        return slope * slope


@rule
@with_methods_of(Descent)
class HingeDescentRule(NamedTuple):
    rate: float

    def active(self, trial):
        return trial.margin < 1.0

    def loss_slope(self, trial):
        """How steeply the loss falls at the margin."""
        return 1.0


@rule
@with_methods_of(Descent)
class LogisticDescentRule(NamedTuple):
    rate: float

    def active(self, trial):
        return trial.margin < LARGEST_MARGIN

    def loss_slope(self, trial):
        return 1.0 / (1.0 + math.exp(min(trial.margin, LARGEST_MARGIN)))


bridge("loss_slope")


RULES: dict[str, Any] = {"hinge": HingeDescentRule, "logistic": LogisticDescentRule}


@dataclass(eq=False, repr=False, kw_only=True)
class AdaGrad(DiagonalLearner):
    """AdaGrad: gradient steps with a learning rate for each column.

    ::

        g = the gradient of the loss of y (w.x), -y x times how steeply it falls
        G_j <- G_j + g_j**2
        w_j <- w_j - rate * g_j / (s_j sqrt(G_j))

    With ``scaling="columns"`` s_j is the largest absolute value of column j so far, and
    ``s_j w_j`` stays the same when it grows; otherwise it is 1, which is AdaGrad as published.

    Parameters
    ----------
    rate : float, default=0.2
        Learning rate.
    loss : {"hinge", "logistic"}, default="hinge"
        Either ``max(0, 1 - y (w.x))`` or ``log(1 + exp(-y (w.x)))``, times the weight of a row.
    <shared>

    Notes
    -----
    Guarantee: `max_regret`. The weights are not sums of rows, so the certificate only has the bound
    by the norms of the rows; `certify` proves more. `fit` always makes all passes.

    References
    ----------
    J. Duchi, E. Hazan and Y. Singer, "Adaptive subgradient methods for online learning and
    stochastic optimization", JMLR 12, 2011, figure 1 with a diagonal matrix and delta = 0. S. Ross,
    P. Mineiro and J. Langford, "Normalized online learning", UAI 2013 (scaling; without their
    global factor).

    Examples
    --------
    >>> from maxmargin import AdaGrad
    >>> clf = AdaGrad(shuffle=False).fit([[0.0, 1000.0], [0.002, 1000.0]], [0, 1])
    >>> clf.predict([[0.005, 0.0]]).tolist()
    [1]
    """

    rate: float = 0.2
    loss: str = "hinge"

    facts = Facts(
        guarantee="regret O(√T)",
        updates="-",
        drift=False,
        paper="Duchi, Hazan & Singer 2011",
        kernel=False,
    )
    metric = "adaptive rates"
    _parameter_constraints = {
        "rate": [Interval(Real, 0, None, closed="neither")],
        "loss": [StrOptions(set(RULES))],
    }

    def _rule(self, p: float) -> HingeDescentRule | LogisticDescentRule:
        made: HingeDescentRule | LogisticDescentRule = RULES[self.loss](float(self.rate))
        return made

    @staticmethod
    @bound()
    def max_regret(rate: float, deviation: float, gradients: float) -> float:
        """``(D**2 / (2 rate) + rate) * gradients``: bound on the regret against u.

        Parameters
        ----------
        rate : float
            That of the learner, with ``scaling=None`` (or columns whose largest absolute value is
            1 from the first row on).
        deviation : float
            D, the largest ``|u_j - w_j|`` of any column before any row, for any vector u.
        gradients : float
            The sum over all columns of ``sqrt(G_j)``, after the last row.

        Examples
        --------
        >>> from maxmargin import AdaGrad
        >>> AdaGrad.max_regret(rate=0.5, deviation=1.0, gradients=10.0)
        15.0
        """
        return (deviation * deviation / (2.0 * rate) + rate) * gradients
