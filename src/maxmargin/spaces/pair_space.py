"""The space of learners with a free intercept, which step along pairs of examples.

It keeps the last positive and the last negative example that caused an update, the members. A step
moves along half their difference, ``z = (x_pos - x_neg) / 2``, in which an intercept cancels; then
the intercept is set to give both the same margin. A rule that puts ``z`` on margin 1 (ROMMA, AMIRA)
puts both members there. So the intercept has no penalty, and shifting all examples changes only the
intercept. (K. Ishibashi, K. Hatano and M. Takeda, "Online learning of approximate maximum p-norm
margin classifiers with bias", COLT 2008, section 3.2.)
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Array, Buffer, Saved
from maxmargin.core.loop import AnyRow
from maxmargin.core.numba_backend import bridge, with_methods_of
from maxmargin.spaces.linear_space import LinearSpace
from maxmargin.spaces.problem_scalars import AWAITING

POSITIVE, NEGATIVE = 0, 1
# In place of a row number: a member that is no row of this call, no member yet, or a member from
# before this fit, which its certificate must exclude.
ELSEWHERE, NOBODY, FOREIGN = -1, -2, -3


@with_methods_of(AnyRow)
class PairSpace(NamedTuple):
    """A linear space in which examples act in pairs.

    Attributes
    ----------
    linear : the weights without intercepts
    bias : the intercept of each problem
    members : the two members of each problem as vectors, in lines 2c and 2c + 1, and an empty line
    numbers : their row numbers, or ELSEWHERE, NOBODY or FOREIGN
    squares : their ``x.x``
    private : their private weights, if these are not stored as coordinates, over the scale
    difference : a scratch vector
    """

    linear: Annotated[LinearSpace, Saved()]
    bias: Annotated[np.ndarray, Array("problems")]
    members: Annotated[np.ndarray, Array("problems * 2 + 1", "coordinates")]
    numbers: Annotated[
        np.ndarray,
        Array("problems", 2, dtype=np.int64, fill=NOBODY, at_least=FOREIGN, below="rows"),
    ]
    squares: Annotated[np.ndarray, Array("problems", 2)]
    private: Annotated[np.ndarray, Array("problems", 2)]
    difference: Annotated[np.ndarray, Buffer(1, "coordinates")]

    def problems(self):
        return self.bias.size

    def updates(self, c):
        return self.linear.scalars.table[c].updates

    def norm2(self, c):
        return self.linear.scalars.table[c].norm2

    def square_of(self, rows, i):
        return self.linear.geometry.square_of(rows, i)

    def square_bound(self, rows, i):
        return self.linear.geometry.square_bound(rows, i)

    def output(self, rows, i, c):
        """``w.x + b``."""
        return self.linear.output(rows, i, c) + self.bias[c]

    def aim(self, rows, i, c, y, f, xx):
        """Replace the member of the class by x; returns margin and squared length of the new ``z``.

        The other member has margin 1, so ``w.z`` is the mean of 1 and the margin of x. The first
        example becomes a member without an update, and alone determines the intercept.
        """
        side, other = (POSITIVE, NEGATIVE) if y > 0.0 else (NEGATIVE, POSITIVE)
        linear, rival, along2 = self.linear, self.numbers[c, other], 0.0
        if rival != NOBODY:
            geometry, weights = linear.geometry, linear.weights
            along2, limit = geometry.half_distance2(self, rows, i, c, other, xx, weights)
            if along2 <= 0.0 and rival == FOREIGN:  # it had another label before
                self.numbers[c, other] = NOBODY
            elif along2 <= 0.0:  # one point with both labels: half a distance bounds all margins
                scalars = linear.scalars.table[c]
                scalars.bound = min(scalars.bound, limit)
                return 1.0, 0.0
        self.adopt(rows, i, c, side, xx)
        if rival == NOBODY and self.norm2(c) == 0.0:
            self.bias[c] = y
        if along2 <= 0.0:
            return 1.0, 0.0
        # At w = 0 the intercept alone decided, and gave the other member its margin.
        return (0.5 * (1.0 + y * f) if self.norm2(c) > 0.0 else 0.0), along2

    def decide(self, rule, trial, c):
        return self.linear.geometry.decide(rule, trial, c)

    def adopt(self, rows, i, c, side, xx):
        """Make row ``i`` the member of its side."""
        at = 2 * c + side
        if self.numbers[c, side] == i:
            return
        if self.numbers[c, side] >= 0:
            rows.add(self.numbers[c, side], self.members, at, -1.0)  # leaves exact zeros
        else:
            for j in range(self.members.shape[1]):
                self.members[at, j] = 0.0
        rows.add(i, self.members, at, 1.0)
        self.numbers[c, side] = i
        self.squares[c, side] = xx
        self.private[c, side] = 0.0

    def move(self, rows, i, c, y, shrink, step, margin, along2, trial):
        """``w <- shrink * w + step * z``, and the intercept that puts x on margin 1.

        The rules put ``z`` on margin 1, so the other member has margin 1 as well.
        """
        must_maintain = shrink != 1.0 and self.rescale(c, shrink, trial)
        side, other = (POSITIVE, NEGATIVE) if y > 0.0 else (NEGATIVE, POSITIVE)
        scalars, weights = self.linear.scalars.table[c], self.linear.weights
        half = 0.5 * y * step / scalars.scale
        geometry = self.linear.geometry
        geometry.push(rows, i, weights, c, half)
        if self.numbers[c, other] >= 0:
            geometry.push(rows, self.numbers[c, other], weights, c, -half)
        else:
            geometry.push_vector(self.members, 2 * c + other, weights, c, -half)
        if rows.tail.hidden_square(i, weights, self.linear.width) > 0.0:
            self.add_private(c, side, half * rows.tail.private)
            self.add_private(c, other, -half * rows.tail.private)
        scalars.positive += step / scalars.scale  # all mass is on pairs
        must_maintain = self.linear.record_step(c, step, shrink * margin, along2) or must_maintain
        self.bias[c] = y - self.linear.output(rows, i, c) - self.hidden_output(rows, c, side)
        # From now on all steps are along rows of this fit.
        return must_maintain or (
            scalars.certifiable == AWAITING and self.numbers[c, other] != FOREIGN
        )

    def hidden_output(self, rows, c, side):
        """The contribution of a member's private weight to its output, if not stored otherwise."""
        return self.linear.scalars.table[c].scale * rows.tail.private * self.private[c, side]

    def add_private(self, c, side, amount):
        """Add to a member's private weight, and update the sum of squares."""
        before = self.private[c, side]
        self.private[c, side] = before + amount
        self.linear.scalars.table[c].hidden_positive += amount * (2.0 * before + amount)

    def rescale(self, c, factor, trial):
        """``w <- factor * w``; the intercept follows in `move`."""
        if factor == 0.0:
            self.private[c, POSITIVE] = 0.0
            self.private[c, NEGATIVE] = 0.0
        return self.linear.rescale(c, factor, trial)

    def maintain(self, c):
        scale = self.linear.scalars.table[c].scale
        self.linear.maintain(c)
        if self.linear.scalars.table[c].scale != scale:  # it was folded into the vectors
            self.private[c, POSITIVE] *= scale
            self.private[c, NEGATIVE] *= scale


bridge("hidden_output")
bridge("adopt", "add_private", inline=False)
