"""Newton steps for several classes together, by the coefficients of pairs of rows and rivals.

With the active pairs p = (i, c), the rows ``e_p = e_y - e_c`` of E and the kernel matrix K, the
minimum is at coefficients a and intercepts b with

    S a + E b = g,    E' a = 0,        S_pq = K_ij (e_p . e_q) + mu / s_i if p = q,

the second only if there are intercepts. A row has the coefficient ``sum of a_p e_p``. Few pairs are
solved by Cholesky's factor of S, more of them by conjugate gradients, without a matrix.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotri, dpotrs
from scipy.sparse.csgraph import connected_components

from maxmargin.core.numba_backend import Compiled
from maxmargin.solvers.hessian import cholesky
from maxmargin.solvers.newton import Stage

# With more active pairs steps are found without a matrix of their products.
MOST_PAIRS = 1024
# Conjugate gradients stop when the residual is that much smaller, or after so many.
RESIDUAL, MOST_GRADIENTS = 0.1, 200


class Pairs(NamedTuple):
    """Pairs of places of rows and of rivals, by their places, the classes of these rows and E."""

    places: np.ndarray
    rivals: np.ndarray
    own: np.ndarray
    signs: np.ndarray

    def spread(self, coefs: np.ndarray, count: int) -> np.ndarray:
        """The coefficients of so many rows, of shape (classes, rows)."""
        found = np.zeros((self.signs.shape[1], count))
        found[self.rivals, self.places] = -coefs
        np.add.at(found, (self.own, self.places), coefs)
        return found


@Compiled
def fill(matrix, which, own, rivals, system):  # type: ignore[no-untyped-def]
    """The upper triangle of ``K_ij (e_p . e_q)``, for pairs of these rows of the matrix."""
    for p in range(which.size):
        for q in range(p, which.size):
            common = (own[p] == own[q]) + (rivals[p] == rivals[q])
            common -= (own[p] == rivals[q]) + (rivals[p] == own[q])
            system[p, q] = common * matrix[which[p], which[q]] if common != 0 else 0.0


class Solved(NamedTuple):
    """The solution of a system, with what depends on the aims alone.

    factor : of S
    ones : ``S^-1 E``
    inner : the inverse of ``E' S^-1 E``, where it is not 0
    """

    coefs: np.ndarray
    bias: np.ndarray
    factor: np.ndarray
    ones: np.ndarray
    inner: np.ndarray


class JointPairs:
    """Steps for all classes; ``space.between`` gives the kernel matrix of rows at some places."""

    def __init__(self, oracle: Any) -> None:
        self.oracle, self.space = oracle, oracle.space

    def directions(self, stage: Stage, which: np.ndarray) -> np.ndarray:
        if np.count_nonzero(self.oracle.between(stage)) > MOST_PAIRS:
            return self._by_gradients(stage)
        pairs = self._pairs(stage)
        if (solved := self._solved(stage, pairs)) is None:
            raise ValueError(
                "The kernel matrix is not positive semidefinite: MaxMargin needs a kernel that "
                "satisfies Mercer's condition."
            )
        there = self.space.combined(pairs.spread(solved.coefs, self.oracle.numbers.size))
        there[:, -1] = self.space.intercepts(there, solved.bias) * self.oracle.intercept
        return np.asarray(there - self.oracle.weights)

    def _pairs(self, stage: Stage) -> Pairs:
        rivals, places = np.nonzero(self.oracle.between(stage))
        own, every = self.oracle.labels[places], np.arange(places.size)
        signs = np.zeros((places.size, self.oracle.classes))
        signs[every, own] = 1.0
        signs[every, rivals] = -1.0
        return Pairs(places, rivals, own, signs)

    def _aims(self, pairs: Pairs) -> np.ndarray:
        goals = np.broadcast_to(self.oracle.goals, self.oracle.slack.shape)
        return np.asarray(goals[pairs.rivals, pairs.places])

    def _solved(self, stage: Stage, pairs: Pairs) -> Solved | None:
        rows, which = np.unique(pairs.places, return_inverse=True)
        system, ends = np.empty(2 * (which.size,)), np.arange(which.size)
        fill(self.space.between(rows), which, pairs.own, pairs.rivals, system)
        system[ends, ends] += stage.penalty / self.oracle.counts[pairs.places]
        if which.size == 0:
            nothing = np.zeros((0, self.oracle.classes))
            return Solved(nothing[:, 0], np.zeros(self.oracle.classes), system, nothing, nothing)
        for more in (0.0, 1.0, 64.0):  # times what rounding may have made of a zero eigenvalue
            system[ends, ends] += more * self.oracle.classes * self.space.rounded
            if (factor := cholesky(system)) is not None:
                break
        else:
            return None
        sides = np.column_stack([self._aims(pairs), pairs.signs])
        found = dpotrs(factor, sides, lower=1)[0]
        coefs, ones = found[:, 0], found[:, 1:]
        bias, inner = np.zeros(self.oracle.classes), np.zeros(2 * (self.oracle.classes,))
        if self.oracle.intercept:
            inner = inverse_of_laplacian(pairs.signs.T @ ones, pairs)
            bias = inner @ (pairs.signs.T @ coefs)
            coefs = coefs - ones @ bias
        return Solved(coefs, bias, factor, ones, inner)

    def _by_gradients(self, stage: Stage) -> np.ndarray:
        """Conjugate gradients in the space of weights, where all of their points go downwards.

        Intercepts are measured as weights of one more coordinate, as long as the longest row. The
        kernel matrix is multiplied once a step: products of residuals with it are kept up to date.
        """
        oracle, space, unit = self.oracle, self.space, self.space.radius**2
        oracle.balances = True
        now = oracle.counts * oracle.between(stage)
        left = -oracle.gradient(stage)
        outputs = space.outputs(np.column_stack([left[:, :-1], np.zeros(oracle.classes)]))
        left, bias = left[:, oracle.numbers], left[:, -1]
        step, line = np.zeros(left.shape), left
        shift, line_shift, kept = np.zeros(oracle.classes), unit * bias, outputs
        ahead = outputs + line_shift[:, None]
        size = first = float(np.vdot(left, outputs)) + unit * float(bias @ bias)
        for _ in range(MOST_GRADIENTS):
            if size <= RESIDUAL**2 * first or size <= 0.0:
                break
            curved = oracle.coefs(now * oracle.leads(ahead))
            sums = space.combined(curved)
            by_bias, sums[:, -1] = sums[:, -1] * oracle.intercept, 0.0
            plain = ahead - line_shift[:, None]
            curved = curved + stage.penalty * line
            amount = size / (float(np.vdot(curved, plain)) + float(line_shift @ by_bias))
            step, shift = step + amount * line, shift + amount * line_shift
            left, bias = left - amount * curved, bias - amount * by_bias
            kept = kept - amount * (stage.penalty * plain + space.outputs(sums))
            before, size = size, float(np.vdot(left, kept)) + unit * float(bias @ bias)
            ratio = size / before
            line, line_shift = left + ratio * line, unit * bias + ratio * line_shift
            ahead = kept + unit * bias[:, None] + ratio * ahead
        found = space.combined(step)
        found[:, -1] = shift
        return found

    # ------------------------------------------------------------------------------- leave-one-out
    def held_by(
        self, stage: Stage, places: np.ndarray, active: np.ndarray, coefs: np.ndarray
    ) -> np.ndarray:
        """As `joint_curvature.JointHessians.held_by`."""
        pairs, found = self._pairs(stage), np.zeros(coefs.shape)
        solved = self._solved(stage, pairs)
        if solved is None:
            return np.full(coefs.shape, np.nan)
        if not pairs.places.size:
            return found
        inverse = dpotri(solved.factor, lower=1, overwrite_c=1)[0]
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        held = solved.ones @ solved.inner
        inverse -= held @ solved.ones.T
        rows, which = np.unique(pairs.places, return_inverse=True)
        matrix = self.space.between(rows)
        order = np.argsort(pairs.places, kind="stable")
        starts = np.searchsorted(pairs.places[order], [places, places + 1])
        for n, (start, stop) in enumerate(starts.T.tolist()):
            mine = order[start:stop]
            if mine.size:
                lines = inverse[mine]
                try:
                    taken = np.linalg.solve(lines[:, mine], solved.coefs[mine])
                except np.linalg.LinAlgError:  # rounding leaves nothing to solve
                    taken = np.full(mine.size, np.nan)
                values = matrix[which[mine[0]], which] * (taken @ lines)
                found[:, n] = values @ pairs.signs + taken @ held[mine]
        return found


def inverse_of_laplacian(matrix: np.ndarray, pairs: Pairs) -> np.ndarray:
    """The inverse, where classes that no active pairs connect do not make the matrix singular."""
    links = np.zeros(matrix.shape)
    links[pairs.own, pairs.rivals] = 1.0
    _, joined = connected_components(links, directed=False)
    apart = joined[:, None] == joined
    level = float(matrix.diagonal().mean()) or 1.0
    same = apart / apart.sum(axis=1)
    return np.asarray(np.linalg.pinv(matrix + level * same, hermitian=True) - same / level)
