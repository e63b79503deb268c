"""The loop that joins a rule, a space, rows and targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from maxmargin.core.numba_backend import Compiled, bridge
from maxmargin.core.rule import Trial
from maxmargin.core.trace import NO_TRACE, Trace

# Between these squared norms no rule over- or underflows: products of two of them are finite.
SMALLEST_XX = 1e-100
LARGEST_XX = 1e100

# Counts that all problems share, and the largest squared norm of a row so far.
TALLY = np.dtype([("trials", "i8"), ("mistakes", "i8"), ("largest_xx", "f8")], align=True)


class AnyRow:
    """Default methods of spaces, of those whose metric does not depend on rows."""

    output: Callable[..., float]

    def take_in(self, rows, i, c, f, trial):
        """Prepare to learn row ``i``, whose output was ``f``; returns the new output."""
        return f

    def length2(self, rows, i, c, xx):
        """The squared length of row ``i`` in the metric of problem ``c``, given its norm."""
        return xx

    def fill_outputs(self, rows, i, first, found):
        """Put the outputs of row ``i`` in the problems from ``first`` on into ``found``."""
        for c in range(found.size):
            found[c] = self.output(rows, i, first + c)


bridge("take_in", "length2", "fill_outputs")


@Compiled
def learn(rows, targets, order, start, rule, space, tally, trace):  # type: ignore[no-untyped-def]
    """Learn from the rows ``order[start:]``, in that order, until the space needs maintenance.

    An entry ``-1 - i`` only computes outputs for row i. Returns the number of entries that are
    done, and whether `maintain` must be called. A zero row always has margin 0: it is a trial,
    never an update.
    """
    trials, mistakes, largest_xx = tally[0].trials, tally[0].mistakes, tally[0].largest_xx
    n, must_maintain, made = start, False, trace.updates_before(start)
    while n < order.size and not must_maintain:
        i = order[n]
        rows.prefetch(order, n)
        learning = i >= 0
        if not learning:
            i = -1 - i
        xx, past = np.nan, trials  # the norm is not known yet
        if learning:
            trials += 1
            if rule.needs_norm():
                xx = space.square_of(rows, i)
                largest_xx = max(largest_xx, xx)
        own, rival, least = 0.0, -np.inf, np.inf
        for c in range(targets.problems()):
            f = space.output(rows, i, c)
            trace.note(space, rows, i, n, c, f, past)
            if not learning:
                continue
            y = targets.sign(i, c)
            least = min(least, y * f)
            if y > 0.0:
                own = f
            elif targets.is_shown(c):
                rival = max(rival, f)
            own_rule = rule.of(c)
            weight, before = targets.weight_of(i), space.updates(c)
            f = space.take_in(rows, i, c, f, trials)
            length2 = space.length2(rows, i, c, xx) if rule.needs_norm() else xx
            trial = Trial(y * f, space.norm2(c), length2, largest_xx, trials, before, weight)
            update = own_rule.active(trial)
            if update:
                if not xx >= 0.0:
                    xx = space.square_bound(rows, i)
                    largest_xx = max(largest_xx, xx)
                margin, along2 = space.aim(rows, i, c, y, f, xx)
                update = along2 > 0.0
            if update:
                trial = Trial(margin, trial.ww, along2, largest_xx, trials, before, weight)
                keep, step = space.decide(own_rule, trial, c)
                must_maintain |= space.move(rows, i, c, y, keep, step, margin, along2, trials)
                shrink = own_rule.project(space.norm2(c))
                made += 1.0
                if i < trace.touched.size:
                    trace.touched[i] = trace.stamp
            else:
                shrink = own_rule.rest(trial)
            if shrink != 1.0:
                must_maintain |= space.rescale(c, shrink, trials)
        if n < trace.history.shape[0]:
            trace.history[n, targets.problems()] = made
        if learning and targets.is_mistake(own, rival, least):
            mistakes += 1
        n += 1
    tally[0].trials, tally[0].mistakes, tally[0].largest_xx = trials, mistakes, largest_xx
    return n, must_maintain


@Compiled
def maintain(space):  # type: ignore[no-untyped-def]
    """Do the rare work for each problem that is too long to be part of the loop."""
    for c in range(space.problems()):
        space.maintain(c)


def run_loop(
    rows: Any,
    targets: Any,
    order: np.ndarray,
    rule: Any,
    space: Any,
    tally: np.recarray,
    trace: Trace = NO_TRACE,
    learn: Callable[..., tuple[int, bool]] = learn,
    maintain: Callable[[Any], None] = maintain,
) -> None:
    """Let the rule learn from the rows ``order``, once each and in that order."""
    done = 0
    while done < order.size:
        done, must_maintain = learn(rows, targets, order, done, rule, space, tally, trace)
        if must_maintain:
            maintain(space)
