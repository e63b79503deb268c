"""The passes of Newton's method over blocks of rows, as matrix products, on a device or here.

They have the names and arguments of `linear_oracle.HostPasses`. Slacks, changes and goals are
arrays of the device; weights, sums and Hessians, which are small, are on the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.linalg.blas import dtrsm

from maxmargin.solvers.hessian import LEAST_REMAINDER, cholesky, newton_step, system_of
from maxmargin.solvers.newton import Stage
from maxmargin.solvers.newton_passes import Objective, best_steps

# Values of a matrix that are converted to float64 at a time.
AT_ONCE = 2**26


class BlockFeatures(Protocol):
    """Features of rows, which are linear functions of the columns of blocks.

    size : the number of rows
    at_once : rows of a block
    mixed : how many columns are part of a feature, besides its own
    """

    size: int
    at_once: int
    mixed: int

    def taken(self, which: Any) -> Any:
        """The block of these rows, in float64."""

    def coefficients(self, weights: np.ndarray) -> np.ndarray:
        """Of columns, given weights of features, one line for each problem."""

    def sums(self, of_columns: np.ndarray) -> np.ndarray:
        """Sums of features, given those of columns."""


class MatrixColumns(NamedTuple):
    """The columns of a matrix, which are converted to float64 in blocks."""

    X: Any
    mixed: int = 0

    @property
    def size(self) -> int:
        return int(self.X.shape[0])

    @property
    def at_once(self) -> int:
        return max(1, AT_ONCE // self.X.shape[1])

    def taken(self, which: Any) -> Any:
        return self.X[which].astype(np.float64)

    def coefficients(self, weights: np.ndarray) -> np.ndarray:
        return weights

    def sums(self, of_columns: np.ndarray) -> np.ndarray:
        return of_columns


class BlockPasses(NamedTuple):
    """Passes over the rows of ``features``, for the problems from ``first`` on.

    ``products`` transfer arrays. All arrays are on the device, ``signs`` of shape (rows, problems).
    """

    products: Any
    features: Any
    signs: Any
    sample_weight: Any
    intercept: bool
    first: int = 0

    @property
    def xp(self) -> Any:
        return self.products.xp

    def where(self, numbers: np.ndarray) -> Any:
        """An index of these rows for arrays of the device; a slice if they are all rows."""
        return slice(None) if numbers.size == self.features.size else self.products.here(numbers)

    def blocks(self, numbers: np.ndarray) -> Iterator[tuple[slice, Any]]:
        """Places of blocks of rows, and their indices on the device."""
        where, step = self.where(numbers), self.features.at_once
        for start in range(0, numbers.size, step):
            part = slice(start, min(start + step, numbers.size))
            yield part, part if isinstance(where, slice) else where[part]

    def counts(self, numbers: np.ndarray) -> Any:
        return self.sample_weight[self.where(numbers)]

    # -------------------------------------------------------------------------- as in `HostPasses`
    def empty(self, shape: Any, dtype: Any = np.float64) -> Any:
        return self.xp.empty(shape, dtype)

    def signed_outputs(self, numbers: Any, lines: Any, weights: np.ndarray, out: Any) -> None:
        here, chosen = self.products.here, weights[lines]
        planes = self.features.coefficients(chosen[:, :-1])
        planes, bias = here(np.ascontiguousarray(planes.T)), here(chosen[:, -1].copy())
        for part, which in self.blocks(numbers):
            outputs = self.features.taken(which) @ planes
            if self.intercept:
                outputs = outputs + bias
            for k, c in enumerate(lines.tolist()):
                out[c, part] = self.signs[which, self.first + c] * outputs[:, k]

    def positive(self, numbers: Any, lines: Any, out: Any) -> None:
        for part, which in self.blocks(numbers):
            for c in lines.tolist():
                out[c, part] = self.signs[which, self.first + c] > 0.0

    def pulls(
        self, numbers: Any, lines: Any, slack: Any, limit: float, out: tuple[np.ndarray, np.ndarray]
    ) -> None:
        (sums, totals), xp, chosen = out, self.xp, lines.tolist()
        for part, which in self.blocks(numbers):
            masses, counts, block = [], self.sample_weight[which], self.features.taken(which)
            for c in chosen:
                positive = xp.maximum(slack[c, part], 0.0)
                within = xp.minimum(positive, limit)
                mass, own = counts * within, self.signs[which, self.first + c] > 0.0
                losses = mass * (2.0 * positive - within)
                for side, of_class in ((2 * c, own), (2 * c + 1, ~own)):
                    masses.append(xp.where(of_class, mass, 0.0))
                    totals[side, 0] += float(masses[-1].sum())
                    totals[side, 1] += float(xp.where(of_class, losses, 0.0).sum())
                    totals[side, 2] += 1.0
            added = self.features.sums(self.products.host(xp.stack(masses) @ block))
            for k, c in enumerate(chosen):
                sums[2 * c : 2 * c + 2, :-1] += added[2 * k : 2 * k + 2]
        for c in chosen:
            both = slice(2 * c, 2 * c + 2)
            # A sum is rounded once for each row of a block, each block, and each column that is
            # part of a feature.
            totals[both, 2] += min(self.features.at_once, numbers.size) + self.features.mixed
            if self.intercept:
                sums[both, -1] = totals[both, 0]

    def best_step(self, numbers: Any, slack: Any, change: Any, along: Objective) -> float:
        counts, full = self.counts(numbers)[:, None], self.xp.full
        along = along._replace(slope=full(1, along.slope), curvature=full(1, along.curvature))
        return float(best_steps(self.xp, slack[:, None], change[:, None], counts, along)[0])

    def move(self, slack: Any, change: Any, t: float, limit: float) -> int:
        before = (slack > 0.0) & (slack < limit)
        slack -= t * change
        return int((((slack > 0.0) & (slack < limit)) != before).sum())

    def losses(self, numbers: Any, slack: Any, goals: Any) -> float:
        lacking = self.xp.maximum(slack - (goals - 1.0), 0.0)
        return float((self.counts(numbers) * lacking).sum())

    def lowest(self, outputs: Any) -> float:
        return float(outputs.min())

    def spread(self, numbers: np.ndarray, width: int) -> float:
        block = self.products.host(self.features.taken(self.products.here(numbers)))
        return float(self.features.sums(block).var(axis=0).sum())

    def curvature(self, oracle: Any) -> BlockHessians:
        return BlockHessians(oracle)


class BlockHessians:
    """``sum of s x x'`` over the rows in the Hessian, computed anew for each step.

    Sums are of columns, less their mean in a sample of the rows.
    """

    def __init__(self, oracle: Any) -> None:
        self.oracle, self.passes, self.features = oracle, oracle.passes, oracle.passes.features
        some = oracle.numbers[:: max(1, oracle.numbers.size // 4096)][:4096]
        block = self.features.taken(self.passes.products.here(some))
        self.mean = block.mean(axis=0) * float(self.passes.intercept)
        self.center = np.zeros(oracle.data.width + 1)
        self.center[:-1] = self.features.sums(self.passes.products.host(self.mean)[None])[0]

    def directions(self, stage: Stage, which: np.ndarray) -> np.ndarray:
        steps = np.zeros_like(self.oracle.weights)
        for c, matrix in zip(which.tolist(), self._sums(stage, which), strict=True):
            factor, gradient = cholesky(system_of(matrix, stage.penalty)), self.oracle.gradient
            given = matrix, factor, gradient(stage, c), self.center, stage.penalty
            steps[c] = newton_step(*given, self.passes.intercept)
        return steps

    def remainders(self, stage: Stage, c: int, places: np.ndarray) -> np.ndarray:
        """``1 - h`` of active rows, as in `remainders_of_products`."""
        (matrix,) = self._sums(stage, np.array([c]))
        if (factor := cholesky(system_of(matrix, stage.penalty))) is None:
            return np.full(places.size, np.nan)
        leverages, step = np.empty(places.size), self.features.at_once
        for start in range(0, places.size, step):
            some = self.oracle.numbers[places[start : start + step]]
            block = self.passes.products.host(self._block(self.passes.products.here(some)))
            lines = np.column_stack([self.features.sums(block[:, :-1]), block[:, -1]])
            solved = dtrsm(1.0, factor, lines.T, lower=1)
            leverages[start : start + step] = np.einsum("ji,ji->i", solved, solved)
        return np.maximum(1.0 - leverages, LEAST_REMAINDER)

    def _block(self, which: Any) -> Any:
        """Columns less their mean, and the intercept's, times the roots of weights."""
        passes, columns = self.passes, self.features.taken(which)
        roots = passes.xp.sqrt(passes.sample_weight[which])[:, None]
        block = passes.xp.empty((columns.shape[0], columns.shape[1] + 1))
        block[:, :-1] = (columns - self.mean) * roots
        block[:, -1:] = roots if passes.intercept else 0.0
        return block

    def _sums(self, stage: Stage, which: np.ndarray) -> list[np.ndarray]:
        """The matrices of these problems, for which each block is computed once."""
        passes, size, problems = self.passes, self.mean.shape[0] + 1, which.tolist()
        xp, between = passes.xp, {c: self.oracle.between(stage, c) for c in problems}
        totals = {c: xp.zeros((size, size)) for c in problems}
        for part, numbers in passes.blocks(self.oracle.numbers):
            block = self._block(numbers)
            for c in problems:
                some = block[between[c][part]]
                totals[c] += some.T @ some
        return [self._of_features(passes.products.host(totals[c])) for c in problems]

    def _of_features(self, found: np.ndarray) -> np.ndarray:
        """Sums of features, given those of columns; both with the intercept's."""
        matrix, sums = np.empty((self.center.size, self.center.size)), self.features.sums
        matrix[:-1, :-1] = sums(sums(found[:-1, :-1]).T)
        matrix[:-1, -1] = matrix[-1, :-1] = sums(found[-1:, :-1])[0]
        matrix[-1, -1] = found[-1, -1]
        return matrix
