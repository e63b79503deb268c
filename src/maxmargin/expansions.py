"""Sums over rows in a kernel's space, ``w = sum_k a_k phi(x_k)``: their outputs and lengths."""

from __future__ import annotations

import numpy as np

from maxmargin.kernels import Kernel, Points, Precomputed
from maxmargin.spaces.gram import add_weighted

# Rows that are multiplied in one go.
CHUNK = 4096


def outputs_of(
    kernel: Kernel | Precomputed,
    weights: np.ndarray,
    supports: Points,
    points: Points,
    shift: float,
) -> np.ndarray:
    """``sum_k weights_k (K(x_k, x) + shift)`` for each problem and each point."""
    sums = np.zeros((weights.shape[0], points.size()))
    for start in range(0, supports.size(), CHUNK):
        part = slice(start, start + CHUNK)
        values = kernel.between(supports.take(part), points)
        add_weighted(np.ascontiguousarray(weights[:, part]), values, shift, sums)
    return sums


def squares_of(
    kernel: Kernel | Precomputed,
    weights: np.ndarray,
    points: Points,
    diagonal: np.ndarray,
    ridge: float,
) -> np.ndarray:
    """At least ``|w|**2 + ridge |weights|**2`` for each problem, given the kernel's diagonal."""
    squares = ridge * (weights**2).sum(axis=1)
    for start in range(0, points.size(), CHUNK):
        part = slice(start, start + CHUNK)
        products = np.zeros_like(weights[:, part])
        add_weighted(weights, kernel.between(points, points.take(part)), 0.0, products)
        squares += (products * weights[:, part]).sum(axis=1)
    lost = kernel.rounding(points) * diagonal.max(initial=0.0)
    lost = lost * np.abs(weights).sum(axis=1) ** 2
    # Negative beyond rounding: this is no kernel, and nothing is proved.
    return np.where(squares >= -lost, np.maximum(squares, 0.0) + lost, np.inf)
