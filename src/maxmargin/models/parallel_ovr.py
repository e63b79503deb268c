"""The problems of one-vs-rest, learned on several threads, and to the bit what one learns.

Problems have weights of their own, and the loop does not hold the lock of Python's interpreter. So
each thread runs it over some of the problems, on a part of the same memory. What problems have in
common is merged afterwards: trials are the same for all, and mistakes are counted by the outputs
that all of them had.

The largest squared norm so far is the one thing by which a problem could notice another before. It
is that of rows that brought an update, to whichever problem. Rows that are not longer leave it as
it is, whatever they bring; stretches of such rows are learned in parts, and the few others by all
problems together.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.loop import present
from maxmargin.core.row_scans import square_bounds
from maxmargin.core.trace import Trace, contest, count_mistakes
from maxmargin.models.linear_model import LinearModel
from maxmargin.spaces.problem_scalars import AWAITING

# Waking a thread takes longer than learning a stretch of fewer places.
LEAST_PLACES = 256
# Outputs that a part may write down in one stretch.
MOST_OUTPUTS = 2**17


class Stretch(NamedTuple):
    """Rows to learn from; see `core.loop.learn`.

    Attributes
    ----------
    number : from 1, each begun when all parts have learned from the last
    order, rule, trace : what is presented
    trials, mistakes : of the model before
    """

    number: int
    order: np.ndarray
    rule: Any
    trace: Trace
    trials: int
    mistakes: int


class Part:
    """Some problems of a model.

    Attributes
    ----------
    history : their outputs before anything was learned; see `Trace`
    seen : what these tell of mistakes; see `core.mistakes.contest`
    learned : the number of the last stretch
    """

    def __init__(
        self, model: LinearModel, rows: Any, targets: Any, places: int, seen: np.ndarray
    ) -> None:
        self.model, self.rows, self.targets, self.seen = model, rows, targets, seen
        self.history = np.empty((places, model.problems() + 1))
        self.lock, self.learned = Lock(), 0

    def learn(self, stretch: Stretch) -> None:
        """Learn from what is left of a stretch, on any thread, and whatever stopped others.

        Whoever comes second waits for the first.
        """
        with self.lock:
            if self.learned >= stretch.number:
                return
            model, order = self.model, stretch.order
            space, done = model.space, model.trials() - stretch.trials
            if done:
                model.maintain(space)
            trace = stretch.trace._replace(history=self.history[done : order.size])
            rows, rule, tally = self.rows, stretch.rule, model.tally
            given = rows, self.targets, order[done:], rule, space, tally, trace
            present(*given, model.loop, model.maintain)
            contest(self.targets, order, self.history, self.seen)
            self.learned = stretch.number


class Parts:
    """A model in parts, which presents rows in its place while it is fitted.

    Parameters
    ----------
    model : LinearModel
        With problems that know nothing of each other.
    rows, targets : all that will be presented
    jobs : int
        How many parts there are, at least 2.
    """

    def __init__(self, model: Any, rows: Any, targets: Any, jobs: int) -> None:
        self.model, self.targets = model, targets
        problems = model.problems()
        most = max(LEAST_PLACES, jobs * MOST_OUTPUTS // problems)
        self.seen = np.empty((jobs, min(most, max(targets.labels.shape[0], LEAST_PLACES)), 3))
        self.parts = []
        for n, seen in enumerate(self.seen):
            which = slice(n * problems // jobs, (n + 1) * problems // jobs)
            given = model.part(which), rows, targets.part(which)
            self.parts.append(Part(*given, places=seen.shape[0], seen=seen))
        self.squares = np.empty(targets.labels.shape[0])
        square_bounds(rows, model.space, self.squares)
        self.longest = self.squares.max()
        self.stretch: Stretch | None = None
        self.threads = ThreadPoolExecutor(jobs - 1)

    def __enter__(self) -> Parts:
        return self

    def __exit__(self, *exception: object) -> None:
        self.threads.shutdown(cancel_futures=True)

    def present(self, rows: Any, targets: Any, order: np.ndarray, rule: Any, trace: Trace) -> None:
        """`Model.present` of rows that are learned from, of those given."""
        start, patience = 0, LEAST_PLACES
        while start < order.size:
            apart, together = self._divided(order[start : start + self.seen.shape[1]], rule)
            if apart >= LEAST_PLACES:
                self._present_apart(order[start : start + apart], rule, trace)
                start, patience = start + apart, LEAST_PLACES
            else:
                # Each time that parts do not pay, the next check comes later.
                stop = start + min(max(together, LEAST_PLACES), patience)
                self.model.present(rows, targets, order[start:stop], rule, trace)
                start, patience = stop, 2 * patience

    def settle(self) -> None:
        """`Model.settle`."""
        self._finish()
        self.model.settle()

    def _divided(self, order: np.ndarray, rule: Any) -> tuple[int, int]:
        """How many rows can be learned from in parts; if few, how many are better learned together.

        Together, until that many can be learned from in parts again.
        """
        # A pair's members from before a fit are given up whenever any problem is maintained.
        if (self.model.linear.scalars.table.certifiable == AWAITING).any():
            return 0, order.size
        largest = self.model.tally.largest_xx[0]
        if rule.needs_norm() or largest >= self.longest:  # such rules see the norms of all rows
            return order.size, 0
        longer = np.flatnonzero(self.squares[order] > largest)
        gaps = np.diff(longer, append=order.size + LEAST_PLACES)
        if not longer.size:
            return order.size, 0
        return int(longer[0]), int(longer[np.argmax(gaps > LEAST_PLACES)]) + 1

    def _present_apart(self, order: np.ndarray, rule: Any, trace: Trace) -> None:
        trials, mistakes, largest = self.model.tally[0].item()
        for part in self.parts:
            part.model.tally[0] = trials, 0, largest
        number = 1 + max(part.learned for part in self.parts)
        self.stretch = Stretch(number, order, rule, trace, trials, mistakes)
        for part in self.parts[1:]:
            self.threads.submit(part.learn, self.stretch)
        self._finish()

    def _finish(self) -> None:
        """Learn from what is left of the last stretch, or wait for others to do so, and merge."""
        if (stretch := self.stretch) is None:
            return
        for part in self.parts:
            part.learn(stretch)
        trials, _, largest = self.parts[0].model.tally[0].item()
        mistakes = count_mistakes(self.targets, self.seen, stretch.order.size)
        self.model.tally[0] = trials, stretch.mistakes + mistakes, largest
        self.stretch = None
