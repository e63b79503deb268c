"""The Euclidean geometry, p = 2, in which the weights are their own dual."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from maxmargin.core import fixed_order_sums
from maxmargin.core.array_fields import Follows
from maxmargin.core.numba_backend import bridge
from maxmargin.spaces.problem_scalars import LARGEST_SCALE

# Below this fraction of |x|**2 + |x'|**2, the squared distance of x and x' has lost digits.
CANCELLED = 1e-4


class Euclid(NamedTuple):
    """The interface of geometries, for p = 2. All sums are over the lazily scaled weights."""

    p: float
    width: Annotated[int, Follows("coordinates")]

    def scale_limit(self):
        """The largest scale for which the squares of weights cannot overflow."""
        return LARGEST_SCALE

    def product(self, rows, i, weights, c):
        """``w.x`` of row ``i``, over the scale."""
        return rows.dot(i, weights, c)

    def push(self, rows, i, weights, c, amount):
        """``weights += amount * x``."""
        rows.add(i, weights, c, amount)

    def push_vector(self, vectors, at, weights, c, amount):
        """``weights += amount * vectors[at]``."""
        for j in range(weights.shape[1]):
            weights[c, j] += amount * vectors[at, j]

    def square_of(self, rows, i):
        """The squared norm of row ``i``."""
        return rows.square(i)

    def square_bound(self, rows, i):
        """An upper bound on the squared norm of row ``i``, if that is expensive to compute."""
        return rows.square(i)

    def follow_norm2(self, scalars, c, weights, first, stop, cross, square):
        """Update ``|w|**2`` of problem c, whose lines are ``first`` to ``stop``, by these terms."""
        scalars.grow_norm2(c, cross, square)
        if scalars.has_drifted(c):
            self.sum_norm2(scalars, c, weights, first, stop)

    def sum_norm2(self, scalars, c, weights, first, stop):
        """Recompute ``|w|**2``, if that is possible."""
        record = scalars.table[c]
        total = record.hidden_positive + record.hidden_negative
        for line in range(first, stop):
            total += self.plain_square(weights, line)
        record.norm2 = record.scale * record.scale * total
        record.norm_error = 0.0

    def plain_square(self, weights, c):
        """The sum of squares of a line of weights.

        The intercept's comes last, so that spare features of weight 0 do not change the order.
        """
        intercept = weights[c, self.width]
        weights[c, self.width] = 0.0
        square = fixed_order_sums.dense_square(weights, c)
        weights[c, self.width] = intercept
        return square + intercept * intercept

    def fold(self, c, factor):
        """Call after the weights were multiplied by ``factor``."""

    def half_distance2(self, pair, rows, i, c, other, xx, weights):
        """The squared length of half the difference of row ``i`` and the other member of its pair.

        It is 0 for the same point. Returns an upper bound on half the distance as well.
        """
        total = xx + pair.squares[c, other]
        distance2 = total - 2.0 * rows.dot(i, pair.members, 2 * c + other)
        if distance2 < CANCELLED * total:
            distance2 = self.squared_distance(pair, rows, i, 2 * c + other)
            distance2 += 2.0 * rows.tail.hidden_square(i, weights, pair.linear.width)
        return 0.25 * distance2, 0.5 * math.sqrt(distance2)

    def squared_distance(self, pair, rows, i, at):
        """The squared distance by coordinates, without cancellation if both are nearly equal."""
        for j in range(pair.members.shape[1]):
            pair.difference[0, j] = 0.0
        rows.add(i, pair.difference, 0, 1.0)
        distance2 = 0.0
        for j in range(pair.members.shape[1]):
            gap = pair.difference[0, j] - pair.members[at, j]
            distance2 += gap * gap
        return distance2

    def decide(self, rule, trial, c):
        """The step of the rule along that vector."""
        return rule.step(trial)


bridge("product", "push", "square_of", "square_bound", "follow_norm2", "sum_norm2", "fold")
bridge("half_distance2", "decide", "scale_limit", "plain_square")
bridge("push_vector", "squared_distance", inline=False)
