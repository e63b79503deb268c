"""Eight bytes of text at a time, as one number.

Digits come in groups of different lengths, which a processor that looks at one byte after another
guesses wrongly again and again. Looking at eight of them takes no guess. (D. Lemire, "Number
parsing at a gigabyte per second", section 5.)
"""

from __future__ import annotations

import numpy as np

from maxmargin.core.numba_backend import helper, primitive

WORD = 8

_ZEROS = np.uint64(0x3030303030303030)
_ABOVE_NINE = np.uint64(0x4646464646464646)
_HIGHEST_BITS = np.uint64(0x8080808080808080)
_TENS = 10 ** np.arange(WORD + 1, dtype=np.uint64)


@primitive
def byte_at(text, at):  # type: ignore[no-untyped-def]
    """``text[at]``, without the time that it takes to ask whether ``at`` is negative."""
    return text[at]


@primitive
def word_at(text, at):  # type: ignore[no-untyped-def]
    """The eight bytes that begin at ``text[at]``, the first one lowest; they must be there."""
    word = np.uint64(0)
    for k in range(WORD):
        word |= np.uint64(text[at + k]) << np.uint64(8 * k)
    return word


@primitive
def trailing_zeros(number):  # type: ignore[no-untyped-def]
    """The number of zeros behind the last one of the 64 bits; 64 if there is none."""
    zeros = np.uint64(0)
    while zeros < np.uint64(64) and (number >> zeros) & np.uint64(1) == np.uint64(0):
        zeros += np.uint64(1)
    return zeros


@primitive
def leading_zeros(number):  # type: ignore[no-untyped-def]
    """The number of zeros before the first one of the 64 bits; 64 if there is none."""
    zeros = np.uint64(0)
    while zeros < np.uint64(64) and (number >> (np.uint64(63) - zeros)) == np.uint64(0):
        zeros += np.uint64(1)
    return zeros


@helper
def value_of(word):  # type: ignore[no-untyped-def]
    """The number that eight bytes are, each of them the value of a digit, the first one lowest."""
    word = word * np.uint64(10) + (word >> np.uint64(8))
    low = (word & np.uint64(0x000000FF000000FF)) * np.uint64(0x000F424000000064)
    high = ((word >> np.uint64(16)) & np.uint64(0x000000FF000000FF)) * np.uint64(0x0000271000000001)
    return (low + high) >> np.uint64(32)


@helper
def read_digits(text, at, digits):  # type: ignore[no-untyped-def]
    """``digits`` with those that begin at ``text[at]`` behind them, and the place behind these."""
    while at + WORD <= text.size:
        word = word_at(text, at)
        # The lowest byte that is no digit is marked rightly; those above it do not count.
        others = ((word + _ABOVE_NINE) | (word - _ZEROS)) & _HIGHEST_BITS
        if others == np.uint64(0):
            digits = digits * _TENS[WORD] + value_of(word - _ZEROS)
            at += WORD
            continue
        bits = trailing_zeros(others) - np.uint64(7)
        count = np.int64(bits >> np.uint64(3))
        if count == 0:
            return digits, at
        # Zeros move in where the first digits would be.
        word = (word - _ZEROS) << (np.uint64(64) - bits)
        return digits * _TENS[count] + value_of(word), at + count
    while np.uint8(byte_at(text, at) - np.uint8(48)) < np.uint8(10):
        digits = digits * np.uint64(10) + np.uint64(byte_at(text, at) - np.uint8(48))
        at += 1
    return digits, at
