"""A model in a kernel's space, in bounded memory: so many supporting rows for each problem.

Memory is allocated once, when the first rows come: the rows themselves, one matrix of kernel values
(or its Cholesky factor) for each problem, and the kernel values of one block of new rows.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificates import hull_mixture
from maxmargin.core.loop import NO_NOTES, Notes, present
from maxmargin.core.rows import Tail
from maxmargin.expansions import CHUNK
from maxmargin.keepers import Keeper
from maxmargin.kernelmodel import KernelModel
from maxmargin.kernels import Kernel, Points, Precomputed, finite_diagonal
from maxmargin.kerneltraining import BLOCK
from maxmargin.spaces.gram import UnitRows
from maxmargin.spaces.pair import NOBODY
from maxmargin.spaces.slots import FROM_BEFORE, Slots, SlotSpace, new_slots, weigh
from maxmargin.spaces.witness import RELATIVE_SLACK


class Supports(NamedTuple):
    """The rows in all slots, those of the first problem first."""

    points: Points
    coefs: np.ndarray
    squares: np.ndarray
    numbers: np.ndarray
    labels: np.ndarray


class BudgetModel(KernelModel):
    """Weight vectors ``w = sum_p a_p phi(x_p)`` over at most ``budget`` rows each.

    Parameters
    ----------
    problems, width, tail, kernel, cache_size
        See `KernelModel`.
    budget : int or None
        Number of slots of each problem; None for as many as are asked for.
    keeper : Keeper
        What to do when all slots are taken.
    """

    def __init__(
        self,
        problems: int,
        width: int,
        tail: Tail,
        kernel: Kernel | Precomputed,
        cache_size: float,
        budget: int | None,
        keeper: Keeper,
    ) -> None:
        super().__init__(problems, width, tail, kernel, cache_size)
        self.budget, self.keeper = budget, keeper
        self.room = 0
        self.slots: Slots = new_slots(problems, 0)
        self.slot_numbers = np.empty((problems, 0), dtype=np.int64)
        self.slot_labels = np.empty((problems, 0), dtype=np.int32)
        self.stores: list[Points] = []
        self._cross = np.empty(0)
        self.largest_square = 0.0
        self.in_fit = False

    def _begin_without_supports(self) -> None:
        self._supports: Supports | None = None

    # ------------------------------------------------------------------------------------ learning
    def begin_fit(self, rows: Points) -> None:
        self.in_fit = True
        self.largest_square = float(finite_diagonal(self.kernel, rows).max())
        if not self.stores:
            return
        numbers = self.numbers
        known = numbers.max(initial=-1) < rows.size()
        if not known or not rows.take(numbers).same_as(self.supports):
            raise ValueError("warm_start with a kernel needs the rows of the last fit.")

    def largest_margin(self, radius: float) -> float:
        return float(np.sqrt(self.largest_square + self.ridge))

    def end(self) -> None:
        self.in_fit = False
        if isinstance(self.kernel, Precomputed):
            self.bounds()  # as long as the matrix is there
        self.kernel.forget()

    def present(
        self, rows: Points, targets: Any, order: np.ndarray, rule: Any, notes: Notes = NO_NOTES
    ) -> None:
        """Let ``rule`` learn from the rows ``order``, in that order; see `core.loop.learn`."""
        if not self.in_fit:
            rows = self._exact_enough(rows)
        if self.kernel.may_fail() and order.size > BLOCK:
            before = copy.deepcopy(vars(self))
            try:
                self._present_all(rows, targets, order, rule, notes)
            except Exception:
                vars(self).update(before)
                raise
        else:
            finite_diagonal(self.kernel, rows)  # else nothing can fail
            self._present_all(rows, targets, order, rule, notes)

    def _present_all(
        self, rows: Points, targets: Any, order: np.ndarray, rule: Any, notes: Notes
    ) -> None:
        for start in range(0, order.size, BLOCK):
            part = order[start : start + BLOCK]
            learning = part >= 0
            part = np.where(learning, part, -1 - part)
            # In `fit` a row has its number among all rows, in a stream that of its trial.
            ids = part if self.in_fit else int(self.tally.trials[0]) + np.cumsum(learning) - 1
            ids = np.where(learning, ids, NOBODY)
            labels = targets.labels[part]
            labels.flags.writeable = False
            touched = np.zeros(part.size if notes.stamp else 0, dtype=np.int32)
            here = Notes(touched, notes.stamp, notes.journal[start : start + BLOCK])
            places = np.arange(part.size, dtype=np.int32)
            places = np.where(learning, places, -1 - places)
            self._learn(rows.take(part), ids, targets._replace(labels=labels), places, rule, here)
            notes.touched[part[np.flatnonzero(touched)]] = notes.stamp

    def _learn(
        self,
        new: Points,
        ids: np.ndarray,
        targets: Any,
        order: np.ndarray,
        rule: Any,
        notes: Notes,
    ) -> None:
        """Learn from the rows of a block."""
        size = new.size()
        if self.stores:
            new = new.laid_out_like(self.stores[0])
        new = self.kernel.kept(new, np.inf)
        diagonal = finite_diagonal(self.kernel, new) + self.shift + self.ridge
        self._make_room(new)
        products = _own(self.kernel.between(new, new))
        cross = self._cross_products(new, ids)
        if self.ridge > 0.0:
            products += self.ridge * (ids[:, None] == ids)
        self._bounds = self._supports = None
        products.flags.writeable = False
        outputs = np.empty((self.problems(), size))
        policy = self.keeper.enter(cross, self.shift, self.slots, order >= 0)
        space = SlotSpace(
            self.slots, self.scalars, products, cross, diagonal, self.shift, outputs, policy
        )
        weigh(space)
        rows = UnitRows(size, Tail(self.tail.offset, 0.0))
        present(rows, targets, order, rule, space, self.tally, notes)
        self.keeper.leave(space)
        for c, store in enumerate(self.stores):
            places = np.flatnonzero(self.slots.sources[c] != FROM_BEFORE)
            if places.size:
                which = self.slots.sources[c, places]
                store.put(places, new, which)
                self.slot_numbers[c, places] = ids[which]
                self.slot_labels[c, places] = targets.labels[which]
                self.slots.sources[c, places] = FROM_BEFORE

    def _measure_supports(self) -> None:
        everyone = [self.kernel.points(store.X) for store in self.stores]
        self.stores = [self.kernel.kept(store, np.inf) for store in everyone]
        self._cross = self._cross.astype(np.float64)

    def _make_room(self, new: Points) -> None:
        """Allocate memory: once if there is a budget, else whenever a block might not fit."""
        needed = self.budget or int(self.slots.taken.max(initial=0)) + new.size()
        if needed <= self.room:
            return
        before, old, stores = self.room, self.slots, self.stores
        self.room = self.budget or max(2 * before, needed)
        self.slots = new_slots(self.problems(), self.room)
        numbers, labels = self.slot_numbers, self.slot_labels
        self.slot_numbers = np.zeros((self.problems(), self.room), dtype=np.int64)
        self.slot_labels = np.zeros((self.problems(), self.room), dtype=np.int32)
        self.stores = [new.room(self.room) for _ in range(self.problems())]
        self.keeper.make_room(self.problems(), self.room, self.kernel.value_type())
        self._cross = np.zeros(self.problems() * BLOCK * self.room, self.kernel.value_type())
        if before:
            self.slots.taken[:] = old.taken
            for array, was in (
                (self.slots.coefs, old.coefs),
                (self.slots.squares, old.squares),
                (self.slot_numbers, numbers),
                (self.slot_labels, labels),
            ):
                array[:, :before] = was
            everyone = np.arange(before)
            for store, smaller in zip(self.stores, stores, strict=True):
                store.put(everyone, smaller, everyone)

    def _grow_supports(self, width: int, which: Sequence[int], numbers: np.ndarray) -> None:
        if not self.stores:
            return
        self._supports = None
        self.slots = Slots(*(each[which] for each in self.slots))
        self.slot_numbers = self.slot_numbers[which]
        self.slot_labels = numbers[self.slot_labels[which]].astype(self.slot_labels.dtype)
        # Two problems may continue the same one, each with rows of its own.
        self.stores = [copy.deepcopy(self.stores[c].with_width(width)) for c in which]
        self.keeper = self.keeper.grown(which, self.room)
        self._cross = np.zeros(len(which) * BLOCK * self.room, self._cross.dtype)

    def _cross_products(self, new: Points, ids: np.ndarray) -> np.ndarray:
        """Kernel values between a block's rows and those in the slots; see `SlotSpace`."""
        size, taken = new.size(), self.slots.taken
        cross = self._cross[: self.problems() * size * self.room].reshape(-1, self.room)
        if self.problems() == 1 and taken[0] == self.room:
            cross = _own(self.kernel.between(new, self.stores[0], cross))
        else:
            for c, store in enumerate(self.stores):
                here = store.take(slice(0, int(taken[c])))
                lines = slice(c * size, (c + 1) * size)
                cross[lines, : taken[c]] = self.kernel.between(new, here)
        if self.ridge > 0.0:
            for c, numbers in enumerate(self.slot_numbers):
                same = ids[:, None] == numbers[: taken[c]]
                cross[c * size : (c + 1) * size, : taken[c]] += self.ridge * same
        return cross

    # ------------------------------------------------------------------------------ what was learnt
    def _all_supports(self) -> Supports:
        if self._supports is None:
            taken = self.slots.taken
            stores = [store.take(slice(0, taken[c])).bare() for c, store in enumerate(self.stores)]
            points = stores[0]
            for store in stores[1:]:
                points = points.followed_by(store)
            coefs = np.zeros((taken.size, int(taken.sum())))
            ends = np.cumsum(taken)
            for c, end in enumerate(ends):
                coefs[c, end - taken[c] : end] = self.slots.coefs[c, : taken[c]]

            def joined(array: np.ndarray) -> np.ndarray:
                return np.concatenate([array[c, : taken[c]] for c in range(taken.size)])

            self._supports = Supports(
                points,
                coefs,
                joined(self.slots.squares),
                joined(self.slot_numbers),
                joined(self.slot_labels),
            )
        return self._supports

    @property
    def supports(self) -> Points:  # type: ignore[override]
        return self._all_supports().points

    @property
    def coefs(self) -> np.ndarray:  # type: ignore[override]
        return self._all_supports().coefs

    @property
    def numbers(self) -> np.ndarray:  # type: ignore[override]
        return self._all_supports().numbers

    def weights(self) -> np.ndarray:
        return self.coefs * self.scales()

    def margins(self, rows: Points, targets: Any) -> np.ndarray:
        if not self.stores:  # interrupted before anything was learnt
            return np.zeros(self.problems())
        weights, numbers = self.weights(), self.numbers
        outputs = np.empty((self.problems(), rows.size()))
        for start in range(0, rows.size(), CHUNK):
            part = slice(start, start + CHUNK)
            outputs[:, part] = self._sums(weights, self.supports, rows.take(part))
        np.add.at(outputs.T, numbers, self.ridge * weights.T)
        leads = self._leads(outputs, targets.labels)
        lengths = np.array([self._squared_length(c) for c in range(self.problems())]) ** 0.5
        return np.divide(leads, lengths, out=np.zeros_like(leads), where=lengths > 0.0)

    def _squared_length(self, c: int) -> float:
        """At least the squared length of ``w``, without the intercept."""
        taken = int(self.slots.taken[c])
        weights = self.scalars[c].scale * self.slots.coefs[c : c + 1, :taken]
        return self._square_of_sum(c, weights)

    def _proved_bounds(self) -> np.ndarray:
        return np.array([self._bound(c) for c in range(self.problems())])

    def _bound(self, c: int) -> float:
        """By the coefficients with the signs of their rows, and by all projections together."""
        taken, mine = int(self.slots.taken[c]), self.scalars[c]
        own = self.slot_labels[c : c + 1, :taken] == (c if self.problems() > 1 else 1)
        coefs = mine.scale * self.slots.coefs[c : c + 1, :taken]
        mixture, proved = hull_mixture(coefs, own, self._has_intercept())
        bound = np.sqrt(self._square_of_sum(c, mixture)) if proved[0] else np.inf
        if self.keeper.slack is not None and mine.lawful:
            masses = mine.scale * mine.positive, mine.scale * mine.negative
            length = np.sqrt(self._squared_length(c)) + mine.scale * self.keeper.slack[c]
            if self._has_intercept():
                excess = abs(masses[0] - masses[1])
                radius = np.sqrt(max(self.tally.rr[0] - self.shift, 0.0))
                if min(masses) > 0.0:
                    bound = min(bound, (length + radius * excess) / (sum(masses) + excess))
            elif sum(masses) > 0.0:
                bound = min(bound, length / sum(masses))
        return float(bound) * (1.0 + RELATIVE_SLACK)

    def is_full(self) -> bool:
        """Are all the slots of a problem taken that the budget allows?"""
        return self.budget is not None and bool((self.slots.taken >= self.budget).any())

    def is_finite(self) -> bool:
        return bool(np.isfinite(self.slots.coefs).all())

    def _square_of_sum(self, c: int, weights: np.ndarray) -> float:
        """At least the squared length of a sum of the rows of a problem, without the intercept."""
        taken = int(self.slots.taken[c])
        diagonal = self.slots.squares[c, :taken] - self.shift
        square = self._quadratic(weights, self.stores[c].take(slice(0, taken)), diagonal)[0]
        # A row that has several slots is one and the same coordinate of the soft margin.
        _, rows = np.unique(self.slot_numbers[c, :taken], return_inverse=True)
        together = np.bincount(rows, weights[0])
        return float(square + self.ridge * (together @ together - weights[0] @ weights[0]))

    def coefficients(self) -> np.ndarray:
        if isinstance(self.kernel, Kernel) and self.kernel.name == "linear":
            return np.asarray(self.weights() @ self.supports.X)
        return super().coefficients()


def _own(values: np.ndarray) -> np.ndarray:
    """The same array, or a copy if it may not be changed."""
    return np.require(values, requirements=["C", "W"])
