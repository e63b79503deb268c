"""Sums of products of active rows, ``sum of s x x'``, and the Newton steps that follow from them.

Sums are upper triangles, of rows about a common center, with the intercept's coordinate last.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtri

from maxmargin.solvers import newton_passes

# Rows that are gathered at a time.
BLOCK = 512
# Rows of which a larger share is stored are gathered, for matrix products; others are scattered.
MUCH_FILLED = 0.25
# Rounding leaves nothing of a smaller 1 - h.
LEAST_REMAINDER = 1e-12
# Conjugate gradients stop when the residual is that much smaller, or after so many.
RESIDUAL, MOST_GRADIENTS = 0.1, 200


def is_gathered(filled: float, width: int) -> bool:
    """Do rows fill so much of their width that matrix products are faster?"""
    return filled > MUCH_FILLED * width


def gathered(
    rows: Any, chosen: np.ndarray, sample_weight: np.ndarray, center: np.ndarray
) -> np.ndarray:
    """The chosen rows, less the center and times the root of their weight, as an array."""
    block = np.empty((chosen.size, center.size))
    newton_passes.gather(rows, chosen, sample_weight, center, block)
    return block


def row_buffers(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Buffers for the columns and values of a row."""
    return np.empty(size, np.uint64), np.empty(size)


class Gathering:
    """Adds up products of rows in blocks, as matrix products, in one buffer for all blocks.

    A new array for each of them would be returned to the system and asked for again, page by page,
    where processes return unused memory at once, as workers of clusters often do.
    """

    def __init__(self, center: np.ndarray) -> None:
        self.center, self.buffer = center, np.empty((BLOCK, center.size))

    def add(
        self,
        matrix: np.ndarray,
        rows: Any,
        chosen: np.ndarray,
        sample_weight: np.ndarray,
        sign: float,
    ) -> None:
        """Add ``sign s (x - center) (x - center)'`` of the chosen rows to the matrix."""
        # BLAS takes columns for lines: its lower triangle is our upper one.
        turned = matrix.T
        for start in range(0, chosen.size, BLOCK):
            some = chosen[start : start + BLOCK]
            block = self.buffer[: some.size]
            newton_passes.gather(rows, some, sample_weight, self.center, block)
            dsyrk(sign, block.T, beta=1.0, c=turned, lower=1, overwrite_c=1)


def system_of(matrix: np.ndarray, penalty: float) -> np.ndarray:
    """The system for a Newton step."""
    width, system = matrix.shape[0] - 1, matrix.copy()
    ends = np.arange(width)
    system[ends, ends] = np.maximum(system[ends, ends], 0.0) + penalty
    if system[width, width] <= 0.0:  # without intercept, or without active rows
        system[width, width] = 1.0
    return system


def cholesky(system: np.ndarray) -> np.ndarray | None:
    """Of the upper triangle, which rounding may have made indefinite; None if it is so."""
    ends, largest = np.arange(system.shape[0]), float(system.diagonal().max())
    for more in (0.0, 1e-15, 1e-13, 1e-11, 1e-9):
        system[ends, ends] += more * largest
        factor, failed = dpotrf(system.T, lower=1)
        if not failed:
            return np.asarray(factor)
    return None


def newton_step(
    matrix: np.ndarray,
    factor: np.ndarray | None,
    gradient: np.ndarray,
    center: np.ndarray,
    penalty: float,
    intercept: bool,
) -> np.ndarray:
    """The Newton step, given the `cholesky` factor of the system; without, down the gradient."""
    width = gradient.size - 1
    # From here on the intercept is the output at the center.
    shifted = gradient.copy()
    shifted[:width] -= center[:width] * gradient[width]
    if factor is None:
        step = -shifted / system_of(matrix, penalty).diagonal()
    else:
        step, _ = dpotrs(factor, -shifted, lower=1)
    step[width] -= center[:width] @ step[:width]
    if not intercept:
        step[width] = 0.0
    return step


def remainders_of_products(factor: np.ndarray, own: np.ndarray, intercept: bool) -> np.ndarray:
    """``1 - h`` of active rows, by Cholesky's factor of ``K + diag(own)``, own = lambda / s.

    ``h_i = s_i x_i' A^-1 x_i``, with the matrix A of the Newton system, is the leverage of row i,
    and its slack without it is ``slack_i / (1 - h_i)``, as long as no other row becomes active or
    inactive: see "Leave-one-out" in `docs/theory.md`.
    """
    inverse, _ = dtrtri(np.tril(factor), lower=1)
    diagonal = np.einsum("ki,ki->i", inverse, inverse)
    if intercept:
        ones, _ = dpotrs(factor, np.ones(own.size), lower=1)
        diagonal -= ones**2 / ones.sum()
    return np.maximum(own * diagonal, LEAST_REMAINDER)


class ConjugateGradients:
    """The Newton step without a matrix, given products of the Hessian's sum with vectors.

    Attributes
    ----------
    step : the sum so far
    line : what to multiply next
    """

    def __init__(
        self, gradient: np.ndarray, diagonal: np.ndarray, penalty: float, enough: float
    ) -> None:
        """``diagonal`` of the sum; ``enough`` is a residual that needs not become smaller.

        Where no row is in the sum, the intercept is given a curvature of 1, as in `system_of`.
        """
        self.penalties = np.full(gradient.size, penalty)
        self.penalties[-1] = 0.0 if diagonal[-1] > 0.0 else 1.0
        self.scale = diagonal + self.penalties
        self.step, self.left = np.zeros(gradient.size), -gradient
        scaled = self.left / self.scale
        self.line, self.size = scaled, float(self.left @ scaled)
        self.enough = max(RESIDUAL * float(np.linalg.norm(self.left)), enough)
        self.done = 0

    def is_over(self) -> bool:
        is_small = np.linalg.norm(self.left) <= self.enough or self.size <= 0.0
        return bool(is_small) or self.done == MOST_GRADIENTS

    def follow(self, product: np.ndarray) -> None:
        """Go on, given the product of the sum and the line, which is changed."""
        curved = product
        curved += self.penalties * self.line
        amount = self.size / float(self.line @ curved)
        self.step += amount * self.line
        self.left = self.left - amount * curved
        scaled = self.left / self.scale
        before, self.size = self.size, float(self.left @ scaled)
        self.line = scaled + (self.size / before) * self.line
        self.done += 1


def enough_residual(tol: float, penalty: float, weights: np.ndarray) -> float:
    """A smaller one would not show in the certificate; the intercept is the last of the weights."""
    return 0.5 * float(np.sqrt(tol)) * penalty * float(np.linalg.norm(weights[:-1]))
