"""Rows of examples, dense or sparse, read in place.

A row is ``(x, offset)``: the user's features and one more coordinate, the same for all rows, whose
weight is the intercept (``offset = 0``: no intercept). Both classes answer the same questions, so
no loop ever asks which one it has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.core import lanes
from maxmargin.core.bridge import bridge

# Far enough ahead to hide the memory's latency, near enough to stay in the cache.
ROWS_AHEAD = 8


class DenseRows(NamedTuple):
    """Rows of a 2-D array of any memory layout."""

    values: np.ndarray
    offset: float

    def size(self):
        return self.values.shape[0]

    def is_well_formed(self, i):
        return True

    def dot(self, i, weights, c):
        """``x.w`` of row ``i`` and weight vector ``c``."""
        width = self.values.shape[1]
        return lanes.dense_dot(self.values, i, weights, c) + self.offset * weights[c, width]

    def square(self, i):
        """``x.x`` of row ``i``."""
        return lanes.dense_square(self.values, i) + self.offset * self.offset

    def add(self, i, weights, c, amount):
        """``w += amount * x`` for row ``i`` and weight vector ``c``."""
        width = self.values.shape[1]
        for j in range(width):
            weights[c, j] += amount * float(self.values[i, j])
        weights[c, width] += amount * self.offset

    def prefetch(self, order, n):
        """Ask for the row that is due ``ROWS_AHEAD`` places after ``order[n]``."""
        ahead = n + ROWS_AHEAD
        # In sequential order the hardware prefetches by itself.
        if ahead < order.size and order[ahead] != order[n] + ROWS_AHEAD:
            lanes.prefetch_row(self.values, order[ahead])


class SparseRows(NamedTuple):
    """Rows in compressed sparse row (CSR) form, without repeated columns in a row."""

    values: np.ndarray
    columns: np.ndarray
    starts: np.ndarray
    width: int
    offset: float

    def size(self):
        return self.starts.size - 1

    def is_well_formed(self, i):
        """Are the row's bounds and columns inside the arrays?"""
        start, stop = self.starts[i], self.starts[i + 1]
        if start < 0 or stop < start or stop > self.columns.size or stop > self.values.size:
            return False
        outside = 0
        for at in range(start, stop):  # no early exit, so that the loop becomes vector instructions
            outside += self.columns[at] < 0 or self.columns[at] >= self.width
        return outside == 0

    def dot(self, i, weights, c):
        """``x.w`` of row ``i`` and weight vector ``c``."""
        start, stop = self.starts[i], self.starts[i + 1]
        dot = lanes.sparse_dot(self.values, self.columns, start, stop, weights, c)
        return dot + self.offset * weights[c, self.width]

    def square(self, i):
        """``x.x`` of row ``i``."""
        square = lanes.sparse_square(self.values, self.starts[i], self.starts[i + 1])
        return square + self.offset * self.offset

    def add(self, i, weights, c, amount):
        """``w += amount * x`` for row ``i`` and weight vector ``c``."""
        for at in range(self.starts[i], self.starts[i + 1]):
            weights[c, self.columns[at]] += amount * float(self.values[at])
        weights[c, self.width] += amount * self.offset

    def prefetch(self, order, n):
        """Ask for the row that is due ``ROWS_AHEAD`` places after ``order[n]``."""
        ahead = n + ROWS_AHEAD
        if ahead < order.size:
            start, stop = self.starts[order[ahead]], self.starts[order[ahead] + 1]
            lanes.prefetch_span(self.values, start, stop)
            lanes.prefetch_span(self.columns, start, stop)


bridge("size", "is_well_formed", "dot", "square", "add", "prefetch")
