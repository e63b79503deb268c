"""The records of a loop about the rows that it presents."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.core.numba_backend import Compiled, bridge, with_methods_of


class Trace(NamedTuple):
    """The record of a loop; empty arrays are not written.

    Attributes
    ----------
    touched : for each row, the ``stamp`` of the last call in which it caused an update
    history : outputs before learning, by place in the order and problem, and in a last column the
        number of updates in this call, of all problems, up to that place
    steps : the factors keep and step of the update ``w <- keep * w + step * x``, by place and
        problem, if steps are along the row
    """

    touched: np.ndarray
    stamp: int
    history: np.ndarray
    steps: np.ndarray

    def scores(self):
        """The outputs that `predict` uses, possibly followed by further columns."""
        return self.history

    def updates_before(self, start):
        """The updates before the place ``start``."""
        recorded = 0 < start <= self.history.shape[0]
        return self.history[start - 1, self.history.shape[1] - 1] if recorded else 0.0

    def note(self, space, rows, i, n, c, f, trials):
        """Record ``f``, the output of problem ``c`` for row ``i`` at place ``n``."""
        if n < self.history.shape[0]:
            self.history[n, c] = f


@with_methods_of(Trace)
class MeanTrace(NamedTuple):
    """A `Trace` for a model that predicts by averaged weights.

    ``means`` are the outputs of the averaged weights, the other fields are about the current ones.
    It is a separate type so that loops without averages are compiled without a second product.
    """

    touched: np.ndarray
    stamp: int
    history: np.ndarray
    steps: np.ndarray
    means: np.ndarray

    def scores(self):
        return self.means

    def note(self, space, rows, i, n, c, f, trials):
        if n < self.history.shape[0]:
            self.history[n, c] = f
            self.means[n, c] = space.mean_output(rows, i, c, trials)


bridge("updates_before", "note")

NO_TRACE = Trace(np.empty(0, np.int32), 0, np.empty((0, 0)), np.empty((0, 0, 0)))


def tracing(places: int, problems: int, average: bool) -> Trace | MeanTrace:
    """A trace that records outputs."""
    trace = NO_TRACE._replace(history=np.empty((places, problems + 1)))
    return MeanTrace(*trace, np.empty((places, problems))) if average else trace


@Compiled
def outcome_parts(targets, order, history, seen):  # type: ignore[no-untyped-def]
    """Write the arguments of `targets.is_mistake` for each place of the order to ``seen``.

    They are computed from the outputs before learning, of the problems of ``targets``.
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
    """The number of mistakes at the first ``places``, given the `outcome_parts` of all parts."""
    mistakes = 0
    for n in range(places):
        own, rival, least = 0.0, -np.inf, np.inf
        for part in range(seen.shape[0]):
            own += seen[part, n, 0]  # one of them has it, and for the others it is 0
            rival = max(rival, seen[part, n, 1])
            least = min(least, seen[part, n, 2])
        mistakes += targets.is_mistake(own, rival, least)
    return mistakes
