"""The passes of Newton's method over dense rows on a device.

They have the names and arguments of `linear_oracle.HostPasses`. Slacks, changes and goals are
arrays of the device; weights, sums and Hessians, which are small, are on the host. Rows are
converted to float64 in blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from maxmargin.solvers.hessian import cholesky, newton_step, system_of
from maxmargin.solvers.newton import Stage
from maxmargin.solvers.newton_passes import Objective, best_steps

# Values that are converted to float64 at a time.
AT_ONCE = 2**26


class DevicePasses(NamedTuple):
    """Passes over ``X``, for the problems from ``first`` on.

    ``products`` transfer arrays. All arrays are on the device, ``signs`` of shape (rows, problems).
    """

    products: Any
    X: Any
    signs: Any
    sample_weight: Any
    intercept: bool
    first: int = 0

    @property
    def xp(self) -> Any:
        return self.products.xp

    def where(self, numbers: np.ndarray) -> Any:
        """An index of these rows for arrays of the device; a slice if they are all rows."""
        return slice(None) if numbers.size == self.X.shape[0] else self.products.here(numbers)

    def blocks(self, numbers: np.ndarray) -> Iterator[tuple[slice, Any]]:
        """Places of blocks of rows, and their indices on the device."""
        where, step = self.where(numbers), max(1, AT_ONCE // self.X.shape[1])
        for start in range(0, numbers.size, step):
            part = slice(start, min(start + step, numbers.size))
            yield part, part if isinstance(where, slice) else where[part]

    def counts(self, numbers: np.ndarray) -> Any:
        return self.sample_weight[self.where(numbers)]

    def taken(self, which: Any) -> Any:
        return self.X[which].astype(np.float64)

    # -------------------------------------------------------------------------- as in `HostPasses`
    def empty(self, shape: Any, dtype: Any = np.float64) -> Any:
        return self.xp.empty(shape, dtype)

    def signed_outputs(self, numbers: Any, lines: Any, weights: np.ndarray, out: Any) -> None:
        here, chosen = self.products.here, weights[lines]
        planes, bias = here(np.ascontiguousarray(chosen[:, :-1].T)), here(chosen[:, -1].copy())
        for part, which in self.blocks(numbers):
            outputs = self.taken(which) @ planes
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
            masses, counts, X = [], self.sample_weight[which], self.taken(which)
            for c in chosen:
                positive = xp.maximum(slack[c, part], 0.0)
                within = xp.minimum(positive, limit)
                mass, own = counts * within, self.signs[which, self.first + c] > 0.0
                losses = mass * (2.0 * positive - within)
                for side, of_class in ((2 * c, own), (2 * c + 1, ~own)):
                    masses.append(xp.where(of_class, mass, 0.0))
                    totals[side, 0] += float(masses[-1].sum())
                    totals[side, 1] += float(xp.where(of_class, losses, 0.0).sum())
                    totals[side, 2] += float((masses[-1] > 0.0).sum())
            added = self.products.host(xp.stack(masses) @ X)
            for k, c in enumerate(chosen):
                sums[2 * c : 2 * c + 2, :-1] += added[2 * k : 2 * k + 2]
        if self.intercept:
            for c in chosen:
                sums[2 * c : 2 * c + 2, -1] = totals[2 * c : 2 * c + 2, 0]

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
        return float(self.taken(self.products.here(numbers)).var(axis=0).sum())

    def curvature(self, oracle: Any) -> DeviceHessians:
        return DeviceHessians(oracle)


class DeviceHessians:
    """``sum of s x x'`` over the rows in the Hessian, computed anew for each step."""

    def __init__(self, oracle: Any) -> None:
        self.oracle, self.passes = oracle, oracle.passes
        self.center = np.zeros(oracle.data.width + 1)
        if self.passes.intercept:
            some = oracle.numbers[:: max(1, oracle.numbers.size // 4096)][:4096]
            mean = self.passes.taken(self.passes.products.here(some)).mean(axis=0)
            self.center[:-1] = self.passes.products.host(mean)

    def directions(self, stage: Stage, which: np.ndarray) -> np.ndarray:
        steps = np.zeros_like(self.oracle.weights)
        for c in which.tolist():
            matrix = self._sum(stage, c)
            factor, gradient = cholesky(system_of(matrix, stage.penalty)), self.oracle.gradient
            given = matrix, factor, gradient(stage, c), self.center, stage.penalty
            steps[c] = newton_step(*given, self.passes.intercept)
        return steps

    def _sum(self, stage: Stage, c: int) -> np.ndarray:
        passes, size = self.passes, self.center.size
        xp, center = passes.xp, passes.products.here(self.center[:-1])
        total, between = xp.zeros((size, size)), self.oracle.between(stage, c)
        for part, which in passes.blocks(self.oracle.numbers):
            chosen = xp.flatnonzero(between[part])
            some = chosen + part.start if isinstance(which, slice) else which[chosen]
            if not some.size:
                continue
            roots = xp.sqrt(passes.sample_weight[some])[:, None]
            block = xp.empty((some.size, size))
            block[:, :-1] = (passes.taken(some) - center) * roots
            block[:, -1:] = roots if passes.intercept else 0.0
            total += block.T @ block
        return np.asarray(passes.products.host(total))
