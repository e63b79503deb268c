"""Rows of examples, dense or sparse, read in place.

A row has features and a tail of further coordinates, for the intercept and the soft margin. Both
classes have the same methods.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from maxmargin.core import fixed_order_sums
from maxmargin.core.array_fields import Saved
from maxmargin.core.numba_backend import bridge, with_methods_of

# Prefetch distance: far enough to hide latency, near enough to stay in the cache.
ROWS_AHEAD = 8
# The distances for entries of consecutive rows, into outer caches and into the first level.
ENTRIES_AHEAD, NEXT_ENTRIES = 2**14, 2**8


class Tail(NamedTuple):
    """The coordinates behind the features: ``(offset, 0, ..., 0, private, 0, ..., 0)``.

    The weight of ``offset``, which all rows have, is the intercept. ``private`` is in a coordinate
    of row i alone, so that every row can be classified correctly: the soft margin. Weight vectors
    without private coordinates do not record its weight; each presentation then counts as new.
    """

    offset: Annotated[float, Saved(at_least=0.0)]
    private: Annotated[float, Saved(at_least=0.0)]

    def private_of(self, i):
        """The private coordinate of row ``i``."""
        return self.private

    def tail_dot(self, i, weights, c, width):
        total = self.offset * weights[c, width]
        column = width + 1 + i
        if column < weights.shape[1]:
            total += self.private_of(i) * weights[c, column]
        return total

    def tail_square(self, i):
        return self.offset * self.offset + self.private_of(i) * self.private_of(i)

    def tail_add(self, i, weights, c, width, amount):
        weights[c, width] += amount * self.offset
        column = width + 1 + i
        if column < weights.shape[1]:
            weights[c, column] += amount * self.private_of(i)

    def tail_entries(self, i, weights, width):
        """The number of tail coordinates that ``weights`` have."""
        return 2 if width + 1 + i < weights.shape[1] else 1

    def tail_entry(self, i, k, width):
        return (width, self.offset) if k == 0 else (width + 1 + i, self.private_of(i))

    def hidden_square(self, i, weights, width):
        """The part of ``x.x`` in a private coordinate that ``weights`` do not have."""
        return 0.0 if width + 1 + i < weights.shape[1] else self.private_of(i) * self.private_of(i)


NO_TAIL = Tail(0.0, 0.0)


@with_methods_of(Tail)
class WeightedTail(NamedTuple):
    """The tail of weighted rows: ``private**2`` is divided by the sample weight s.

    So the slack of a row costs s times as much, the cost of s such rows.
    """

    offset: float
    private: float
    sample_weight: np.ndarray

    def private_of(self, i):
        return self.private / np.sqrt(self.sample_weight[i])


class DenseRows(NamedTuple):
    """Rows of a 2-D array of any memory layout."""

    values: np.ndarray
    tail: Any

    def size(self):
        return self.values.shape[0]

    def dot(self, i, weights, c):
        """``x.w`` of row ``i`` and weight vector ``c``."""
        width = self.values.shape[1]
        return fixed_order_sums.dense_dot(self.values, i, weights, c) + self.tail.tail_dot(
            i, weights, c, width
        )

    def square(self, i):
        """``x.x`` of row ``i``."""
        return fixed_order_sums.dense_square(self.values, i) + self.tail.tail_square(i)

    def weighted_square(self, i, weights, c):
        """The sum of ``w_j x_j**2`` for row ``i`` and weight vector ``c``, without private ones."""
        width, offset = self.values.shape[1], self.tail.offset
        square = fixed_order_sums.dense_weighted_square(self.values, i, weights, c)
        return square + offset * offset * weights[c, width]

    def add(self, i, weights, c, amount):
        """``w += amount * x`` for row ``i`` and weight vector ``c``."""
        width = self.values.shape[1]
        for j in range(width):
            weights[c, j] += amount * float(self.values[i, j])
        self.tail.tail_add(i, weights, c, width, amount)

    def own_entries(self, i):
        """Number of stored features of row ``i``."""
        return self.values.shape[1]

    def own_entry(self, i, k):
        """``(column, value)`` of the k-th of them."""
        return k, float(np.float64(self.values[i, k]))

    def entries(self, i, weights):
        """Number of coordinates of row ``i`` that are stored and that ``weights`` have."""
        width = self.values.shape[1]
        return width + self.tail.tail_entries(i, weights, width)

    def entry(self, i, k):
        """``(column, value)`` of the k-th of them."""
        width = self.values.shape[1]
        if k < width:
            return self.own_entry(i, k)
        return self.tail.tail_entry(i, k - width, width)

    def prefetch(self, order, n):
        """Ask for the row that is due ``ROWS_AHEAD`` places after ``order[n]``."""
        ahead = n + ROWS_AHEAD
        # In sequential order the hardware prefetches by itself.
        if ahead < order.size and order[ahead] != order[n] + ROWS_AHEAD:
            fixed_order_sums.prefetch_row(self.values, order[ahead])

    def prefetch_behind(self, i):
        """Nothing to do: the hardware prefetches consecutive dense rows."""


class SparseRows(NamedTuple):
    """Rows in compressed sparse row (CSR) form, without repeated columns in a row.

    Its arrays are contiguous and in range: see `row_scans.first_malformed`.
    """

    values: np.ndarray
    columns: np.ndarray
    starts: np.ndarray
    width: int
    tail: Any

    def size(self):
        return self.starts.size - 1

    def dot(self, i, weights, c):
        """``x.w`` of row ``i`` and weight vector ``c``."""
        start, stop = self.starts[i], self.starts[i + 1]
        dot = fixed_order_sums.sparse_dot(self.values, self.columns, start, stop, weights, c)
        return dot + self.tail.tail_dot(i, weights, c, self.width)

    def square(self, i):
        """``x.x`` of row ``i``."""
        square = fixed_order_sums.sparse_square(self.values, self.starts[i], self.starts[i + 1])
        return square + self.tail.tail_square(i)

    def weighted_square(self, i, weights, c):
        """The sum of ``w_j x_j**2`` for row ``i`` and weight vector ``c``, without private ones."""
        start, stop, offset = self.starts[i], self.starts[i + 1], self.tail.offset
        square = fixed_order_sums.sparse_weighted_square(
            self.values, self.columns, start, stop, weights, c
        )
        return square + offset * offset * weights[c, self.width]

    def add(self, i, weights, c, amount):
        """``w += amount * x`` for row ``i`` and weight vector ``c``."""
        for at in range(self.starts[i], self.starts[i + 1]):
            weights[c, self.columns[at]] += amount * float(self.values[at])
        self.tail.tail_add(i, weights, c, self.width, amount)

    def own_entries(self, i):
        """Number of stored features of row ``i``."""
        return self.starts[i + 1] - self.starts[i]

    def own_entry(self, i, k):
        """``(column, value)`` of the k-th of them."""
        at = self.starts[i] + k
        return self.columns[at], float(np.float64(self.values[at]))

    def entries(self, i, weights):
        """Number of coordinates of row ``i`` that are stored and that ``weights`` have."""
        return self.own_entries(i) + self.tail.tail_entries(i, weights, self.width)

    def entry(self, i, k):
        """``(column, value)`` of the k-th of them."""
        stored = self.own_entries(i)
        if k < stored:
            return self.own_entry(i, k)
        return self.tail.tail_entry(i, k - stored, self.width)

    def prefetch(self, order, n):
        """Ask for the row that is due ``ROWS_AHEAD`` places after ``order[n]``."""
        ahead = n + ROWS_AHEAD
        if ahead < order.size:
            if order[ahead] == order[n] + ROWS_AHEAD:
                self.prefetch_behind(order[n])
            else:
                start, stop = self.starts[order[ahead]], self.starts[order[ahead] + 1]
                fixed_order_sums.prefetch_span(self.values, start, stop)
                fixed_order_sums.prefetch_span(self.columns, start, stop)

    def prefetch_behind(self, i):
        """Prefetch entries behind row ``i``, for rows that are read consecutively.

        The scattered accesses to weights keep the hardware from detecting the regular ones.
        """
        start, stop = self.starts[i], self.starts[i + 1]
        fixed_order_sums.prefetch_span(self.values, start + ENTRIES_AHEAD, stop + ENTRIES_AHEAD)
        fixed_order_sums.prefetch_span(self.columns, start + ENTRIES_AHEAD, stop + ENTRIES_AHEAD)
        fixed_order_sums.prefetch_soon(self.values, start + NEXT_ENTRIES, stop + NEXT_ENTRIES)
        fixed_order_sums.prefetch_soon(self.columns, start + NEXT_ENTRIES, stop + NEXT_ENTRIES)


bridge(
    "private_of",
    "tail_dot",
    "tail_square",
    "tail_add",
    "tail_entries",
    "tail_entry",
    "hidden_square",
)
bridge("own_entries", "own_entry", "entries", "entry")
bridge("size", "dot", "square", "weighted_square", "add", "prefetch", "prefetch_behind")
