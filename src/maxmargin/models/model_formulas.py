"""The formulas of models' outputs as plain arrays, for export."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from maxmargin.kernels.functions import Kernel
from maxmargin.kernels.points import Points


class Planes(NamedTuple):
    """``w.x + b`` for each problem."""

    weights: np.ndarray  # (problems, features)
    intercepts: np.ndarray


class KernelSums(NamedTuple):
    """``sum_k a_k K(x_k, x) + b`` for each problem."""

    kernel: Kernel  # with its parameters resolved to numbers, and its center, if any
    supports: Any  # array or CSR matrix (supports, features)
    coefficients: np.ndarray  # (problems, supports)
    intercepts: np.ndarray


class VoteFormula(NamedTuple):
    """For each problem, the weight of the experts who predict its class minus that of the others.

    An expert predicts the class of its highest output, or by the sign of its only output.
    """

    members: Sequence[Any]  # formulas of the outputs of each expert
    weights: np.ndarray  # (experts,)
    problems: int  # outputs of each expert
    classes: int  # number of classes that can be predicted


class Standardization(NamedTuple):
    """The features ``d sqrt(counts / (spreads + d**2))`` for ``d = x - centers``."""

    centers: np.ndarray  # (features,), as are the others
    spreads: np.ndarray
    counts: np.ndarray


class Likeness(NamedTuple):
    """The features ``exp(-bend |units x - point|**2)``."""

    units: np.ndarray  # (features of the row,)
    points: np.ndarray  # (features of the row, points)
    squares: np.ndarray  # of the norms of points
    bends: np.ndarray  # (points,)


class Curves(NamedTuple):
    """The features ``cos(x.angles)``, ``sin(x.angles)``, and then the likeness to points."""

    angles: np.ndarray  # (features of the row, angles)
    likeness: Likeness


class ExpertPlanes(NamedTuple):
    """The outputs ``w.z + b`` of some experts, on the features z of a row."""

    features: Standardization | Curves | None  # None: the row itself
    weights: np.ndarray  # (problems, experts, features)
    intercepts: np.ndarray  # (problems, experts)


class UncertainPlanes(NamedTuple):
    """For each problem, the output ``s / sqrt(1 + pi v / 8)`` of one expert.

    On the features z of the first columns of a row, within `MOST_DEVIATIONS` of 0, it has
    ``s = w.z + b`` and ``v = z' S z + 2 r.z + a``.
    """

    features: Standardization
    weights: np.ndarray  # (problems, features)
    intercepts: np.ndarray  # (problems,)
    variances: np.ndarray  # S, (problems, features, features)
    crosses: np.ndarray  # r, (problems, features)
    constants: np.ndarray  # a, (problems,)

    def tangent(self) -> Planes:
        """The plane that touches the output at z = 0."""
        ratio = np.sqrt(1.0 + np.pi / 8.0 * self.constants)
        bend = np.pi / 8.0 * (self.intercepts / ratio**3)[:, None] * self.crosses
        return Planes(self.weights / ratio[:, None] - bend, self.intercepts / ratio)


class MixedPlanes(NamedTuple):
    """The log-odds of a mixture of experts, for each problem.

    They are the log-odds of ``sum_e share_e p_e`` for ``p_e = sigmoid(slope_e f_e + offset_e)``,
    with the outputs ``f_e`` of all groups, one after another, and the argument clipped to between
    -`LARGEST_ODDS` and `LARGEST_ODDS` of `maxmargin.experts.mixture`.
    """

    groups: Sequence[ExpertPlanes | UncertainPlanes]
    slopes: np.ndarray  # (problems, experts), as are the next two
    offsets: np.ndarray
    shares: np.ndarray


class Densities(NamedTuple):
    """The log-density of each class, a mixture of Gaussians.

    ``log sum_k exp(level_k - sum_j (x_j - mean_kj)**2 / variance_kj / 2)`` over the components of
    the class; for two classes, only the difference of the second and the first.
    """

    means: np.ndarray  # (components, features)
    variances: np.ndarray  # (components, features)
    levels: np.ndarray  # log of the weighted density of each component at its mean
    owners: np.ndarray  # class code of each component
    classes: int


Formula = Planes | KernelSums | VoteFormula | MixedPlanes | Densities


def kernel_formula(
    kernel: Kernel, points: Points, coefs: np.ndarray, intercepts: np.ndarray, width: int
) -> Planes | KernelSums:
    """The formula of a kernel expansion; planes if the kernel is linear or precomputed."""
    if not points.size():
        return Planes(np.zeros((coefs.shape[0], width)), intercepts)
    if kernel.is_linear:
        return Planes(np.asarray(coefs @ points.X), intercepts)
    if kernel.only_in_fit:
        weights = np.zeros((coefs.shape[0], width))
        np.add.at(weights.T, points.X, coefs.T)  # a row may support several problems
        return Planes(weights, intercepts)
    return KernelSums(kernel, points.X, coefs, intercepts)
