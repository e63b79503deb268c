"""The immutable specifications of models, one for each kind."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

import numpy as np

from maxmargin.core.rows import Tail
from maxmargin.kernels.functions import KERNELS
from maxmargin.spaces.power import QUARTER


@dataclass(frozen=True)
class ModelSpec:
    """The structural parameters of a learner; most have the names of its parameters.

    Models with equal specifications have the same structure, so learning can resume one with the
    other. Fields that do not count in comparisons may differ.
    """

    def averages(self) -> bool:
        """True if predictions are made by averaged weights."""
        return False

    def structure(self) -> dict[str, Any]:
        """The parameters that must not change after a model was built, by name."""
        return _leaves(self)

    def difference(self, other: ModelSpec) -> tuple[str, Any, Any] | None:
        """The first parameter that differs, with both values.

        A parameter that only one kind of model has is unset in the other.
        """
        unset = {**type(other)().structure(), **type(self)().structure()}
        mine, others = {**unset, **self.structure()}, {**unset, **other.structure()}
        pairs = ((name, mine.get(name), others.get(name)) for name in {**mine, **others})
        return next(((name, old, new) for name, old, new in pairs if old != new), None)


def _leaves(record: Any) -> dict[str, Any]:
    """The compared fields of a record, and of records in it, by name."""
    found: dict[str, Any] = {}
    for each in fields(record):
        value = getattr(record, each.name)
        if each.compare:
            found |= _leaves(value) if is_dataclass(value) else {each.name: value}
    return found


Record = TypeVar("Record")


def filled(kind: type[Record], given: Mapping[str, Any]) -> Record:
    """A record whose fields are given by their names; the others have their defaults."""
    names = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in given.items() if name in names})


@dataclass(frozen=True)
class KernelSpec:
    """A kernel and the precision of its values.

    device : where kernel values are computed; learning can resume on another one
    """

    kernel: Any = "linear"
    gamma: float | str = "scale"
    degree: int = 3
    coef0: float = 0.0
    kernel_dtype: str = "auto"
    device: str = field(default="cpu", compare=False)
    cache_size: float = field(default=200.0, compare=False)

    def check_device(self, on_budget: bool = False) -> None:
        """Raise if the device cannot be used."""
        if self.device == "cpu":
            return
        if self.kernel == "linear" and not on_budget:
            raise ValueError("device='cuda' is for kernels: kernel='linear' learns on the host.")
        if self.kernel != "auto" and not (
            isinstance(self.kernel, str) and KERNELS[self.kernel].formula
        ):
            raise ValueError(
                "device='cuda' computes the kernels 'linear', 'poly', 'rbf' and 'laplacian' only."
            )


@dataclass(frozen=True)
class WeightsSpec(ModelSpec):
    """What all models have that learn weights by a rule.

    intercept : "coordinate" (the weight of one more column) or "pair" (from pairs of examples)
    """

    fit_intercept: bool = True
    intercept_scaling: float | str = 1.0
    soft_margin: float = 0.0
    p: float | str = 2.0
    intercept: str = "coordinate"
    average: bool = False
    multiclass: str = "ovr"
    k: int | None = None

    def averages(self) -> bool:
        return self.average

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
        """True if so many classes are learned jointly; pairs are of single problems."""
        return problems > 1 and not self.has_pairs() and self.multiclass != "ovr"

    def tail(self, radius: float | None) -> Tail:
        """The coordinates of a row behind its features; a pair's intercept needs none."""
        offset = 0.0
        if self.fit_intercept and not self.has_pairs():
            scaling = self.intercept_scaling
            offset = (radius or 1.0) if scaling == "max" else float(scaling)
        return Tail(offset, float(np.sqrt(self.soft_margin)))

    def most_rivals(self, problems: int) -> int | None:
        """The number of rivals in a joint step; None if the rule uses the highest one."""
        return (self.k or problems - 1) if self.multiclass == "k-best" else None

    def check(self, problems: int, unseen: bool) -> None:
        """Raise if valid parameters cannot be combined for so many problems."""
        joint, p = self.is_joint(problems), self.p
        if joint and unseen:
            raise ValueError(f"grow=True needs multiclass='ovr', got {self.multiclass!r}.")
        if joint and p != 2.0:
            raise ValueError(f"The 'p' parameter must be 2 unless multiclass='ovr', got {p!r}.")
        if self.average and p != 2.0:
            raise ValueError(f"The 'average' parameter needs p=2, where w is linear, got p={p!r}.")
        if self.average and self.has_pairs():
            raise ValueError("The 'average' parameter cannot be True with intercept='pair'.")


