"""The immutable specification of a model."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

from maxmargin.spaces.power import QUARTER


@dataclass(frozen=True)
class ModelSpec:
    """The structural parameters of a learner.

    Models with equal specifications have the same structure, so learning can resume one with the
    other. Most parameters are those of learners; the others are:

    intercept : "coordinate" (the weight of one more column) or "pair" (from pairs of examples)
    on_full : what happens when the `budget` is used up; None if there is none
    threshold, careful : which rows are projected, see `spaces.projection.Project`
    plus : which rows a `Projectron` learns from
    lengths : the length of w has to be known after an eviction
    in_plane : p-norm steps are found in the plane of the row and theta (`spaces.pnorm_plane`)
    smallest : supports whose coefficients are all smaller are dropped
    certified : the vectors behind a certificate are kept
    device : where kernel values are computed; learning can resume on another one
    scaling : "columns" divides each column by its largest absolute value so far
    metric : the statistics kept for each column, a key of `models.linear_model.METRICS`
    regularization : the parameters of a `Leader`
    experts : the specifications of voting experts
    mixture : the kind of each expert of a mixture (`experts.expert_table`)
    n_components : of a mixture with kernel="rbf", the number of random features of each width
    """

    fit_intercept: bool = True
    intercept_scaling: float | str = 1.0
    soft_margin: float = 0.0
    p: float | str = 2.0
    intercept: str = "coordinate"
    average: bool = False
    kernel: Any = "linear"
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 0.0
    kernel_dtype: str = "auto"
    device: str = field(default="cpu", compare=False)
    multiclass: str = "ovr"
    k: int | None = None
    budget: int | None = None
    on_full: str | None = None
    threshold: float = 0.0
    careful: bool = False
    plus: bool = False
    lengths: bool = field(default=True, compare=False)
    in_plane: bool = field(default=False, compare=False)
    smallest: float = field(default=0.0, compare=False)
    cache_size: float = field(default=200.0, compare=False)
    certified: bool = field(default=True, compare=False)
    scaling: str | None = None
    metric: str | None = None
    regularization: tuple[tuple[str, float], ...] = ()
    experts: tuple[ModelSpec, ...] = ()
    mixture: tuple[str, ...] = ()
    n_components: int = 0

    def difference(self, other: ModelSpec) -> tuple[str, Any, Any] | None:
        """The first parameter that differs, with both values."""
        for each in fields(self):
            value, other_value = getattr(self, each.name), getattr(other, each.name)
            if not each.compare or value == other_value:
                continue
            if each.name == "regularization" and value and other_value:
                pairs = zip(value, other_value, strict=True)
                (name, value), (_, other_value) = next(pair for pair in pairs if pair[0] != pair[1])
                return name, value, other_value
            return each.name, value, other_value
        return None

    def exponent(self, width: int) -> float:
        """The value of `p` for ``width`` features.

        "log" is 2 ln n, rounded to a multiple of a quarter, so that powers need only square roots.
        """
        if self.p == "log":
            return max(2.0, QUARTER * round(2.0 * math.log(max(width, 1)) / QUARTER))
        return float(self.p)

    def has_pairs(self) -> bool:
        return self.fit_intercept and self.intercept == "pair"

    def is_joint(self, problems: int) -> bool:
        """True if so many classes are learned jointly; pairs and budgets are of single problems."""
        is_single = self.has_pairs() or self.on_full is not None
        return problems > 1 and not is_single and self.multiclass != "ovr"

    def most_rivals(self, problems: int) -> int | None:
        """The number of rivals in a joint step; None if the rule uses the highest one."""
        return (self.k or problems - 1) if self.multiclass == "k-best" else None


# Parameters of a learner that must not change after its model was built.
STRUCTURAL = frozenset(each.name for each in fields(ModelSpec) if each.compare)
