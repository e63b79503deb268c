"""Models at w = 0 from specifications and the first rows; the device of kernel values."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.row_scans import largest_square
from maxmargin.core.rows import NO_TAIL, Tail
from maxmargin.kernels.cuda import CudaProducts
from maxmargin.kernels.functions import KERNELS, finite_diagonal
from maxmargin.kernels.products import NARROW_TYPES, Products
from maxmargin.models.base import Model
from maxmargin.models.budget_model import BudgetModel
from maxmargin.models.budget_policies import Eviction, eviction_for
from maxmargin.models.expert_model import ExpertModel
from maxmargin.models.joint_model import JointModel
from maxmargin.models.kernel_model import JointKernelModel, KernelModel, PairKernelModel, kernel_for
from maxmargin.models.linear_model import DiagonalModel, LinearModel, PairModel, as_rows
from maxmargin.models.spec import ModelSpec
from maxmargin.models.vote_model import VoteModel
from maxmargin.spaces.pnorm import new_pnorm

# The device and data type of kernel values that all models allow.
ANYWHERE = ("cpu", "auto")


class Built(NamedTuple):
    """A model, its first rows in its own form, and their largest norm."""

    model: Model
    rows: Any
    radius: float


def build(
    spec: ModelSpec,
    problems: int,
    X: Any,
    *,
    radius: float | None = None,
    unseen: bool = False,
    sample_weight: np.ndarray | None = None,
    random_state: Any = None,
    products: Products | None = None,
) -> Built:
    """A model at w = 0 for ``X``, all rows of a fit or the first ones of a stream.

    ``problems`` is the number of weight vectors, one of them for a class that never occurs if
    ``unseen``. ``radius`` is the largest Euclidean norm of a row of a fit, None for a stream.
    ``sample_weight`` acts through a soft margin. ``products`` compute kernel values, by default on
    the device of the specification.
    """
    if spec.experts:
        return _vote(spec, problems, X, radius=radius, unseen=unseen, random_state=random_state)
    if spec.mixture:
        tail = tail_for(spec, radius)
        mixed = ExpertModel(spec, problems, X.shape[1], tail, random_state)
        return Built(mixed, mixed.rows(X), radius or 0.0)
    eviction = None if spec.on_full is None else eviction_for(spec, random_state)
    check_combination(spec, problems, unseen, eviction)
    if (spec.device, spec.kernel_dtype) != ANYWHERE:
        check_device(spec, eviction)
    if spec.kernel == "linear" and eviction is None:
        return _linear(spec, problems, X, radius, sample_weight)
    exact = eviction is not None and eviction.exact
    products = products or products_on(spec.device)
    kernel, rows = kernel_for(spec, X, products, whole=radius is not None, exact=exact)
    if radius is not None and spec.intercept_scaling == "max":
        radius = float(np.sqrt(finite_diagonal(kernel, rows).max()))
    common = spec, problems, X.shape[1], tail_for(spec, radius), kernel, products
    is_joint = spec.is_joint(problems)
    model: KernelModel | BudgetModel
    if eviction is not None:
        model = BudgetModel(*common, eviction)
    elif is_joint:
        model = JointKernelModel(*common)
    else:
        model = (PairKernelModel if spec.has_pairs() else KernelModel)(*common)
    return Built(model, model.weighted(rows, sample_weight), radius or 0.0)


def _linear(
    spec: ModelSpec, problems: int, X: Any, radius: float | None, sample_weight: np.ndarray | None
) -> Built:
    p = spec.exponent(X.shape[1])
    if radius is not None and spec.intercept_scaling == "max" and p != 2.0:
        geometry = new_pnorm(p, 0, X.shape[1])
        radius = float(np.sqrt(largest_square(as_rows(X, NO_TAIL), geometry)))
    private = X.shape[0] if spec.soft_margin > 0.0 and radius is not None else 0
    kind = PairModel if spec.has_pairs() else LinearModel
    kind = JointModel if spec.is_joint(problems) else kind
    kind = DiagonalModel if spec.metric is not None else kind
    model = kind(spec, problems, X.shape[1], private, tail_for(spec, radius), p)
    return Built(model, model.rows(X, sample_weight), radius or 0.0)


def _vote(spec: ModelSpec, problems: int, X: Any, *, unseen: bool, **given: Any) -> Built:
    each = [build(one, problems, X, unseen=unseen, **given) for one in spec.experts]
    model = VoteModel(spec, problems, unseen, [built.model for built in each])
    return Built(model, [built.rows for built in each], max(built.radius for built in each))


def tail_for(spec: ModelSpec, radius: float | None) -> Tail:
    """The coordinates of a row behind its features; a pair's intercept needs none."""
    offset = 0.0
    if spec.fit_intercept and not spec.has_pairs():
        scaling = spec.intercept_scaling
        offset = (radius or 1.0) if scaling == "max" else float(scaling)
    return Tail(offset, float(np.sqrt(spec.soft_margin)))


