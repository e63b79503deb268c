"""Sums of squares behind bounds, which take a tenth of one pass over short sparse rows."""

from __future__ import annotations

from maxmargin.core.numba_backend import Compiled

# Coordinates that are looked at together: few enough to stay in the processor's cache.
AT_A_TIME = 2**12


@Compiled
def sum_of_squares(  # type: ignore[no-untyped-def]
    weights, mark, share, mark_share, width, c, since, positive, negative, total, unit, room
):
    """`Hull.sum_of_terms` for p = 2, of the same `Hull.coordinates`.

    Those are computed many at a time, and then added in their order.
    """
    for first in range(0, weights.shape[1], room.size):
        count = min(room.size, weights.shape[1] - first)
        for k in range(count):
            room[k] = weights[c, first + k]
        if since > 0.0:
            for k in range(count):
                room[k] -= mark[c, first + k]
        if positive != 0.0:
            for k in range(count):
                own = share[c, first + k] - since * mark_share[c, first + k]
                room[k] = own / positive - (own - room[k]) / negative
        if 0 <= width - first < count:
            room[width - first] = 0.0
        if unit != 1.0:
            for k in range(count):
                room[k] /= unit
        for k in range(count):
            total += room[k] * room[k]
    return total
