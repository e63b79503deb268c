"""The plain linear space: one weight vector per problem, under a lazy scale."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Array, Follows, Saved
from maxmargin.core.loop import AnyRow
from maxmargin.core.numba_backend import Compiled, bridge, with_methods_of
from maxmargin.spaces.problem_scalars import Scalars


@with_methods_of(AnyRow)
class LinearSpace(NamedTuple):
    """Weights of one or more problems: ``w = scale * weights[c]``.

    Attributes
    ----------
    geometry : `Euclid`, `PNorm` (the weights are theta, and w is their dual) or `Gram` (the weights
        are coefficients of rows)
    weights : of the features, the intercept's coordinate, and private coordinates
    witness : `Witness`, `JointWitness` or `Averages`
    """

    geometry: Annotated[Any, Saved()]
    width: Annotated[int, Follows("coordinates")]
    weights: Annotated[np.ndarray, Array("problems", "coordinates")]
    scalars: Annotated[Scalars, Saved()]
    witness: Annotated[Any, Saved()]

    def problems(self):
        return self.scalars.table.size

    def updates(self, c):
        return self.scalars.table[c].updates

    def norm2(self, c):
        """``w.w``."""
        return self.scalars.table[c].norm2

    def output(self, rows, i, c):
        """``w.x``."""
        return self.scalars.table[c].scale * self.geometry.product(rows, i, self.weights, c)

    def mean_output(self, rows, i, c, trials):
        """The output of the mean of ``w`` over the ``trials`` so far (`certificate_vectors`)."""
        return self.mean_output_under(rows, i, c, self.scalars.table[c].scale, trials)

    def mean_output_under(self, rows, i, line, scale, trials):
        """`mean_output` for a line of weights under this scale."""
        summed = self.witness.past_scales(line, scale, trials + 1)
        now = self.geometry.product(rows, i, self.weights, line)
        before = self.geometry.product(rows, i, self.witness.average, line)
        return (summed * now - before) / max(trials, 1)

    def square_of(self, rows, i):
        """The squared norm of row ``i``."""
        return self.geometry.square_of(rows, i)

    def square_bound(self, rows, i):
        """An upper bound on the squared norm of row ``i``; see `Euclid`."""
        return self.geometry.square_bound(rows, i)

    def aim(self, rows, i, c, y, f, xx):
        """The margin and squared length of the vector that a step moves along, here y * x."""
        return y * f, xx

    def decide(self, rule, trial, c):
        """The step of the rule."""
        return rule.step(trial)

    def move(self, rows, i, c, y, shrink, step, margin, xx, trial):
        """``w <- shrink * w + step * y * x``, given ``margin = y * w.x`` before and ``xx = x.x``.

        Returns, like `rescale`, whether `maintain` should be called before the next trial.
        """
        must_maintain = shrink != 1.0 and self.rescale(c, shrink, trial)
        record = self.scalars.table[c]
        scaled_step = step / record.scale
        self.geometry.push(rows, i, self.weights, c, y * scaled_step)
        self.witness.follow(rows, i, c, y, scaled_step)
        self.witness.follow_mean(rows, i, c, record.scale, y * scaled_step, trial)
        hidden = rows.tail.hidden_square(i, self.weights, self.width)
        if hidden > 0.0:
            hidden *= scaled_step * scaled_step
        if y > 0.0:
            record.positive += scaled_step
            record.hidden_positive += hidden
        else:
            record.negative += scaled_step
            record.hidden_negative += hidden
        return self.record_step(c, step, shrink * margin, xx) or must_maintain

    def record_step(self, c, step, margin, xx):
        """Update the scalars after a step of length ``step`` along a vector.

        ``margin`` is its product with ``w`` before the step, ``xx`` its squared length.
        """
        cross, square = 2.0 * step * margin, step * step * xx
        self.geometry.follow_norm2(self.scalars, c, self.weights, c, c + 1, cross, square)
        return self.scalars.count_update(c, step)

    def rescale(self, c, factor, trial):
        """``w <- factor * w``, in constant time."""
        return self.rescale_lines(c, c, c + 1, factor, trial)

    def rescale_lines(self, c, first, stop, factor, trial):
        """`rescale` if the lines from ``first`` to ``stop`` are the weights of problem ``c``."""
        for line in range(first, stop):
            self.witness.count_trials(line, self.scalars.table[c].scale, trial)
        if factor == 0.0:
            self.fold_lines(c, first, stop, 0.0)
            return False
        self.scalars.multiply(c, factor)
        if not self.witness.is_averaged_under(c, self.scalars.table[c].scale):
            self.fold_lines(c, first, stop, self.scalars.table[c].scale)
            return False
        return self.scalars.must_fold(c, self.geometry.scale_limit())

    def fold_lines(self, c, first, stop, factor):
        """Multiply the vectors by ``factor`` (0 forgets everything), and set the scale to 1.

        The lines from ``first`` to ``stop`` are the weights of problem ``c``.
        """
        for line in range(first, stop):
            self.witness.scale(line, factor)
            self.witness.close_past(self.weights, line)
            for j in range(self.weights.shape[1]):
                self.weights[line, j] *= factor
            self.geometry.fold(line, factor)
        self.scalars.fold(c, factor)
        self.geometry.sum_norm2(self.scalars, c, self.weights, first, stop)

    def maintain(self, c):
        """Fold the scale if it is near overflow or underflow."""
        if self.scalars.must_fold(c, self.geometry.scale_limit()):
            self.fold_lines(c, c, c + 1, self.scalars.table[c].scale)


bridge("updates", "norm2", "output", "aim", "move", "record_step", "rescale", "rescale_lines")
bridge("mean_output", "mean_output_under")
bridge("fold_lines", "maintain", inline=False)


@Compiled
def fold_all(space):  # type: ignore[no-untyped-def]
    """Recompute all that depends on the weights of a `LinearSpace`."""
    for c in range(space.problems()):
        space.fold_lines(c, c, c + 1, 1.0)
