"""The loops that join a rule, a space, rows and targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.bridge import Compiled, bridge
from maxmargin.core.rule import Seen

# Between these squared norms no rule over- or underflows: products of two of them are still
# numbers.
SMALLEST_XX = 1e-100
LARGEST_XX = 1e100

TALLY = np.dtype([("trials", "i8"), ("mistakes", "i8"), ("rr", "f8")], align=True)


class Notes(NamedTuple):
    """What is written down about the rows that are presented; an empty array is switched off.

    Attributes
    ----------
    touched : for each row, the ``stamp`` of the last call in which it brought an update
    stamp : that of this call
    journal : the outputs for each place of the order and each problem, before anything is learnt,
        and in a last column the updates since the call began, of all problems, after that place
    """

    touched: np.ndarray
    stamp: int
    journal: np.ndarray

    def made(self, start):
        """The updates before the place ``start``."""
        known = 0 < start <= self.journal.shape[0]
        return self.journal[start - 1, self.journal.shape[1] - 1] if known else 0.0


bridge("made")

NO_NOTES = Notes(np.empty(0, np.int32), 0, np.empty((0, 0)))


def new_tally() -> np.recarray:
    """Counts that all problems share: trials, mistakes, and the largest x.x so far."""
    return np.zeros(1, TALLY).view(np.recarray)


def join_tallies(tally: np.recarray, singles: list[Any]) -> None:
    """The counts of several learners together, into ``tally``."""
    tally.trials[0] = sum(single.tally.trials[0] for single in singles)
    tally.mistakes[0] = sum(single.tally.mistakes[0] for single in singles)
    tally.rr[0] = max(single.tally.rr[0] for single in singles)


@Compiled
def learn(rows, targets, order, start, rule, space, tally, notes):  # type: ignore[no-untyped-def]
    """Present the rows ``order[start:]``, in that order, until the space asks to be tended.

    A row i that stands there as ``-1 - i`` is only looked at. Returns the number of places of
    ``order`` that are done, and whether the space asked. A zero row has margin 0 for ever: it is a
    trial, never an update.
    """
    trials, mistakes, rr = tally[0].trials, tally[0].mistakes, tally[0].rr
    n, due, made = start, False, notes.made(start)
    while n < order.size and not due:
        i = order[n]
        rows.prefetch(order, n)
        learning = i >= 0
        if not learning:
            i = -1 - i
        xx = np.nan  # not known yet
        if learning:
            trials += 1
            if rule.needs_norm():
                xx = space.square_of(rows, i)
                rr = max(rr, xx)
        own, rival = 0.0, -np.inf
        for c in range(targets.problems()):
            f = space.look(rows, i, c)
            if n < notes.journal.shape[0]:
                notes.journal[n, c] = f
            if not learning:
                continue
            y = targets.sign(i, c)
            if y > 0.0:
                own = f
            elif targets.is_shown(c):
                rival = max(rival, f)
            seen = Seen(y * f, space.norm2(c), xx, rr, trials, space.updates(c))
            update = rule.active(seen)
            if update:
                if not xx >= 0.0:
                    xx = space.square_bound(rows, i)
                    rr = max(rr, xx)
                margin, along2 = space.aim(rows, i, c, y, f, xx)
                update = along2 > 0.0
            if update:
                seen = Seen(margin, space.norm2(c), along2, rr, trials, space.updates(c))
                shrink, step = space.decide(rule, seen, c)
                due |= space.move(rows, i, c, y, shrink, step, margin, along2, trials)
                shrink = rule.project(space.norm2(c))
                made += 1.0
                if i < notes.touched.size:
                    notes.touched[i] = notes.stamp
            else:
                shrink = rule.rest(seen)
            if shrink != 1.0:
                due |= space.rescale(c, shrink)
        if n < notes.journal.shape[0]:
            notes.journal[n, targets.problems()] = made
        if learning and own <= (rival if rival > -np.inf else 0.0):  # one positive row: 0
            mistakes += 1
        n += 1
    tally[0].trials, tally[0].mistakes, tally[0].rr = trials, mistakes, rr
    return n, due


@Compiled
def learn_jointly(rows, targets, order, start, rule, space, tally, notes):  # type: ignore[no-untyped-def]
    """`learn` for a `JointSpace`: the margin of a row is that over its highest rival."""
    trials, mistakes, rr = tally[0].trials, tally[0].mistakes, tally[0].rr
    n, due, made = start, False, notes.made(start)
    while n < order.size and not due:
        i = order[n]
        rows.prefetch(order, n)
        learning = i >= 0
        if not learning:
            i = -1 - i
        y = targets.class_of(i)
        size = space.meet(rows, i, y)
        if n < notes.journal.shape[0]:
            for c in range(targets.problems()):
                notes.journal[n, c] = space.violations.outputs[c]
            notes.journal[n, targets.problems()] = made
        n += 1
        if not learning:
            continue
        trials += 1
        xx = space.square_of(rows, i)
        rr = max(rr, xx)
        margin = space.violations.outputs[y] - space.violations.outputs[space.violations.heap[0]]
        if margin <= 0.0:
            mistakes += 1
        seen = Seen(margin, space.norm2(0), 2.0 * xx, 2.0 * rr, trials, space.updates(0))
        if xx > 0.0 and rule.active(seen):
            due |= space.policy.correct(space, rows, i, y, rule, seen, size, xx)
            made += 1.0
            if n <= notes.journal.shape[0]:
                notes.journal[n - 1, targets.problems()] = made
            shrink = rule.project(space.norm2(0))
            if i < notes.touched.size:
                notes.touched[i] = notes.stamp
        else:
            shrink = rule.rest(seen)
        if shrink != 1.0:
            due |= space.rescale(0, shrink)
    tally[0].trials, tally[0].mistakes, tally[0].rr = trials, mistakes, rr
    return n, due


@Compiled
def tend(space, rr, offset):  # type: ignore[no-untyped-def]
    """Do for each problem what is too rare and too bulky to be part of the loop."""
    for c in range(space.problems()):
        space.tend(c, rr, offset)


def present(
    rows: Any,
    targets: Any,
    order: np.ndarray,
    rule: Any,
    space: Any,
    tally: np.recarray,
    notes: Notes = NO_NOTES,
    learn: Callable[..., tuple[int, bool]] = learn,
) -> None:
    """Present the rows ``order``, once each and in that order, to the rule."""
    done = 0
    while done < order.size:
        done, due = learn(rows, targets, order, done, rule, space, tally, notes)
        if due:
            tend(space, tally[0].rr, rows.tail.offset)


@Compiled
def lowest_outputs(rows, targets, weights, bias, lowest):  # type: ignore[no-untyped-def]
    """Put the smallest ``y * (w.x + b)`` over all rows into ``lowest``, one number per problem."""
    for c in range(targets.problems()):
        lowest[c] = np.inf
    for i in range(rows.size()):
        for c in range(targets.problems()):
            f = rows.dot(i, weights, c) + bias[c]
            lowest[c] = min(lowest[c], targets.sign(i, c) * f)


@Compiled
def lowest_lead(rows, targets, weights):  # type: ignore[no-untyped-def]
    """The smallest lead of a row's own class over its highest rival."""
    lowest = np.inf
    for i in range(rows.size()):
        y = targets.class_of(i)
        own, rival = rows.dot(i, weights, y), -np.inf
        for c in range(weights.shape[0]):
            if c != y:
                rival = max(rival, rows.dot(i, weights, c))
        lowest = min(lowest, own - rival)
    return lowest


@Compiled
def first_unusable(rows):  # type: ignore[no-untyped-def]
    """Index of the first row that no learner can take, or -1; and the largest ``x.x``.

    Unusable are rows with NaN or infinity, with a squared norm outside the range in which nothing
    over- or underflows (an exact zero is fine), and sparse rows that point outside their arrays.
    """
    largest = 0.0
    for i in range(rows.size()):
        if not rows.is_well_formed(i):
            return i, largest
        xx = rows.square(i)
        if not SMALLEST_XX <= xx <= LARGEST_XX:
            for k in range(rows.own_entries(i)):
                _, x = rows.entry(i, k)
                if x != 0.0:
                    return i, largest
        largest = max(largest, xx)
    return -1, largest
