"""Powers, one at a time and many at once."""

import numpy as np
import pytest

from maxmargin.core.numba_backend import Compiled
from maxmargin.spaces.power import PowerBuffer, power

EXPONENTS = [0.0, 0.25, 0.5, 0.75, 1.0, 2.0, 7.25, 20.5, 20.75, 1 / 3, 8.21]
SIZES = np.concatenate([[0.0, 1.0, 1e-300], np.logspace(-12, 12, 33)])


@Compiled
def one_by_one(raising, sizes, powers):
    for k in range(sizes.size):
        powers[k] = raising.power_of(sizes[k])


@Compiled
def all_at_once(raising, room, count):
    raising.raise_all(room, count)


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_powers_are_accurate(exponent):
    powers = np.array([power(exponent).power_of(size) for size in SIZES])
    # Below the smallest normal number bits are lost.
    np.testing.assert_allclose(powers, SIZES**exponent, rtol=1e-14, atol=1e-307)


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_all_ways_have_the_same_bits(exponent):
    raising, rooms = (
        power(exponent),
        [PowerBuffer(*np.zeros((3, SIZES.size + 5))) for _ in range(2)],
    )
    expected = np.empty_like(SIZES)
    one_by_one(raising, SIZES, expected)
    for room in rooms:
        room.base[: SIZES.size] = SIZES
    all_at_once(raising, rooms[0], SIZES.size)
    all_at_once.plain(raising, rooms[1], SIZES.size)
    for room in rooms:
        np.testing.assert_array_equal(room.raised[: SIZES.size], expected)
        np.testing.assert_array_equal(room.base[: SIZES.size], SIZES)
        assert not room.raised[SIZES.size :].any()
