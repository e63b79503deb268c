"""PUMMA: the maximum margin with a true intercept."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval

from maxmargin.algorithms.romma import ROMMARule
from maxmargin.core.rows import Tail
from maxmargin.estimator import OnlineClassifier
from maxmargin.models import LinearModel, PairModel


@dataclass(eq=False, repr=False, kw_only=True)
class PUMMA(OnlineClassifier):
    """PUMMA: ROMMA on pairs of a positive and a negative example, in which the intercept cancels.

    ::

        if y (w.x + b) < 1 - delta:
            x replaces the last positive or negative example,  z = (x_pos - x_neg) / 2
            w <- the shortest w' with  w'.z >= 1  and  w'.w >= w.w     (see ROMMA)
            b <- -(w.x_pos + w.x_neg) / 2

    After an update both examples have margin exactly 1. The intercept costs nothing, however large
    it is: shifting all examples by a vector changes the intercept alone, and the margin that is
    maximised is the geometric one. Learners that make the intercept one more weight lose margin
    and need more updates.

    Parameters
    ----------
    delta : float, default=0.1
        The margin reached is at least ``1 - delta`` of the best one; between 0 and 1.
    <shared>

    Notes
    -----
    Guarantee on separable data: at most `max_updates` updates after the first pair, and on return
    at least ``1 - delta`` of the best margin with intercept. ``1 / |w|`` bounds that margin at all
    times, so the smallest output is itself the certified ratio. A point that occurs with both
    labels cannot be separated: the certificate's bound is then 0 (unless there is a `soft_margin`).

    References
    ----------
    K. Ishibashi, K. Hatano and M. Takeda, "Online learning of approximate maximum p-norm margin
    classifiers with bias", COLT 2008, for p = 2. (The constant of Theorem 2 is 4, not 2.)

    Examples
    --------
    >>> from maxmargin import PUMMA
    >>> clf = PUMMA(delta=0.01).fit([[100.0, 1.0], [102.0, 1.0]], [0, 1])
    >>> print(clf.certificate_)
    margin 1, certified to be at least 100.00 % of the best possible (at most 1)
    """

    delta: float = 0.1
    intercept_scaling: ClassVar[float] = 1.0  # type: ignore[misc]  # no coordinate to scale

    _parameter_constraints = {
        **OnlineClassifier._parameter_constraints,
        "delta": [Interval(Real, 0, 1, closed="both")],
    }
    del _parameter_constraints["intercept_scaling"]

    def _rule(self) -> ROMMARule:
        return ROMMARule(float(self.delta))

    def _new_model(self, problems: int, width: int, private: int, tail: Tail) -> LinearModel:
        kind = PairModel if self.fit_intercept else LinearModel
        return kind(problems, width, private, tail)

    @staticmethod
    def max_updates(delta: float, diameter: float, margin: float) -> float:
        """``1 + ((D / gamma)**2 - 4) / delta**2``: no more updates, in any number of passes.

        ``diameter`` is the largest distance D of a positive and a negative example, ``margin`` the
        best margin gamma with intercept.
        """
        return 1.0 + ((diameter / margin) ** 2 - 4.0) / delta**2

    @staticmethod
    def margin_fraction(delta: float) -> float:
        """``1 - delta``: at least this part of the best margin is reached on return."""
        return 1.0 - delta
