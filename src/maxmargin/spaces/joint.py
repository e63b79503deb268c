"""The space of a learner with one weight vector per class, all moved together.

The classes share one long vector ``W = (w_1, ..., w_C)``: its norm, its scale and its number of
updates are those of the learner. A row x of class y has one constraint for each rival class z,
along the vector with x in block y and -x in block z, whose squared length is ``2 x.x``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.bridge import bridge
from maxmargin.core.rule import Seen
from maxmargin.core.violations import Violations, new_violations
from maxmargin.spaces.euclid import DRIFT_TOLERANCE, ROUNDING
from maxmargin.spaces.linear import LinearSpace
from maxmargin.spaces.witness import RELATIVE_SLACK, SLACK_PER_RADIUS


class OneBest(NamedTuple):
    """Step along the constraint of the highest rival, as the rule says."""

    most: int

    def correct(self, space, rows, i, y, rule, seen, size, xx):
        shrink, step = rule.step(seen)
        due = shrink != 1.0 and space.rescale(0, shrink)
        space.violations.rivals[0] = space.violations.heap[0]
        space.violations.steps[0] = step
        space.step_all(rows, i, y, 1, step, seen.t)
        square = 2.0 * step * step * xx
        return space.keep_books(rows, i, step, 2.0 * step * shrink * seen.margin, square, xx) or due


class KBest(NamedTuple):
    """Lift the ``most`` highest rivals that come too close to margin 1, by the smallest step."""

    most: int

    def correct(self, space, rows, i, y, rule, seen, size, xx):
        violations = space.violations
        own = violations.outputs[y]
        count = 0
        while count < self.most and size > 0:
            rival = violations.heap[0]
            margin = own - violations.outputs[rival]
            if not rule.active(Seen(margin, seen.ww, seen.xx, seen.rr, seen.t, seen.k)):
                break
            violations.rivals[count] = rival
            violations.gaps[count] = 1.0 - margin
            count += 1
            size = violations.pop(size)
        total = violations.solve(count, xx)
        cross, squares = 0.0, total * total
        for k in range(count):
            step = violations.steps[k]
            cross += 2.0 * step * (1.0 - violations.gaps[k])
            squares += step * step
        space.step_all(rows, i, y, count, total, seen.t)
        return space.keep_books(rows, i, total, cross, squares * xx, xx)


class JointWitness(NamedTuple):
    """Averages, and the weights at the last snapshot; see `Witness`."""

    average: np.ndarray
    mark: np.ndarray

    def follow(self, rows, i, c, y, step, scaled_step, trial):
        if c < self.average.shape[0]:
            rows.add(i, self.average, c, step * y * (trial - 1))

    def scale(self, c, factor):
        for j in range(self.mark.shape[1]):
            self.mark[c, j] *= factor

    def snapshot(self, weights, c):
        for j in range(self.mark.shape[1]):
            self.mark[c, j] = weights[c, j]


class JointSpace(NamedTuple):
    """Weight vectors of several classes that are one; ``linear.scalars[0]`` is about all.

    Attributes
    ----------
    linear : the weights of each class
    violations : room for the rivals of a row
    policy : `OneBest` or `KBest`
    """

    linear: LinearSpace
    violations: Violations
    policy: Any

    def problems(self):
        return 1

    def updates(self, c):
        return self.linear.scalars[0].updates

    def norm2(self, c):
        return self.linear.scalars[0].norm2

    def square_of(self, rows, i):
        return self.linear.square_of(rows, i)

    def look(self, rows, i, c):
        """``w_c.x``."""
        linear = self.linear
        return linear.scalars[0].scale * linear.geometry.product(rows, i, linear.weights, c)

    def meet(self, rows, i, y):
        """Compute the outputs for all classes, and a heap of the rivals; its size."""
        for c in range(self.violations.outputs.size):
            self.violations.outputs[c] = self.look(rows, i, c)
        return self.violations.heapify(y)

    def step_all(self, rows, i, y, count, total, trial):
        """``w_y += total * x``, and ``w_z -= step * x`` for the first ``count`` rivals."""
        self.step_class(rows, i, y, 1.0, total, trial)
        for k in range(count):
            if self.violations.steps[k] != 0.0:
                self.step_class(
                    rows, i, self.violations.rivals[k], -1.0, self.violations.steps[k], trial
                )

    def step_class(self, rows, i, c, sign, step, trial):
        linear = self.linear
        scaled_step = step / linear.scalars[0].scale
        linear.geometry.push(rows, i, linear.weights, c, sign * scaled_step)
        linear.witness.follow(rows, i, c, sign, step, scaled_step, trial)

    def keep_books(self, rows, i, step, cross, square, xx):
        """Keep the scalars true after a step that changed ``W.W`` by these terms."""
        linear = self.linear
        mine = linear.scalars[0]
        if step < 0.0:
            mine.lawful = 0.0
        mine.positive += step / mine.scale
        hidden = rows.tail.hidden_square(i, linear.weights, linear.width)
        if hidden > 0.0:
            mine.hidden_positive += hidden * square / (xx * mine.scale * mine.scale)
        mine.slop += ROUNDING * (mine.norm2 + abs(cross) + square)
        mine.norm2 = max(0.0, mine.norm2 + cross + square)
        if mine.slop > DRIFT_TOLERANCE * mine.norm2:
            self.sum_up()
        mine.updates += 1
        return mine.updates == mine.next_mark

    def sum_up(self):
        """Compute ``W.W`` anew, where that can be done."""
        linear = self.linear
        mine = linear.scalars[0]
        mine.norm2 = linear.geometry.sum_all(
            linear.weights, mine.scale, mine.hidden_positive, mine.norm2
        )
        mine.slop = 0.0

    def rescale(self, c, factor):
        if factor == 0.0:
            self.scale_all(0.0)
            return False
        return self.linear.rescale(0, factor)

    def scale_all(self, factor):
        """Set the lazy scale to 1 and multiply all vectors by ``factor`` (0 forgets everything)."""
        linear = self.linear
        mine = linear.scalars[0]
        for c in range(linear.weights.shape[0]):
            for j in range(linear.weights.shape[1]):
                linear.weights[c, j] *= factor
            linear.geometry.fold(c, factor)
            linear.witness.scale(c, factor)
        mine.positive *= factor
        mine.hidden_positive *= factor * factor
        mine.mark_positive *= factor
        mine.mark_hidden_positive *= factor * factor
        mine.scale = 1.0
        if factor == 0.0:
            mine.norm2 = 0.0
        self.sum_up()

    def tend(self, c, rr, offset):
        mine = self.linear.scalars[0]
        if not self.linear.geometry.holds(mine.scale):
            self.scale_all(mine.scale)
        if mine.updates >= mine.next_mark:
            for each in range(self.linear.weights.shape[0]):
                self.linear.witness.snapshot(self.linear.weights, each)
            mine.mark_positive = mine.positive
            mine.mark_hidden_positive = mine.hidden_positive
            mine.next_mark = 2 * mine.updates


def new_joint_space(linear: LinearSpace, most: int | None) -> JointSpace:
    """A space over the weights of ``linear``; see `JointModel` for ``most``."""
    classes = linear.weights.shape[0]
    policy = OneBest(1) if most is None else KBest(min(most, classes - 1))
    return JointSpace(linear, new_violations(classes), policy)


def without_private_blocks(linear: LinearSpace) -> LinearSpace:
    """The same weights, ready for rows that are all new: what was private is summed up."""
    kept = slice(0, linear.width + 1)
    linear.scalars.hidden_positive[0] += (linear.weights[:, linear.width + 1 :] ** 2).sum()
    weights = np.ascontiguousarray(linear.weights[:, kept])
    # A sum of squares cannot be split at the last snapshot any more: take a new one.
    linear.scalars.mark_positive[0] = linear.scalars.positive[0]
    linear.scalars.mark_hidden_positive[0] = linear.scalars.hidden_positive[0]
    average = np.ascontiguousarray(linear.witness.average[:, kept])
    return linear._replace(weights=weights, witness=JointWitness(average, weights.copy()))


def joint_bound(
    squares: float, imbalance: np.ndarray, mass: float, radius: float, intercept: bool
) -> float:
    """Upper bound on the best joint margin, from ``W = sum of a_iz (x_i in block y_i, -x_i in z)``.

    For every V of length 1 with intercepts b and margin gamma,

        gamma sum(a) <= sum of a_iz (v_y.x_i + b_y - v_z.x_i - b_z) = V.W + b.s <= |W| + b.s

    with the imbalance ``s_c``, the coefficients with class c as own less those with it as rival.
    All rows have norm at most R, and a class that has a row has it on its own side of every rival:
    so no two intercepts differ by more than ``sqrt(2) R``, and ``b.s <= R |s|_1 / sqrt(2)``. (A
    class without rows can keep within that distance at no cost, if two others have some.) Where all
    coefficients are of one class, intercepts alone may separate any rows: nothing is proved.
    """
    if mass <= 0.0 or (intercept and imbalance.max() >= mass * (1.0 - RELATIVE_SLACK)):
        return np.inf
    excess = radius * np.abs(imbalance).sum() / np.sqrt(2.0) if intercept else 0.0
    lowest = (np.sqrt(max(squares, 0.0)) + excess) / mass
    return float(lowest * (1.0 + RELATIVE_SLACK) + SLACK_PER_RADIUS * radius)


bridge("correct", "step_all", "step_class", "keep_books")
bridge("meet", "sum_up", "scale_all", inline=False)
