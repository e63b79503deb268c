"""Ends of rows of CSV text: newlines outside of quotes.

A quote opens a value only at the beginning of a field, and the next one that is not doubled closes
it. Other quotes are errors that do not change where the row ends, so that an invalid row does not
affect the next one, unless a quote is never closed.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from maxmargin.streams.lines import end_of_line

NEWLINE, QUOTE, RETURN = b"\n", b'"', b"\r"
RETURNS = re.compile(rb"\r+\n")


class Walk(NamedTuple):
    """The ends of rows, and the position of a quote that is never closed; -1 if there is none."""

    ends: list[int]
    opened: int


def walk(text: bytes, delimiter: str) -> Walk:
    """The ends of the rows of any text, found one by one."""
    ends: list[int] = []
    between = delimiter.encode()
    row = at = 0
    quote = text.find(QUOTE)
    while True:
        newline = text.find(NEWLINE, at)
        if 0 <= quote < at:
            quote = text.find(QUOTE, at)
        if newline >= 0 and not 0 <= quote < newline:
            row = at = newline + 1
            ends.append(row)
        elif quote < 0:
            return Walk(ends, -1)
        elif quote == row or text[quote - 1 : quote] == between:
            close = _closing(text, quote + 1)
            if close < 0:
                return Walk(ends, quote)
            at = close + 1
        else:
            at = quote + 1


def _closing(text: bytes, at: int) -> int:
    """The next quote that is not doubled, or -1."""
    while (at := text.find(QUOTE, at)) >= 0 and text[at + 1 : at + 2] == QUOTE:
        at += 2
    return at


def ends_of_rows(text: bytes, delimiter: str) -> np.ndarray:
    """The positions after the newlines that end rows."""
    letters = np.frombuffer(text, np.uint8)
    quotes = _places(letters, QUOTE)
    if quotes_are_sound(letters, quotes, delimiter):
        return _outside(quotes, _places(letters, NEWLINE)) + 1
    return np.array(walk(text, delimiter).ends, np.intp)


def end_of_row(text: bytes, is_first: bool, delimiter: str) -> int:
    """The position after the first or the last end of a row; 0 if there is none."""
    if QUOTE not in text:
        return end_of_line(text, is_first)
    ends = ends_of_rows(text, delimiter)
    return int(ends[0 if is_first else -1]) if ends.size else 0


def tidy(text: bytes, delimiter: str) -> tuple[bytes, int] | None:
    """Rows without carriage returns at their ends, and the number of those that are not empty.

    None if there is a misplaced carriage return or quote.
    """
    if QUOTE not in text:
        text = text.replace(b"\r\n", NEWLINE)
        if RETURN in text:  # line ends that were converted twice
            text = RETURNS.sub(NEWLINE, text)
        newlines = _places(np.frombuffer(text, np.uint8), NEWLINE)
        return None if RETURN in text else (text, _count(newlines))
    letters = np.frombuffer(text, np.uint8)
    quotes = _places(letters, QUOTE)
    if quotes.size % 2 or not quotes_are_sound(letters, quotes, delimiter):
        return None
    if RETURN in text:
        returns = _outside(quotes, _places(letters, RETURN))
        behind = letters[returns + 1]
        if ((behind != ord(NEWLINE)) & (behind != ord(RETURN))).any():
            return None
        letters = np.delete(letters, returns)
        text = letters.tobytes()
        quotes -= np.searchsorted(returns, quotes)
    return text, _count(_outside(quotes, _places(letters, NEWLINE)))


def quotes_are_sound(letters: np.ndarray, quotes: np.ndarray, delimiter: str) -> bool:
    """Whether quotes only enclose values, or are doubled inside; the last may still be open."""
    if not quotes.size:
        return True
    at_edge = np.zeros(256, bool)
    at_edge[[ord(QUOTE), ord(NEWLINE), ord(delimiter)]] = True
    opening, closing = quotes[::2], quotes[1::2]
    if not (at_edge[letters[opening - 1]] | (opening == 0)).all():
        return False
    at_edge[ord(RETURN)] = True
    behind = np.minimum(closing + 1, letters.size - 1)
    return bool((at_edge[letters[behind]] | (closing == behind)).all())


def outside_of_quotes(row: bytes, letter: str | bytes) -> np.ndarray:
    """The positions of a character outside of quotes in a valid row."""
    letters = np.frombuffer(row, np.uint8)
    return _outside(_places(letters, QUOTE), _places(letters, letter))


def _places(letters: np.ndarray, letter: str | bytes) -> np.ndarray:
    return np.flatnonzero(letters == ord(letter))


def _outside(quotes: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The places with an even number of quotes before them."""
    return places[np.searchsorted(quotes, places) % 2 == 0] if quotes.size else places


def _count(newlines: np.ndarray) -> int:
    """The number of rows that are not empty."""
    return int(np.count_nonzero(np.diff(newlines, prepend=-1) > 1))
