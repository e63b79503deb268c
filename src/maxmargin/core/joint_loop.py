"""Joint learning of several classes: violated constraints, and the smallest step that meets them.

A row x of class y violates the constraint of a rival z if ``w_y.x - w_z.x`` is too small. The
constraint is along the vector that has x in block y and -x in block z; for different rivals such
vectors have the products ``x.x (I + 1 1')``. So the smallest step that lifts all violated margins
to what is wanted is found by one scan over the violations, the worst first: with m of them active
and the gaps ``g = wanted - margin``,

    steps = (g - T) / x.x  for the active ones,     T = (sum of their g) / (m + 1),

and the next one is active if its gap is above T. (K. Zhao and L. Huang, "Simple online learning
with approximate max margin and fast convergence", Algorithm 3, where the same programme is solved
by iteration.)
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Buffer, blank
from maxmargin.core.numba_backend import Compiled, bridge
from maxmargin.core.rule import Trial


class Rivals(NamedTuple):
    """Buffers for the rivals of one row.

    Attributes
    ----------
    missing : the gap between required and actual margin of each rival in the heap
    heap : rivals with violated constraints, the largest gap on top (then the highest output, then
        the first class)
    taken, gaps, steps : the rivals taken from the heap, their gaps, and their steps
    """

    outputs: Annotated[np.ndarray, Buffer("problems")]
    missing: Annotated[np.ndarray, Buffer("problems")]
    heap: Annotated[np.ndarray, Buffer("problems", dtype=np.int64)]
    taken: Annotated[np.ndarray, Buffer("problems", dtype=np.int64)]
    gaps: Annotated[np.ndarray, Buffer("problems")]
    steps: Annotated[np.ndarray, Buffer("problems")]

    def gap(self, own, rival):
        """The required margin over a rival minus the actual one."""
        return 1.0 - (self.outputs[own] - self.outputs[rival])

    def least_margin(self, own):
        """The least margin of class ``own`` over a rival."""
        least = np.inf
        for c in range(self.outputs.size):
            if c != own:
                least = min(least, self.outputs[own] - self.outputs[c])
        return least

    def against(self, own, rival, trial):
        """The trial of the constraint of one rival."""
        margin = self.outputs[own] - self.outputs[rival]
        given = trial.ww, trial.xx, trial.largest_xx, trial.t, trial.k, trial.weight
        return Trial(margin, *given)

    def worst(self, own, rule, trial):
        """The rival on top of the heap of `challengers`, without that heap."""
        found, largest = own, -np.inf
        for c in range(self.outputs.size):
            if c != own and rule.active(self.against(own, c, trial)):
                gap = self.gap(own, c)
                if gap > largest or (gap == largest and self.outputs[c] > self.outputs[found]):
                    found, largest = c, gap
        return found

    def challengers(self, own, rule, trial):
        """Make a heap of the rivals for which the rule is active; returns its size."""
        size = 0
        for c in range(self.outputs.size):
            if c != own and rule.active(self.against(own, c, trial)):
                self.missing[c] = self.gap(own, c)
                self.heap[size] = c
                size += 1
        for at in range(size // 2 - 1, -1, -1):
            self.sink(at, size)
        return size

    def is_above(self, one, other):
        if self.missing[one] != self.missing[other]:
            return self.missing[one] > self.missing[other]
        output, rival = self.outputs[one], self.outputs[other]
        return output > rival or (output == rival and one < other)

    def sink(self, at, size):
        """Restore the heap below the place ``at``."""
        while True:
            child = 2 * at + 1
            if child >= size:
                return
            if child + 1 < size and self.is_above(self.heap[child + 1], self.heap[child]):
                child += 1
            if not self.is_above(self.heap[child], self.heap[at]):
                return
            self.heap[at], self.heap[child] = self.heap[child], self.heap[at]
            at = child

    def pop(self, size):
        """Remove the rival on top; returns the new size."""
        self.heap[0] = self.heap[size - 1]
        self.sink(0, size - 1)
        return size - 1

    def solve(self, count, xx):
        """Compute the steps for the first ``count``, descending, gaps; returns their sum."""
        active, total = 0, 0.0
        while active < count and self.gaps[active] > total / (active + 1.0):
            total += self.gaps[active]
            active += 1
        level = total / (active + 1.0)
        for k in range(count):
            self.steps[k] = (self.gaps[k] - level) / xx if k < active else 0.0
        return level / xx


bridge("is_above", "pop", "gap", "least_margin", "against")
bridge("worst", "challengers", "sink", "solve", inline=False)


def new_rivals(classes: int) -> Rivals:
    return blank(Rivals, {"problems": classes})


@Compiled
def learn_jointly(rows, targets, order, start, rule, space, tally, trace):  # type: ignore[no-untyped-def]
    """`core.loop.learn` for a `JointSpace`.

    The margin of a row is the least over a rival; a row causes an update if the rule is active for
    any rival.
    """
    trials, mistakes, largest_xx = tally[0].trials, tally[0].mistakes, tally[0].largest_xx
    n, must_maintain, made = start, False, trace.updates_before(start)
    while n < order.size and not must_maintain:
        i = order[n]
        rows.prefetch(order, n)
        learning = i >= 0
        if not learning:
            i = -1 - i
        y = targets.class_of(i)
        space.compute_outputs(rows, i)
        if n < trace.history.shape[0]:
            for c in range(targets.problems()):
                trace.note(space, rows, i, n, c, space.rivals.outputs[c], trials)
            trace.history[n, targets.problems()] = made
        n += 1
        if not learning:
            continue
        trials += 1
        xx = space.square_of(rows, i)
        largest_xx = max(largest_xx, xx)
        margin = space.rivals.least_margin(y)
        if margin <= 0.0:
            mistakes += 1
        norm2, before, weight = space.norm2(0), space.updates(0), targets.weight_of(i)
        trial = Trial(margin, norm2, 2.0 * xx, 2.0 * largest_xx, trials, before, weight)
        if xx > 0.0 and rule.active(trial):
            must_maintain |= space.policy.correct(space, rows, i, y, rule, trial, xx)
            made += 1.0
            if n <= trace.history.shape[0]:
                trace.history[n - 1, targets.problems()] = made
            shrink = rule.project(space.norm2(0))
            if i < trace.touched.size:
                trace.touched[i] = trace.stamp
        else:
            shrink = rule.rest(trial)
        if shrink != 1.0:
            must_maintain |= space.rescale(0, shrink, trials)
    tally[0].trials, tally[0].mistakes, tally[0].largest_xx = trials, mistakes, largest_xx
    return n, must_maintain


@Compiled
def _solve(rivals, count, xx):  # type: ignore[no-untyped-def]
    return rivals.solve(count, xx)


def smallest_steps(gaps: np.ndarray, xx: float) -> np.ndarray:
    """The coefficients of the constraints, in order, of the smallest step that closes all ``gaps``.

    A gap is the required margin minus the actual one: ``1 - margin``. The vectors of the
    constraints have the inner products ``xx * (I + 1 1')``, as for one example against several
    rival labels that have separate blocks of weights. Structured labels that share features have
    other products.

    Examples
    --------
    >>> smallest_steps(np.array([1.0, 1.0, 0.1]), 1.0).round(3).tolist()
    [0.333, 0.333, 0.0]
    """
    gaps = np.asarray(gaps, dtype=np.float64)
    ranks = np.argsort(-gaps, kind="stable")
    rivals = new_rivals(gaps.size)
    rivals.gaps[:] = gaps[ranks]
    _solve(rivals, gaps.size, float(xx))
    steps = np.empty_like(gaps)
    steps[ranks] = rivals.steps
    return steps
