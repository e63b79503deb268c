"""The numbers that every space keeps beside its vectors, and their upkeep.

Vectors are under a lazy scale, ``w = scale * v``, so that shrinking costs nothing. The squared norm
follows every step by its increments, with a bound on what rounding has done to it.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Array
from maxmargin.core.numba_backend import bridge

# The scale is folded into the vectors soon after it, or its inverse, has grown beyond this.
LARGEST_SCALE = 1e100
ROUNDING = float(np.finfo(np.float64).eps)
# A sum that follows by its increments is computed anew when its accumulated rounding error may have
# passed this fraction of it.
DRIFT_TOLERANCE = 1e-11

# What a certificate may count: all coefficients, those since the last snapshot, those since a
# snapshot that is still to come, or none (0).
ALL_COEFFICIENTS, SINCE_SNAPSHOT, AWAITING = 1.0, 0.5, 0.25

SCALARS = np.dtype(
    [
        ("scale", "f8"),
        ("norm2", "f8"),  # w.w
        ("norm_error", "f8"),  # bound on the rounding error in norm2
        ("updates", "i8"),
        ("next_mark", "i8"),  # number of updates at which the next snapshot is due
        # Masses of the positive and of the negative coefficients, over the scale; sums of squares
        # in private coordinates that are not recorded, over its square; and all of these at the
        # last snapshot. See `JointSpace.book_all` for classes that are learned together.
        ("positive", "f8"),
        ("negative", "f8"),
        ("hidden_positive", "f8"),
        ("hidden_negative", "f8"),
        ("mark_positive", "f8"),
        ("mark_negative", "f8"),
        ("mark_hidden_positive", "f8"),
        ("mark_hidden_negative", "f8"),
        ("bound", "f8"),  # the smallest upper bound on the margin so far
        ("certifiable", "f8"),  # ALL_COEFFICIENTS, SINCE_SNAPSHOT, AWAITING, 0
    ],
    align=True,
)
AT_ZERO = {"scale": 1.0, "certifiable": ALL_COEFFICIENTS, "bound": np.inf, "next_mark": 1}


class Scalars(NamedTuple):
    """A line of `SCALARS` for each problem, which begins at w = 0."""

    table: Annotated[np.recarray, Array("problems", dtype=SCALARS, fill=AT_ZERO)]

    def multiply(self, c, factor):
        """``w <- factor * w``, by the scale."""
        mine = self.table[c]
        if factor < 0.0:
            mine.certifiable = 0.0
        mine.scale *= factor
        mine.norm2 *= factor * factor
        mine.norm_error *= factor * factor

    def must_fold(self, c, largest_scale):
        """Is the scale about to run out of numbers?"""
        return not 1.0 / largest_scale <= abs(self.table[c].scale) <= largest_scale

    def grow_norm2(self, c, cross, square):
        """A step has changed ``w.w`` by these terms."""
        mine = self.table[c]
        mine.norm_error += ROUNDING * (mine.norm2 + abs(cross) + square)
        mine.norm2 = max(0.0, mine.norm2 + cross + square)

    def has_drifted(self, c):
        """May rounding have changed the squared norm by too much?"""
        return self.table[c].norm_error > DRIFT_TOLERANCE * self.table[c].norm2

    def count_update(self, c, step):
        """An update with this coefficient; is a snapshot due?"""
        mine = self.table[c]
        if step < 0.0:
            mine.certifiable = 0.0
        mine.updates += 1
        return mine.updates == mine.next_mark

    def fold(self, c, factor):
        """The vectors were multiplied by ``factor`` (0: w is forgotten), and the scale is 1."""
        mine = self.table[c]
        mine.positive *= factor
        mine.negative *= factor
        mine.hidden_positive *= factor * factor
        mine.hidden_negative *= factor * factor
        mine.mark_positive *= factor
        mine.mark_negative *= factor
        mine.mark_hidden_positive *= factor * factor
        mine.mark_hidden_negative *= factor * factor
        mine.scale = 1.0
        mine.norm_error = 0.0
        if factor == 0.0:
            mine.norm2 = 0.0

    def mark_masses(self, c):
        """Remember the masses, as the vectors of a snapshot are remembered.

        The next snapshot is due at twice as many updates.
        """
        mine = self.table[c]
        mine.mark_positive = mine.positive
        mine.mark_negative = mine.negative
        mine.mark_hidden_positive = mine.hidden_positive
        mine.mark_hidden_negative = mine.hidden_negative
        mine.next_mark = 2 * mine.updates


bridge("multiply", "grow_norm2", "has_drifted", "count_update", "must_fold", "mark_masses")
