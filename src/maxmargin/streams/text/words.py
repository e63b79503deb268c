"""Eight bytes of text at a time, as one number.

Numbers have varying lengths, so parsing them byte by byte costs a branch misprediction for nearly
each of them. (D. Lemire, "Number parsing at a gigabyte per second", section 5.)
"""

from __future__ import annotations

import numpy as np

from maxmargin.core.numba_backend import helper, primitive

WORD = 8

_ZEROS = np.uint64(0x3030303030303030)
_ABOVE_NINE = np.uint64(0x4646464646464646)
_HIGHEST_BITS = np.uint64(0x8080808080808080)
_TENS = 10 ** np.arange(WORD + 1, dtype=np.uint64)


@helper
def byte_at(text, at):  # type: ignore[no-untyped-def]
    """``text[at]``, without a test whether ``at`` is negative."""
    return text[np.uint64(at)]


@primitive
def word_at(text, at):  # type: ignore[no-untyped-def]
    """The eight bytes from ``text[at]`` on as a little-endian number."""
    word = np.uint64(0)
    for k in range(WORD):
        word |= np.uint64(text[at + k]) << np.uint64(8 * k)
    return word


@primitive
def trailing_zeros(number):  # type: ignore[no-untyped-def]
    """The number of trailing zeros of the 64 bits."""
    zeros = np.uint64(0)
    while zeros < np.uint64(64) and (number >> zeros) & np.uint64(1) == np.uint64(0):
        zeros += np.uint64(1)
    return zeros


@primitive
def leading_zeros(number):  # type: ignore[no-untyped-def]
    """The number of leading zeros of the 64 bits."""
    zeros = np.uint64(0)
    while zeros < np.uint64(64) and (number >> (np.uint64(63) - zeros)) == np.uint64(0):
        zeros += np.uint64(1)
    return zeros


@helper
def value_of(word):  # type: ignore[no-untyped-def]
    """The number of eight digits, one in each byte, the first one lowest."""
    word = word * np.uint64(10) + (word >> np.uint64(8))
    low = (word & np.uint64(0x000000FF000000FF)) * np.uint64(0x000F424000000064)
    high = ((word >> np.uint64(16)) & np.uint64(0x000000FF000000FF)) * np.uint64(0x0000271000000001)
    return (low + high) >> np.uint64(32)


@helper
def read_digits(text, at, digits):  # type: ignore[no-untyped-def]
    """``digits`` followed by the digits at ``text[at]``, and the position after these."""
    while at + WORD <= text.size:
        word = word_at(text, at)
        # Marks the lowest byte that is no digit; marks above it may be wrong.
        others = ((word + _ABOVE_NINE) | (word - _ZEROS)) & _HIGHEST_BITS
        if others == np.uint64(0):
            digits = digits * _TENS[WORD] + value_of(word - _ZEROS)
            at += WORD
            continue
        bits = trailing_zeros(others) - np.uint64(7)
        count = np.int64(bits >> np.uint64(3))
        if count == 0:
            return digits, at
        # Zeros are shifted in as the first digits.
        word = (word - _ZEROS) << (np.uint64(64) - bits)
        return digits * _TENS[count] + value_of(word), at + count
    while np.uint8(byte_at(text, at) - np.uint8(48)) < np.uint8(10):
        digits = digits * np.uint64(10) + np.uint64(byte_at(text, at) - np.uint8(48))
        at += 1
    return digits, at
