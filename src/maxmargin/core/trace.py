"""The records of a loop about the rows that it learns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.core.numba_backend import bridge, with_methods_of


class Trace(NamedTuple):
    """The record of a loop; empty arrays are not written.

    Attributes
    ----------
    touched : for each row, the ``stamp`` of the last call in which it caused an update
    history : outputs before learning, by place in the order and problem, and in a last column the
        number of updates in this call, of all problems, up to that place
    """

    touched: np.ndarray
    stamp: int
    history: np.ndarray

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
    means: np.ndarray

    def scores(self):
        return self.means

    def note(self, space, rows, i, n, c, f, trials):
        if n < self.history.shape[0]:
            self.history[n, c] = f
            self.means[n, c] = space.mean_output(rows, i, c, trials)


bridge("updates_before", "note")

NO_TRACE = Trace(np.empty(0, np.int32), 0, np.empty((0, 0)))


def tracing(places: int, problems: int, average: bool) -> Trace | MeanTrace:
    """A trace that records outputs."""
    trace = NO_TRACE._replace(history=np.empty((places, problems + 1)))
    return MeanTrace(*trace, np.empty((places, problems))) if average else trace
