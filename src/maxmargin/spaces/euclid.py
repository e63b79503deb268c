"""The ordinary geometry, p = 2: the weights are their own dual."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin.core import lanes
from maxmargin.core.bridge import bridge

# The scale is folded into the weights soon after it, or its inverse, has grown beyond this.
LARGEST_SCALE = 1e100
ROUNDING = float(np.finfo(np.float64).eps)
# A sum that follows by its increments is computed anew when its accumulated rounding error may have
# passed this fraction of it.
DRIFT_TOLERANCE = 1e-11
# Below this fraction of |x|**2 + |x'|**2, the squared distance of x and x' has lost digits.
CANCELLED = 1e-4


class Euclid(NamedTuple):
    """What a space asks of its geometry. All sums are over the lazily scaled weights.

    Attributes
    ----------
    p : 2, the exponent of the norm in which examples are measured
    width : number of features
    """

    p: float
    width: int

    def holds(self, scale):
        """Are squares of weights that such a scale is kept apart from still numbers?"""
        return 1.0 / LARGEST_SCALE <= abs(scale) <= LARGEST_SCALE

    def product(self, rows, i, weights, c):
        """``w.x`` of row ``i``, over the scale."""
        return rows.dot(i, weights, c)

    def push(self, rows, i, weights, c, amount):
        """``weights += amount * x``."""
        rows.add(i, weights, c, amount)

    def push_vector(self, vectors, at, weights, c, amount):
        """The same for a vector that is no row."""
        for j in range(weights.shape[1]):
            weights[c, j] += amount * vectors[at, j]

    def square_of(self, rows, i):
        """The squared norm of row ``i``."""
        return rows.square(i)

    def square_bound(self, rows, i):
        """At least the squared norm of row ``i``, where computing that is too dear."""
        return rows.square(i)

    def next_norm2(self, weights, c, scale, norm2, slop, cross, square, hidden):
        """``(|w|**2, bound on its rounding error)`` after a step that changed it by these terms."""
        slop += ROUNDING * (norm2 + abs(cross) + square)
        norm2 = max(0.0, norm2 + cross + square)
        if slop > DRIFT_TOLERANCE * norm2:
            return self.sum_norm2(weights, c, scale, hidden, norm2), 0.0
        return norm2, slop

    def sum_norm2(self, weights, c, scale, hidden, known):
        """``|w|**2``, summed up where that can be done; ``known`` is the value so far."""
        return scale * scale * (self.plain_square(weights, c) + hidden)

    def sum_all(self, weights, scale, hidden, known):
        """The same for all weight vectors together."""
        total = hidden
        for c in range(weights.shape[0]):
            total += self.plain_square(weights, c)
        return scale * scale * total

    def plain_square(self, weights, c):
        """The sum of squares of a line of weights.

        The intercept's comes last, so that features of weight 0 behind the others, which move it
        elsewhere, do not change the order of the sum.
        """
        intercept = weights[c, self.width]
        weights[c, self.width] = 0.0
        square = lanes.dense_square(weights, c)
        weights[c, self.width] = intercept
        return square + intercept * intercept

    def fold(self, c, factor):
        """The weights have been multiplied by ``factor``."""

    def half_distance2(self, pair, rows, i, c, other, xx, weights):
        """The squared length of half the difference of row ``i`` and the other of its pair.

        0 if they are the same point; and a number that half their distance does not pass.
        """
        total = xx + pair.squares[c, other]
        apart = total - 2.0 * rows.dot(i, pair.members, 2 * c + other)
        if apart < CANCELLED * total:
            apart = self.squared_distance(pair, rows, i, 2 * c + other)
            apart += 2.0 * rows.tail.hidden_square(i, weights, pair.linear.width)
        return 0.25 * apart, 0.5 * math.sqrt(apart)

    def squared_distance(self, pair, rows, i, at):
        """The same coordinate by coordinate, which loses nothing where both have a long way in
        common."""
        room = pair.members.shape[0] - 1
        for j in range(pair.members.shape[1]):
            pair.members[room, j] = 0.0
        rows.add(i, pair.members, room, 1.0)
        apart = 0.0
        for j in range(pair.members.shape[1]):
            gap = pair.members[room, j] - pair.members[at, j]
            apart += gap * gap
        return apart

    def decide(self, rule, seen, c):
        """The step of the rule along that vector."""
        return rule.step(seen)

    def dual(self, weights):
        """The weights to predict by, over the scale."""
        return weights

    def term(self, value):
        """What a coordinate contributes to the p-th power of the norm."""
        return value * value

    def root(self, total):
        """The norm, from the sum of the terms."""
        return np.sqrt(total)


bridge("product", "push", "square_of", "square_bound", "next_norm2", "sum_norm2", "sum_all", "fold")
bridge("half_distance2", "decide", "holds", "plain_square")
bridge("push_vector", "squared_distance", "term", "root", inline=False)
