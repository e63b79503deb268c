"""What learners with a scale or a variance of each column have in common."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from maxmargin._validation import StrOptions
from maxmargin.estimator import RuleClassifier
from maxmargin.models.spec import ModelSpec

# Parameters of other learners that mean nothing for weights of columns.
OF_KERNELS = ("kernel", "gamma", "degree", "coef0", "cache_size", "kernel_dtype", "device")


@dataclass(eq=False, repr=False, kw_only=True)
class DiagonalLearner(RuleClassifier):
    """Weights of features, in a metric of their own that follows the rows."""

    scaling: str | None = "columns"
    average: bool = False
    max_iter: int = 10
    n_iter_no_change: int | None = None
    soft_margin: ClassVar[float] = 0.0  # type: ignore[misc]
    kernel: ClassVar[str] = "linear"  # type: ignore[misc]
    gamma: ClassVar[str] = "scale"  # type: ignore[misc]
    degree: ClassVar[int] = 3  # type: ignore[misc]
    coef0: ClassVar[float] = 0.0  # type: ignore[misc]
    cache_size: ClassVar[float] = 200.0  # type: ignore[misc]
    kernel_dtype: ClassVar[str] = "auto"  # type: ignore[misc]
    device: ClassVar[str] = "cpu"  # type: ignore[misc]

    metric: ClassVar[str]
    settles: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{
            name: allowed
            for name, allowed in RuleClassifier._parameter_constraints.items()
            if name not in (*OF_KERNELS, "soft_margin")
        },
        "scaling": [StrOptions({"columns"}), None],
        "average": ["boolean"],
    }

    def _spec(self) -> ModelSpec:
        return replace(super()._spec(), certified=False)
