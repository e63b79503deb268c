"""What learners with a scale or a variance of each column have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from maxmargin.estimator import RuleClassifier
from maxmargin.estimator.parameters import (
    Averaged,
    ColumnScaling,
    Patience,
    ScaledIntercept,
)
from maxmargin.models.spec import DiagonalSpec


@dataclass(eq=False, repr=False, kw_only=True)
class DiagonalLearner(ColumnScaling, Averaged, ScaledIntercept, Patience, RuleClassifier):
    """Weights of features, in a metric of their own that follows the rows."""

    max_iter: int = 10
    n_iter_no_change: int | None = None

    metric: ClassVar[str]
    settles: ClassVar[bool] = False

    def _spec(self) -> DiagonalSpec:
        return DiagonalSpec(
            fit_intercept=self.fit_intercept,
            intercept_scaling=self.intercept_scaling,
            average=self.average,
            scaling=self.scaling,
            metric=self.metric,
        )
