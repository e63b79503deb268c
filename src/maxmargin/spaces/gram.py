"""The geometry of a kernel: rows are known by their inner products alone.

A weight vector is ``w = sum_k a_k phi(x_k)`` over the rows of a block, and is kept as its
coefficients a. So a row is a unit vector (`UnitRows`), a step changes one coefficient, and the
outputs ``w.phi(x_k)`` for all rows of the block follow each step by one row of the Gram matrix.
Rows outside the block take part through the outputs that the block starts with.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin.core.numba_backend import Compiled, bridge, with_methods_of
from maxmargin.core.rows import Tail
from maxmargin.spaces.certificate_vectors import Means
from maxmargin.spaces.problem_scalars import LARGEST_SCALE

# Rows nearer than this part of their squared norms are taken for the same, however inexact the
# kernel is.
SAME_POINT = 1e-6


class UnitRows(NamedTuple):
    """Rows of a block as unit vectors, in the coordinates that coefficients have.

    ``tail`` says which offset is part of the kernel; nothing of it is left to add.
    """

    number: int
    tail: Tail

    def size(self):
        return self.number

    def add(self, i, weights, c, amount):
        weights[c, i] += amount

    def prefetch(self, order, n):
        pass


class Gram(NamedTuple):
    """The geometry for kernels; see `Euclid` for what a space asks.

    Attributes
    ----------
    p : 2
    products : kernel values of rows of the block with all of its rows
    lines : those of other rows of the block with all rows of the fit
    columns : the numbers that the rows of the block have in the fit; empty without ``lines``
    sources : for each row of the block its line in ``products``, or -1 - its line in ``lines``
    diagonal : ``|phi(x)|**2`` of each row, shift and soft margin included
    shift : added to all kernel values, the square of the intercept's coordinate
    rounding : how exact kernel values are, relative to the largest
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
        mine, source = self.outputs[c, i] + amount * self.diagonal[i], self.sources[i]
        if source >= 0:
            for k in range(self.outputs.shape[1]):
                self.outputs[c, k] += amount * (float(self.products[source, k]) + self.shift)
        else:
            line = -1 - source
            for k in range(self.outputs.shape[1]):
                value = float(self.lines[line, self.columns[k]])
                self.outputs[c, k] += amount * (value + self.shift)
        self.outputs[c, i] = mine

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
        pass  # the sum goes over rows that are not here

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
    """The witness of a kernel space: averages alone, as coefficients tell the rest themselves.

    Attributes
    ----------
    average, past : see `Witness`
    folded : that of `Gram`
    closed : the average of rows outside the block lacks so much of their coefficients, as they were
        before they are multiplied by ``folded``
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
    """``sums += weights @ (values + shift)`` in float64, without those weights that are 0."""
    for c in range(weights.shape[0]):
        for r in range(weights.shape[1]):
            weight = weights[c, r]
            if weight != 0.0:
                for k in range(values.shape[1]):
                    sums[c, k] += weight * (float(values[r, k]) + shift)


@Compiled
def add_lines(weights, lines, slots, ids, diagonal, shift, sums):  # type: ignore[no-untyped-def]
    """`add_weighted` for the lines of all rows with the rows ``ids``, which are at ``slots``.

    With itself a row has the product in ``diagonal``.
    """
    for c in range(weights.shape[0]):
        for r in range(weights.shape[1]):
            weight = weights[c, r]
            if weight != 0.0:
                line, own = slots[r], ids[r]
                mine = sums[c, own] + weight * diagonal[own]
                for k in range(sums.shape[1]):
                    sums[c, k] += weight * (float(lines[line, k]) + shift)
                sums[c, own] = mine


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
    """The lines of the rows ``numbers``: their values with ``others``, and those of symmetry.

    ``lines`` are those of the rows ``kept``; ``values`` may be empty.
    """
    # Tiles of both, which stay in the cache.
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
    """``sums += weights.T @ lines[places]`` in float64, without those weights that are 0.

    ``buffer`` is for as many numbers of rows as are multiplied while they are in the cache.
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
