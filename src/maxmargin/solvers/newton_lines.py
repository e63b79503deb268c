"""Lines of the kernel matrix that Newton steps are made with, as many as memory is there for."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.core.numba_backend import Compiled
from maxmargin.kernels.functions import Kernel
from maxmargin.kernels.points import Points
from maxmargin.kernels.products import Products

# Shares of the memory: for lines that are kept, for rows as products take them, for other lines.
KEPT, FACTORS, PASSING = 0.65, 0.15, 0.15
# Columns that are computed at a time where rows are not kept as products take them.
COLUMNS = 2048
# Lines that are computed at a time where symmetry gives some of their values.
PIECE = 512


class NewtonLines:
    """Lines of the kernel matrix of some rows, as many as memory is there for.

    Parameters
    ----------
    kernel, points, products : the rows, and what makes products of them
    memory : bytes
    dtype : data type of the lines that are kept

    Attributes
    ----------
    values : the lines that are kept, each of all rows of the sample
    places : of each row, the number of its line, or -1
    """

    def __init__(
        self, kernel: Kernel, points: Points, products: Products, memory: float, dtype: Any
    ) -> None:
        self.kernel, self.products, size = kernel, products, points.size()
        self.points = self.products.kept(self.kernel, points, FACTORS * memory)
        self.whole = self.points.factors is not None or not self.products.keeps_lines
        self.capacity = int(min(size, KEPT * memory // (np.dtype(dtype).itemsize * max(size, 1))))
        self.at_once = int(max(16, min(PASSING * memory // (8.0 * max(size, 1)), 4096)))
        self.values = self.products.xp.empty((self.capacity, size), dtype)
        self.places, self.kept = np.full(size, -1), np.empty(0, np.int64)
        self.extent = size

    def compute(self, numbers: np.ndarray, out: Any) -> None:
        """The lines of these rows, in ``out``."""
        some = self.points.take(numbers)
        if self.whole:
            self.products.values_in(self.kernel, some, self.points, out)
            return
        for start in range(0, self.extent, COLUMNS):
            part = slice(start, start + COLUMNS)
            self.products.values_in(self.kernel, some, self.points.take(part), out[:, part])

    def keep(self, numbers: np.ndarray) -> None:
        """Keep the lines of these rows, as far as there is memory; others make place for them."""
        new = numbers[self.places[numbers] < 0]
        first = self.kept.size
        if first + new.size > self.capacity:
            new = self._replaced(numbers, new)
        new = new[: self.capacity - first]
        mirrors = self.products.keeps_lines and self.whole
        step = min(self.at_once, PIECE) if mirrors else self.at_once
        for start in range(0, new.size, step):
            some = new[start : start + step]
            there = slice(first + start, first + start + some.size)
            if mirrors:
                self._complete(some, self.values[there])
            else:
                self.compute(some, self.values[there])
            self.places[some] = np.arange(there.start, there.stop)
            self.kept = np.concatenate([self.kept, some])

    def _replaced(self, numbers: np.ndarray, new: np.ndarray) -> np.ndarray:
        """Put new lines in the place of those that are not needed; the rows that are left."""
        free = self.capacity - self.kept.size
        stale = np.flatnonzero(~np.isin(self.kept, numbers))[: new.size - free]
        for start in range(0, stale.size, self.at_once):
            there = stale[start : start + self.at_once]
            some = new[start : start + there.size]
            out = self.products.xp.empty((some.size, self.extent))
            self.compute(some, out)
            self.values[self.products.index(there)] = out
            self.places[self.kept[there]], self.places[some] = -1, there
            self.kept[there] = some
        return new[stale.size :]

    def _complete(self, numbers: np.ndarray, out: np.ndarray) -> None:
        """`compute`, with the values that are there already: the matrix is symmetric."""
        some, others = self._factors(numbers), np.flatnonzero(self.places < 0)
        buffer = np.empty(numbers.size * COLUMNS)
        complete_lines(self.values, self.kept, numbers, buffer[:0].reshape(0, 0), others, out)
        for start in range(0, others.size, COLUMNS):
            part = others[start : start + COLUMNS]
            values = buffer[: numbers.size * part.size].reshape(numbers.size, part.size)
            self.products.values_in(self.kernel, some, self._factors(part), values)
            complete_lines(self.values, self.kept[:0], numbers, values, part, out)

    def _factors(self, numbers: np.ndarray) -> Points:
        """These rows, without a copy of the rows as they were given."""
        points = self.points
        if points.factors is None:
            return points.take(numbers)
        factors = points.factors[numbers]
        return Points(factors, None if points.squares is None else points.squares[numbers], factors)

    def times(self, used: np.ndarray, weights: Any) -> Any:
        """The kernel matrix times ``weights``, whose lines are those of the rows ``used``."""
        xp, index = self.products.xp, self.products.index
        places = self.places[used]
        there, missing = np.flatnonzero(places >= 0), np.flatnonzero(places < 0)
        sums = self.products.multiplied(self.values, places[there], weights[index(there)])
        for start in range(0, missing.size, self.at_once):
            some = missing[start : start + self.at_once]
            out = xp.empty((some.size, self.extent))
            self.compute(used[some], out)
            sums += out.T @ weights[index(some)]
        return sums

    def between(self, some: np.ndarray) -> Any:
        """The kernel matrix of these rows."""
        xp, index = self.products.xp, self.products.index
        places = self.places[some]
        there, missing = np.flatnonzero(places >= 0), np.flatnonzero(places < 0)
        if not missing.size:
            return self.products.picked(self.values, places, some)
        out = xp.empty((some.size, some.size), self.values.dtype)
        out[index(there)] = self.products.picked(self.values, places[there], some)
        few = self.points.take(some)
        for start in range(0, missing.size, self.at_once):
            part = missing[start : start + self.at_once]
            values = xp.empty((part.size, some.size))
            self.products.values_in(self.kernel, few.take(part), few, values)
            out[index(part)] = values
        return out


@Compiled
def complete_lines(lines, kept, numbers, values, others, out):  # type: ignore[no-untyped-def]
    """Fill the lines of the rows ``numbers``, by symmetry from ``lines`` of the rows ``kept``.

    The other columns are ``values``, the kernel values with the rows ``others``.
    """
    # Tiles stay in the cache.
    for first in range(0, numbers.size, 64):
        last = min(first + 64, numbers.size)
        for start in range(0, kept.size, 16):
            end = min(start + 16, kept.size)
            for r in range(first, last):
                column = numbers[r]
                for j in range(start, end):
                    out[r, kept[j]] = lines[j, column]
    for r in range(values.shape[0]):
        for k in range(others.size):
            out[r, others[k]] = values[r, k]
