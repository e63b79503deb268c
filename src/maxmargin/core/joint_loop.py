"""Joint learning of several classes: violated constraints, and the smallest step that meets them.

A row x of class y violates the constraint of a rival z if ``w_y.x - w_z.x`` is too small. The
constraint is along the vector that has x in block y and -x in block z; for different rivals such
vectors have the products ``x.x (I + 1 1')``. So the smallest step that lifts all violated margins
to what is wanted is found by taking one violation after the other, the worst first: with m of them
active and the gaps ``g = wanted - margin``,

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
    missing : the gap between required and actual margin of each rival with a violated constraint,
        and -inf for all others
    taken, gaps, steps : the rivals with steps, the worst first, their gaps, and their steps
    """

    outputs: Annotated[np.ndarray, Buffer("problems")]
    missing: Annotated[np.ndarray, Buffer("problems")]
    taken: Annotated[np.ndarray, Buffer("problems", dtype=np.int64)]
    gaps: Annotated[np.ndarray, Buffer("problems")]
    steps: Annotated[np.ndarray, Buffer("problems")]

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

    def find_gaps(self, own, rule, trial):
        """Fill ``missing``; constraints for which the rule is active are violated."""
        for c in range(self.outputs.size):
            self.missing[c] = -np.inf
            if c != own and rule.active(self.against(own, c, trial)):
                self.missing[c] = 1.0 - (self.outputs[own] - self.outputs[c])

    def worst(self, own):
        """The rival with the largest gap; of equal ones the highest output, then the first."""
        found, largest = own, -np.inf
        for c in range(self.outputs.size):
            gap = self.missing[c]
            if gap > largest or (gap == largest and self.outputs[c] > self.outputs[found]):
                found, largest = c, gap
        return found

    def solve(self, own, most, xx):
        """Compute the steps for at most so many rivals; returns their number and their sum."""
        count, total = 0, 0.0
        while count < most:
            rival = self.worst(own)
            gap = self.missing[rival]
            if not gap > total / (count + 1.0):
                break
            self.taken[count], self.gaps[count] = rival, gap
            self.missing[rival] = -np.inf
            total += gap
            count += 1
        level = total / (count + 1.0)
        for k in range(count):
            self.steps[k] = (self.gaps[k] - level) / xx
        return count, level / xx


bridge("least_margin", "against")
bridge("worst", "find_gaps", "solve", inline=False)


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
