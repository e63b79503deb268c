"""Newton steps of coefficients of rows: systems in the rows that are active.

Rows with a slack between 0 and the limit are in the system of a step. Given these rows I, and the
fixed coefficients of rows J beyond the limit, the minimum is at

    (K_II + diag(mu / s)) beta_I + b  =  y goal - K_IJ beta_J,        sum of all beta = 0,

the second only if there is an intercept. mu is lambda for the squared hinge loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrs

from maxmargin.core.numba_backend import Compiled
from maxmargin.solvers import newton_passes
from maxmargin.solvers.hessian import cholesky, remainders_of_products
from maxmargin.solvers.newton import Stage

# In so many steps after rows were added, those without coefficients whose slack is no larger than
# that are left out of systems: most would leave the active set again, and lines are expensive.
YOUNG, NEARLY = 2, 0.2
# Where that share of the active rows has no coefficients yet, passes of dual ascent come first.
LOOSE, PASSES = 0.05, 3
# Conjugate gradients stop when the residual is that much smaller, or after so many.
RESIDUAL, MOST_GRADIENTS = 1e-4, 500


class Target(NamedTuple):
    """Where whole steps lead: coefficients, of shape (rows, problems), and intercepts."""

    coefs: Any
    bias: np.ndarray


class Systems(NamedTuple):
    """The systems of a step: ``K + diag(ridges)`` over the chosen rows, and their aims."""

    which: np.ndarray
    chosen: np.ndarray
    ridges: np.ndarray
    aims: Any
    has_limit: bool


def alike(chosen: np.ndarray) -> list[list[int]]:
    """Groups of problems with the same rows, as all have in the first step."""
    groups: dict[bytes, list[int]] = {}
    for k in range(chosen.shape[1]):
        groups.setdefault(chosen[:, k].tobytes(), []).append(k)
    return list(groups.values())


class KernelSystems:
    """Finds steps for a `KernelOracle`; ``young`` counts those since rows were added."""

    def __init__(self, oracle: Any) -> None:
        self.oracle, self.products, self.xp = oracle, oracle.products, oracle.xp
        self.young = 0

    def directions(self, stage: Stage, which: np.ndarray) -> Target:
        oracle, xp, index = self.oracle, self.xp, self.products.index
        columns, has_limit = index(which), stage.limit < np.inf
        arrays = oracle.signs, oracle.goals, oracle.slack
        signs, goals, slack = (each[:, columns] for each in arrays)
        between = (slack > 0.0) & (slack < stage.limit) & oracle.rest
        after, aims = xp.zeros(signs.shape), signs * goals
        if has_limit:
            beyond = (slack >= stage.limit) & oracle.rest
            fixed_at = signs * oracle.counts * (stage.limit / stage.penalty)
            after = xp.where(beyond, fixed_at, 0.0)
            aims = aims - oracle.summed(after)
        fixed, chosen = oracle.host(after.sum(axis=0)), oracle.host(between)
        if self.young < YOUNG and not has_limit and self.products.keeps_lines:
            chosen = chosen & ((oracle.coefs[:, columns] != 0.0) | (slack > NEARLY))
        self.young += 1
        oracle.lines.keep(np.flatnonzero(chosen.any(axis=1)))
        weights = oracle.data.sample_weight[oracle.numbers].clip(min=1e-300)
        bias, intercept = oracle.bias[which].copy(), oracle.data.intercept
        systems = Systems(which, chosen, stage.penalty / weights, aims, has_limit)
        for group, active, found in self._solved(systems):
            for n, k in enumerate(group):
                if found is None:
                    bias[k] += np.sign(fixed[k]) * intercept
                    continue
                wanted, ones = found[:, n], found[:, -1]
                if intercept:
                    bias[k] = (float(wanted.sum()) + fixed[k]) / float(ones.sum())
                    wanted = wanted - bias[k] * ones
                after[index(active), k] = wanted
        return Target(after, bias)

    def _solved(self, systems: Systems) -> Iterator[tuple[list[int], np.ndarray, Any]]:
        """Groups of problems, their active rows, and the inverse times their aims and ones."""
        factorised = []
        for group in alike(systems.chosen):
            active = np.flatnonzero(systems.chosen[:, group[0]])
            if not active.size:
                yield group, active, None
            elif active.size > self.products.most_factorised:
                yield group, active, self._gradients(systems, group, active)
            else:
                factorised.append((group, active))
        found = self.products.each_solved(
            [active.size for _, active in factorised],
            lambda n: self._system(systems, *factorised[n]),
        )
        for (group, _), (active, solution) in zip(factorised, found, strict=True):
            for more in (1.0, 64.0):  # times what rounding may have made of a zero eigenvalue
                if solution is None:
                    solution = self._solved_again(systems, group, active, more)
            if solution is None:
                raise ValueError(
                    "The kernel matrix is not positive semidefinite: MaxMargin needs a kernel that "
                    "satisfies Mercer's condition."
                )
            yield group, active, solution

    def _sides(self, systems: Systems, group: list[int], active: np.ndarray) -> Any:
        """The aims of these rows and problems, and ones."""
        rows, columns = self.products.index(active), self.products.here(np.array(group))
        sides = self.xp.ones((active.size, len(group) + 1))
        sides[:, :-1] = systems.aims[rows[:, None], columns[None, :]]
        return sides

    def _solved_again(
        self, systems: Systems, group: list[int], active: np.ndarray, more: float
    ) -> Any:
        """With so many times the rounding of eigenvalues added to the diagonal."""
        oracle = self.oracle
        rounding = (oracle.rounding + oracle.unit * active.size) * oracle.largest
        given = systems._replace(ridges=systems.ridges + more * rounding)
        matrix = oracle.lines.between(active)
        solved = self.products.each_solved(
            [active.size], lambda _: self._ridged(given, group, active, matrix)
        )
        return next(iter(solved))[1]

    def _system(
        self, systems: Systems, group: list[int], active: np.ndarray
    ) -> tuple[np.ndarray, Any, Any]:
        """The rows of a system, its matrix and its right sides."""
        if len(group) == 1 and self._is_loose(systems, active, group[0]):
            c, ridges = int(systems.which[group[0]]), systems.ridges
            return self._ridged(systems, group, *self.tightened(active, c, ridges))
        return self._ridged(systems, group, active, self.oracle.lines.between(active))

    def _ridged(
        self, systems: Systems, group: list[int], active: np.ndarray, matrix: Any
    ) -> tuple[np.ndarray, Any, Any]:
        ends = self.xp.arange(active.size)
        matrix[ends, ends] += self.products.here(systems.ridges[active])
        return active, matrix, self._sides(systems, group, active)

    def _is_loose(self, systems: Systems, active: np.ndarray, k: int) -> bool:
        """Are many rows active that have no coefficients yet, so that most will rest again?"""
        c = systems.which[k]
        if not self.products.keeps_lines or systems.has_limit or not self.oracle.lower[c]:
            return False
        new = np.count_nonzero(self.oracle.coefs[active, c] == 0.0)
        return bool(LOOSE * active.size < new)

    def tightened(
        self, active: np.ndarray, c: int, ridges: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The rows with coefficients after some passes of dual ascent, and their kernel matrix."""
        oracle, matrix = self.oracle, self.oracle.lines.between(active)
        signs, goals = oracle.signs[active, c], oracle.goals[active, c]
        alphas = np.maximum(signs * oracle.coefs[active, c], 0.0)
        # In the type of the matrix: another one would copy all of it.
        outputs = (matrix @ (signs * alphas).astype(matrix.dtype)).astype(float) + oracle.bias[c]
        intercept = oracle.largest if oracle.data.intercept else 0.0
        system = newton_passes.DualSystem(signs, goals, ridges[active], intercept)
        newton_passes.ascend_by_matrix(matrix, system, PASSES, alphas, outputs)
        kept = np.flatnonzero(alphas)
        if not kept.size:  # rounding leaves none of them a coefficient
            return active, matrix
        flat = matrix.reshape(-1)
        compress(matrix, kept, flat)
        return active[kept], flat[: kept.size**2].reshape(kept.size, kept.size)

    def _gradients(self, systems: Systems, group: list[int], active: np.ndarray) -> Any:
        """The solution of a system by conjugate gradients, all sides together."""
        xp, places = self.xp, self.products.index(active)
        sides = self._sides(systems, group, active)
        ridges = self.products.here(systems.ridges[active])[:, None]
        scale, found = self.oracle.largest + ridges, xp.zeros(sides.shape)
        left, line = sides.copy(), sides / scale
        size = (left * line).sum(axis=0)
        enough = RESIDUAL**2 * (left * left).sum(axis=0)
        for _ in range(MOST_GRADIENTS):
            curved = self.oracle.lines.times(active, line)[places] + ridges * line
            amount = size / xp.maximum((line * curved).sum(axis=0), 1e-300)
            found = found + amount * line
            left = left - amount * curved
            if bool(((left * left).sum(axis=0) <= enough).all()):
                break
            scaled = left / scale
            before, size = size, (left * scaled).sum(axis=0)
            line = scaled + (size / xp.maximum(before, 1e-300)) * line
        return found

    # ------------------------------------------------------------------------------- leave-one-out
    def at_active(
        self, stage: Stage, chosen: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Coefficients and intercepts by the active rows, and their `remainders_of_products`."""
        oracle = self.oracle
        oracle.lines.keep(np.flatnonzero(chosen.any(axis=1)))
        after, bias, shares = oracle.coefs.copy(), oracle.bias.copy(), np.ones(chosen.shape)
        for group in alike(chosen):
            active = np.flatnonzero(chosen[:, group[0]])
            if active.size:
                after[:, group] = 0.0
                there = np.ix_(active, np.array(group))
                after[there], bias[group], shares[there] = self._group_at(stage, active, group)
        return after, bias, shares

    def _group_at(
        self, stage: Stage, active: np.ndarray, group: list[int]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same of problems with these rows; NaN where rounding leaves no system to solve."""
        oracle = self.oracle
        own = stage.penalty / oracle.data.sample_weight[active]
        system = oracle.lines.between(active).astype(float, copy=False)
        system[np.diag_indices(active.size)] += own
        if (factor := cholesky(system)) is None:
            unknown = np.full((1, len(group)), np.nan)
            return unknown, unknown[0], unknown
        sides = np.column_stack(
            [oracle.signs[np.ix_(active, np.array(group))], np.ones(active.size)]
        )
        found, _ = dpotrs(factor, sides, lower=1)
        wanted, ones, bias = found[:, :-1], found[:, -1:], np.zeros(len(group))
        if oracle.data.intercept:
            bias = wanted.sum(axis=0) / ones.sum()
        shares = remainders_of_products(factor, own, oracle.data.intercept)
        return wanted - bias * ones, bias, shares[:, None]


@Compiled
def compress(matrix, kept, out):  # type: ignore[no-untyped-def]
    """The upper triangle of ``matrix[kept][:, kept]`` in ``out``, line by line.

    ``out`` may be the memory of the matrix: as ``kept`` is in ascending order, nothing is
    overwritten before it is read.
    """
    for r in range(kept.size):
        for k in range(r, kept.size):
            out[r * kept.size + k] = matrix[kept[r], kept[k]]
