"""The space of jointly learned classes, with one weight vector each.

The classes share one long vector ``W = (w_1, ..., w_C)``: its norm, its scale and its number of
updates are those of the learner. A row x of class y has one constraint for each rival class z,
along the vector with x in block y and -x in block z, whose squared length is ``2 x.x``.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from maxmargin.core.array_fields import Saved
from maxmargin.core.joint_loop import Rivals
from maxmargin.core.loop import AnyRow
from maxmargin.core.numba_backend import bridge, with_methods_of
from maxmargin.spaces.certificate_vectors import Means, Past, Vectors
from maxmargin.spaces.linear_space import LinearSpace


class OneBest(NamedTuple):
    """Take the rule's step along the constraint of the rival with the largest gap."""

    most: int

    def correct(self, space, rows, i, y, rule, trial, xx):
        rivals = space.rivals
        rivals.find_gaps(y, rule, trial)
        rival = rivals.worst(y)
        margin = rivals.outputs[y] - rivals.outputs[rival]
        shrink, step = rule.step(rivals.against(y, rival, trial))
        must_maintain = shrink != 1.0 and space.rescale(0, shrink, trial.t)
        rivals.taken[0] = rival
        rivals.steps[0] = step
        space.step_all(rows, i, y, 1, step, trial.t)
        cross, square = 2.0 * step * shrink * margin, 2.0 * step * step * xx
        return space.record_joint_step(rows, i, step, cross, square, xx) or must_maintain


class KBest(NamedTuple):
    """Take the smallest step that closes the gaps of the ``most`` worst rivals."""

    most: int

    def correct(self, space, rows, i, y, rule, trial, xx):
        rivals = space.rivals
        rivals.find_gaps(y, rule, trial)
        count, total = rivals.solve(y, self.most, xx)
        cross, squares = 0.0, total * total
        for k in range(count):
            step = rivals.steps[k]
            cross += 2.0 * step * (1.0 - rivals.gaps[k])
            squares += step * step
        space.step_all(rows, i, y, count, total, trial.t)
        return space.record_joint_step(rows, i, total, cross, squares * xx, xx)


@with_methods_of(Means)
class JointWitness(NamedTuple):
    """Averages, and the weights at the last snapshot; see `Witness`."""

    average: Vectors
    past: Past
    mark: Vectors

    def scale(self, c, factor):
        for j in range(self.mark.shape[1]):
            self.mark[c, j] *= factor


@with_methods_of(AnyRow)
class JointSpace(NamedTuple):
    """Jointly learned weight vectors; their common scalars are ``linear.scalars.table[0]``."""

    linear: Annotated[LinearSpace, Saved()]
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

    def output(self, rows, i, c):
        """``w_c.x``."""
        linear = self.linear
        return linear.scalars.table[0].scale * linear.geometry.product(rows, i, linear.weights, c)

    def mean_output(self, rows, i, c, trials):
        linear = self.linear
        return linear.mean_output_under(rows, i, c, linear.scalars.table[0].scale, trials)

    def compute_outputs(self, rows, i):
        """Compute the outputs for all classes."""
        for c in range(self.rivals.outputs.size):
            self.rivals.outputs[c] = self.output(rows, i, c)

    def step_all(self, rows, i, y, count, total, trial):
        """``w_y += total * x``, and ``w_z -= step * x`` for the first ``count`` rivals."""
        self.step_class(rows, i, y, 1.0, total, trial)
        for k in range(count):
            if self.rivals.steps[k] != 0.0:
                self.step_class(rows, i, self.rivals.taken[k], -1.0, self.rivals.steps[k], trial)

    def step_class(self, rows, i, c, sign, step, trial):
        linear = self.linear
        scale = linear.scalars.table[0].scale
        amount = sign * (step / scale)
        linear.geometry.push(rows, i, linear.weights, c, amount)
        linear.witness.follow_mean(rows, i, c, scale, amount, trial)

    def record_joint_step(self, rows, i, step, cross, square, xx):
        """Update the scalars after a step that changed ``W.W`` by these terms."""
        linear = self.linear
        record, classes = linear.scalars.table[0], linear.weights.shape[0]
        record.positive += step / record.scale
        hidden = rows.tail.hidden_square(i, linear.weights, linear.width)
        if hidden > 0.0:
            record.hidden_positive += hidden * square / (xx * record.scale * record.scale)
        linear.geometry.follow_norm2(linear.scalars, 0, linear.weights, 0, classes, cross, square)
        return linear.scalars.count_update(0, step)

    def rescale(self, c, factor, trial):
        return self.linear.rescale_lines(0, 0, self.linear.weights.shape[0], factor, trial)

    def maintain(self, c):
        linear = self.linear
        if linear.scalars.must_fold(0, linear.geometry.scale_limit()):
            linear.fold_lines(0, 0, linear.weights.shape[0], linear.scalars.table[0].scale)


bridge("correct", "step_all", "step_class", "record_joint_step")
bridge("compute_outputs", inline=False)
