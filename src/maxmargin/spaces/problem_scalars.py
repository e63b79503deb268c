"""The scalars that every space keeps for each problem, and their updates.

Vectors are under a lazy scale, ``w = scale * v``, so that shrinking takes constant time. The
squared norm is updated by increments, with a bound on the accumulated rounding error.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Array
from maxmargin.core.numba_backend import bridge

# The scale is folded into the vectors soon after it, or its inverse, exceeds this.
LARGEST_SCALE = 1e100
ROUNDING = float(np.finfo(np.float64).eps)
# An incremental sum is recomputed when its rounding error may exceed this fraction of it.
DRIFT_TOLERANCE = 1e-11

# The coefficients that a certificate may use: all, those since the last snapshot, those since a
# future snapshot, or none (0).
ALL_COEFFICIENTS, SINCE_SNAPSHOT, AWAITING = 1.0, 0.5, 0.25

SCALARS = np.dtype(
    [
        ("scale", "f8"),
        ("norm2", "f8"),  # w.w
        ("norm_error", "f8"),  # bound on the rounding error in norm2
        ("updates", "i8"),
        ("next_mark", "i8"),  # number of updates at which the next snapshot is due
        # Masses of positive and negative coefficients, over the scale; sums of squares in private
        # coordinates that are not stored, over its square; and all of these at the last snapshot.
        # See `JointSpace.record_joint_step` for classes that are learned jointly.
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
        record = self.table[c]
        if factor < 0.0:
            record.certifiable = 0.0
        record.scale *= factor
        record.norm2 *= factor * factor
        record.norm_error *= factor * factor

    def must_fold(self, c, largest_scale):
        """True if the scale is near overflow or underflow."""
        return not 1.0 / largest_scale <= abs(self.table[c].scale) <= largest_scale

    def grow_norm2(self, c, cross, square):
        """Add the terms by which a step changed ``w.w``."""
        record = self.table[c]
        record.norm_error += ROUNDING * (record.norm2 + abs(cross) + square)
        record.norm2 = max(0.0, record.norm2 + cross + square)

    def has_drifted(self, c):
        """True if rounding may have changed the squared norm by too much."""
        return self.table[c].norm_error > DRIFT_TOLERANCE * self.table[c].norm2

    def count_update(self, c, step):
        """Count an update with this coefficient; True if a snapshot is due."""
        record = self.table[c]
        if step < 0.0:
            record.certifiable = 0.0
        record.updates += 1
        return record.updates == record.next_mark

    def fold(self, c, factor):
        """Call when the vectors were multiplied by ``factor`` (0 resets w); sets the scale to 1."""
        record = self.table[c]
        record.positive *= factor
        record.negative *= factor
        record.hidden_positive *= factor * factor
        record.hidden_negative *= factor * factor
        record.mark_positive *= factor
        record.mark_negative *= factor
        record.mark_hidden_positive *= factor * factor
        record.mark_hidden_negative *= factor * factor
        record.scale = 1.0
        record.norm_error = 0.0
        if factor == 0.0:
            record.norm2 = 0.0


bridge("multiply", "grow_norm2", "has_drifted", "count_update", "must_fold")


def mark_masses(table: np.recarray, problems: np.ndarray) -> None:
    """Store the masses at a snapshot; the next one is due at twice as many updates."""
    for mass in ("positive", "negative", "hidden_positive", "hidden_negative"):
        table[f"mark_{mass}"][problems] = table[mass][problems]
    table.next_mark[problems] = 2 * table.updates[problems]
