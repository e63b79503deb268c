"""A kernel's space in bounded memory: each problem has so many slots for rows, and no more.

A weight vector is ``w = sum_p a_p phi(x_p)`` over the rows in the slots of its problem. Rows come
in blocks, as in `spaces.gram`: the outputs of a block's rows are computed beforehand, and every
step corrects those of the rows still to come. What happens when all slots are taken is the
business of the policy: `Replace` or `Project`.

Arrays of several problems lie one below the other: what belongs to slot p of problem c is in line
``c * slots + p``, what belongs to row k of the block in line ``c * block + k``. Classes that are
learned together share their slots (`SharedSlots`): they differ in coefficients and outputs, and all
else is there once.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from maxmargin.core import fixed_order_sums
from maxmargin.core.array_fields import Array
from maxmargin.core.joint_loop import Rivals
from maxmargin.core.loop import AnyRow
from maxmargin.core.numba_backend import Compiled, bridge, with_methods_of
from maxmargin.spaces.problem_scalars import LARGEST_SCALE, Scalars

FROM_BEFORE = -1


class Slots(NamedTuple):
    """What is known about the rows in the slots.

    Attributes
    ----------
    coefs : coefficients over the scale; 0 in free slots
    squares : ``|phi(x)|**2``
    taken : number of slots taken, for each problem
    sources : the row of the block that has taken the slot, or FROM_BEFORE
    """

    coefs: Annotated[np.ndarray, Array("problems", "slots")]
    squares: Annotated[np.ndarray, Array("problems", "slots")]
    taken: Annotated[np.ndarray, Array("problems", dtype=np.int64, below="slots + 1")]
    sources: Annotated[
        np.ndarray, Array("problems", "slots", dtype=np.int32, fill=FROM_BEFORE, saved=False)
    ]

    def store_of(self, c):
        """The line of problem c in what is known about rows."""
        return c


class SharedSlots(NamedTuple):
    """The same for classes that share their slots: a row has a coefficient for each of them."""

    coefs: Annotated[np.ndarray, Array("problems", "slots")]
    squares: Annotated[np.ndarray, Array(1, "slots")]
    taken: Annotated[np.ndarray, Array(1, dtype=np.int64, below="slots + 1")]
    sources: Annotated[np.ndarray, Array(1, "slots", dtype=np.int32, fill=FROM_BEFORE, saved=False)]

    def store_of(self, c):
        return 0


@with_methods_of(AnyRow)
class SlotSpace(NamedTuple):
    """Weights of one or more problems, ``w = scale * sum_p coefs_p phi(x_p)``.

    The rows of the block must be presented in their order, each once.

    Attributes
    ----------
    slots : Slots or SharedSlots
    scalars : Scalars
    products : kernel values between the rows of the block
    cross : kernel values of the rows of the block, for each problem, with those in its slots
    diagonal : ``|phi(x)|**2`` of the rows of the block, shift and soft margin included
    shift : added to all kernel values, the square of the intercept's coordinate
    outputs : ``w.phi(x)`` over the scale, of shape (problems, block)
    policy : `Replace` or `Project`
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
        """The margin, and the squared length of the part of x that a step goes along."""
        return y * f, self.policy.usable_square(self, i, c, y * f, xx)

    def decide(self, rule, trial, c):
        shrink, step = rule.step(trial)
        return shrink, self.policy.limited(c, step)

    def move(self, rows, i, c, y, shrink, step, margin, along2, trial):
        """``w <- shrink * w + step * y * x``, or what the policy makes of it."""
        due = shrink != 1.0 and self.rescale(c, shrink, trial)
        self.scalars.count_update(c, step)
        change = 2.0 * step * shrink * margin + step * step * along2
        self.scalars.grow_norm2(c, change, 0.0)
        return self.policy.admit(self, i, c, y, step, shrink * margin) or due

    def shift_of_all(self, c):
        """What the shift adds to each output, over the scale."""
        total = 0.0
        if self.shift > 0.0:
            for p in range(self.slots.coefs.shape[1]):
                total += self.slots.coefs[c, p]
        return self.shift * total

    def lead_outputs(self, i, c, amount):
        """Let ``w += amount * phi(x_i)`` act on the rows still to come."""
        for k in range(i + 1, self.outputs.shape[1]):
            self.outputs[c, k] += amount * (float(self.products[i, k]) + self.shift)

    def drop_slot(self, i, c, p):
        """Take the row in slot p out of the outputs of the rows still to come."""
        first, gone = self.slots.store_of(c) * self.outputs.shape[1], self.slots.coefs[c, p]
        for k in range(i + 1, self.outputs.shape[1]):
            self.outputs[c, k] -= gone * (float(self.cross[first + k, p]) + self.shift)

    def take_slot(self, i, c, p, amount):
        """Row i of the block is in slot p from here on."""
        s = self.slots.store_of(c)
        self.slots.coefs[c, p] = amount
        self.slots.squares[s, p] = self.diagonal[i]
        self.slots.sources[s, p] = i
        first = s * self.outputs.shape[1]
        for k in range(i + 1, self.outputs.shape[1]):
            self.cross[first + k, p] = self.products[i, k]

    def rescale(self, c, factor, trial):
        """``w <- factor * w``; says whether `maintain` should be called."""
        return self.rescale_slots(c, factor)

    def rescale_slots(self, c, factor):
        if factor == 0.0:
            self.fold_slots(c, 0.0)
            return False
        self.scalars.multiply(c, factor)
        return self.scalars.must_fold(c, LARGEST_SCALE)

    def fold_slots(self, c, factor):
        """Multiply all that is under the scale by ``factor``, and set the scale to 1."""
        self.multiply_line(c, factor)
        self.policy.scale(c, factor)
        self.scalars.fold(c, factor)

    def multiply_line(self, c, factor):
        """Multiply the coefficients and outputs of one weight vector, as they are kept."""
        for p in range(self.slots.coefs.shape[1]):
            self.slots.coefs[c, p] *= factor
        for k in range(self.outputs.shape[1]):
            self.outputs[c, k] *= factor

    def maintain(self, c):
        """Fold the scale where it is about to run out."""
        if self.scalars.must_fold(c, LARGEST_SCALE):
            self.fold_slots(c, self.scalars.table[c].scale)


