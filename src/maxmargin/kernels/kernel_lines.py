"""Lines of the kernel matrix of a fit that are kept, where the whole matrix is too large."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.kernels.functions import Kernel
from maxmargin.kernels.points import Points
from maxmargin.kernels.products import Products
from maxmargin.spaces.gram import add_lines, copy_lines

NOWHERE = -1


class KernelValues(NamedTuple):
    """Kernel values between the rows of a block; see `spaces.gram.Gram`."""

    products: np.ndarray
    lines: np.ndarray
    columns: np.ndarray
    sources: np.ndarray


def between(products: np.ndarray) -> KernelValues:
    """The kernel values of a block that are one matrix."""
    products = products.view()
    products.flags.writeable = False
    lines = np.empty((0, 0), products.dtype)
    lines.flags.writeable = False
    return KernelValues(products, lines, np.empty(0, np.int64), np.arange(products.shape[0]))


class KernelLines:
    """The kernel matrix of the rows of a fit, of which some lines are kept.

    A row whose coefficients change acts on the outputs of all rows. So the lines of those rows are
    kept that have changed most often.

    Parameters
    ----------
    products : Products
    kernel : Kernel
    points : Points
        The rows of the fit. They are named by their numbers.
    most_bytes : float
        The most memory for lines.
    """

    def __init__(
        self, products: Products, kernel: Kernel, points: Points, most_bytes: float
    ) -> None:
        self.products, self.kernel, self.points = products, kernel, points
        size, dtype = points.size(), np.dtype(kernel.value_type())
        capacity = min(size, int(most_bytes / max(1, dtype.itemsize * size)))
        # The system gives memory to lines when they are written.
        self._lines = np.empty((capacity, size if capacity else 0), dtype)
        self._slots = np.full(size, NOWHERE)
        self._changes = np.zeros(size, dtype=np.int64)

    def have(self, ids: np.ndarray) -> np.ndarray:
        """Whether the lines of the rows ``ids`` are kept."""
        return self._slots[ids] != NOWHERE

    def count(self, changed: np.ndarray) -> None:
        """Count the changes of these rows, which decide about the lines that are kept."""
        self._changes[changed] += 1

    def values(self, ids: np.ndarray, repeatedly: bool) -> KernelValues:
        """Kernel values between the rows ``ids``.

        Those that are needed ``repeatedly`` are copied from the lines into one small matrix.
        """
        kept = self.have(ids)
        if not kept.any():
            return between(self._computed(ids, ids))
        slots, missing = self._slots[ids], np.flatnonzero(~kept)
        if not repeatedly:
            sources = -1 - slots
            sources[missing] = np.arange(missing.size)
            values = between(self._computed(ids[missing], ids))
            lines = self._lines.view()
            lines.flags.writeable = False
            columns = ids.astype(np.int64, copy=False)  # one type, one compiled loop
            return values._replace(lines=lines, columns=columns, sources=sources)
        products, there = np.empty((ids.size, ids.size), self._lines.dtype), np.flatnonzero(kept)
        copy_lines(self._lines, slots[there], ids, there, products)
        if missing.size:  # the matrix is symmetric
            products[np.ix_(missing, there)] = products[np.ix_(there, missing)].T
            products[np.ix_(missing, missing)] = self._computed(ids[missing], ids[missing])
        return between(products)

    def act(
        self,
        changed: np.ndarray,
        gains: np.ndarray,
        diagonal: np.ndarray,
        shift: float,
        outputs: np.ndarray,
    ) -> None:
        """Let rows that have lines act on the outputs of all rows.

        This is one compiled call, which nothing interrupts.
        """
        add_lines(gains, self._lines, self._slots[changed], changed, diagonal, shift, outputs)

    def keep(self, changed: np.ndarray) -> None:
        """Keep the lines of rows that have changed, up to the capacity.

        They replace lines of rows that have changed less often.
        """
        capacity, size = self._lines.shape
        if capacity == 0:
            return
        changed = np.unique(changed)
        held = np.flatnonzero(self._slots != NOWHERE)
        new = changed[~self.have(changed)]
        new = new[np.argsort(-self._changes[new], kind="stable")]
        old = held[np.argsort(self._changes[held], kind="stable")]
        free = capacity - held.size
        rivals = new[free : free + old.size]
        replaced = int((self._changes[rivals] > self._changes[old[: rivals.size]]).sum())
        new = new[: free + replaced]
        # A row has a line when that is complete, whatever interrupts this.
        self._slots[old[:replaced]] = NOWHERE
        slots = np.setdiff1d(np.arange(capacity), self._slots)[: new.size]
        step = self.products.chunk
        for start in range(0, size if new.size else 0, step):
            part = slice(start, min(start + step, size))
            others = np.arange(part.start, part.stop)
            self._lines[slots, part] = self._computed(new, others)
        self._slots[new] = slots

    def _computed(self, some: np.ndarray, others: np.ndarray) -> np.ndarray:
        points = self.points.take(some)
        both = points if some is others else self.points.take(others)
        return self.products.gram(self.kernel, points, both)
