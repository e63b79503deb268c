"""Kernel spaces in bounded memory: each problem has a fixed number of slots for rows.

A weight vector is ``w = sum_p a_p phi(x_p)`` over the rows in the slots of its problem. Rows come
in blocks, as in `spaces.gram`: the outputs of a block's rows are computed first, and every step
corrects those of the later rows. The policy, `Replace` or `Project`, decides what happens when all
slots are taken.

The arrays of several problems are stacked: slot p of problem c is in line ``c * slots + p``, row k
of the block in line ``c * block + k``.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from maxmargin.core import fixed_order_sums
from maxmargin.core.array_fields import Array
from maxmargin.core.loop import AnyRow
from maxmargin.core.numba_backend import Compiled, bridge, with_methods_of
from maxmargin.spaces.problem_scalars import LARGEST_SCALE, Scalars

FROM_BEFORE = -1


class Slots(NamedTuple):
    """The rows in the slots: coefficients over the scale, 0 in free slots, and ``|phi(x)|**2``.

    ``taken`` is the number of slots in use; ``sources`` is the row of the block that took a slot,
    or FROM_BEFORE.
    """

    coefs: Annotated[np.ndarray, Array("problems", "slots")]
    squares: Annotated[np.ndarray, Array("problems", "slots")]
    taken: Annotated[np.ndarray, Array("problems", dtype=np.int64, below="slots + 1")]
    sources: Annotated[
        np.ndarray, Array("problems", "slots", dtype=np.int32, fill=FROM_BEFORE, saved=False)
    ]


@with_methods_of(AnyRow)
class SlotSpace(NamedTuple):
    """Weights of one or more problems, ``w = scale * sum_p coefs_p phi(x_p)``.

    The rows of the block must be learned in their order, each once.

    Attributes
    ----------
    products : kernel values between the rows of the block
    cross : kernel values of the rows of the block, for each problem, with those in its slots
    diagonal : ``|phi(x)|**2`` of the rows of the block, including shift and soft margin
    shift : added to all kernel values, the square of the intercept's coordinate
    outputs : ``w.phi(x)`` over the scale, of shape (problems, block)
    """

    slots: Any
    scalars: Scalars
    products: np.ndarray
    cross: np.ndarray
    diagonal: np.ndarray
    shift: float
    outputs: np.ndarray
    policy: Any

    def problems(self):
        return self.scalars.table.size

    def updates(self, c):
        return self.scalars.table[c].updates

    def norm2(self, c):
        return self.scalars.table[c].norm2

    def output(self, rows, i, c):
        return self.scalars.table[c].scale * self.outputs[c, i]

    def square_of(self, rows, i):
        return self.diagonal[i]

    def square_bound(self, rows, i):
        return self.diagonal[i]

    def aim(self, rows, i, c, y, f, xx):
        """The margin, and the squared length of the part of x that a step moves along."""
        return y * f, self.policy.usable_square(self, i, c, y * f, xx)

    def decide(self, rule, trial, c):
        shrink, step = rule.step(trial)
        return shrink, self.policy.limited(c, step)

    def move(self, rows, i, c, y, shrink, step, margin, along2, trial):
        """``w <- shrink * w + step * y * x``, as far as the policy admits it."""
        must_maintain = shrink != 1.0 and self.rescale(c, shrink, trial)
        self.scalars.count_update(c, step)
        change = 2.0 * step * shrink * margin + step * step * along2
        self.scalars.grow_norm2(c, change, 0.0)
        return self.policy.admit(self, i, c, y, step, shrink * margin) or must_maintain

    def shift_of_all(self, c):
        """The contribution of the shift to each output, over the scale."""
        total = 0.0
        if self.shift > 0.0:
            for p in range(self.slots.coefs.shape[1]):
                total += self.slots.coefs[c, p]
        return self.shift * total

    def lead_outputs(self, i, c, amount):
        """Add ``amount * phi(x_i)`` to the outputs of later rows."""
        for k in range(i + 1, self.outputs.shape[1]):
            self.outputs[c, k] += amount * (float(self.products[i, k]) + self.shift)

    def drop_slot(self, i, c, p):
        """Remove the row in slot p from the outputs of later rows."""
        first, coef = c * self.outputs.shape[1], self.slots.coefs[c, p]
        for k in range(i + 1, self.outputs.shape[1]):
            self.outputs[c, k] -= coef * (float(self.cross[first + k, p]) + self.shift)

    def take_slot(self, i, c, p, amount):
        """Put row i of the block into slot p."""
        self.slots.coefs[c, p] = amount
        self.slots.squares[c, p] = self.diagonal[i]
        self.slots.sources[c, p] = i
        first = c * self.outputs.shape[1]
        for k in range(i + 1, self.outputs.shape[1]):
            self.cross[first + k, p] = self.products[i, k]

    def rescale(self, c, factor, trial):
        """``w <- factor * w``; True if `maintain` should be called."""
        return self.rescale_slots(c, factor)

    def rescale_slots(self, c, factor):
        if factor == 0.0:
            self.fold_slots(c, 0.0)
            return False
        self.scalars.multiply(c, factor)
        return self.scalars.must_fold(c, LARGEST_SCALE)

    def fold_slots(self, c, factor):
        """Multiply everything under the scale by ``factor``, and set the scale to 1."""
        for p in range(self.slots.coefs.shape[1]):
            self.slots.coefs[c, p] *= factor
        for k in range(self.outputs.shape[1]):
            self.outputs[c, k] *= factor
        self.policy.scale(c, factor)
        self.scalars.fold(c, factor)

    def maintain(self, c):
        """Fold the scale if it is near overflow or underflow."""
        if self.scalars.must_fold(c, LARGEST_SCALE):
            self.fold_slots(c, self.scalars.table[c].scale)


bridge("usable_square", "limited", "rescale_slots", "lead_outputs", "drop_slot", "shift_of_all")
bridge("admit", "take_slot", "fold_slots", inline=False)


@Compiled
def weigh(space):  # type: ignore[no-untyped-def]
    """Compute the outputs of a block's rows from the rows in the slots."""
    block = space.outputs.shape[1]
    for c in range(space.problems()):
        shift, first = space.shift_of_all(c), c * block
        for k in range(block):
            total = fixed_order_sums.dense_dot(space.cross, first + k, space.slots.coefs, c)
            space.outputs[c, k] = total + shift
