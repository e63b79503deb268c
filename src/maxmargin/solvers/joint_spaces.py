"""Where the weights of classes that are learned together live; all arrays have a line for each."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from maxmargin.solvers import joint_passes
from maxmargin.solvers.hessian import gathered, is_gathered
from maxmargin.solvers.joint_curvature import JointGradients, JointHessians
from maxmargin.solvers.joint_pairs import JointPairs
from maxmargin.solvers.kernel_oracle import KernelRows
from maxmargin.solvers.linear_curvature import mean_row
from maxmargin.solvers.linear_oracle import MOST_DIRECT, MOST_ROWS, LinearRows, growing_samples
from maxmargin.solvers.newton import Curvature, Stage, newton
from maxmargin.solvers.newton_lines import NewtonLines
from maxmargin.spaces.problem_scalars import ROUNDING

# In a kernel's space, factors leave rows out of so many at most.
MOST_LEFT_OUT = 2048
# How precise the one-vs-rest solutions are that the one for all classes starts from.
ROUGH = 0.01


class ClassSpace(Protocol):
    """Weights of all classes; the intercepts are their last column.

    size : of the weights of a class, with the intercept
    radius : the largest norm of a row
    rounded : how much products of rows may be rounded
    has_factors : are systems solved by factors, so that rows can be left out?
    """

    size: int
    radius: float
    rounded: float
    has_factors: bool

    def kept(self, weights: np.ndarray) -> np.ndarray:
        """What is left of weights if rows do not count."""

    def restrict(self, numbers: np.ndarray) -> None:
        """The rows that outputs and sums are about."""

    def outputs(self, weights: np.ndarray) -> np.ndarray:
        """``w_c.x + b_c``."""

    def combined(self, coefs: np.ndarray) -> np.ndarray:
        """The sums of rows times these coefficients, as weights."""

    def square(self, weights: np.ndarray, outputs: np.ndarray | None = None) -> float:
        """The squared length of weights without intercepts; outputs are computed unless given."""

    def product(self, weights: np.ndarray, others: np.ndarray, outputs: np.ndarray) -> float:
        """The product of weights without intercepts, given the outputs of the others."""

    def error(self, weights: np.ndarray) -> float:
        """How much the lead of an output over another may be rounded."""

    def square_error(self, weights: np.ndarray) -> float:
        """How much a squared length may be rounded, besides the sum of its terms."""

    def samples(self, everything: np.ndarray) -> list[np.ndarray]:
        """Growing samples of the rows."""

    def curvature(self, oracle: Any, stage: Stage) -> Curvature:
        """What finds steps."""


class LinearClasses:
    """Weights of features."""

    def __init__(self, data: LinearRows, classes: int) -> None:
        self.data, self.passes, self.rows = data, data.passes, data.passes.rows
        self.classes, self.size, self.radius = classes, data.width + 1, data.radius
        self.rounded = ROUNDING * (self.size + 16.0) * self.radius**2
        self.is_direct = classes * self.size <= MOST_DIRECT
        self.is_few = int(np.count_nonzero(data.sample_weight)) <= MOST_ROWS
        self.has_factors = self.is_direct
        self.matrix: Any = None

    def kept(self, weights: np.ndarray) -> np.ndarray:
        return weights

    def restrict(self, numbers: np.ndarray) -> None:
        self.numbers = numbers

    def outputs(self, weights: np.ndarray) -> np.ndarray:
        found = np.empty((weights.shape[0], self.numbers.size))
        joint_passes.outputs(self.rows, self.numbers, weights, found)
        return found

    def combined(self, coefs: np.ndarray) -> np.ndarray:
        found = np.zeros((coefs.shape[0], self.size))
        joint_passes.combine(self.rows, self.numbers, coefs, found)
        return found

    def square(self, weights: np.ndarray, outputs: np.ndarray | None = None) -> float:
        return float(np.vdot(weights[:, :-1], weights[:, :-1]))

    def product(self, weights: np.ndarray, others: np.ndarray, outputs: np.ndarray) -> float:
        return float(np.vdot(weights[:, :-1], others[:, :-1]))

    def error(self, weights: np.ndarray) -> float:
        extent = np.linalg.norm(weights[:, :-1], axis=1) * self.radius + np.abs(weights[:, -1])
        return 2.0 * ROUNDING * ((self.size + 16.0) * float(extent.max()) + 4.0)

    def square_error(self, weights: np.ndarray) -> float:
        return 0.0

    def samples(self, everything: np.ndarray) -> list[np.ndarray]:
        return growing_samples(everything, self.data.width) if self.is_direct else []

    def curvature(self, oracle: Any, stage: Stage) -> Curvature:
        if not self.is_direct:
            return JointGradients(oracle)
        pairs = None
        if self.is_few and self.numbers.size < self.classes * self.size:
            pairs = self._with_products(oracle)
        return JointHessians(oracle, pairs)

    # -------------------------------------------------------------------------------- few rows only
    def _with_products(self, oracle: Any) -> JointPairs:
        """Products of the rows with each other, about their center if there are intercepts."""
        self.center = np.zeros(self.size)
        if self.data.intercept and is_gathered(self.data.filled, self.data.width):
            self.center = mean_row(self, self.numbers)
        ones = np.ones(self.data.sample_weight.size)
        block = gathered(self.rows, self.numbers, ones, self.center)[:, :-1]
        self.matrix = block @ block.T
        return JointPairs(oracle)

    def between(self, places: np.ndarray) -> np.ndarray:
        """Products of the rows at these places."""
        return np.asarray(self.matrix[np.ix_(places, places)])

    def intercepts(self, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
        """Given the outputs at the center."""
        return np.asarray(bias - weights[:, :-1] @ self.center[:-1])


class KernelClasses:
    """Coefficients of rows, in the space of a kernel; its values are in float64."""

    def __init__(self, data: KernelRows, classes: int) -> None:
        self.data, self.products, self.classes = data, data.products, classes
        self.size = data.sample_weight.size + 1
        self.everything = np.flatnonzero(data.sample_weight > 0.0)
        diagonal = data.kernel.diagonal(data.points)[self.everything]
        self.largest = float(diagonal.max(initial=0.0))
        rounding = data.kernel.rounding(data.points)
        self.rounding = rounding + ROUNDING * (self.everything.size + 16.0)
        self.radius = float(np.sqrt(self.largest * (1.0 + self.rounding)))
        self.rounded = self.rounding * self.largest
        self.has_factors = self.everything.size <= MOST_LEFT_OUT
        self.known: NewtonLines | None = None

    @property
    def lines(self) -> NewtonLines:
        if self.known is None:
            given = self.data.kernel, self.data.points, self.products
            self.known = NewtonLines(*given, self.data.cache_bytes, np.float64)
        return self.known

    def kept(self, weights: np.ndarray) -> np.ndarray:
        found = np.zeros(weights.shape)
        found[:, self.everything] = weights[:, self.everything]
        found[:, -1] = weights[:, -1]
        return found

    def restrict(self, numbers: np.ndarray) -> None:
        self.numbers = numbers

    def outputs(self, weights: np.ndarray) -> np.ndarray:
        coefs = weights[:, :-1]
        used = np.flatnonzero(coefs.any(axis=0))
        self.lines.keep(used)
        sums = self.lines.times(used, np.ascontiguousarray(coefs[:, used].T))
        return np.add(sums[self.numbers].T, weights[:, -1:], order="C")

    def combined(self, coefs: np.ndarray) -> np.ndarray:
        found = np.zeros((coefs.shape[0], self.size))
        found[:, self.numbers] = coefs
        found[:, -1] = coefs.sum(axis=1)
        return found

    def square(self, weights: np.ndarray, outputs: np.ndarray | None = None) -> float:
        outputs = self.outputs(weights) if outputs is None else outputs
        return max(self.product(weights, weights, outputs), 0.0)

    def product(self, weights: np.ndarray, others: np.ndarray, outputs: np.ndarray) -> float:
        return float(np.vdot(weights[:, self.numbers], outputs - others[:, -1:]))

    def error(self, weights: np.ndarray) -> float:
        mass, bias = np.abs(weights[:, :-1]).sum(axis=1), np.abs(weights[:, -1])
        rounded = self.rounding * self.largest * mass + 8.0 * ROUNDING * (1.0 + bias)
        return 2.0 * float(rounded.max())

    def square_error(self, weights: np.ndarray) -> float:
        mass, bias = np.abs(weights[:, :-1]).sum(axis=1), np.abs(weights[:, -1])
        return float(self.rounding * self.largest * (mass @ mass) + 4.0 * ROUNDING * (mass @ bias))

    def samples(self, everything: np.ndarray) -> list[np.ndarray]:
        return []

    def curvature(self, oracle: Any, stage: Stage) -> Curvature:
        if not oracle.weights.any() and stage.share == 1.0:
            oracle.go_to(self._apart(stage))
        return JointPairs(oracle)

    def _apart(self, stage: Stage) -> np.ndarray:
        """Half the weights of one-vs-rest problems, which are near and cost less.

        With two classes they would be the minimum.
        """
        given = stage.task._replace(penalty=0.5 * stage.penalty, tol=ROUGH, hinge=False)
        oracle = self.data.oracle(given, slice(0, self.classes))
        return 0.5 * newton(oracle, given).weights

    def between(self, places: np.ndarray) -> np.ndarray:
        """The kernel matrix of the rows at these places."""
        numbers = self.numbers[places]
        self.lines.keep(numbers)
        return np.asarray(self.lines.between(numbers))

    def intercepts(self, weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
        return bias
