"""Lines of the kernel matrix of a fit that are kept, where the whole matrix is too large."""

from __future__ import annotations

import numpy as np

from maxmargin.kernels.functions import Kernel
from maxmargin.kernels.points import Points
from maxmargin.kernels.products import CHUNK, Products, effects_of
from maxmargin.spaces.gram import copy_lines

# Memory is allocated for so many lines at a time, when they are needed.
SLAB = 256
NOWHERE = -1


class Lines:
    """Kernel values between the rows of a fit; those of some rows with all others are kept.

    A row whose coefficients change again and again acts on the outputs of all rows each time, so
    the lines of rows that have changed most often are kept.

    Parameters
    ----------
    products : Products
    kernel : Kernel
    points : Points
        The rows of the fit. They are named by their numbers.
    most_bytes : float
        The most memory for lines; 0 computes all values anew.
    """

    def __init__(
        self, products: Products, kernel: Kernel, points: Points, most_bytes: float
    ) -> None:
        self.products, self.kernel, self.points = products, kernel, points
        size = points.size()
        self.dtype = np.dtype(kernel.value_type())
        self.capacity = min(size, int(most_bytes / max(1, self.dtype.itemsize * size)))
        self._slabs: list[np.ndarray] = []
        self._slots = np.full(size, NOWHERE)
        self._changes = np.zeros(size, dtype=np.int64)

    def values(self, some: np.ndarray, others: np.ndarray) -> np.ndarray:
        """The matrix of kernel values, one line for each of ``some``."""
        known = self._slots[some] != NOWHERE
        if not known.any():
            return self._computed(some, others)
        values = np.empty((some.size, others.size), self.dtype)
        places, slots = np.flatnonzero(known), self._slots[some[known]]
        for number, slab in enumerate(self._slabs):
            here = slots // SLAB == number
            copy_lines(slab, slots[here] % SLAB, others, values, places[here])
        if known.all():
            return values
        if some is not others:
            values[~known] = self._computed(some[~known], others)
            return values
        # The matrix is symmetric.
        values[np.ix_(~known, known)] = values[np.ix_(known, ~known)].T
        values[np.ix_(~known, ~known)] = self._computed(some[~known], some[~known])
        return values

    def effects(
        self,
        weights: np.ndarray,
        changed: np.ndarray,
        others: np.ndarray,
        shift: float,
        same: tuple[np.ndarray, np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `Products.effects`."""
        if self.capacity == 0:
            points = self.points.take(changed), self.points.take(others)
            return self.products.effects(self.kernel, weights, *points, shift, same)
        return effects_of(self.values(changed, others), weights, shift, same)

    def keep(self, changed: np.ndarray) -> None:
        """Keep the lines of rows that have changed, as far as there is room.

        Lines of rows that have changed less often make room.
        """
        if self.capacity == 0:
            return
        changed = np.unique(changed)
        self._changes[changed] += 1
        held = np.flatnonzero(self._slots != NOWHERE)
        new = changed[self._slots[changed] == NOWHERE]
        new = new[np.argsort(-self._changes[new], kind="stable")]
        old = held[np.argsort(self._changes[held], kind="stable")]
        free = self.capacity - held.size
        number = min(max(0, new.size - free), old.size)
        rivals = new[free : free + number]
        replaced = int((self._changes[rivals] > self._changes[old[:number]]).sum())
        new = new[: free + replaced]
        # A row has a line when this is complete, whatever interrupts it.
        self._slots[old[:replaced]] = NOWHERE
        self._slots[new] = self._filled(new)

    def _filled(self, new: np.ndarray) -> np.ndarray:
        """Compute lines; the slots in which they are."""
        slots = np.setdiff1d(np.arange(self.capacity), self._slots)[: new.size]
        size = self.points.size()
        while slots.size and len(self._slabs) * SLAB <= slots[-1]:
            room = min(SLAB, self.capacity - len(self._slabs) * SLAB)
            self._slabs.append(np.empty((room, size), self.dtype))
        for number, slab in enumerate(self._slabs):
            here = slots // SLAB == number
            for start in range(0, size if here.any() else 0, CHUNK):
                others = np.arange(start, min(start + CHUNK, size))
                slab[slots[here] % SLAB, start : start + CHUNK] = self._computed(new[here], others)
        return slots

    def _computed(self, some: np.ndarray, others: np.ndarray) -> np.ndarray:
        points = self.points.take(some)
        both = points if some is others else self.points.take(others)
        return self.products.gram(self.kernel, points, both)
