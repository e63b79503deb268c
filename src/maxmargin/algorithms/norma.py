"""NORMA: gradient descent with weight decay, for moving targets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, NamedTuple

from maxmargin._validation import Interval
from maxmargin.algorithms.movingtargets import Comparison, bound_on_moving_targets, validates_tuning
from maxmargin.core.rule import rule
from maxmargin.estimator import KernelClassifier
from maxmargin.estimator.parameters import (
    Averaged,
    Budgeted,
    Facts,
    ScaledIntercept,
    SmoothNorms,
)
from maxmargin.models.spec import WeightsSpec


@rule
class NORMARule(NamedTuple):
    keep: float
    rate: float
    margin: float

    def active(self, trial):
        return trial.margin <= self.margin

    def step(self, trial):
        gap = self.margin - self.keep * trial.margin
        return self.keep, self.rate * trial.repeats(gap, self.rate * trial.xx)

    def rest(self, trial):
        return self.keep


@dataclass(eq=False, repr=False, kw_only=True)
class NORMA(SmoothNorms, Averaged, Budgeted, ScaledIntercept, KernelClassifier):
    """NORMA: decay the weights in every trial, and add examples that are not above the margin.

    ::

        w <- (1 - rate * decay) * w + [y (w.x) <= margin] * rate * y * x

    The decay keeps the past from outweighing a target that has moved on.

    Parameters
    ----------
    rate : float, default=0.1
        Step length alpha.
    decay : float, default=0.001
        Weight decay lambda; ``rate * decay`` must be below 1.
    margin : float, default=1.0
        Outputs up to this value (rho) are corrected.
    truncation : float, default=1e-6
        With a kernel: drop supports whose coefficients have decayed below this part of `rate`. All
        that is ever dropped changes the output by at most ``truncation / decay * max K(x, x)``,
        the sum of a geometric series. With `average` all count, and none is dropped.
    <shared>

    Notes
    -----
    Guarantee: `mistake_bound` and `margin_error_bound`, for the parameters that `tuned` sets. The
    weights move in every trial, so `fit` makes all its passes unless `tol` is given and reached.

    The defaults are for targets that move; for rows that stay, smaller steps are better (on Adult
    81.4 % accuracy with defaults, 84.4 with ``rate=0.01, decay=1e-4``), and so is the mean: 84.4
    with ``average=True``. On digits it is 1.6 points behind ``LinearSVC`` (94.9 and 96.4), with
    ``average=True`` 0.2.

    References
    ----------
    J. Kivinen, A. Smola and R. Williamson, "Large margin classification for moving targets", 2002,
    Theorems 3 and 4 (in Theorem 4 the rate is alpha' / (1 + alpha' lambda)). Truncation: the same,
    "Online learning with kernels", IEEE Transactions on Signal Processing 52, 2004, section III.

    Examples
    --------
    >>> from maxmargin import NORMA
    >>> clf = NORMA(shuffle=False).fit([[0.0, 1.0], [2.0, 1.0]], [0, 1])
    >>> clf.predict([[5.0, 0.0]]).tolist()
    [1]
    """

    rate: float = 0.1
    decay: float = 0.001
    margin: float = 1.0
    truncation: float = 1e-6
    max_iter: int = 20

    facts = Facts(
        guarantee="bounded mistakes on moving targets",
        updates="-",
        drift=True,
        paper="Kivinen, Smola & Williamson 2002",
    )
    _parameter_constraints = {
        "rate": [Interval(Real, 0, None, closed="neither")],
        "decay": [Interval(Real, 0, None, closed="left")],
        "margin": [Interval(Real, 0, None, closed="left")],
        "truncation": [Interval(Real, 0, 1, closed="left")],
    }
    settles: ClassVar[bool] = False

    def _spec(self) -> WeightsSpec:
        # In a mean those rows count that have long been forgotten.
        forgets = self.decay > 0.0 and not self.average
        smallest = self.truncation * self.rate if forgets else 0.0
        return self._weights_spec(smallest=smallest)

    def _rule(self, p: float) -> NORMARule:
        if not self.rate * self.decay < 1.0:
            raise ValueError(
                f"The 'decay' parameter of NORMA must be below 1 / rate = {1.0 / self.rate}. "
                f"Got {self.decay} instead."
            )
        return NORMARule(1.0 - self.rate * self.decay, float(self.rate), float(self.margin))

    @classmethod
    @validates_tuning
    def tuned(
        cls,
        radius: float,
        norm: float,
        margin: float,
        trials: int,
        *,
        drift: float = 0.0,
        squared_drift: float = 0.0,
        losses: float = 0.0,
        p: float = 2.0,
        aggressive: bool = True,
        threshold: float | None = None,
        **parameters: Any,
    ) -> NORMA:
        """The learner with rate, decay and margin set by Theorem 4, or for a margin by Theorem 3.

        Parameters
        ----------
        radius, norm, margin : float
            ``X >= |x_t|_p`` (with an intercept, its coordinate counts), ``B >= |u_t|_q``, and the
            margin mu of the comparison vectors u_t.
        trials : int
            The number T of trials.
        drift, squared_drift : float
            D1 and D2: sums of ``|u_t - u_{t+1}|_q`` and of its square; both or none are 0, and
            ``D1 <= sqrt(T D2)``, with equality for uniform speed.
        losses : float
            K: sum of the hinge losses ``max(0, mu - y_t u_t.x_t)``.
        p : float
            The norm of the rows, 2 to 1000; 1/p + 1/q = 1. For targets that depend on few of n
            features, 2 ln(n) is the usual choice.
        aggressive : bool
            With a positive margin; otherwise learn from mistakes only (margin 0).
        threshold : float or None
            The learner's own margin rho, below mu, whatever ``aggressive`` says. The rate is then
            the one with the smallest `margin_error_bound`.
        **parameters
            Any other parameters of the learner.
        """
        comparison = _comparison(radius, norm, margin, trials, drift, squared_drift, losses, p)
        rate, rho = comparison.tuned(aggressive, threshold)  # alpha' and rho
        decay = math.sqrt(squared_drift / trials) / (norm * rate)
        return cls(rate=rate / (1.0 + rate * decay), decay=decay, margin=rho, p=p, **parameters)

    @staticmethod
    @bound_on_moving_targets
    def mistake_bound(
        radius: float,
        norm: float,
        margin: float,
        trials: int,
        *,
        drift: float = 0.0,
        squared_drift: float = 0.0,
        losses: float = 0.0,
        p: float = 2.0,
    ) -> float:
        """Theorem 4: bound on the mistakes of the `tuned` learner, with the same arguments."""
        comparison = _comparison(radius, norm, margin, trials, drift, squared_drift, losses, p)
        return comparison.errors_below(0.0)

    @staticmethod
    @bound_on_moving_targets
    def margin_error_bound(
        radius: float,
        norm: float,
        margin: float,
        trials: int,
        *,
        threshold: float,
        drift: float = 0.0,
        squared_drift: float = 0.0,
        losses: float = 0.0,
        p: float = 2.0,
    ) -> float:
        """Theorem 3: bound on the trials with ``y (w.x) <= threshold``.

        For the learner that is `tuned` for this ``threshold``, with the same arguments.
        """
        comparison = _comparison(radius, norm, margin, trials, drift, squared_drift, losses, p)
        return comparison.errors_below(threshold)

    @staticmethod
    @bound_on_moving_targets
    def loss_bound(
        radius: float,
        norm: float,
        margin: float,
        trials: int,
        *,
        threshold: float,
        rate: float,
        decay: float,
        drift: float = 0.0,
        squared_drift: float = 0.0,
        losses: float = 0.0,
        margin_errors: int | None = None,
        p: float = 2.0,
    ) -> float:
        """A bound on the learner's losses, ``sum max(0, rho - y (w.x))``, for any rate and decay.

        ``K + S / (2 alpha') - E (mu - rho - alpha' (p - 1) X**2 / 2)`` with ``alpha' = alpha / (1 -
        alpha lambda)``, ``a = alpha' lambda`` and, from the sum of (14), ``S = B**2 + (D2 / a + 2 B
        D1 + a T B**2) / (2 + a)``. The decay of (8) makes it (15), where 2 stands for ``2 + a``.
        Divided by rho it bounds the mistakes.

        Parameters
        ----------
        radius, norm, margin, trials, drift, squared_drift, losses, p
            As for `tuned`.
        threshold, rate, decay : float
            The learner's `margin` rho, its `rate` alpha and its `decay` lambda.
        margin_errors : int or None
            The number E of its trials with ``y (w.x) <= rho``, which are its updates. If it is not
            known, the bound is the one for any number, infinite where there is none.

        Examples
        --------
        >>> from maxmargin import NORMA
        >>> NORMA.loss_bound(1.0, 4.0, 1.0, trials=9, threshold=0.5, rate=1.0, decay=0.0)
        8.0
        """
        if rate * decay >= 1.0:
            raise ValueError(f"The 'decay' parameter must be below 1 / rate, got {decay}.")
        unshrunk = rate / (1.0 - rate * decay)
        length = decaying_length(norm, trials, drift, squared_drift, unshrunk * decay)
        comparison = Comparison(radius, norm, margin, losses, p, length).checked(trials)
        return comparison.losses_below(threshold, unshrunk, margin_errors)


def _comparison(
    radius: float,
    norm: float,
    margin: float,
    trials: int,
    drift: float,
    squared_drift: float,
    losses: float,
    p: float,
) -> Comparison:
    """With the length S of Theorems 3 and 4."""
    _check_drift(trials, drift, squared_drift)
    length = norm**2 + norm * (math.sqrt(trials * squared_drift) + drift)
    return Comparison(radius, norm, margin, losses, p, length).checked(trials)


def decaying_length(
    norm: float, trials: int, drift: float, squared_drift: float, a: float
) -> float:
    """The S of a learner with any decay; ``a = alpha' lambda``, see `NORMA.loss_bound`."""
    _check_drift(trials, drift, squared_drift)
    moves = 2.0 * norm * drift + a * trials * norm**2
    if squared_drift > 0.0:
        moves += squared_drift / a if a > 0.0 else math.inf
    return norm**2 + moves / (2.0 + a)


def _check_drift(trials: int, drift: float, squared_drift: float) -> None:
    if (drift > 0.0) != (squared_drift > 0.0):
        raise ValueError(
            "The 'drift' and 'squared_drift' parameters must both be 0 or both be positive, "
            f"got {drift} and {squared_drift}."
        )
    largest = math.sqrt(trials * squared_drift)
    if drift > largest * (1.0 + 1e-9):  # of sums that were rounded
        raise ValueError(
            "The 'drift' parameter must be at most sqrt(trials * squared_drift) = "
            f"{largest}, as sums and sums of squares are, got {drift}."
        )
