"""Sums in eight lanes: as fast as memory, and the same bits on every processor.

A reduction that the compiler may reorder (``fastmath``) changes its last bits with the width of the
processor's vectors; one that it may not reorder runs at a third of the memory's speed. Here the
order is fixed: element ``j`` goes into lane ``j mod 8``, and the lanes are folded in halves.

These functions define each sum. The full backend has the same in LLVM's vector instructions.
"""

from __future__ import annotations

import numpy as np

from maxmargin.core.numba_backend import LANES, helper, primitive


@primitive
def dense_dot(values, i, weights, c):  # type: ignore[no-untyped-def]
    """``x.w`` for the dense row ``x = values[i]`` and ``w = weights[c]``, which may be longer."""
    lanes = np.zeros(LANES)
    for j in range(values.shape[1]):
        lanes[j % LANES] += np.float64(values[i, j]) * weights[c, j]
    return folded(lanes)


@primitive
def dense_square(values, i):  # type: ignore[no-untyped-def]
    """``x.x`` for the dense row ``x = values[i]``."""
    lanes = np.zeros(LANES)
    for j in range(values.shape[1]):
        x = np.float64(values[i, j])
        lanes[j % LANES] += x * x
    return folded(lanes)


@primitive
def dense_weighted_square(values, i, weights, c):  # type: ignore[no-untyped-def]
    """The sum of ``w_j x_j**2`` for the dense row ``x = values[i]`` and ``w = weights[c]``."""
    lanes = np.zeros(LANES)
    for j in range(values.shape[1]):
        x = np.float64(values[i, j])
        lanes[j % LANES] += x * x * weights[c, j]
    return folded(lanes)


@primitive
def sparse_dot(values, columns, start, stop, weights, c):  # type: ignore[no-untyped-def]
    """``x.w`` for the row that has ``values[start:stop]`` in ``columns[start:stop]``."""
    lanes = np.zeros(LANES)
    for j in range(start, stop):
        lanes[(j - start) % LANES] += np.float64(values[j]) * weights[c, columns[j]]
    return folded(lanes)


@primitive
def sparse_square(values, start, stop):  # type: ignore[no-untyped-def]
    """``x.x`` for the row that has ``values[start:stop]``."""
    lanes = np.zeros(LANES)
    for j in range(start, stop):
        x = np.float64(values[j])
        lanes[(j - start) % LANES] += x * x
    return folded(lanes)


@primitive
def sparse_weighted_square(values, columns, start, stop, weights, c):  # type: ignore[no-untyped-def]
    """The sum of ``w_j x_j**2`` for ``values[start:stop]`` in ``columns[start:stop]``."""
    lanes = np.zeros(LANES)
    for j in range(start, stop):
        x = np.float64(values[j])
        lanes[(j - start) % LANES] += x * x * weights[c, columns[j]]
    return folded(lanes)


@helper
def folded(lanes):  # type: ignore[no-untyped-def]
    """The sum of all lanes."""
    half = LANES // 2
    while half > 0:
        for lane in range(half):
            lanes[lane] += lanes[lane + half]
        half //= 2
    return lanes[0]


@primitive
def prefetch_row(values, i):  # type: ignore[no-untyped-def]
    """Prefetch the dense row ``i``. Changes no result."""


@primitive
def prefetch_span(array, start, stop):  # type: ignore[no-untyped-def]
    """Prefetch ``array[start:stop]``. Changes no result."""


@primitive
def prefetch_soon(array, start, stop):  # type: ignore[no-untyped-def]
    """Prefetch ``array[start:stop]`` into the first level of the cache. Changes no result."""
