"""One-vs-rest problems learned on several threads, with the same bits as on one.

Problems have separate weights, and the loop releases the interpreter lock, so each thread runs it
over some of the problems, on a part of the same memory. Common counts are merged afterwards: trials
are the same for all problems, and mistakes follow from the outputs of all of them.

The only other common state is the largest squared norm of a row that caused an update to any
problem. Rows that are not longer cannot change it; stretches of such rows are learned in parts, and
the few others by all problems together.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.loop import present
from maxmargin.core.row_scans import square_bounds
from maxmargin.core.trace import Trace, count_mistakes, outcome_parts
from maxmargin.models.linear_model import LinearModel
from maxmargin.spaces.problem_scalars import AWAITING

# Waking a thread takes longer than learning a shorter stretch.
LEAST_PLACES = 256
# Outputs that a part may record in one stretch.
MOST_OUTPUTS = 2**17


class Stretch(NamedTuple):
    """Rows to learn from, with a number from 1 on, and the counts of the model before."""

    number: int
    order: np.ndarray
    rule: Any
    trace: Trace
    trials: int
    mistakes: int


class Part:
    """Some problems of a model.

    ``history`` has their outputs before learning (see `Trace`), ``seen`` what mistakes depend on
    (see `core.trace.outcome_parts`), and ``learned`` is the number of the last stretch.
    """

    def __init__(
        self, model: LinearModel, rows: Any, targets: Any, places: int, seen: np.ndarray
    ) -> None:
        self.model, self.rows, self.targets, self.seen = model, rows, targets, seen
        self.history = np.empty((places, model.problems() + 1))
        self.lock, self.learned = Lock(), 0

    def learn(self, stretch: Stretch) -> None:
        """Learn the rest of a stretch, which an interruption may have cut short, on any thread.

        A second caller waits for the first.
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
            outcome_parts(self.targets, order, self.history, self.seen)
            self.learned = stretch.number


class Parts:
    """Presents rows in the place of a model with independent problems, in at least 2 parts."""

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
        """`Model.present` for rows of the fit that are learned."""
        start, patience = 0, LEAST_PLACES
        while start < order.size:
            apart, together = self._divided(order[start : start + self.seen.shape[1]], rule)
            if apart >= LEAST_PLACES:
                self._present_apart(order[start : start + apart], rule, trace)
                start, patience = start + apart, LEAST_PLACES
            else:
                # Check less often while parts do not pay off.
                stop = start + min(max(together, LEAST_PLACES), patience)
                self.model.present(rows, targets, order[start:stop], rule, trace)
                start, patience = stop, 2 * patience

    def settle(self) -> None:
        """`Model.settle`."""
        self._finish()
        self.model.settle()

    def _divided(self, order: np.ndarray, rule: Any) -> tuple[int, int]:
        """The numbers of next rows to learn in parts, and, if those are few, together."""
        # Maintenance of any problem drops members of pairs from before the fit.
        if (self.model.linear.scalars.table.certifiable == AWAITING).any():
            return 0, order.size
        largest = self.model.tally.largest_xx[0]
        if rule.needs_norm() or largest >= self.longest:  # such rules use the norms of all rows
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
        """Complete the last stretch, or wait until others have, and merge the counts."""
        if (stretch := self.stretch) is None:
            return
        for part in self.parts:
            part.learn(stretch)
        trials, _, largest = self.parts[0].model.tally[0].item()
        mistakes = count_mistakes(self.targets, self.seen, stretch.order.size)
        self.model.tally[0] = trials, stretch.mistakes + mistakes, largest
        self.stretch = None
