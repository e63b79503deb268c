"""Newton steps for several classes together, of weights of features.

With slacks of the rivals c of the class y of row i, the Hessian is ``sum_i s_i x_i x_i'`` in each
pair of blocks, times the entries of ``D_i``: the Laplacian of a star that joins y with its active
rivals. So the block of y and c is less the sum over the active pairs of both, and blocks on the
diagonal are the sums of those in their line. Each active pair costs one product ``x x'``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotri, dpotrs
from scipy.sparse.csgraph import connected_components

from maxmargin.solvers import joint_passes
from maxmargin.solvers.hessian import (
    BLOCK,
    MOST_GRADIENTS,
    RESIDUAL,
    cholesky,
    enough_residual,
    gathered,
    is_gathered,
)
from maxmargin.solvers.joint_pairs import JointPairs
from maxmargin.solvers.linear_curvature import mean_row
from maxmargin.solvers.newton import Stage


class JointHessians:
    """The Hessian, kept; pairs that become active, or no longer are, change it.

    Attributes
    ----------
    pairs : finds steps where there are fewer active pairs than unknowns
    sums : the blocks, of shape (classes, size, classes, size)
    added : which pairs are in it
    removed : how many pairs were taken away, since all were added up
    """

    def __init__(self, oracle: Any, pairs: JointPairs | None) -> None:
        self.oracle, self.data, self.rows = oracle, oracle.space.data, oracle.space.rows
        self.pairs = pairs
        numbers, size, classes = oracle.numbers, oracle.space.size, oracle.classes
        self.center = np.zeros(size)
        if oracle.intercept and is_gathered(self.data.filled, self.data.width):
            self.center = mean_row(oracle.space, numbers[:: max(1, numbers.size // BLOCK)][:BLOCK])
        self.sums = np.zeros((classes, size, classes, size))
        self.added, self.removed = np.zeros(oracle.slack.shape, bool), 0
        order = np.argsort(oracle.labels, kind="stable")
        ends = np.cumsum(np.bincount(oracle.labels, minlength=classes))
        self.members = np.split(order, ends[:-1])

    def directions(self, stage: Stage, which: np.ndarray) -> np.ndarray:
        """The Newton step; down the gradient where rounding leaves no system to solve."""
        if self._has_few_pairs(stage):
            return self.pairs.directions(stage, which)  # type: ignore[union-attr]
        gradient, width = self.oracle.gradient(stage), self.data.width
        # From here on intercepts are outputs at the center.
        shifted = gradient.copy()
        shifted[:, :width] -= np.outer(gradient[:, width], self.center[:width])
        factor = self._factor(stage)
        if factor is None:
            step = -shifted / (stage.penalty + np.einsum("cjcj->cj", self.sums))
        else:
            step = dpotrs(factor, -shifted.reshape(-1), lower=1)[0].reshape(shifted.shape)
        step[:, width] -= step[:, :width] @ self.center[:width]
        step[:, width] *= self.oracle.intercept
        return step

    def _has_few_pairs(self, stage: Stage) -> bool:
        count = np.count_nonzero(self.oracle.between(stage))
        return self.pairs is not None and 0 < count < self.oracle.weights.size

    def _factor(self, stage: Stage) -> np.ndarray | None:
        """Cholesky's factor of the system."""
        now = self.oracle.between(stage)
        self._add_up(now)
        system, size = self.sums.copy(), self.center.size
        every = np.arange(size - 1)
        for c in range(self.oracle.classes):
            system[c, every, c, every] += stage.penalty
        # The objective does not change where the intercepts of joined classes move together.
        _, joined = connected_components(self._counts(now), directed=False)
        apart = joined[:, None] == joined
        level = float(np.einsum("cc->c", system[:, -1, :, -1]).mean()) or 1.0
        system[:, -1, :, -1] += level * apart / apart.sum(axis=1)
        return cholesky(system.reshape(2 * (self.oracle.classes * size,)))

    def _counts(self, now: np.ndarray) -> np.ndarray:
        """How many rows of each class have each rival active; none without intercepts."""
        counts = [np.count_nonzero(now[:, own], axis=1) for own in self.members]
        return np.array(counts) * self.oracle.intercept

    def _add_up(self, now: np.ndarray) -> None:
        """Bring the sums to these active pairs."""
        left = self.added & ~now
        # What is left of many pairs that went is mostly their rounding.
        if (self.removed + np.count_nonzero(left)) > np.count_nonzero(now):
            self.sums[:], self.removed = 0.0, 0
            self._add(now, 1.0)
        else:
            self.removed += int(np.count_nonzero(left))
            self._add(now & ~self.added, 1.0)
            self._add(left, -1.0)
        self.added = now

    def _add(self, pairs: np.ndarray, sign: float) -> None:
        sums, (rivals, places) = self.sums, np.nonzero(pairs)
        starts = np.searchsorted(rivals, np.arange(self.oracle.classes + 1))
        for c in range(self.oracle.classes):
            mine = places[starts[c] : starts[c + 1]]
            labels = self.oracle.labels[mine]
            for own in np.unique(labels).tolist():
                found = sign * self._products(mine[labels == own])
                sums[own, :, own] += found
                sums[c, :, c] += found
                sums[own, :, c] -= found
                sums[c, :, own] -= found

    def _products(self, places: np.ndarray) -> np.ndarray:
        """``sum of s x x'`` of these rows."""
        weights, found = self.data.sample_weight, np.zeros(2 * (self.center.size,))
        for start in range(0, places.size, BLOCK):
            chosen = self.oracle.numbers[places[start : start + BLOCK]]
            block = gathered(self.rows, chosen, weights, self.center)
            found += block.T @ block
        return found

    # ------------------------------------------------------------------------------- leave-one-out
    def held_by(
        self, stage: Stage, places: np.ndarray, active: np.ndarray, coefs: np.ndarray
    ) -> np.ndarray:
        """What rows at these places add to their own outputs, with their coefficients times mu."""
        if self._has_few_pairs(stage):
            return self.pairs.held_by(stage, places, active, coefs)  # type: ignore[union-attr]
        found, factor = np.zeros(coefs.shape), self._factor(stage)
        if factor is None:
            return np.full(coefs.shape, np.nan)
        inverse, size = dpotri(factor, lower=1, overwrite_c=1)[0].T, self.center.size
        numbers, labels = self.oracle.numbers[places], self.oracle.labels[places]
        ones, counts = np.ones(self.data.sample_weight.size), self.oracle.counts[places]
        some = np.flatnonzero(active.any(axis=0))
        for start in range(0, some.size, BLOCK):
            here = some[start : start + BLOCK]
            rows = gathered(self.rows, numbers[here], ones, self.center)
            products = np.empty((here.size, self.oracle.classes, self.oracle.classes))
            for c in range(self.oracle.classes):
                # Of the inverse, which is symmetric, the upper triangle is there.
                line = inverse[c * size : (c + 1) * size, c * size :].copy()
                line[:, :size] = np.triu(line[:, :size]) + np.triu(line[:, :size], 1).T
                turned = (rows @ line).reshape(here.size, -1, size)
                products[:, c, c:] = np.einsum("ncj,nj->nc", turned, rows)
                products[:, c:, c] = products[:, c, c:]
            given = labels[here], active[:, here].T, counts[here], coefs[:, here].T
            found[:, here] = held_outputs(products, *given).T
        return found


