"""Models at w = 0 from specifications and the first rows; the device of kernel values."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.row_scans import largest_square
from maxmargin.core.rows import NO_TAIL, Tail
from maxmargin.kernels.cuda import CudaProducts
from maxmargin.kernels.functions import KERNELS, Kernel, finite_diagonal
from maxmargin.kernels.points import Points
from maxmargin.kernels.products import Products
from maxmargin.models.base import OnlineModel
from maxmargin.models.budget_model import BudgetModel
from maxmargin.models.budget_policies import eviction_for
from maxmargin.models.expert_model import ExpertModel
from maxmargin.models.joint_model import JointModel
from maxmargin.models.kernel_model import (
    JointKernelModel,
    KernelModel,
    PairKernelModel,
    SupportModel,
    kernel_for,
)
from maxmargin.models.linear_model import DiagonalModel, LinearModel, PairModel, as_rows
from maxmargin.models.spec import (
    BudgetSpec,
    DiagonalSpec,
    ExpansionSpec,
    KernelSpec,
    LinearSpec,
    MixtureSpec,
    ModelSpec,
    VoteSpec,
    WeightsSpec,
)
from maxmargin.models.vote_model import VoteModel
from maxmargin.spaces.pnorm import new_pnorm


class Built(NamedTuple):
    """A model, its first rows in its own form, and their largest norm."""

    model: OnlineModel
    rows: Any
    radius: float


class Beginning(NamedTuple):
    """The rows that a model is built for.

    Attributes
    ----------
    problems : the number of weight vectors
    X : all rows of a fit, or the first ones of a stream
    radius : the largest Euclidean norm of a row of a fit, None for a stream
    unseen : one of the weight vectors is for a class that never occurs
    sample_weight : acts through a soft margin
    random_state : that of the learner
    products : computes kernel values; by default on the device of the specification
    """

    problems: int
    X: Any
    radius: float | None = None
    unseen: bool = False
    sample_weight: np.ndarray | None = None
    random_state: Any = None
    products: Products | None = None


def build(spec: ModelSpec, problems: int, X: Any, **more: Any) -> Built:
    """A model at w = 0 for the rows ``X``; see `Beginning` for what else can be given."""
    return _built(spec, Beginning(problems, X, **more))


@singledispatch
def _built(spec: ModelSpec, given: Beginning) -> Built:
    raise TypeError(f"There is no model for {spec!r}.")


@_built.register
def _linear(spec: LinearSpec, given: Beginning) -> Built:
    spec.check(given.problems, given.unseen)
    if spec.is_joint(given.problems):
        return _of_features(JointModel, spec, given)
    return _of_features(PairModel if spec.has_pairs() else LinearModel, spec, given)


@_built.register
def _diagonal(spec: DiagonalSpec, given: Beginning) -> Built:
    spec.check(given.problems, given.unseen)
    return _of_features(DiagonalModel, spec, given)


def _of_features(kind: type[LinearModel], spec: LinearSpec, given: Beginning) -> Built:
    width, radius = given.X.shape[1], given.radius
    p = spec.exponent(width)
    if radius is not None and spec.intercept_scaling == "max" and p != 2.0:
        geometry = new_pnorm(p, 0, width)
        radius = float(np.sqrt(largest_square(as_rows(given.X, NO_TAIL), geometry)))
    private = given.X.shape[0] if spec.soft_margin > 0.0 and radius is not None else 0
    model = kind(spec, given.problems, width, private, tail_for(spec, radius), p)
    return Built(model, model.rows(given.X, given.sample_weight), radius or 0.0)


@_built.register
def _expansion(spec: ExpansionSpec, given: Beginning) -> Built:
    spec.check(given.problems, given.unseen)
    check_device(spec.kernel)
    parts, rows, radius = _of_supports(spec, given, exact=False)
    if spec.is_joint(given.problems):
        model: KernelModel = JointKernelModel(*parts)
    else:
        model = (PairKernelModel if spec.has_pairs() else KernelModel)(*parts)
    return Built(model, model.weighted(rows, given.sample_weight), radius)


@_built.register
def _budget(spec: BudgetSpec, given: Beginning) -> Built:
    eviction = eviction_for(spec, given.problems, given.random_state)
    spec.check(given.problems, given.unseen)
    check_device(spec.kernel, on_budget=True)
    parts, rows, radius = _of_supports(spec, given, exact=eviction.exact)
    model = BudgetModel(*parts, eviction)
    return Built(model, model.weighted(rows, given.sample_weight), radius)


def _of_supports(
    spec: ExpansionSpec | BudgetSpec, given: Beginning, exact: bool
) -> tuple[tuple[Any, int, int, Tail, Kernel, Products], Points, float]:
    """The arguments of a `SupportModel`, the rows in its form, and their largest norm."""
    radius, products = given.radius, given.products or products_on(spec.kernel.device)
    whole = radius is not None
    kernel, rows = kernel_for(spec.kernel, given.X, products, whole=whole, exact=exact)
    if whole and spec.intercept_scaling == "max":
        radius = float(np.sqrt(finite_diagonal(kernel, rows).max()))
    width, tail = given.X.shape[1], tail_for(spec, radius)
    return (spec, given.problems, width, tail, kernel, products), rows, radius or 0.0


@_built.register
def _mixture(spec: MixtureSpec, given: Beginning) -> Built:
    tail, width = Tail(float(spec.fit_intercept), 0.0), given.X.shape[1]
    model = ExpertModel(spec, given.problems, width, tail, given.random_state)
    return Built(model, model.rows(given.X), given.radius or 0.0)


@_built.register
def _vote(spec: VoteSpec, given: Beginning) -> Built:
    each = [_built(one, given) for one in spec.experts]
    model = VoteModel(spec, given.problems, given.unseen, [built.model for built in each])
    return Built(model, [built.rows for built in each], max(built.radius for built in each))


def tail_for(spec: WeightsSpec, radius: float | None) -> Tail:
    """The coordinates of a row behind its features; a pair's intercept needs none."""
    offset = 0.0
    if spec.fit_intercept and not spec.has_pairs():
        scaling = spec.intercept_scaling
        offset = (radius or 1.0) if scaling == "max" else float(scaling)
    return Tail(offset, float(np.sqrt(spec.soft_margin)))


# ------------------------------------------------------------------------------------------ devices
def products_on(device: str) -> Products:
    return CudaProducts() if device == "cuda" else Products()


def on_device(model: Any, device: str) -> Any:
    """The model with kernel values computed on another device."""
    if not isinstance(model, SupportModel):
        check_device(KernelSpec(device=device))
        return model
    kernel = model.spec.kernel
    if kernel.device == device:
        return model
    moved = replace(kernel, device=device)
    check_device(moved, on_budget=isinstance(model, BudgetModel))
    other = copy.copy(model)
    other.spec, other.products = replace(model.spec, kernel=moved), products_on(device)
    return other


def check_device(spec: KernelSpec, on_budget: bool = False) -> None:
    """Raise if the device cannot be used."""
    if spec.device == "cpu":
        return
    if spec.kernel == "linear" and not on_budget:
        raise ValueError("device='cuda' is for kernels: kernel='linear' learns on the host.")
    if not (isinstance(spec.kernel, str) and KERNELS[spec.kernel].formula):
        raise ValueError("device='cuda' computes the kernels 'linear', 'poly' and 'rbf' only.")
