"""The arrays behind the policies (`spaces`) for a full store.

An eviction gets arrays for the slots (`resized`), makes the policy for a block of rows (`enter`,
given which of them will be learned), and updates its arrays afterwards: `leave` changes nothing
that is shared with copies made by `copy`, and `renew` may. Its ``slack`` is, for each problem, the
total length that projections have cut off, over the scale; None without projections. ``exact``
means that kernel values must be float64.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeVar

import numpy as np
from sklearn.utils import check_random_state

from maxmargin.core.array_fields import (
    Array,
    Buffer,
    Saved,
    blank,
    grown,
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


@dataclass(eq=False, kw_only=True)
class Replacing:
    """Replaces a row, the oldest or a random one.

    With ``lengths``, which the Forgetron needs, it keeps the kernel values between stored rows, so
    that the length of ``w`` is known after an eviction.
    """

    oldest: bool
    lengths: bool
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

    def resized(self, slots: int, dtype: Any) -> Replacing:
        """The eviction at the start, for so many slots."""
        return new_replacing(self.stored.size, slots, self.oldest, self.lengths, self.random, dtype)

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

    def copy(self) -> Replacing:
        """A copy to learn with, which changes nothing of this one before `renew`."""
        other = with_own_scalars(self)
        if not self.oldest:
            other.random = copy_of(self.random)
        return other

    def copy_products(self) -> None:
        """Copy the kernel values, which may be shared."""
        self.inner = self.inner.copy()

    def leave(self, space: SlotSpace) -> None:
        pass

    def renew(self, space: SlotSpace) -> None:
        if self.lengths:
            block = space.cross, space.products, space.slots
            renew(self.inner, *block, self.fresh, self.refilled, not self.oldest)
        self.refilled[:] = 0


@dataclass(eq=False, kw_only=True)
class Projecting:
    """Projects rows, by the inverse Cholesky factor of the rows in the slots."""

    threshold: float
    careful: bool
    rounding: float = 0.0
    inverse: Annotated[np.ndarray, Array("problems * slots", "slots")]
    slack: Annotated[np.ndarray, Array("problems")]
    joins: Annotated[np.ndarray, Array("problems", dtype=bool)]
    distance: Annotated[np.ndarray, Array("problems")]
    limit: Annotated[np.ndarray, Array("problems")]
    coords: Annotated[np.ndarray, Buffer(f"problems * {BLOCK} * slots")]
    shadows: Annotated[np.ndarray, Buffer(f"problems * {BLOCK} * {BLOCK}")]

    exact = True

    def resized(self, slots: int, dtype: Any) -> Projecting:
        """The same with more slots, for kernel values of this type."""
        rounding = SMALLEST_DISTANCES[np.dtype(dtype).itemsize]
        return replace(resized(self, slots=slots), rounding=rounding)

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
        parameters = self.threshold, self.rounding, self.careful
        turned = np.zeros_like(slots.coefs)
        of_row = self.joins, self.distance, self.limit
        return Project(*parameters, self.inverse, coords, shadows, turned, self.slack, *of_row)

    def copy(self) -> Projecting:
        """A copy to learn with; the shared factor only gains lines behind its own ones."""
        return with_own_scalars(self)

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


Kind = TypeVar("Kind", Replacing, Projecting)


def with_own_scalars(eviction: Kind) -> Kind:
    """A copy with its own arrays of one entry for each problem; others are shared."""
    other: Kind = shallow_copy(eviction)
    for name in per_problem(type(eviction)):
        setattr(other, name, getattr(eviction, name).copy())
    return other


def copy_of(random: np.random.Generator) -> np.random.Generator:
    """An independent copy, in a fraction of the time of `deepcopy`."""
    source = type(random.bit_generator)(0)
    source.state = random.bit_generator.state
    return np.random.Generator(source)


def eviction_for(spec: BudgetSpec, problems: int, random_state: Any) -> Eviction:
    """The eviction of a specification, without slots."""
    if spec.on_full == "project":
        sizes = {"problems": problems, "slots": 0}
        return blank(Projecting, sizes, threshold=float(spec.threshold), careful=bool(spec.careful))
    oldest, seed = spec.on_full == "oldest", 0  # which draws no random numbers
    if not oldest:
        # A copy, so that the order of rows is the same as for other learners with this state.
        seed = copy.deepcopy(check_random_state(random_state)).randint(2**31 - 1)
    random = np.random.default_rng(seed)
    return new_replacing(problems, 0, oldest, spec.lengths, random, np.float64)


def new_replacing(
    problems: int, slots: int, oldest: bool, lengths: bool, random: np.random.Generator, dtype: Any
) -> Replacing:
    sizes, off = {"problems": problems, "slots": slots}, () if lengths else ("inner",)
    given = {"oldest": oldest, "lengths": lengths, "random": random}
    return blank(Replacing, sizes, off=off, dtype=dtype, **given)
