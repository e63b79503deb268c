"""Which model a learner works on, by its parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from maxmargin import examples
from maxmargin.budgetmodel import BudgetModel
from maxmargin.core.rows import Tail
from maxmargin.kernelkinds import JointKernelModel, PairKernelModel
from maxmargin.kernelmodel import KernelModel
from maxmargin.kernels import LARGEST_ROUNDING, Kernel, Precomputed, finite_diagonal
from maxmargin.models import JointModel, LinearModel, PairModel
from maxmargin.spaces.pnorm import exponent_for

# From so many training rows on, kernel values are computed in float32 unless asked otherwise.
MANY_ROWS = 5000

Model = LinearModel | KernelModel


def assemble(
    clf: Any,
    X: Any,
    problems: int,
    private: int,
    tail: Tail,
    *,
    in_pairs: bool,
    smallest: float,
    whole: bool,
) -> Model:
    """The model at w = 0 for the parameters of ``clf`` and the rows ``X``.

    ``whole`` says that there are no other rows.
    """
    width = X.shape[1]
    joint = problems > 1 and not in_pairs and getattr(clf, "multiclass", "ovr") != "ovr"
    if joint and clf._spare and clf._keeper() is None:
        raise ValueError(f"grow=True needs multiclass='ovr', got {clf.multiclass!r}.")
    most = None
    if joint and clf.multiclass == "k-best":
        most = clf.k or problems - 1
    average = bool(getattr(clf, "average", False))
    keeper = clf._keeper()
    p = getattr(clf, "p", 2.0)
    if joint and p != 2.0:
        raise ValueError(f"The 'p' parameter must be 2 unless multiclass='ovr', got {p!r}.")
    if keeper is not None:
        if in_pairs or average or p != 2.0:
            name = "intercept" if in_pairs else "average" if average else "p"
            raise ValueError(
                f"The '{name}' parameter cannot be {getattr(clf, name)!r} on a budget."
            )
        kernel = kernel_for(clf, X, whole, keeper.exact)
        return BudgetModel(problems, width, tail, kernel, clf.cache_size, clf.budget, keeper)
    if clf.kernel == "linear":
        if joint:
            return JointModel(problems, width, private, tail, most, average)
        if in_pairs:
            return PairModel(problems, width, private, tail, p)
        return LinearModel(problems, width, private, tail, p, average)
    if p != 2.0:
        raise ValueError(f"The 'p' parameter must be 2 with a kernel, got {p!r}.")
    kernel = kernel_for(clf, X, whole)
    if joint:
        return JointKernelModel(
            problems, width, tail, kernel, clf.cache_size, average, smallest, most=most
        )
    kind = PairKernelModel if in_pairs else KernelModel
    return kind(problems, width, tail, kernel, clf.cache_size, average, smallest)


def kernel_for(clf: Any, X: Any, whole: bool, exact: bool = False) -> Kernel | Precomputed:
    """The kernel that ``clf`` asks for; ``exact`` makes float64 of "auto"."""
    if clf.kernel == "precomputed":
        return Precomputed()
    gamma = clf.gamma
    if gamma == "auto":
        gamma = 1.0 / X.shape[1]
    elif gamma == "scale":
        spread = variance(X)
        gamma = 1.0 / (X.shape[1] * spread) if spread > 0.0 else 1.0
    center = None if sparse.issparse(X) else X[0].astype(np.float64)

    def kernel_in(dtype: Any) -> Kernel:
        degree, coef0 = float(clf.degree), float(clf.coef0)
        adapts = clf.kernel_dtype == "auto" and dtype == np.float32
        return Kernel(clf.kernel, float(gamma), degree, coef0, dtype, center, adapts)

    if clf.kernel_dtype != "auto":
        return kernel_in(np.dtype(clf.kernel_dtype))
    if exact:
        return kernel_in(np.float64)
    kernel = kernel_in(np.float32)
    if not whole:  # the dtype of the rows alone decides, not what the first of them are like
        return kernel if X.dtype == np.float32 else kernel_in(np.float64)
    single = X.dtype == np.float32 or X.shape[0] >= MANY_ROWS
    if single and kernel.rounding(kernel.points(X)) < LARGEST_ROUNDING:
        return kernel
    return kernel_in(np.float64)


def radius_of(clf: Any, X: Any) -> float:
    """The largest norm of a row in the space where ``clf`` learns."""
    p = getattr(clf, "p", 2.0)
    if clf.kernel == "linear":
        return examples.largest_norm(X, exponent_for(p, X.shape[1]))
    kernel = kernel_for(clf, X, whole=True)
    return float(np.sqrt(finite_diagonal(kernel, kernel.points(X)).max()))


def variance(X: Any) -> float:
    """Of all entries, as in `sklearn.svm.SVC`."""
    if sparse.issparse(X):
        return float(X.multiply(X).mean() - X.mean() ** 2)
    return float(X.var())
