"""What a model is built from: it cannot change while the model lives."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

from maxmargin.spaces.power import QUARTER


@dataclass(frozen=True)
class ModelSpec:
    """The parameters of a learner that decide what its model looks like, as users give them.

    Models with equal specifications have the same structure, so that one can go on where the other
    stopped. The parameters mean what they mean for learners; of those that only some learners have:

    intercept : "coordinate" (the weight of one more) or "pair" (learned from pairs of examples)
    on_full : what happens to a row that is one too many for the `budget`; None if all are kept
    threshold, careful : which rows are projected, see `spaces.projection.Project`
    plus : which rows a `Projectron` learns from
    costs : the margins wanted of each class over its rivals; None if all are 1
    lengths : must the length of w be known after a row was evicted?
    in_plane : in p-norms, is a step found in the plane of the row and theta (`spaces.pnorm_plane`)?
    smallest : supports of a kernel model whose coefficients are all smaller are dropped
    certified : are the vectors behind a certificate kept?
    device : where kernel values are computed; what was learned on one can go on on another
    scaling : "columns" if each is measured by its largest absolute value so far
    metric : what is kept of each column beside its weight, see `models.diagonal_model`
    regularization : the numbers of a `Leader`, by their names
    experts : the specifications of those who vote, with the number of experts of each
    mixture : of a mixture, the kind of each expert (`spaces.expert_space`)
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
    costs: tuple[tuple[float, ...], ...] | None = None
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
    experts: tuple[tuple[ModelSpec, int], ...] = ()
    mixture: tuple[str, ...] = ()
    n_components: int = 0

    def difference(self, other: ModelSpec) -> tuple[str, Any, Any] | None:
        """The first parameter that is not the same, with both values."""
        for each in fields(self):
            mine, theirs = getattr(self, each.name), getattr(other, each.name)
            if each.compare and mine != theirs:
                if each.name == "regularization" and mine and theirs:  # the first that differs
                    (name, mine), (_, theirs) = next(
                        both for both in zip(mine, theirs, strict=True) if both[0] != both[1]
                    )
                    return name, mine, theirs
                return each.name, mine, theirs
        return None

    def exponent(self, width: int) -> float:
        """The number that `p` stands for, with ``width`` features.

        "log" is 2 ln n, rounded to a multiple of a quarter, for which powers need only square
        roots.
        """
        if self.p == "log":
            return max(2.0, QUARTER * round(2.0 * math.log(max(width, 1)) / QUARTER))
        return float(self.p)

    def has_pairs(self) -> bool:
        return self.fit_intercept and self.intercept == "pair"

    def is_joint(self, problems: int) -> bool:
        """Are several classes learned together?"""
        return problems > 1 and not self.has_pairs() and self.multiclass != "ovr"

    def most_rivals(self, problems: int) -> int | None:
        """How many rivals a joint step takes into account; None if the rule takes the highest."""
        return (self.k or problems - 1) if self.multiclass == "k-best" else None


# The parameters of a learner that are those of its model.
STRUCTURAL = frozenset(each.name for each in fields(ModelSpec) if each.compare)
