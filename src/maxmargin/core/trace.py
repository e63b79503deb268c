"""What a loop records about the rows that it presents."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.core.numba_backend import Compiled, bridge, with_methods_of


class Trace(NamedTuple):
    """What is recorded about the rows that are presented; an empty array is switched off.

    Attributes
    ----------
    touched : for each row, the ``stamp`` of the last call in which it brought an update
    stamp : that of this call
    history : the outputs for each place of the order and each problem, before anything is learned,
        and in a last column the updates since the call began, of all problems, after that place
    steps : for the same what became of the weights, ``w <- keep * w + step * x``: keep and step,
        where steps are along the row itself
    """

    touched: np.ndarray
    stamp: int
    history: np.ndarray
    steps: np.ndarray

    def scores(self):
        """The outputs that `predict` goes by, in columns of which more may follow."""
        return self.history

    def updates_before(self, start):
        """The updates before the place ``start``."""
        recorded = 0 < start <= self.history.shape[0]
        return self.history[start - 1, self.history.shape[1] - 1] if recorded else 0.0

    def note(self, space, rows, i, n, c, f, trials):
        """Record ``f``, the output of problem ``c`` for row ``i`` at place ``n``.

        ``trials`` is the number of rows learned from before it.
        """
        if n < self.history.shape[0]:
            self.history[n, c] = f


@with_methods_of(Trace)
class MeanTrace(NamedTuple):
    """A `Trace` for a model that predicts by averaged weights.

    It is a class of its own so that loops without averages are compiled without a second product.

    Attributes
    ----------
    touched, stamp, history, steps : as in `Trace`, about the weights that learn
    means : the outputs of the averaged weights, for each place of the order and each problem,
        before anything is learned
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
            self.means[n, c] = space.look_mean(rows, i, c, trials)


bridge("updates_before", "note")

NO_TRACE = Trace(np.empty(0, np.int32), 0, np.empty((0, 0)), np.empty((0, 0, 0)))


def tracing(places: int, problems: int, average: bool) -> Trace | MeanTrace:
    """A trace that records the outputs at so many places, of so many problems."""
    trace = NO_TRACE._replace(history=np.empty((places, problems + 1)))
    return MeanTrace(*trace, np.empty((places, problems))) if average else trace


@Compiled
def contest(targets, order, history, seen):  # type: ignore[no-untyped-def]
    """Put what decides about mistakes into ``seen``, by the outputs before anything was learned.

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
