"""The policies that, on a full budget, replace the oldest row or a random one."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from maxmargin.core import fixed_order_sums
from maxmargin.core.numba_backend import Compiled, bridge
from maxmargin.spaces.budget_space import FROM_BEFORE

# The share of the progress of updates that evictions may cost (Dekel et al., section 5).
SHARE_TO_LOSE = 15.0 / 32.0
# Lines that stay in the cache while their columns are written.
LINES_AT_ONCE = 16


class Replace(NamedTuple):
    """Give the slot of one row to another, by the ``choice`` `Oldest` or `AtRandom`.

    Attributes
    ----------
    inner : kernel values between the rows in the slots at the start of the block, with all rows or,
        if the oldest row is evicted, with all later ones; empty if lengths are not needed
    fresh, refilled : the slots that rows of the block have taken, and their number
    stored : the total number of rows that took a slot, for each problem
    """

    inner: np.ndarray
    fresh: np.ndarray
    refilled: np.ndarray
    stored: np.ndarray
    choice: Any

    def usable_square(self, space, i, c, margin, xx):
        return xx

    def limited(self, c, step):
        return step

    def scale(self, c, factor):
        pass

    def admit(self, space, i, c, y, step, margin):
        slots = space.slots
        p, must_maintain = slots.taken[c], False
        amount = y * step / space.scalars.table[c].scale
        space.lead_outputs(i, c, amount)
        gained = step * (2.0 - 2.0 * margin - step * min(1.0, space.diagonal[i]))
        self.choice.gain(c, gained, margin <= 0.0)
        if p < slots.coefs.shape[1]:
            slots.taken[c] += 1
        else:
            p = self.choice.victim(self.stored[c], slots.coefs.shape[1], i, c)
            if self.inner.shape[0] > 0:
                must_maintain = self.shorten(space, i, c, p, amount)
            space.drop_slot(i, c, p)
        if slots.sources[c, p] == FROM_BEFORE:
            self.fresh[c, self.refilled[c]] = p
            self.refilled[c] += 1
        self.stored[c] += 1
        space.take_slot(i, c, p, amount)
        return must_maintain

    def shorten(self, space, i, c, p, amount):
        """Shrink ``w``, which includes row i, and update its length for the eviction of slot p."""
        record, line = space.scalars.table[c], c * space.outputs.shape[1] + i
        output = self.slot_output(space, c, p)
        output += amount * (float(space.cross[line, p]) + space.shift)
        own, f = record.scale * space.slots.coefs[c, p], record.scale * output
        factor = self.choice.shrinking(c, abs(own), own * f)
        must_maintain = factor != 1.0 and space.rescale_slots(c, factor)
        own, f = factor * own, factor * f
        space.scalars.grow_norm2(c, own * own * space.slots.squares[c, p] - 2.0 * own * f, 0.0)
        return must_maintain

    def slot_output(self, space, c, p):
        """``w.phi(x)``, over the scale, of the row in slot p."""
        slots, block = space.slots, space.outputs.shape[1]
        coefs, first, source = slots.coefs, c * block, slots.sources[c, p]
        line = c * coefs.shape[1] + p
        # The values for slots that have been refilled are corrected below.
        if source == FROM_BEFORE:
            total = fixed_order_sums.dense_dot(self.inner, line, coefs, c)
            total += coefs[c, p] * (slots.squares[c, p] - space.shift - float(self.inner[line, p]))
        else:
            total = fixed_order_sums.dense_dot(space.cross, first + source, coefs, c)
        for n in range(self.refilled[c]):
            q = self.fresh[c, n]
            if q == p:
                value = slots.squares[c, p] - space.shift
            elif source == FROM_BEFORE:
                value = float(space.cross[first + slots.sources[c, q], p])
            else:
                value = float(space.products[source, slots.sources[c, q]])
            stale = self.inner[line, q] if source == FROM_BEFORE else space.cross[first + source, q]
            total += coefs[c, q] * (value - float(stale))
        return total + space.shift_of_all(c)


@Compiled
def renew(inner, cross, products, slots, fresh, refilled, lines):  # type: ignore[no-untyped-def]
    """Update the kernel values between stored rows after a block.

    New rows get their columns. Unless the oldest row is evicted they also need ``lines``; otherwise
    their lines are filled by the columns of later rows before they are used.
    """
    block, capacity = products.shape[0], inner.shape[1]
    for c in range(refilled.size):
        for n in range(refilled[c]):
            p = fresh[c, n]
            source = slots.sources[c, p]
            for m in range(refilled[c]):
                q = fresh[c, m]
                cross[c * block + source, q] = products[source, slots.sources[c, q]]
            if lines:
                for q in range(slots.taken[c]):
                    inner[c * capacity + p, q] = cross[c * block + source, q]
        for start in range(0, slots.taken[c], LINES_AT_ONCE):
            stop = min(start + LINES_AT_ONCE, slots.taken[c])
            for n in range(refilled[c]):
                p = fresh[c, n]
                source = slots.sources[c, p]
                for q in range(start, stop):
                    inner[c * capacity + q, p] = cross[c * block + source, q]


class Oldest(NamedTuple):
    """Evict the oldest row, after shrinking w until that costs little: the Forgetron.

    The squared distance between w and any g falls by ``step (2 - 2 m - step |x|**2)`` at least when
    a row with margin m joins w and g has margin 1 there, and grows by at most
    ``psi = a**2 + 2 a - 2 a y f(x)`` when a row with coefficient a leaves; both for ``|x| <= 1``.
    A mistake of the Perceptron gains at most 1.

    Only mistakes make w shrink. With other rules than the Perceptron's the loss may exceed its
    share by then; a mistake may always cost its own share.

    Attributes
    ----------
    gained : the total progress of updates, for each problem
    lost : the sum of all psi
    latest : the progress of the current update, or 0 if the row was no mistake
    """

    gained: np.ndarray
    lost: np.ndarray
    latest: np.ndarray

    def victim(self, stored, capacity, i, c):
        return stored % capacity

    def gain(self, c, gained, mistake):
        gained = min(1.0, max(0.0, gained))
        self.gained[c] += gained
        self.latest[c] = gained if mistake else 0.0

    def shrinking(self, c, own, own_f):
        """The largest factor in (0, 1] for which psi stays within its share of the progress.

        For an evicted row with coefficient a, the loss under the factor phi is
        ``(a**2 - 2 a y f) phi**2 + 2 a phi``, which is 0 at 0 and increases from there.
        """
        square, linear = own * own - 2.0 * own_f, 2.0 * own
        left = max(SHARE_TO_LOSE * self.gained[c] - self.lost[c], SHARE_TO_LOSE * self.latest[c])
        factor = 1.0
        if square + linear > left and self.latest[c] > 0.0:
            root = math.sqrt(max(0.0, linear * linear + 4.0 * square * left))
            factor = min(1.0, 2.0 * left / (linear + root))
        self.lost[c] += factor * (factor * square + linear)
        return factor


class AtRandom(NamedTuple):
    """Evict a random row, by a uniform random number for each row of the block."""

    draws: np.ndarray

    def victim(self, stored, capacity, i, c):
        return min(capacity - 1, int(capacity * self.draws[i]))

    def gain(self, c, gained, mistake):
        pass

    def shrinking(self, c, own, own_f):
        return 1.0


bridge("gain", "victim", "shrinking")
bridge("shorten", "slot_output", inline=False)
