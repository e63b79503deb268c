"""The best lengths of several steps at a time, by functions that devices have."""

from __future__ import annotations

from typing import Any

import numpy as np


def best_steps(xp: Any, slack: Any, change: Any, counts: Any, along: Any) -> Any:
    """`newton_passes.best_step` for all columns.

    ``along`` is an `Objective` whose slope and curvature have a number for each.
    """
    limit, low = along.limit, xp.zeros(along.slope.shape)
    high, t = xp.full(along.slope.shape, np.inf), xp.ones(along.slope.shape)
    weighted = counts * change
    for _ in range(60):
        left = slack - t * change
        pull = xp.where(left > 0.0, weighted, 0.0)
        first = along.penalty * (along.slope + t * along.curvature)
        first = first - (pull * xp.minimum(left, limit)).sum(axis=0)
        second = along.penalty * along.curvature
        second = second + xp.where(left < limit, pull * change, 0.0).sum(axis=0)
        low, high = xp.where(first < 0.0, t, low), xp.where(first < 0.0, high, t)
        after = t - first / xp.maximum(second, 1e-300)
        over = ((abs(after - t) <= 1e-9 * t) & (second > 0.0)) | (first == 0.0)
        outside = ~((low < after) & (after < high))
        after = xp.where(outside, xp.where(high < np.inf, 0.5 * (low + high), 2.0 * t), after)
        t = xp.where(over, t, after)
        if bool(over.all()):
            break
    return t
