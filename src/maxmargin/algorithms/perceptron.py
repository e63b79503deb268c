"""The Perceptron, with a margin and with averaged weights on request."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

from maxmargin._validation import Interval, StrOptions
from maxmargin.core.rule import rule
from maxmargin.estimator import OnlineClassifier
from maxmargin.estimator.parameters import BUDGET_CONSTRAINTS, P_CONSTRAINTS, Facts


@rule
class PerceptronRule(NamedTuple):
    margin: float
    rate: float

    def active(self, trial):
        return trial.margin <= self.margin

    def step(self, trial):
        return 1.0, self.rate


@dataclass(eq=False, repr=False, kw_only=True)
class Perceptron(OnlineClassifier):
    """Perceptron: add every example whose output is not above the margin.

    ::

        if y (w.x) <= margin:  w <- w + rate * y * x

    Only ``margin / rate`` matters. With ``margin=0`` this is Rosenblatt's Perceptron; a margin well
    above ``rate * R**2`` brings the margin on return up to half of the best possible one.

    Parameters
    ----------
    margin : float, default=0.0
        Outputs up to this value are corrected.
    rate : float, default=1.0
        Step length.
    average : bool, default=False
        Predict by the mean of the weights over all trials, which varies less with the order.
    p : float or "log", default=2.0
        The norm in which examples are measured, at least 2. Large p suits targets that depend on
        few of many features; "log" is 2 ln(n_features), to the nearest quarter.
    <multiclass>
    <budget>
    <shared>

    Notes
    -----
    Guarantee: at most `max_updates` updates on separable data, and then at least the fraction
    `margin_fraction` of the best margin (both in the space with the intercept's coordinate).

    References
    ----------
    F. Rosenblatt, "The perceptron", Psychological Review, 1958. Y. Freund and R. Schapire, "Large
    margin classification using the perceptron algorithm", Machine Learning, 1999 (averaging). P.
    Tsampouka and J. Shawe-Taylor, "Perceptron-like large margin classifiers", section 2.1 (margin).

    Examples
    --------
    >>> from maxmargin import Perceptron
    >>> X, y = [[0.0, 1.0], [2.0, 1.0]], ["left", "right"]
    >>> clf = Perceptron(margin=1.0, shuffle=False).fit(X, y)
    >>> clf.predict([[5.0, 0.0]]).tolist()
    ['right']
    """

    margin: float = 0.0
    rate: float = 1.0
    p: float | str = 2.0
    average: bool = False
    multiclass: str = "ovr"
    budget: int | None = None
    on_full: str = "oldest"

    facts = Facts(
        guarantee="any direction that separates; up to 1/2 of the margin with `margin`",
        updates="((p−1)R² + 2b/η)/γ²",
        drift=False,
        paper="Rosenblatt 1958; Freund & Schapire 1999; Tsampouka & Shawe-Taylor",
    )
    _parameter_constraints = {
        **OnlineClassifier._parameter_constraints,
        **BUDGET_CONSTRAINTS,
        "p": P_CONSTRAINTS,
        "margin": [Interval(Real, 0, None, closed="left")],
        "rate": [Interval(Real, 0, None, closed="neither")],
        "average": ["boolean"],
        "multiclass": [StrOptions({"ovr", "1-best"})],
    }

    def _rule(self, p: float) -> PerceptronRule:
        return PerceptronRule(float(self.margin), float(self.rate))

    @staticmethod
    def max_updates(
        radius: float, margin: float, *, threshold: float = 0.0, rate: float = 1.0, p: float = 2.0
    ) -> float:
        """``((p - 1) R**2 + 2 b / rate) / gamma**2``: no more updates, in any number of passes.

        ``radius`` is the largest p-norm R of a row, ``margin`` the best margin gamma in that norm,
        ``threshold`` the parameter `margin` b of the learner.
        """
        return ((p - 1.0) * radius**2 + 2.0 * threshold / rate) / margin**2

    @staticmethod
    def stepwise_from(
        radius: float, margin: float, *, threshold: float = 0.0, rate: float = 1.0
    ) -> float:
        """Every update after this many turns w towards the best direction (p = 2)."""
        return 0.5 * ((radius / margin) ** 2 - 1.0) + threshold / (rate * margin**2)

    @staticmethod
    def margin_fraction(
        radius: float, *, threshold: float, rate: float = 1.0, p: float = 2.0
    ) -> float:
        """``1 / (2 + (p - 1) rate R**2 / b)``: at least this part of the best margin is reached."""
        return 1.0 / (2.0 + (p - 1.0) * rate * radius**2 / threshold) if threshold > 0.0 else 0.0
