"""Mistakes of problems that were learnt apart: they depend on the outputs of all.

A loop that has all problems counts them on its way.
"""

from __future__ import annotations

import numpy as np

from maxmargin.core.bridge import Compiled


@Compiled
def contest(targets, order, history, seen):  # type: ignore[no-untyped-def]
    """Put what tells mistakes into ``seen``, by the outputs before anything was learnt.

    For each place of the order the output of the row's own class, the highest of its rivals and the
    least margin, among the problems of ``targets``; see `targets.is_mistake`.
    """
    for n in range(order.size):
        own, rival, least = 0.0, -np.inf, np.inf
        for c in range(targets.problems()):
            f, y = history[n, c], targets.sign(order[n], c)
            least = min(least, y * f)
            if y > 0.0:
                own = f
            elif targets.is_shown(c):
                rival = max(rival, f)
        seen[n, 0], seen[n, 1], seen[n, 2] = own, rival, least


@Compiled
def count_mistakes(targets, seen, places):  # type: ignore[no-untyped-def]
    """The mistakes at the first ``places``, of which parts have ``seen`` some problems each."""
    mistakes = 0
    for n in range(places):
        own, rival, least = 0.0, -np.inf, np.inf
        for part in range(seen.shape[0]):
            own += seen[part, n, 0]  # one of them has it, and for the others it is 0
            rival = max(rival, seen[part, n, 1])
            least = min(least, seen[part, n, 2])
        mistakes += targets.is_mistake(own, rival, least)
    return mistakes
