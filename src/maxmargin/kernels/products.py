"""All products of kernel learning, and nothing else: the seam at which another device can enter."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.kernels.functions import MOST_DENSE_VALUES, Kernel
from maxmargin.kernels.points import Points, as_type
from maxmargin.spaces.gram import add_weighted

# Rows that are multiplied in one go.
CHUNK = 4096


class Products:
    """Kernel values between rows, and sums of them, ``w = sum_k a_k phi(x_k)``."""

    def gram(
        self, kernel: Kernel, some: Points, others: Points, out: np.ndarray | None = None
    ) -> np.ndarray:
        """The matrix of kernel values, one line for each of ``some``; in ``out`` if possible."""
        return kernel.values(some, others, inner_products, out)

    def weighted_sums(
        self, kernel: Kernel, weights: np.ndarray, supports: Points, points: Points, shift: float
    ) -> np.ndarray:
        """``sum_k weights_k (K(x_k, x) + shift)`` for each problem and each point."""
        sums = np.zeros((weights.shape[0], points.size()))
        for start in range(0, supports.size(), CHUNK):
            part = slice(start, start + CHUNK)
            values = self.gram(kernel, supports.take(part), points)
            add_weighted(np.ascontiguousarray(weights[:, part]), values, shift, sums)
        return sums

    def quadratic(
        self,
        kernel: Kernel,
        weights: np.ndarray,
        points: Points,
        diagonal: np.ndarray,
        ridges: Any,
    ) -> np.ndarray:
        """At least ``|w|**2 + |sqrt(ridges) weights|**2`` for each problem, given all ``K(x, x)``.

        ``ridges`` is a number, or one for each point.
        """
        if np.ndim(ridges):
            squares = (ridges * weights**2).sum(axis=1)
        else:  # one factor of the sum, which has been rounded so all along
            squares = ridges * (weights**2).sum(axis=1)
        for start in range(0, points.size(), CHUNK):
            part = slice(start, start + CHUNK)
            products = np.zeros_like(weights[:, part])
            add_weighted(weights, self.gram(kernel, points, points.take(part)), 0.0, products)
            squares += (products * weights[:, part]).sum(axis=1)
        lost = kernel.rounding(points) * diagonal.max(initial=0.0)
        lost = lost * np.abs(weights).sum(axis=1) ** 2
        # Negative beyond rounding: this is no kernel, and nothing is proved.
        return np.where(squares >= -lost, np.maximum(squares, 0.0) + lost, np.inf)


def inner_products(some: Any, others: Any, dtype: Any, out: np.ndarray | None = None) -> np.ndarray:
    """``some @ others.T`` as a dense array of ``dtype``; of two dense arrays, in ``out``."""
    if not sparse.issparse(some):
        if sparse.issparse(others):
            return np.ascontiguousarray(inner_products(others, some, dtype).T)
        return np.matmul(as_type(some, dtype), as_type(others, dtype).T, out=out)
    result = np.empty((some.shape[0], others.shape[0]), dtype)
    step = max(1, MOST_DENSE_VALUES // max(1, some.shape[1]))
    for start in range(0, some.shape[0], step):
        few = some[start : start + step].toarray().astype(dtype, copy=False)
        result[start : start + step] = (others @ few.T).T
    return result
