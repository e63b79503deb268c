"""The geometry of a kernel, in which rows are given by their inner products.

A weight vector ``w = sum_k a_k phi(x_k)`` over the rows of a block is stored as its coefficients a.
So a row is a unit vector (`UnitRows`), a step changes one coefficient, and the outputs
``w.phi(x_k)`` of all rows of the block are corrected by one row of the Gram matrix. Rows outside
the block contribute through the initial outputs.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin.core.numba_backend import Compiled, bridge, with_methods_of
from maxmargin.core.rows import Tail
from maxmargin.spaces.certificate_vectors import Means
from maxmargin.spaces.problem_scalars import LARGEST_SCALE

# Rows whose squared distance, relative to their squared norms, is below this can be the same point.
SAME_POINT = 1e-6


class UnitRows(NamedTuple):
    """Rows of a block as unit vectors; the offset of ``tail`` is part of the kernel."""

    number: int
    tail: Tail

    def size(self):
        return self.number

    def add(self, i, weights, c, amount):
        weights[c, i] += amount

    def prefetch(self, order, n):
        pass


class Gram(NamedTuple):
    """The geometry of kernels; see `Euclid` for the interface.

    Attributes
    ----------
    products : kernel values of rows of the block with all of its rows
    lines : those of other rows of the block with all rows of the fit
    columns : the numbers that the rows of the block have in the fit; empty without ``lines``
    sources : for each row of the block its line in ``products``, or -1 - its line in ``lines``
    diagonal : ``|phi(x)|**2`` of each row, including shift and soft margin
    shift : added to all kernel values, the square of the intercept's coordinate
    rounding : the precision of kernel values, relative to the largest
    outputs : ``w.phi(x_k)``, over the scale, for each problem
    folded : all factors by which the weights of a problem have been multiplied
    """

    p: float
    products: np.ndarray
    lines: np.ndarray
    columns: np.ndarray
    sources: np.ndarray
    diagonal: np.ndarray
    shift: float
    rounding: float
    outputs: np.ndarray
    folded: np.ndarray

    def scale_limit(self):
        return LARGEST_SCALE

    def product(self, rows, i, weights, c):
        return self.outputs[c, i]

    def push(self, rows, i, weights, c, amount):
        self.move_along(i, weights, c, amount)

    def push_vector(self, vectors, at, weights, c, amount):
        for k in range(vectors.shape[1]):
            if vectors[at, k] != 0.0:
                self.move_along(k, weights, c, amount * vectors[at, k])

    def move_along(self, i, weights, c, amount):
        """``w += amount * phi(x_i)``, and all outputs with it."""
        weights[c, i] += amount
        output, source = self.outputs[c, i] + amount * self.diagonal[i], self.sources[i]
        if source >= 0:
            for k in range(self.outputs.shape[1]):
                self.outputs[c, k] += amount * (float(self.products[source, k]) + self.shift)
        else:
            line = -1 - source
            for k in range(self.outputs.shape[1]):
                value = float(self.lines[line, self.columns[k]])
                self.outputs[c, k] += amount * (value + self.shift)
        self.outputs[c, i] = output

    def value(self, i, k):
        """The kernel value of two rows of the block."""
        source = self.sources[i]
        if source >= 0:
            return float(self.products[source, k])
        return float(self.lines[-1 - source, self.columns[k]])

    def square_of(self, rows, i):
        return self.diagonal[i]

    def square_bound(self, rows, i):
        return self.diagonal[i]

    def follow_norm2(self, scalars, c, weights, first, stop, cross, square):
        scalars.grow_norm2(c, cross, square)

    def sum_norm2(self, scalars, c, weights, first, stop):
        pass  # the sum includes rows outside the block

    def fold(self, c, factor):
        for k in range(self.outputs.shape[1]):
            self.outputs[c, k] *= factor
        self.folded[c] *= factor

    def half_distance2(self, pair, rows, i, c, other, xx, weights):
        number = pair.numbers[c, other]
        total = xx + pair.squares[c, other]
        apart = total - 2.0 * (self.value(i, number) + self.shift)
        limit = 0.5 * math.sqrt(max(apart, 0.0) + self.rounding * total)
        same = apart <= min(self.rounding, SAME_POINT) * total
        return (0.0 if same else 0.25 * apart), limit

    def decide(self, rule, trial, c):
        return rule.step(trial)


@with_methods_of(Means)
class Averages(NamedTuple):
    """The witness of a kernel space: only averages, as bounds follow from the coefficients.

    ``closed`` is what the averages of rows outside the block lack, as a multiple of their
    coefficients before these are multiplied by ``folded``.
    """

    average: np.ndarray
    past: np.recarray
    folded: np.ndarray
    closed: np.ndarray

    def follow(self, rows, i, c, y, scaled_step):
        pass

    def scale(self, c, factor):
        if c < self.past.shape[0]:
            self.closed[c] += self.past[c].scales * self.folded[c]


bridge("move_along", "value", inline=False)


@Compiled
def add_weighted(weights, values, shift, sums):  # type: ignore[no-untyped-def]
    """``sums += weights @ (values + shift)`` in float64, skipping weights that are 0."""
    for c in range(weights.shape[0]):
        for r in range(weights.shape[1]):
            weight = weights[c, r]
            if weight != 0.0:
                for k in range(values.shape[1]):
                    sums[c, k] += weight * (float(values[r, k]) + shift)


@Compiled
def add_lines(weights, lines, slots, ids, diagonal, shift, sums):  # type: ignore[no-untyped-def]
    """`add_weighted` for the lines in ``slots``, which belong to the rows ``ids``.

    The product of a row with itself is that in ``diagonal``.
    """
    for c in range(weights.shape[0]):
        for r in range(weights.shape[1]):
            weight = weights[c, r]
            if weight != 0.0:
                line, row = slots[r], ids[r]
                exact = sums[c, row] + weight * diagonal[row]
                for k in range(sums.shape[1]):
                    sums[c, k] += weight * (float(lines[line, k]) + shift)
                sums[c, row] = exact


@Compiled
def copy_lines(lines, slots, columns, places, out):  # type: ignore[no-untyped-def]
    """``out[places] = lines[slots][:, columns]``."""
    for r in range(slots.size):
        for k in range(columns.size):
            out[places[r], k] = lines[slots[r], columns[k]]


@Compiled
def compress(matrix, kept, out):  # type: ignore[no-untyped-def]
    """The upper triangle of ``matrix[kept][:, kept]`` in ``out``, line by line.

    ``out`` may be the memory of the matrix: as ``kept`` is in ascending order, nothing is
    overwritten before it is read.
    """
    for r in range(kept.size):
        for k in range(r, kept.size):
            out[r * kept.size + k] = matrix[kept[r], kept[k]]


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


@Compiled
def add_products(lines, places, weights, buffer, sums):  # type: ignore[no-untyped-def]
    """``sums += weights.T @ lines[places]`` in float64, skipping weights that are 0.

    The size of ``buffer`` is the number of rows that are multiplied while they are in the cache.
    """
    for start in range(0, places.size, buffer.size):
        end = min(start + buffer.size, places.size)
        for first in range(0, sums.shape[1], 2048):
            last = min(first + 2048, sums.shape[1])
            for c in range(sums.shape[0]):
                count = 0
                for r in range(start, end):
                    if weights[r, c] != 0.0:
                        buffer[count] = r
                        count += 1
                n = 0
                while n + 4 <= count:
                    i, j, k, m = buffer[n], buffer[n + 1], buffer[n + 2], buffer[n + 3]
                    u, v, w, z = weights[i, c], weights[j, c], weights[k, c], weights[m, c]
                    i, j, k, m = places[i], places[j], places[k], places[m]
                    for t in range(first, last):
                        pair = u * float(lines[i, t]) + v * float(lines[j, t])
                        other = w * float(lines[k, t]) + z * float(lines[m, t])
                        sums[c, t] += pair + other
                    n += 4
                while n < count:
                    u, i = weights[buffer[n], c], places[buffer[n]]
                    for t in range(first, last):
                        sums[c, t] += u * float(lines[i, t])
                    n += 1