class SharedSlotSpace(NamedTuple):
    """Weight vectors of several classes that are one, as in `JointSpace`, over the same slots.

    ``within.scalars.table[0]`` is about all of them.

    Attributes
    ----------
    within : a `SlotSpace` over `SharedSlots`, with the policy for a full budget
    rivals : buffers for the rivals of a row
    policy : `OneBest` or `KBest`
    amounts : how far the present row moves the weights of each class, over the scale
    """

    within: SlotSpace
    rivals: Rivals
    policy: Any
    amounts: np.ndarray

    def problems(self):
        return 1

    def updates(self, c):
        return self.within.scalars.table[0].updates

    def norm2(self, c):
        return self.within.scalars.table[0].norm2

    def square_of(self, rows, i):
        return self.within.diagonal[i]

    def usable(self, i, margin, xx):
        return self.within.policy.usable_square(self.within, i, 0, margin, xx)

    def limited_step(self, step):
        """The policy's limit is for steps along the row; a constraint has it in two blocks."""
        return 0.5 * self.within.policy.limited(0, 2.0 * step)

    def meet(self, rows, i):
        scale = self.within.scalars.table[0].scale
        for c in range(self.rivals.outputs.size):
            self.rivals.outputs[c] = scale * self.within.outputs[c, i]

    def step_all(self, rows, i, y, count, total, trial):
        """Note the step; `book_all` makes it, as the length must be known before a row leaves."""
        scale = self.within.scalars.table[0].scale
        for c in range(self.amounts.size):
            self.amounts[c] = 0.0
        self.amounts[y] = total / scale
        for k in range(count):
            self.amounts[self.rivals.taken[k]] = -self.rivals.steps[k] / scale

    def book_all(self, rows, i, y, step, costs, cross, square, xx):
        """Keep the scalars true, as `JointSpace.book_all` does, and let the row take a slot.

        Divided by sqrt(2), constraint vectors are as long as the row, and ``W / sqrt(2)`` is a sum
        of steps along them. The gains and losses of a `Forgetron` are measured there.
        """
        scalars = self.within.scalars
        mine = scalars.table[0]
        mine.positive += step / mine.scale
        mine.negative += costs / mine.scale
        if y > 0:
            scalars.table[y].updates += 1
        scalars.count_update(0, step)
        scalars.grow_norm2(0, cross, square)
        gained = 2.0 * step - 0.5 * cross - 0.5 * square * min(1.0, 1.0 / xx)
        mistake = self.rivals.least_margin(y) <= 0.0
        return self.within.policy.admit_all(self.within, i, self.amounts, gained, mistake)

    def rescale(self, c, factor, trial):
        if factor == 0.0:
            self.fold_together(0.0)
            return False
        return self.within.rescale_slots(0, factor)

    def fold_together(self, factor):
        for c in range(self.amounts.size):
            self.within.multiply_line(c, factor)
        self.within.policy.scale(0, factor)
        self.within.scalars.fold(0, factor)

    def maintain(self, c):
        if self.within.scalars.must_fold(0, LARGEST_SCALE):
            self.fold_together(self.within.scalars.table[0].scale)


bridge("usable_square", "limited", "rescale_slots", "lead_outputs", "drop_slot", "shift_of_all")
bridge("store_of", "multiply_line", "usable", "limited_step", "fold_together")
bridge("admit", "admit_all", "take_slot", "fold_slots", inline=False)


@Compiled
def weigh(space):  # type: ignore[no-untyped-def]
    """Compute the outputs of a block's rows from the rows in the slots."""
    block = space.outputs.shape[1]
    for c in range(space.problems()):
        shift, first = space.shift_of_all(c), space.slots.store_of(c) * block
        for k in range(block):
            total = fixed_order_sums.dense_dot(space.cross, first + k, space.slots.coefs, c)
            space.outputs[c, k] = total + shift
