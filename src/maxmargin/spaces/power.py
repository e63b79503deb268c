"""Powers of non-negative numbers, one at a time and many at once."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin.core.numba_backend import Compiled, bridge

QUARTER = 0.25


class Power(NamedTuple):
    """``x**exponent`` for x >= 0; by square roots if the exponent is a multiple of a quarter.

    Attributes
    ----------
    exponent : the exponent
    whole, quarters : its whole part and the quarters beyond, or -1 quarters for any other number
    """

    exponent: float
    whole: int
    quarters: int

    def power_of(self, x):
        if self.quarters < 0:
            return math.pow(x, self.exponent)
        result, square, left = 1.0, x, self.whole
        while left > 0:
            if left & 1:
                result *= square
            left >>= 1
            if left > 0:
                square *= square
        if self.quarters > 0:
            root = math.sqrt(x)
            if self.quarters >= 2:
                result *= root
            if self.quarters & 1:
                result *= math.sqrt(root)
        return result

    def raise_all(self, room, count):
        """`power_of` for the first ``count`` numbers of a `Room`, step by step for all together.

        Each step is a loop that becomes vector instructions.
        """
        base, spare, raised = room.base, room.spare, room.raised
        if self.quarters < 0:
            for k in range(count):
                raised[k] = math.pow(base[k], self.exponent)
            return
        for k in range(count):
            raised[k] = 1.0
            spare[k] = base[k]
        left = self.whole
        while left > 0:
            if left & 1:
                for k in range(count):
                    raised[k] *= spare[k]
            left >>= 1
            if left > 0:
                for k in range(count):
                    spare[k] *= spare[k]
        if self.quarters > 0:
            for k in range(count):
                spare[k] = math.sqrt(base[k])
            if self.quarters >= 2:
                for k in range(count):
                    raised[k] *= spare[k]
            if self.quarters & 1:
                for k in range(count):
                    raised[k] *= math.sqrt(spare[k])

    def powers_of(self, values: np.ndarray) -> np.ndarray:
        """The same for an array, which plain Python may ask for."""
        room = Room(values, np.empty_like(values), np.empty_like(values))
        raise_all(self, room, values.size)
        return room.raised


bridge("power_of")
bridge("raise_all", inline=False)


@Compiled
def raise_all(power, room, count):  # type: ignore[no-untyped-def]
    power.raise_all(room, count)


def power(exponent: float) -> Power:
    quarters = exponent / QUARTER
    if quarters != round(quarters):
        return Power(float(exponent), 0, -1)
    return Power(float(exponent), int(quarters) // 4, int(quarters) % 4)


class Room(NamedTuple):
    """Where many powers are computed: of the numbers in ``base``, into ``raised``."""

    base: np.ndarray
    spare: np.ndarray
    raised: np.ndarray


def new_room(size: int) -> Room:
    return Room(np.zeros(size), np.zeros(size), np.zeros(size))
