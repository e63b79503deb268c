"""What models compute of a row, in plain arrays: for those who compute it elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from maxmargin.kernels.functions import Kernel
from maxmargin.kernels.points import Points


class Planes(NamedTuple):
    """``w.x + b`` for each problem.

    Attributes
    ----------
    weights : array of shape (problems, features)
    intercepts : array of shape (problems,)
    """

    weights: np.ndarray
    intercepts: np.ndarray


class KernelSums(NamedTuple):
    """``sum_k a_k K(x_k, x) + b`` for each problem.

    Attributes
    ----------
    kernel : Kernel
        With the numbers that its parameters have come to, and the point that distances are
        measured from, if any.
    supports : array or CSR matrix of shape (supports, features)
    coefficients : array of shape (problems, supports)
    intercepts : array of shape (problems,)
    """

    kernel: Kernel
    supports: Any
    coefficients: np.ndarray
    intercepts: np.ndarray


class Votes(NamedTuple):
    """The weight of the experts who predict a class, less that of the others, for each problem.

    An expert predicts the class of its highest output, or by the sign of one if there are two.

    Attributes
    ----------
    groups : formulas of outputs, each of all problems of its first expert, then of the next
    weights : array of shape (experts,)
    problems : outputs of each expert
    classes : the first so many problems are of classes that can be predicted; a single problem is
        that of class 1 of two
    """

    groups: Sequence[Any]
    weights: np.ndarray
    problems: int
    classes: int


class MixedPlanes(NamedTuple):
    """The log-odds of a mixture of experts, for each problem.

    With angles there are more features behind those of the row x, ``cos(x.angles)`` and then
    ``sin(x.angles)``. With the outputs ``f_e = w_e.x + b_e`` of the experts, those of ``sum_e
    share_e p_e`` for ``p_e = sigmoid(slope_e f_e + offset_e)``, where the argument is between
    -`LARGEST_ODDS` and `LARGEST_ODDS` of `maxmargin.core.experts`.

    Attributes
    ----------
    weights : array of shape (problems, experts, features)
    intercepts, slopes, offsets, shares : arrays of shape (problems, experts)
    angles : array of shape (features of the row, angles), or None
    """

    weights: np.ndarray
    intercepts: np.ndarray
    slopes: np.ndarray
    offsets: np.ndarray
    shares: np.ndarray
    angles: np.ndarray | None = None


class Densities(NamedTuple):
    """Logarithms of the density of each class, by Gaussian components.

    ``log sum_k exp(level_k - sum_j (x_j - mean_kj)**2 / variance_kj / 2)`` over the components of
    the class; of two classes, only the difference of the second and the first.

    Attributes
    ----------
    means, variances : arrays of shape (components, features)
    levels : logarithms of the weighted densities of components at their means
    owners : the number of the class of each
    classes : int
    """

    means: np.ndarray
    variances: np.ndarray
    levels: np.ndarray
    owners: np.ndarray
    classes: int


Formula = Planes | KernelSums | Votes | MixedPlanes | Densities


def kernel_formula(
    kernel: Kernel, points: Points, coefs: np.ndarray, intercepts: np.ndarray, width: int
) -> Planes | KernelSums:
    """Sums over these points; planes where rows are kernel values, or as good as weights."""
    if not points.size():
        return Planes(np.zeros((coefs.shape[0], width)), intercepts)
    if kernel.is_linear:
        return Planes(np.asarray(coefs @ points.X), intercepts)
    if kernel.only_in_fit:
        weights = np.zeros((coefs.shape[0], width))
        np.add.at(weights.T, points.X, coefs.T)  # the same row may support several problems
        return Planes(weights, intercepts)
    return KernelSums(kernel, points.X, coefs, intercepts)
