"""The experts of the largest weight over time, in constant memory."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from maxmargin.core.array_fields import Array
from maxmargin.core.numba_backend import helper

# No expert loses more of its weight by one row: if all did, nothing would be left to share.
SMALLEST_PART = 1e-200
# The most leaders that are recorded: one for each trial at first, then half as often whenever the
# array is full.
MOST_LEADERS = 2048

CLOCK = np.dtype([("stride", "i8"), ("written", "i8")], align=True)

Leaders = Annotated[np.ndarray, Array(MOST_LEADERS, dtype=np.int32, below="experts")]
Clock = Annotated[np.recarray, Array(1, dtype=CLOCK, fill={"stride": 1})]


@helper
def is_due(clock, trials):  # type: ignore[no-untyped-def]
    """Is the leader to be written down after so many trials?"""
    return trials % clock[0].stride == 0


@helper
def write_leader(leaders, clock, leader):  # type: ignore[no-untyped-def]
    """Write it down; when the array is full, forget every other one, and write half as often."""
    leaders[clock[0].written] = leader
    clock[0].written += 1
    if clock[0].written == leaders.size:
        half = leaders.size // 2
        for k in range(half):
            leaders[k] = leaders[2 * k + 1]
        clock[0].written = half
        clock[0].stride *= 2


def invalid_weights(votes: Any) -> str:
    """Why the weights of experts, or their clock, are invalid; empty if they are valid."""
    clock, sums = votes.clock, votes.weights.sum(axis=-1)
    fits = (clock.stride > 0).all() and (clock.written < votes.leaders.size).all()
    fits = fits and (votes.weights >= 0.0).all() and np.isclose(sums, 1.0).all()
    return "" if fits else "the weights of experts do not fit together"
