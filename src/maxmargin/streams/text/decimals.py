"""Decimal numbers from text, rounded exactly as by Python's ``float``.

A number with digits ``w`` and exponent ``q`` is ``w 10^q``. If ``w`` and ``10^|q|`` are both exact
in double precision, one multiplication or division rounds once, hence correctly (W. D. Clinger,
"How to read floating point numbers accurately"). Otherwise ``w`` is multiplied by the first 64 or
128 bits of ``5^q``, which nearly always determines the rounding (D. Lemire, "Number parsing at a
gigabyte per second"). The rare other cases are left to Python.
"""

from __future__ import annotations

import numpy as np

from maxmargin.core.numba_backend import helper
from maxmargin.streams.text.words import byte_at, leading_zeros, read_digits

SMALLEST_POWER, LARGEST_POWER = -342, 308
# Powers of ten that are exact in double precision.
EXACT_POWER = 22
EXACT_TENS = 10.0 ** np.arange(EXACT_POWER + 1)
LARGEST_EXACT = np.uint64(2**53)
# The number of digits that fit into 64 bits.
MOST_DIGITS = 19

# Larger exponents make no difference.
BEYOND_ANY_POWER = 2**40

# Outcomes of parsing a number.
FINE, BROKEN, TOO_LARGE, LEFT_TO_PYTHON = 0, 1, 2, 3

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_ONE = np.uint64(1)
_EXPLICIT_BITS = 52
_SHIFT = np.uint64(64 - _EXPLICIT_BITS - 3)
_UNSURE = np.uint64(0x1FF)
_ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
_IMPLICIT_BIT = np.uint64(1 << _EXPLICIT_BITS)
_LARGEST_EXPONENT = 0x7FF


def powers_of_five() -> np.ndarray:
    """The first 128 bits of ``5^q``, as two numbers; rounded up for negative q, else down."""
    lines = []
    for q in range(SMALLEST_POWER, LARGEST_POWER + 1):
        five = 5 ** abs(q)
        if q < 0:
            bits = five.bit_length() + (127 if q >= -27 else 128 + five.bit_length())
            power = (1 << bits) // five + 1
        else:
            power = five << 128
        power >>= power.bit_length() - 128
        lines.append((power >> 64, power & (2**64 - 1)))
    return np.array(lines, dtype=np.uint64)


POWERS_OF_FIVE = powers_of_five()


@helper
def product(a, b):  # type: ignore[no-untyped-def]
    """The upper and the lower 64 bits of ``a b``."""
    a_low, a_high, b_low, b_high = a & _LOW, a >> _HALF, b & _LOW, b >> _HALF
    low, high = a_low * b_low, a_high * b_high
    cross, other = a_low * b_high, a_high * b_low
    middle = (low >> _HALF) + (cross & _LOW) + (other & _LOW)
    return (
        high + (cross >> _HALF) + (other >> _HALF) + (middle >> _HALF),
        (low & _LOW) | (middle << _HALF),
    )


@helper
def scaled(digits, q):  # type: ignore[no-untyped-def]
    """The bits of ``digits 10^q`` in double precision, for ``digits > 0``, and the outcome.

    Subnormal numbers are left to Python.
    """
    if q < SMALLEST_POWER:
        return np.uint64(0), LEFT_TO_PYTHON
    if q > LARGEST_POWER:
        return np.uint64(0), TOO_LARGE
    zeros = leading_zeros(digits)
    digits <<= zeros
    upper, lower = product(digits, POWERS_OF_FIVE[q - SMALLEST_POWER, 0])
    if upper & _UNSURE == _UNSURE:
        more, _ = product(digits, POWERS_OF_FIVE[q - SMALLEST_POWER, 1])
        lower += more
        if lower < more:
            upper += _ONE
    if lower == _ALL_ONES and not -27 <= q <= 55:
        return np.uint64(0), LEFT_TO_PYTHON
    top = upper >> np.uint64(63)
    mantissa = upper >> (top + _SHIFT)
    exponent = ((217706 * q) >> 16) + 63 + np.int64(top) - np.int64(zeros) + 1023
    if exponent <= 0:
        return np.uint64(0), LEFT_TO_PYTHON
    half_way = lower <= _ONE and -4 <= q <= 23 and mantissa & np.uint64(3) == _ONE
    if half_way and mantissa << (top + _SHIFT) == upper:
        mantissa &= ~_ONE  # to even
    mantissa = (mantissa + (mantissa & _ONE)) >> _ONE
    if mantissa >= _IMPLICIT_BIT << _ONE:
        mantissa = _IMPLICIT_BIT
        exponent += 1
    if exponent >= _LARGEST_EXPONENT:
        return np.uint64(0), TOO_LARGE
    return (mantissa & ~_IMPLICIT_BIT) | (np.uint64(exponent) << np.uint64(_EXPLICIT_BITS)), FINE


@helper
def is_digit(byte):  # type: ignore[no-untyped-def]
    return np.uint8(byte - np.uint8(48)) < np.uint8(10)


@helper
def leading_zero_digits(text, at):  # type: ignore[no-untyped-def]
    """The number of leading zeros."""
    zeros = 0
    while byte_at(text, at) == 48 or byte_at(text, at) == 46:
        zeros += byte_at(text, at) == 48
        at += 1
    return zeros


@helper
def read_number(text, at):  # type: ignore[no-untyped-def]
    """The number at ``text[at]``, the position after it, and the outcome.

    The text must end with a byte that cannot be part of a number.
    """
    negative = byte_at(text, at) == 45
    at += np.int64(negative | (byte_at(text, at) == 43))
    begin, q = at, 0
    digits, at = read_digits(text, at, np.uint64(0))
    significant = at - begin
    if byte_at(text, at) == 46:
        point = at + 1
        digits, at = read_digits(text, point, digits)
        q = point - at
        significant -= q
    if significant == 0:
        return 0.0, at, BROKEN
    if significant > MOST_DIGITS:
        significant -= leading_zero_digits(text, begin)
    if byte_at(text, at) == 101 or byte_at(text, at) == 69:
        at += 1
        downward = byte_at(text, at) == 45
        if downward or byte_at(text, at) == 43:
            at += 1
        if not is_digit(byte_at(text, at)):
            return 0.0, at, BROKEN
        exponent = 0
        while is_digit(byte_at(text, at)):
            digit = np.int64(byte_at(text, at) - np.uint8(48))
            exponent = min(10 * exponent + digit, BEYOND_ANY_POWER)  # type: ignore[assignment]
            at += 1
        q += -exponent if downward else exponent
    if significant > MOST_DIGITS:
        return 0.0, at, LEFT_TO_PYTHON
    sign = -1.0 if negative else 1.0
    if digits == np.uint64(0):
        return sign * 0.0, at, FINE
    if digits <= LARGEST_EXACT and -EXACT_POWER <= q <= EXACT_POWER:
        exact = np.float64(digits)
        return sign * (exact / EXACT_TENS[-q] if q < 0 else exact * EXACT_TENS[q]), at, FINE
    bits, outcome = scaled(digits, q)
    return sign * np.uint64(bits).view(np.float64), at, outcome
