"""The space of a learner with one weight vector per class, all moved together.

The classes share one long vector ``W = (w_1, ..., w_C)``: its norm, its scale and its number of
updates are those of the learner. A row x of class y has one constraint for each rival class z,
along the vector with x in block y and -x in block z, whose squared length is ``2 x.x``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.bridge import bridge
from maxmargin.core.rivals import Rivals
from maxmargin.core.rule import Trial
from maxmargin.spaces.linear import LinearSpace


class OneBest(NamedTuple):
    """Step along the constraint of the highest rival, as the rule says."""

    most: int

    def correct(self, space, rows, i, y, rule, trial, size, xx):
        shrink, step = rule.step(trial)
        due = shrink != 1.0 and space.rescale(0, shrink)
        space.rivals.taken[0] = space.rivals.heap[0]
        space.rivals.steps[0] = step
        space.step_all(rows, i, y, 1, step, trial.t)
        cross, square = 2.0 * step * shrink * trial.margin, 2.0 * step * step * xx
        return space.book_all(rows, i, step, cross, square, xx) or due


class KBest(NamedTuple):
    """Lift the ``most`` highest rivals that come too close to margin 1, by the smallest step."""

    most: int

    def correct(self, space, rows, i, y, rule, trial, size, xx):
        rivals = space.rivals
        own = rivals.outputs[y]
        count = 0
        while count < self.most and size > 0:
            rival = rivals.heap[0]
            margin = own - rivals.outputs[rival]
            rival_trial = Trial(margin, trial.ww, trial.xx, trial.largest_xx, trial.t, trial.k)
            if not rule.active(rival_trial):
                break
            rivals.taken[count] = rival
            rivals.gaps[count] = 1.0 - margin
            count += 1
            size = rivals.pop(size)
        total = rivals.solve(count, xx)
        cross, squares = 0.0, total * total
        for k in range(count):
            step = rivals.steps[k]
            cross += 2.0 * step * (1.0 - rivals.gaps[k])
            squares += step * step
        space.step_all(rows, i, y, count, total, trial.t)
        return space.book_all(rows, i, total, cross, squares * xx, xx)


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
    """Weight vectors of several classes that are one; ``linear.scalars.table[0]`` is about all.

    Attributes
    ----------
    linear : the weights of each class
    rivals : room for the rivals of a row
    policy : `OneBest` or `KBest`
    """

    linear: LinearSpace
    rivals: Rivals
    policy: Any

    def problems(self):
        return 1

    def updates(self, c):
        return self.linear.scalars.table[0].updates

    def norm2(self, c):
        return self.linear.scalars.table[0].norm2

    def square_of(self, rows, i):
        return self.linear.square_of(rows, i)

    def look(self, rows, i, c):
        """``w_c.x``."""
        linear = self.linear
        return linear.scalars.table[0].scale * linear.geometry.product(rows, i, linear.weights, c)

    def meet(self, rows, i, y):
        """Compute the outputs for all classes, and a heap of the rivals; its size."""
        for c in range(self.rivals.outputs.size):
            self.rivals.outputs[c] = self.look(rows, i, c)
        return self.rivals.heapify(y)

    def step_all(self, rows, i, y, count, total, trial):
        """``w_y += total * x``, and ``w_z -= step * x`` for the first ``count`` rivals."""
        self.step_class(rows, i, y, 1.0, total, trial)
        for k in range(count):
            if self.rivals.steps[k] != 0.0:
                self.step_class(rows, i, self.rivals.taken[k], -1.0, self.rivals.steps[k], trial)

    def step_class(self, rows, i, c, sign, step, trial):
        linear = self.linear
        scaled_step = step / linear.scalars.table[0].scale
        linear.geometry.push(rows, i, linear.weights, c, sign * scaled_step)
        linear.witness.follow(rows, i, c, sign, step, scaled_step, trial)

    def book_all(self, rows, i, step, cross, square, xx):
        """Keep the scalars true after a step that changed ``W.W`` by these terms."""
        linear = self.linear
        mine, classes = linear.scalars.table[0], linear.weights.shape[0]
        mine.positive += step / mine.scale
        hidden = rows.tail.hidden_square(i, linear.weights, linear.width)
        if hidden > 0.0:
            mine.hidden_positive += hidden * square / (xx * mine.scale * mine.scale)
        linear.geometry.follow_norm2(linear.scalars, 0, linear.weights, 0, classes, cross, square)
        return linear.scalars.count_update(0, step)

    def rescale(self, c, factor):
        if factor == 0.0:
            self.linear.fold_lines(0, 0, self.linear.weights.shape[0], 0.0)
            return False
        return self.linear.rescale(0, factor)

    def maintain(self, c):
        linear = self.linear
        if linear.scalars.must_fold(0, linear.geometry.scale_limit()):
            linear.fold_lines(0, 0, linear.weights.shape[0], linear.scalars.table[0].scale)
        if linear.scalars.table[0].updates >= linear.scalars.table[0].next_mark:
            linear.mark_lines(0, 0, linear.weights.shape[0])


bridge("correct", "step_all", "step_class", "book_all")
bridge("meet", inline=False)
