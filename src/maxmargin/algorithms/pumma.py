"""PUMMA: maximum margins with a true intercept."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

from sklearn.utils._param_validation import Interval

from maxmargin.algorithms.romma import ROMMARule
from maxmargin.core.rows import Tail
from maxmargin.estimator import OnlineClassifier
from maxmargin.models import PairModel


@dataclass(eq=False, repr=False, kw_only=True)
class PUMMA(OnlineClassifier):
    delta: float = 0.1

    _parameter_constraints = {
        **OnlineClassifier._parameter_constraints,
        "delta": [Interval(Real, 0, 1, closed="both")],
    }

    def _rule(self) -> ROMMARule:
        return ROMMARule(float(self.delta))

    def _new_model(self, problems: int, width: int, private: int, tail: Tail) -> PairModel:
        return PairModel(problems, width, private, tail)
