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

from maxmargin.core.numba_backend import bridge, with_methods_of
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
    products : kernel values between the rows of the block
    diagonal : ``|phi(x)|**2`` of each row, including shift and soft margin
    shift : added to all kernel values, the square of the intercept's coordinate
    rounding : the precision of kernel values, relative to the largest
    outputs : ``w.phi(x_k)``, over the scale, for each problem
    folded : all factors by which the weights of a problem have been multiplied
    """

    p: float
    products: np.ndarray
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
        output = self.outputs[c, i] + amount * self.diagonal[i]
        for k in range(self.outputs.shape[1]):
            self.outputs[c, k] += amount * (float(self.products[i, k]) + self.shift)
        self.outputs[c, i] = output

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
        distance2 = total - 2.0 * (float(self.products[i, number]) + self.shift)
        limit = 0.5 * math.sqrt(max(distance2, 0.0) + self.rounding * total)
        same = distance2 <= min(self.rounding, SAME_POINT) * total
        return (0.0 if same else 0.25 * distance2), limit

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


bridge("move_along", inline=False)
