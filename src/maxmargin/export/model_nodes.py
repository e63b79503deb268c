"""Nodes that compute the outputs of models."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.experts.full_matrix import MOST_DEVIATIONS
from maxmargin.experts.mixture import LARGEST_ODDS
from maxmargin.experts.standardized_columns import SMALLEST_SQUARE
from maxmargin.export.graph import Graph
from maxmargin.kernels.functions import Kernel, LaplacianKernel
from maxmargin.models.model_formulas import (
    Curves,
    Densities,
    ExpertPlanes,
    KernelSums,
    MixedPlanes,
    Planes,
    Standardization,
    UncertainPlanes,
    VoteFormula,
)

# The logarithm of a density of 0; twice its value is still finite.
NOTHING = -1e300


@singledispatch
def outputs(formula: Any, graph: Graph, rows: str) -> str:
    """The outputs for rows in double precision: a matrix with a column for each problem."""
    raise TypeError(f"{type(formula).__name__} is not a formula.")


@outputs.register
def _of_planes(formula: Planes, graph: Graph, rows: str) -> str:
    return graph("Add", graph("MatMul", rows, formula.weights.T), formula.intercepts)


@outputs.register
def _of_kernel(formula: KernelSums, graph: Graph, rows: str) -> str:
    kernel, supports = formula.kernel, formula.supports
    if kernel.name not in KERNELS:
        raise ValueError(
            "A kernel that is a function of Python has no form in ONNX: use kernel='linear', "
            "'rbf', 'laplacian' or 'poly', or 'precomputed', which takes kernel values."
        )
    graph.claim(8 * supports.shape[0] * supports.shape[1])
    supports = supports.toarray() if sparse.issparse(supports) else supports
    values = KERNELS[kernel.name](kernel, graph, rows, supports.astype(np.float64))
    return graph("Add", graph("MatMul", values, formula.coefficients.T), formula.intercepts)


def _gaussian(kernel: Kernel, graph: Graph, rows: str, supports: np.ndarray) -> str:
    if kernel.center is not None:
        rows, supports = graph("Sub", rows, kernel.center), supports - kernel.center
    own = kernel.gamma * np.einsum("ij,ij->i", supports, supports)
    others = graph("ReduceSum", graph("Mul", rows, rows), np.array([1]), keepdims=1)
    exponents = graph("MatMul", rows, 2.0 * kernel.gamma * supports.T)
    exponents = graph("Sub", graph("Sub", exponents, own), graph("Mul", others, kernel.gamma))
    return graph("Exp", graph("Min", exponents, 0.0))  # above 0 is only rounding


def _polynomial(kernel: Kernel, graph: Graph, rows: str, supports: np.ndarray) -> str:
    products = graph("MatMul", rows, kernel.gamma * supports.T)
    return graph("Pow", graph("Add", products, kernel.coef0), kernel.degree)


def _laplacian(kernel: Kernel, graph: Graph, rows: str, supports: np.ndarray) -> str:
    assert isinstance(kernel, LaplacianKernel)
    if kernel.center is not None:
        rows, supports = graph("Sub", rows, kernel.center), supports - kernel.center
    if kernel.scales is not None:
        rows, supports = graph("Mul", rows, kernel.scales), supports * kernel.scales
    between = graph("Sub", graph("Unsqueeze", rows, np.array([1])), supports[None])
    distances = graph("ReduceSum", graph("Abs", between), np.array([2]), keepdims=0)
    return graph("Exp", graph("Mul", distances, -kernel.gamma))


# By name; a linear kernel is exported as weights.
KERNELS = {"rbf": _gaussian, "laplacian": _laplacian, "poly": _polynomial}


@outputs.register
def _of_votes(formula: VoteFormula, graph: Graph, rows: str) -> str:
    votes, each = [], formula.problems
    for member in formula.members:
        scores = outputs(member, graph, rows)
        if formula.classes == 2:
            score = graph("Gather", scores, np.array([min(each - 1, 1)]), axis=1)
            votes.append(graph.cast(graph("GreaterOrEqual", score, 0.0), np.int64))
        else:
            scores = graph("Gather", scores, np.arange(formula.classes), axis=1)
            votes.append(graph("ArgMax", scores, axis=1, keepdims=1))
    classes = np.ones(1, np.int64) if each == 1 else np.arange(each)
    voices = graph("Unsqueeze", graph("Concat", *votes, axis=1), np.array([1]))
    signs = graph("Where", graph("Equal", voices, classes[:, None]), 1.0, -1.0)
    return graph("Squeeze", graph("MatMul", signs, formula.weights[:, None]), np.array([2]))


@outputs.register
def _of_mixtures(formula: MixedPlanes, graph: Graph, rows: str) -> str:
    groups = [of_experts(group, graph, rows) for group in formula.groups]
    planes = graph("Concat", *groups, axis=2) if len(groups) > 1 else groups[0]
    odds = graph("Add", graph("Mul", planes, formula.slopes), formula.offsets)
    chances = graph("Sigmoid", graph("Clip", odds, -LARGEST_ODDS, LARGEST_ODDS))
    shared = graph("Mul", chances, formula.shares)
    chance = graph("ReduceSum", shared, np.array([2]), keepdims=0)
    return graph("Log", graph("Div", chance, graph("Sub", 1.0, chance)))


@singledispatch
def of_experts(group: Any, graph: Graph, rows: str) -> str:
    """The outputs of some experts; axes: row, problem, expert."""
    raise TypeError(f"no graph for {type(group).__name__}")


@of_experts.register
def _of_uncertain(group: UncertainPlanes, graph: Graph, rows: str) -> str:
    rows = graph("Gather", rows, np.arange(group.weights.shape[1]), axis=1)
    features = features_of(group.features, graph, rows)
    features = graph("Clip", features, -MOST_DEVIATIONS, MOST_DEVIATIONS)
    scores = graph("Add", graph("MatMul", features, group.weights.T), group.intercepts)
    # Axes: problem, row, feature.
    along = graph("MatMul", graph("Unsqueeze", features, np.array([0])), group.variances)
    along = graph("Add", along, 2.0 * group.crosses[:, None])
    along = graph("ReduceSum", graph("Mul", along, features), np.array([2]), keepdims=0)
    variances = graph("Add", graph("Transpose", along, perm=[1, 0]), group.constants)
    ratio = graph("Sqrt", graph("Add", graph("Mul", variances, np.pi / 8.0), 1.0))
    return graph("Unsqueeze", graph("Div", scores, ratio), np.array([2]))


@of_experts.register
def _of_expert_planes(group: ExpertPlanes, graph: Graph, rows: str) -> str:
    features = features_of(group.features, graph, rows)
    problems, experts, count = group.weights.shape
    products = graph("MatMul", features, group.weights.reshape(problems * experts, count).T)
    return graph(
        "Add", graph("Reshape", products, np.array([-1, problems, experts])), group.intercepts
    )


@singledispatch
def features_of(features: Any, graph: Graph, rows: str) -> str:
    """The features of rows."""
    return rows


@features_of.register
def _standardized(features: Standardization, graph: Graph, rows: str) -> str:
    differences = graph("Sub", rows, features.centers)
    squares = graph("Add", graph("Mul", differences, differences), features.spreads)
    squares = graph("Max", squares, SMALLEST_SQUARE)
    return graph("Mul", differences, graph("Sqrt", graph("Div", features.counts, squares)))


@features_of.register
def _curves(features: Curves, graph: Graph, rows: str) -> str:
    angles, near = graph("MatMul", rows, features.angles), features.likeness
    rows = graph("Mul", rows, near.units)
    own = graph("ReduceSum", graph("Mul", rows, rows), np.array([1]), keepdims=1)
    products = graph("MatMul", rows, 2.0 * near.points)
    squares = graph("Max", graph("Sub", graph("Add", own, near.squares), products), 0.0)
    likeness = graph("Exp", graph("Mul", squares, -near.bends))
    return graph("Concat", graph("Cos", angles), graph("Sin", angles), likeness, axis=1)


@outputs.register
def _of_densities(formula: Densities, graph: Graph, rows: str) -> str:
    gaps = graph("Sub", graph("Unsqueeze", rows, np.array([1])), formula.means)
    squares = graph("Div", graph("Mul", gaps, gaps), -2.0 * formula.variances)
    logs = graph("ReduceSum", squares, np.array([2]), keepdims=0)
    logs = graph("Max", graph("Add", logs, formula.levels), NOTHING)
    others = np.where(formula.owners == np.arange(formula.classes)[:, None], 0.0, NOTHING)
    of_each = graph("Add", graph("Unsqueeze", logs, np.array([1])), others)
    totals = graph("Max", graph("ReduceLogSumExp", of_each, axes=[2], keepdims=0), NOTHING)
    if formula.classes != 2:
        return totals
    return graph("MatMul", totals, np.array([[-1.0], [1.0]]))
