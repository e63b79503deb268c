"""Outputs of rows by the weights that would be found without them, from the factor of a fit.

For the squared hinge loss, with the active rows I of a minimum, x~ = (x, 1) and their weights s,

    A = sum over I of s x~ x~' + lambda diag(1, ..., 1, 0),    h_i = s_i x~_i' A^-1 x~_i

a row outside I has no part in the minimum, so it stays what it is without that row. Without a row
of I, and as long as the other rows keep their states, A and the right-hand side lose one term each,
and the formula of Sherman and Morrison gives the slack of that row then:

    slack_i / (1 - h_i)    or, for its output,    (f_i - h_i y_i) / (1 - h_i)

The leverage h_i is below 1. With the matrix of products K of the rows of I in place of A,

    1 - h_i = lambda / s_i (M^-1)_ii,    M = [[K + diag(lambda / s), 1], [1', 0]]

where the border belongs to the intercept. Both are exact if leaving the row out makes no other row
active or inactive, and an approximation otherwise. See `docs/theory.md`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotri, dpotrs, dtrtri

from maxmargin.solvers import newton_passes
from maxmargin.solvers.hessian import BLOCK, row_buffers

# Rounding leaves nothing of a smaller 1 - h.
LEAST_REMAINDER = 1e-12


def chosen_places(rows: int, most: int) -> np.ndarray:
    """Which of so many rows are left out, in order: all, or the same random sample each time."""
    if rows <= most:
        return np.arange(rows)
    return np.sort(np.random.default_rng(0).choice(rows, most, replace=False))


def gathered_remainders(
    factor: np.ndarray, rows: Any, chosen: np.ndarray, sample_weight: np.ndarray, center: np.ndarray
) -> np.ndarray:
    """``1 - h`` of the chosen rows, by matrix products of blocks of them about the center.

    ``factor`` is the lower triangle of Cholesky's factor of A.
    """
    leverages, buffer = np.empty(chosen.size), np.empty((BLOCK, center.size))
    for start in range(0, chosen.size, BLOCK):
        some = chosen[start : start + BLOCK]
        block = buffer[: some.size]
        newton_passes.gather(rows, some, sample_weight, center, block)
        solved = dtrsm(1.0, factor, block.T, lower=1, overwrite_b=1)
        leverages[start : start + BLOCK] = np.einsum("ji,ji->i", solved, solved)
    return _remainders(leverages)


def scattered_remainders(
    factor: np.ndarray, rows: Any, chosen: np.ndarray, sample_weight: np.ndarray
) -> np.ndarray:
    """``1 - h`` of the chosen rows, which have few entries each, by the inverse of A."""
    inverse, _ = dpotri(factor, lower=1)
    leverages, row = np.empty(chosen.size), row_buffers(factor.shape[0])
    # LAPACK takes columns for lines: its lower triangle is our upper one.
    newton_passes.leverages(rows, chosen, sample_weight, row, inverse.T, leverages)
    return _remainders(leverages)


def remainders_of_products(factor: np.ndarray, own: np.ndarray, intercept: bool) -> np.ndarray:
    """``1 - h`` of active rows, by Cholesky's factor of ``K + diag(own)``, own = lambda / s."""
    inverse, _ = dtrtri(np.tril(factor), lower=1)
    diagonal = np.einsum("ki,ki->i", inverse, inverse)
    if intercept:
        ones, _ = dpotrs(factor, np.ones(own.size), lower=1)
        diagonal -= ones**2 / ones.sum()
    return np.maximum(own * diagonal, LEAST_REMAINDER)


def _remainders(leverages: np.ndarray) -> np.ndarray:
    return np.maximum(1.0 - leverages, LEAST_REMAINDER)