# The parameters by which learners choose between the kinds below, and the values for `LinearSpec`.
UNSET: dict[str, Any] = {"kernel": "linear", "budget": None, "scaling": None}


@dataclass(frozen=True)
class LinearSpec(WeightsSpec):
    """Weights of features.

    in_plane : p-norm steps are found in the plane of the row and theta (`spaces.pnorm_plane`)
    certified : the vectors behind a certificate are kept
    """

    in_plane: bool = field(default=False, compare=False)
    certified: bool = field(default=True, compare=False)


@dataclass(frozen=True)
class Regularization:
    """The parameters of a `Leader`."""

    alpha: float = 0.5
    beta: float = 1.0
    l1: float = 0.0
    l2: float = 0.0


@dataclass(frozen=True)
class DiagonalSpec(LinearSpec):
    """Weights of features in a metric of their own; they are no sums of rows.

    scaling : "columns" divides each column by its largest absolute value so far
    metric : the statistics kept for each column, a key of `models.linear_model.METRICS`
    regularization : for the metric "leader"
    """

    scaling: str | None = None
    metric: str | None = None
    regularization: Regularization | None = None
    certified: bool = field(default=False, compare=False)

    def check(self, problems: int, unseen: bool) -> None:
        super().check(problems, unseen)
        others = {"multiclass": self.is_joint(problems), "soft_margin": self.soft_margin > 0.0}
        for name in (name for name, is_set in others.items() if is_set):
            raise cannot_scale(name, getattr(self, name), self.scaling)


def cannot_scale(name: str, value: Any, scaling: str | None) -> ValueError:
    """The error of a parameter that cannot be combined with statistics of columns."""
    return ValueError(
        f"The '{name}' parameter cannot be {value!r} with scaling={scaling!r}: columns are "
        "measured for linear weights, of one problem at a time, without a soft margin."
    )


@dataclass(frozen=True)
class ExpansionSpec(WeightsSpec):
    """Coefficients of any number of rows in the space of a kernel.

    smallest : supports whose coefficients are all smaller are dropped
    """

    kernel: KernelSpec = KernelSpec()
    smallest: float = field(default=0.0, compare=False)

    def check(self, problems: int, unseen: bool) -> None:
        super().check(problems, unseen)
        if self.p != 2.0:
            raise ValueError(f"The 'p' parameter must be 2 with a kernel, got {self.p!r}.")


@dataclass(frozen=True)
class BudgetSpec(WeightsSpec):
    """Coefficients of at most `budget` rows in the space of a kernel, for each problem.

    on_full : what happens when the `budget` is used up
    threshold, careful : which rows are projected, see `spaces.projection.Project`
    plus : which rows a `Projectron` learns from
    lengths : the length of w has to be known after an eviction
    """

    kernel: KernelSpec = KernelSpec()
    budget: int | None = None
    on_full: str = "oldest"
    threshold: float = 0.0
    careful: bool = False
    plus: bool = False
    lengths: bool = field(default=True, compare=False)

    def is_joint(self, problems: int) -> bool:
        return False

    def check(self, problems: int, unseen: bool) -> None:
        unusual = {"intercept": self.has_pairs(), "average": self.average, "p": self.p != 2.0}
        for name in (name for name, is_set in unusual.items() if is_set):
            raise ValueError(
                f"The '{name}' parameter cannot be {getattr(self, name)!r} on a budget."
            )


@dataclass(frozen=True)
class VoteSpec(ModelSpec):
    """Experts that vote."""

    experts: tuple[WeightsSpec, ...] = ()


@dataclass(frozen=True)
class MixtureSpec(ModelSpec):
    """A mixture of experts that are lines of a table.

    mixture : the kind of each expert (`experts.expert_table`)
    n_components : with kernel="rbf", the number of random features of each width
    full_matrix_columns : the number of columns up to which there is an expert with a full matrix
    """

    fit_intercept: bool = True
    kernel: str = "linear"
    n_components: int = 0
    full_matrix_columns: int = 0
    mixture: tuple[str, ...] = ()
