"""The ordinary geometry, p = 2: the weights are their own dual."""

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
    """What a space asks of its geometry. All sums are over the lazily scaled weights.

    Attributes
    ----------
    p : 2, the exponent of the norm in which examples are measured
    width : number of features
    """

    p: float
    width: Annotated[int, Follows("coordinates")]

    def scale_limit(self):
        """Squares of weights that a scale up to this one is kept apart from are still numbers."""
        return LARGEST_SCALE

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

    def follow_norm2(self, scalars, c, weights, first, stop, cross, square):
        """Keep ``|w|**2`` of problem c true after a step that changed it by these terms.

        Its weights are the lines from ``first`` to ``stop``.
        """
        scalars.grow_norm2(c, cross, square)
        if scalars.has_drifted(c):
            self.sum_norm2(scalars, c, weights, first, stop)

    def sum_norm2(self, scalars, c, weights, first, stop):
        """Compute ``|w|**2`` anew, where that can be done."""
        mine = scalars.table[c]
        total = mine.hidden_positive + mine.hidden_negative
        for line in range(first, stop):
            total += self.plain_square(weights, line)
        mine.norm2 = mine.scale * mine.scale * total
        mine.norm_error = 0.0

    def plain_square(self, weights, c):
        """The sum of squares of a line of weights.

        The intercept's comes last, so that features of weight 0 behind the others, which move it
        elsewhere, do not change the order of the sum.
        """
        intercept = weights[c, self.width]
        weights[c, self.width] = 0.0
        square = fixed_order_sums.dense_square(weights, c)
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
        for j in range(pair.members.shape[1]):
            pair.difference[0, j] = 0.0
        rows.add(i, pair.difference, 0, 1.0)
        apart = 0.0
        for j in range(pair.members.shape[1]):
            gap = pair.difference[0, j] - pair.members[at, j]
            apart += gap * gap
        return apart

    def decide(self, rule, trial, c):
        """The step of the rule along that vector."""
        return rule.step(trial)


bridge("product", "push", "square_of", "square_bound", "follow_norm2", "sum_norm2", "fold")
bridge("half_distance2", "decide", "scale_limit", "plain_square")
bridge("push_vector", "squared_distance", inline=False)
