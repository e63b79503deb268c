"""In which order `fit` presents the rows: full passes, and between them the rows that still matter.

Near the end most rows bring no update any more, and looking at them is a waste. So after a full
pass the rows that brought an update lately are presented again, narrowing onto those that just did,
until they are quiet or have been given their share of the work. They are shuffled once and then
keep their order: shuffling them each time takes as long as looking at them, and takes more looks
besides (Adult, 32 561 rows, PUMMA: twice as many). Any order keeps the guarantees of the learners;
only a quiet full pass counts as convergence.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

# A row matters if it brought an update within so many full passes.
MEMORY = 50
# Rows presented between two full passes, as a multiple of all rows: less at first, because easy
# problems are solved by then, and it takes a full pass to find out.
FIRST_PASSES, FIRST_SHARE, SHARE = 3, 4, 20
# Fewer rows than this are presented several times in one call of the compiled loop.
LEAST_ROWS = 2048


class Schedule:
    """Orders of presentation for ``size`` rows.

    Attributes
    ----------
    touched : array of int32
        Filled by the loop: the stamp of the last order in which a row brought an update.
    stamp : int
        The number of the order that is presented now.
    """

    def __init__(self, size: int, shuffle: bool, random: np.random.Generator) -> None:
        kind = np.int32 if size < 2**31 else np.int64
        self._everything = np.arange(size, dtype=kind)
        self._last_pass = np.full(size, -MEMORY, dtype=np.int32)
        self._passes = 0
        self._shuffle = shuffle
        self._random = random
        self.touched = np.zeros(size, dtype=np.int32)
        self.stamp = 0

    def everything(self) -> np.ndarray:
        """All rows, for a full pass."""
        if self._shuffle:
            self._random.shuffle(self._everything)
        self._passes += 1
        self.stamp += 1
        return self._everything

    def recent(self, most: int) -> Iterator[np.ndarray]:
        """Orders of rows that brought an update lately; at most ``most`` rows in all."""
        self._last_pass[self.touched == self.stamp] = self._passes
        recent = np.flatnonzero(self._last_pass > self._passes - MEMORY).astype(
            self._everything.dtype
        )
        self._random.shuffle(recent)
        share = FIRST_SHARE if self._passes < FIRST_PASSES else SHARE
        chosen, left = recent, min(most, share * self.touched.size)
        while chosen.size and left > 0:
            order = np.tile(chosen, -(-LEAST_ROWS // chosen.size))[:most]
            self.stamp += 1
            yield order
            left -= order.size
            most -= order.size
            moved = self._remember(chosen)
            if moved.size == 0 and chosen is recent:
                return
            chosen = moved if moved.size else recent

    def _remember(self, rows: np.ndarray) -> np.ndarray:
        """Those of ``rows`` that brought an update in the last order."""
        moved = rows[self.touched[rows] == self.stamp]
        self._last_pass[moved] = self._passes
        return moved
