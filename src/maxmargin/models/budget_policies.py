"""The arrays behind the policies (`spaces`) for a full store.

An eviction allocates arrays (`allocate`), makes the policy for a block of rows (`enter`, given
which of them will be learned), and updates its arrays afterwards: `leave` changes nothing that is
shared with copies made by `beside`, and `renew` may. Its ``slack`` is, for each problem, the total
length that projections have cut off, over the scale; None without projections. ``exact`` means that
kernel values must be float64.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from sklearn.utils import check_random_state

from maxmargin.core.array_fields import (
    Array,
    Buffer,
    Saved,
    grown,
    new_arrays,
    per_problem,
    resized,
)
from maxmargin.kernels.points import shallow_copy
from maxmargin.models.spec import BudgetSpec
from maxmargin.spaces.budget_space import Slots, SlotSpace
from maxmargin.spaces.projection import Project
from maxmargin.spaces.replacement import AtRandom, Oldest, Replace, renew

# Rows per block.
BLOCK = 256
# A row whose squared distance from a span, relative to its square, is below this counts as inside,
# by bytes of kernel values. Nearer rows would amplify the errors of kernel values (eps) to more
# than the distance itself (about eps**(2/3)).
SMALLEST_DISTANCES = {8: 1e-8, 4: 1e-3}


class Replacing:
    """Replaces a row, the oldest or a random one.

    With ``lengths``, which the Forgetron needs, it keeps the kernel values between stored rows, so
    that the length of ``w`` is known after an eviction.
    """

    random: Annotated[np.random.Generator, Saved()]
    inner: Annotated[np.ndarray, Array("problems * slots", "slots", dtype=None, optional=True)]
    fresh: Annotated[np.ndarray, Array("problems", "slots", dtype=np.int64, saved=False)]
    refilled: Annotated[np.ndarray, Array("problems", dtype=np.int64, saved=False)]
    stored: Annotated[np.ndarray, Array("problems", dtype=np.int64)]
    gained: Annotated[np.ndarray, Array("problems")]
    lost: Annotated[np.ndarray, Array("problems")]
    latest: Annotated[np.ndarray, Array("problems")]

    exact = False
    slack = None

    def __init__(self, oldest: bool, seed: int, lengths: bool = True) -> None:
        self.oldest, self.random, self.lengths = oldest, np.random.default_rng(seed), lengths

    def allocate(self, problems: int, slots: int, dtype: Any) -> None:
        sizes, off = {"problems": problems, "slots": slots}, () if self.lengths else ("inner",)
        vars(self).update(new_arrays(Replacing, sizes, off=off, dtype=dtype))

    def grown(self, which: Sequence[int]) -> Replacing:
        """An eviction in which problem c continues problem ``which[c]``."""
        more: Replacing = grown(self, which, 0)
        more.random = copy_of(self.random)
        return more

    def enter(self, cross: np.ndarray, shift: float, slots: Slots, learning: np.ndarray) -> Replace:
        if self.oldest:
            choice: Any = Oldest(self.gained, self.lost, self.latest)
        else:
            # One number for each trial, used or not, so that results do not depend on blocks.
            draws = np.zeros(learning.size)
            draws[learning] = self.random.random(learning.sum())
            choice = AtRandom(draws)
        return Replace(self.inner, self.fresh, self.refilled, self.stored, choice)

    def beside(self) -> Replacing:
        """A copy to learn with, which changes nothing of this one before `renew`."""
        other = shallow_copy(self)
        if not self.oldest:
            other.random = copy_of(self.random)
        if "fresh" in vars(self):  # allocated
            copy_arrays_per_problem(self, other)
        return other

    def copy_products(self) -> None:
        """Copy the kernel values, which may be shared."""
        if "inner" in vars(self):
            self.inner = self.inner.copy()

    def leave(self, space: SlotSpace) -> None:
        pass

    def renew(self, space: SlotSpace) -> None:
        if self.lengths:
            block = space.cross, space.products, space.slots
            renew(self.inner, *block, self.fresh, self.refilled, not self.oldest)
        self.refilled[:] = 0


class Projecting:
    """Projects rows, by the inverse Cholesky factor of the rows in the slots."""

    inverse: Annotated[np.ndarray, Array("problems * slots", "slots")]
    slack: Annotated[np.ndarray | None, Array("problems")]
    joins: Annotated[np.ndarray, Array("problems", dtype=bool)]
    distance: Annotated[np.ndarray, Array("problems")]
    limit: Annotated[np.ndarray, Array("problems")]
    coords: Annotated[np.ndarray, Buffer(f"problems * {BLOCK} * slots")]
    shadows: Annotated[np.ndarray, Buffer(f"problems * {BLOCK} * {BLOCK}")]

    exact = True

    def __init__(self, threshold: float, careful: bool) -> None:
        self.threshold, self.careful = threshold, careful
        self.inverse, self.slack = np.zeros((0, 0)), None

    def allocate(self, problems: int, slots: int, dtype: Any) -> None:
        self.rounding = SMALLEST_DISTANCES[np.dtype(dtype).itemsize]
        if self.slack is None:
            sizes = {"problems": problems, "slots": slots}
            vars(self).update(new_arrays(Projecting, sizes))
        else:
            vars(self).update(vars(resized(self, slots=slots)))

    def grown(self, which: Sequence[int]) -> Projecting:
        """An eviction in which problem c continues problem ``which[c]``."""
        more: Projecting = grown(self, which, 0)
        return more

    def enter(self, cross: np.ndarray, shift: float, slots: Slots, learning: np.ndarray) -> Project:
        stores, capacity, size = slots.taken.size, slots.coefs.shape[1], learning.size
        coords = self.coords[: stores * size * capacity].reshape(-1, capacity)
        shadows = self.shadows[: stores * size * size].reshape(-1, size)
        for c, taken in enumerate(slots.taken):
            # A block that was refused may have left partial lines.
            first, end = c * capacity + taken, c * capacity + min(taken + size, capacity)
            self.inverse[first:end] = 0.0
            lines = slice(c * size, (c + 1) * size)
            block_coords = (cross[lines, :taken] + shift) @ self._inverse(c, taken).T
            coords[lines, :taken] = block_coords
            np.matmul(block_coords, block_coords.T, out=shadows[lines])
        assert self.slack is not None
        parameters, turned = (
            (self.threshold, self.rounding, self.careful),
            np.zeros_like(slots.coefs),
        )
        of_row = self.joins, self.distance, self.limit
        return Project(*parameters, self.inverse, coords, shadows, turned, self.slack, *of_row)

    def beside(self) -> Projecting:
        """A copy to learn with; the shared factor only gains lines behind the present ones."""
        other = shallow_copy(self)
        if self.slack is not None:
            copy_arrays_per_problem(self, other)
        return other

    def copy_products(self) -> None:
        """Copy the factor, which may be shared."""
        self.inverse = self.inverse.copy()

    def renew(self, space: SlotSpace) -> None:
        pass

    def leave(self, space: SlotSpace) -> None:
        slots = space.slots
        for c, turned in enumerate(space.policy.turned):
            taken = slots.taken[c]
            slots.coefs[c, :taken] += turned[:taken] @ self._inverse(c, taken)

    def _inverse(self, c: int, taken: int) -> np.ndarray:
        first = c * self.inverse.shape[1]
        return self.inverse[first : first + taken, :taken]


Eviction = Replacing | Projecting


def copy_arrays_per_problem(eviction: Eviction, other: Eviction) -> None:
    """Give ``other`` copies of the arrays with one entry for each problem."""
    arrays = vars(eviction)
    vars(other).update({name: arrays[name].copy() for name in per_problem(type(eviction))})


def copy_of(random: np.random.Generator) -> np.random.Generator:
    """An independent copy, in a fraction of the time of `deepcopy`."""
    source = type(random.bit_generator)(0)
    source.state = random.bit_generator.state
    return np.random.Generator(source)


def eviction_for(spec: BudgetSpec, random_state: Any) -> Eviction:
    """The eviction of a specification."""
    if spec.on_full == "project":
        return Projecting(float(spec.threshold), spec.careful)
    if spec.on_full == "oldest":
        return Replacing(True, 0, spec.lengths)  # draws no random numbers
    # A copy, so that the order of rows is the same as for other learners with this state.
    state = copy.deepcopy(check_random_state(random_state))
    return Replacing(False, state.randint(2**31 - 1), spec.lengths)
