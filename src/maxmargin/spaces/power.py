"""Powers of non-negative numbers, one at a time and many at once."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Buffer
from maxmargin.core.numba_backend import Compiled, bridge

QUARTER = 0.25


class Power(NamedTuple):
    """``x**exponent``; by square roots if the exponent is 0 or a positive multiple of a quarter.

    x may be 0 unless the exponent is negative. ``quarters`` beyond the ``whole`` part are -1 for
    other exponents.
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

    def raise_all(self, buffer, count):
        """`power_of` for the first ``count`` numbers in the buffer, step by step for all together.

        Each step is a loop that becomes vector instructions.
        """
        base, factor, raised = buffer.base, buffer.factor, buffer.raised
        if self.quarters < 0:
            for k in range(count):
                raised[k] = math.pow(base[k], self.exponent)
            return
        for k in range(count):
            raised[k] = 1.0
            factor[k] = base[k]
        left = self.whole
        while left > 0:
            if left & 1:
                for k in range(count):
                    raised[k] *= factor[k]
            left >>= 1
            if left > 0:
                for k in range(count):
                    factor[k] *= factor[k]
        if self.quarters > 0:
            for k in range(count):
                factor[k] = math.sqrt(base[k])
            if self.quarters >= 2:
                for k in range(count):
                    raised[k] *= factor[k]
            if self.quarters & 1:
                for k in range(count):
                    raised[k] *= math.sqrt(factor[k])

    def powers_of(self, values: np.ndarray) -> np.ndarray:
        """`power_of` for an array, callable from Python."""
        buffer = PowerBuffer(values, np.empty_like(values), np.empty_like(values))
        raise_all(self, buffer, values.size)
        return buffer.raised


bridge("power_of")
bridge("raise_all", inline=False)


@Compiled
def raise_all(power, buffer, count):  # type: ignore[no-untyped-def]
    power.raise_all(buffer, count)


def power(exponent: float) -> Power:
    quarters = exponent / QUARTER
    if quarters != round(quarters) or quarters < 0.0:
        return Power(float(exponent), 0, -1)
    return Power(float(exponent), int(quarters) // 4, int(quarters) % 4)


class PowerBuffer(NamedTuple):
    """Scratch arrays for powers of the numbers in ``base``, written to ``raised``.

    They have room for the coordinates of weights, or for a row with its offset and private one.
    """

    base: Annotated[np.ndarray, Buffer("coordinates + 2")]
    factor: Annotated[np.ndarray, Buffer("coordinates + 2")]
    raised: Annotated[np.ndarray, Buffer("coordinates + 2")]