def check_fits(spec: ModelSpec, problems: int) -> None:
    """Raise where `build` would for any stream of rows."""
    for expert in spec.experts:
        check_fits(expert, problems)
    if not spec.experts:
        eviction = None if spec.on_full is None else eviction_for(spec, 0)
        check_combination(spec, problems, False, eviction)


def check_combination(
    spec: ModelSpec, problems: int, unseen: bool, eviction: Eviction | None
) -> None:
    """Raise if valid parameters cannot be combined."""
    joint = spec.is_joint(problems)
    if joint and unseen:
        raise ValueError(f"grow=True needs multiclass='ovr', got {spec.multiclass!r}.")
    if joint and spec.p != 2.0:
        raise ValueError(f"The 'p' parameter must be 2 unless multiclass='ovr', got {spec.p!r}.")
    if spec.average and spec.p != 2.0:
        raise ValueError(f"The 'average' parameter needs p=2, where w is linear, got p={spec.p!r}.")
    if spec.average and spec.has_pairs():
        raise ValueError("The 'average' parameter cannot be True with intercept='pair'.")
    if spec.metric is not None:
        check_diagonal(spec, joint, eviction)
    if eviction is not None:
        unusual = {"intercept": spec.has_pairs(), "average": spec.average, "p": spec.p != 2.0}
        for name in (name for name, is_set in unusual.items() if is_set):
            raise ValueError(
                f"The '{name}' parameter cannot be {getattr(spec, name)!r} on a budget."
            )
    elif spec.kernel != "linear" and spec.p != 2.0:
        raise ValueError(f"The 'p' parameter must be 2 with a kernel, got {spec.p!r}.")


def check_diagonal(spec: ModelSpec, joint: bool, eviction: Eviction | None) -> None:
    """Raise if a parameter cannot be combined with statistics of columns."""
    others = {
        "kernel": spec.kernel != "linear",
        "budget": eviction is not None,
        "multiclass": joint,
        "soft_margin": spec.soft_margin > 0.0,
    }
    for name in (name for name, is_set in others.items() if is_set):
        raise ValueError(
            f"The '{name}' parameter cannot be {getattr(spec, name)!r} with "
            f"scaling={spec.scaling!r}: columns are measured for linear weights, of one problem at "
            "a time, without a soft margin."
        )


# ------------------------------------------------------------------------------------------ devices
def products_on(device: str) -> Products:
    return CudaProducts() if device == "cuda" else Products()


def on_device(model: Model, device: str) -> Model:
    """The model with kernel values computed on another device."""
    if model.spec.device == device:
        return model
    check_device(replace(model.spec, device=device), model if model.has_supports else None)
    if not model.has_supports:
        return model
    other = copy.copy(model)
    other.spec, other.products = replace(model.spec, device=device), products_on(device)  # type: ignore[attr-defined]
    return other


def check_device(spec: ModelSpec, eviction: Any) -> None:
    """Raise if the device cannot be used."""
    if spec.device == "cpu":
        if spec.kernel_dtype in NARROW_TYPES:
            raise ValueError(f"kernel_dtype={spec.kernel_dtype!r} is for device='cuda' only.")
        return
    if spec.kernel == "linear" and eviction is None:
        raise ValueError("device='cuda' is for kernels: kernel='linear' learns on the host.")
    if not (isinstance(spec.kernel, str) and KERNELS[spec.kernel].formula):
        raise ValueError("device='cuda' computes the kernels 'linear', 'poly' and 'rbf' only.")