def held_outputs(
    products: np.ndarray,
    labels: np.ndarray,
    active: np.ndarray,
    counts: np.ndarray,
    coefs: np.ndarray,
) -> np.ndarray:
    """``G (1 - s D G)^-1 g`` for each row, with ``G = products`` and ``g = coefs``.

    G is ``x' H^-1 x`` for each pair of classes, with the Hessian H of all rows, and D the Laplacian
    of the row. Without the row, outputs are less by that, as long as no other row becomes active or
    inactive: see "Several classes together" in `docs/theory.md`.
    """
    rows, classes = np.arange(labels.size), products.shape[1]
    apart = active[:, :, None] * (products - products[rows, labels][:, None, :])
    apart[rows, labels] = -apart.sum(axis=1)
    system = np.eye(classes) - counts[:, None, None] * apart
    try:
        solved = np.linalg.solve(system, coefs[:, :, None])
    except np.linalg.LinAlgError:
        return np.full(coefs.shape, np.nan)
    return np.asarray((products @ solved)[:, :, 0])


class JointGradients:
    """Conjugate gradients over the active pairs, scaled by the diagonal of the Hessian."""

    def __init__(self, oracle: Any) -> None:
        self.oracle, self.space = oracle, oracle.space
        oracle.balances = True

    def directions(self, stage: Stage, which: np.ndarray) -> np.ndarray:
        oracle, now = self.oracle, self.oracle.counts * self.oracle.between(stage)
        penalties = np.full(oracle.weights.shape, stage.penalty)
        penalties[:, -1] = 0.0
        degrees, diagonal = np.abs(oracle.coefs(now)), np.zeros(oracle.weights.shape)
        joint_passes.combine_squares(self.space.rows, oracle.numbers, degrees, diagonal)
        scale, left = diagonal + penalties, -oracle.gradient(stage)
        scale[scale <= 0.0] = 1.0
        enough = enough_residual(stage.task.tol, stage.penalty, oracle.weights[:, :-1].reshape(-1))
        enough = max(RESIDUAL * float(np.linalg.norm(left)), enough)
        step, line = np.zeros(left.shape), left / scale
        size = float(np.vdot(left, line))
        for _ in range(MOST_GRADIENTS):
            if np.linalg.norm(left) <= enough or size <= 0.0:
                break
            curved = self.space.combined(oracle.coefs(now * oracle.leads(self.space.outputs(line))))
            curved += penalties * line
            amount = size / float(np.vdot(line, curved))
            step += amount * line
            left -= amount * curved
            before, size = size, float(np.vdot(left, left / scale))
            line = left / scale + (size / before) * line
        step[:, -1] *= oracle.intercept
        return step
