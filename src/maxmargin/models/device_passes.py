"""The passes of Newton's method over dense rows on a device.

They have the names and arguments of those in `core.newton_passes`. Slacks, changes and goals are
arrays of the device; weights, sums and Hessians, which are small, are on the host. Rows are
converted to float64 in blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from maxmargin.models.hessian import cholesky, newton_step, system_of
from maxmargin.models.kernel_newton import best_steps

# Values that are converted to float64 at a time.
AT_ONCE = 2**26


class DevicePasses:
    """Passes over ``X``, an array of the device; ``signs``, (rows, problems), are of the host.

    ``products`` transfer arrays.
    """

    def __init__(
        self, products: Any, X: Any, signs: np.ndarray, sample_weight: np.ndarray, intercept: bool
    ) -> None:
        self.products, self.xp, self.X, self.intercept = products, products.xp, X, intercept
        self.signs, self.sample_weight = products.here(signs), products.here(sample_weight)
        self._numbers: tuple[np.ndarray, Any] = np.empty(0), slice(0)

    def where(self, numbers: np.ndarray) -> Any:
        """An index of these rows for arrays of the device; a slice if they are all rows."""
        if self._numbers[0] is not numbers:
            whole = numbers.size == self.X.shape[0]
            self._numbers = numbers, slice(None) if whole else self.products.here(numbers)
        return self._numbers[1]

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

    # ------------------------------------------------------------------ as in `core.newton_passes`
    def empty(self, shape: Any, dtype: Any = np.float64) -> Any:
        return self.xp.empty(shape, dtype)

    def signed_outputs(
        self, rows: Any, numbers: Any, targets: Any, first: int, lines: Any, weights: Any, out: Any
    ) -> None:
        here, chosen = self.products.here, weights[lines]
        planes, bias = here(np.ascontiguousarray(chosen[:, :-1].T)), here(chosen[:, -1].copy())
        for part, which in self.blocks(numbers):
            outputs = self.taken(which) @ planes
            if self.intercept:
                outputs = outputs + bias
            for k, c in enumerate(lines.tolist()):
                out[c, part] = self.signs[which, first + c] * outputs[:, k]

    def positive(self, numbers: Any, targets: Any, first: int, lines: Any, out: Any) -> None:
        for part, which in self.blocks(numbers):
            for c in lines.tolist():
                out[c, part] = self.signs[which, first + c] > 0.0

    def pulls(
        self,
        rows: Any,
        numbers: Any,
        targets: Any,
        first: int,
        lines: Any,
        sample_weight: Any,
        slack: Any,
        limit: float,
        sums: np.ndarray,
        totals: np.ndarray,
    ) -> None:
        xp, host, chosen = self.xp, self.products.host, lines.tolist()
        for part, which in self.blocks(numbers):
            masses, counts, X = [], self.sample_weight[which], self.taken(which)
            for c in chosen:
                positive = xp.maximum(slack[c, part], 0.0)
                within = xp.minimum(positive, limit)
                mass, own = counts * within, self.signs[which, first + c] > 0.0
                losses = mass * (2.0 * positive - within)
                for side, of_class in ((2 * c, own), (2 * c + 1, ~own)):
                    masses.append(xp.where(of_class, mass, 0.0))
                    totals[side, 0] += float(masses[-1].sum())
                    totals[side, 1] += float(xp.where(of_class, losses, 0.0).sum())
                    totals[side, 2] += float((masses[-1] > 0.0).sum())
            added = host(xp.stack(masses) @ X)
            for k, c in enumerate(chosen):
                sums[2 * c : 2 * c + 2, :-1] += added[2 * k : 2 * k + 2]
        if self.intercept:
            for c in chosen:
                sums[2 * c : 2 * c + 2, -1] = totals[2 * c : 2 * c + 2, 0]

    def best_step(
        self,
        slack: Any,
        change: Any,
        sample_weight: Any,
        numbers: Any,
        limit: float,
        penalty: float,
        slope: float,
        curvature: float,
    ) -> float:
        xp, counts = self.xp, self.counts(numbers)[:, None]
        given = xp.full(1, slope), xp.full(1, curvature)
        found = best_steps(xp, slack[:, None], change[:, None], counts, limit, penalty, *given)
        return float(found[0])

    def move(
        self, slack: Any, change: Any, t: float, limit: float, entered: Any, left: Any
    ) -> tuple[int, int]:
        before = (slack > 0.0) & (slack < limit)
        slack -= t * change
        now = (slack > 0.0) & (slack < limit)
        return int((now & ~before).sum()), int((before & ~now).sum())

    def losses(self, slack: Any, goals: Any, sample_weight: Any, numbers: Any) -> float:
        lacking = self.xp.maximum(slack - (goals - 1.0), 0.0)
        return float((self.counts(numbers) * lacking).sum())

    def lowest(self, outputs: Any) -> float:
        return float(outputs.min())

    def curvatures(self, state: Any) -> DeviceHessians:
        return DeviceHessians(state, self)

    def spread(self, task: Any, numbers: np.ndarray) -> float:
        return float(self.taken(self.products.here(numbers)).var(axis=0).sum())


class DeviceHessians:
    """``sum of s x x'`` over the rows in the Hessian, recomputed for each step."""

    def __init__(self, state: Any, passes: DevicePasses) -> None:
        self.state, self.passes = state, passes
        self.center = np.zeros(state.task.width + 1)

    def begin(self) -> None:
        passes, numbers = self.passes, self.state.numbers
        if passes.intercept:
            some = numbers[:: max(1, numbers.size // 4096)][:4096]
            mean = passes.taken(passes.products.here(some)).mean(axis=0)
            self.center[:-1] = passes.products.host(mean)

    def changed(self, c: int, entered: np.ndarray, left: np.ndarray) -> None:
        """Nothing to update."""

    def restated(self, c: int, was: Any, now: Any) -> None:
        """Nothing to update."""

    def _sum(self, c: int) -> np.ndarray:
        passes, state = self.passes, self.state
        xp, here = passes.xp, passes.products.here
        size, center = self.center.size, here(self.center[:-1])
        total = xp.zeros((size, size))
        for part, which in passes.blocks(state.numbers):
            slack = state.slack[c, part]
            chosen = xp.flatnonzero((slack > 0.0) & (slack < state.limit))
            some = chosen + part.start if isinstance(which, slice) else which[chosen]
            if not some.size:
                continue
            roots = xp.sqrt(passes.sample_weight[some])[:, None]
            block = xp.empty((some.size, size))
            block[:, :-1] = (passes.taken(some) - center) * roots
            block[:, -1:] = roots if passes.intercept else 0.0
            total += block.T @ block
        return passes.products.host(total)

    def direction(self, c: int, gradient: np.ndarray) -> np.ndarray:
        matrix, penalty = self._sum(c), self.state.penalty
        factor = cholesky(system_of(matrix, penalty))
        return newton_step(
            matrix, factor, gradient, self.center, penalty, self.state.task.intercept
        )
