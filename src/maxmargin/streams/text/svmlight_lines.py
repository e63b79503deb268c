"""Lines of svmlight text: ``label[:weight] [qid:number] column:value ... [# comment]``."""

from __future__ import annotations

import numpy as np

from maxmargin.core.numba_backend import Compiled, helper
from maxmargin.streams.text.decimals import (
    BROKEN,
    LEFT_TO_PYTHON,
    TOO_LARGE,
    is_digit,
    leading_zero_digits,
    read_number,
)
from maxmargin.streams.text.words import byte_at, read_digits

NEWLINE, RETURN, SPACE, TAB, COMMENT, COLON, MINUS = 10, 13, 32, 9, 35, 58, 45
LARGEST_COLUMN = 2**31 - 2
DIGITS_OF_COLUMN = 15  # that fit into an integer

# Messages for the error codes of compiled code.
TROUBLES = (
    "",
    "expected a label, a number",
    "the label is too large for a number",
    "expected 'column:value'",
    "the column is not a number below 2147483647",
    "the columns must be in ascending order",
    "a column occurs twice",
    "there is a column 0, but columns were taken to begin with 1",
    "expected a number after the colon",
    "the value is too large for a number",
    "expected a weight after the colon, a number that is not negative",
    "the weight is too large for a number",
)
(
    NO_TROUBLE,
    BAD_LABEL,
    LARGE_LABEL,
    NO_COLUMN,
    BAD_COLUMN,
    UNSORTED,
    REPEATED,
    COLUMN_ZERO,
    BAD_VALUE,
    LARGE_VALUE,
    BAD_WEIGHT,
    LARGE_WEIGHT,
) = range(len(TROUBLES))

# The counts that `parse` returns.
COUNTS = np.dtype(
    [
        *(("rows", "i8"), ("entries", "i8"), ("lines", "i8"), ("slow", "i8"), ("skipped", "i8")),
        ("weighted", "i8"),
        *(("first_column", "i8"), ("last_column", "i8")),
        *(("trouble", "i8"), ("trouble_line", "i8"), ("trouble_at", "i8"), ("line_at", "i8")),
    ],
    align=True,
)


@helper
def is_end(byte):  # type: ignore[no-untyped-def]
    """Whether a token ends here."""
    return byte <= SPACE and byte in (SPACE, NEWLINE, TAB, RETURN)


@helper
def is_behind(text, at):  # type: ignore[no-untyped-def]
    """Whether a token has ended here, or a comment begins."""
    return is_end(byte_at(text, at)) or byte_at(text, at) == COMMENT


@helper
def skip_spaces(text, at):  # type: ignore[no-untyped-def]
    while byte_at(text, at) == SPACE or byte_at(text, at) == TAB or byte_at(text, at) == RETURN:
        at += 1
    return at


@helper
def skip_query(text, at):  # type: ignore[no-untyped-def]
    """The position after ``qid:number``, if it comes next."""
    if (
        byte_at(text, at) != 113
        or byte_at(text, at + 1) != 105
        or byte_at(text, at + 2) != 100
        or byte_at(text, at + 3) != COLON
    ):
        return at
    end = at + 4
    while is_digit(byte_at(text, end)):
        end += 1
    if end > at + 4 and is_behind(text, end):
        return skip_spaces(text, end)
    return at


@helper
def read_column(text, at):  # type: ignore[no-untyped-def]
    """The column at ``text[at]``, -1 if there is none, and the position after it."""
    number, end = read_digits(text, at, np.uint64(0))
    if end == at:
        return np.int64(-1), at
    if end - at > DIGITS_OF_COLUMN and end - at > DIGITS_OF_COLUMN + leading_zero_digits(text, at):
        return np.int64(LARGEST_COLUMN + 1), end
    return np.int64(number), end


@helper
def read_weight(text, at):  # type: ignore[no-untyped-def]
    """The weight at ``text[at]``, without a minus sign, the position after it, and the outcome."""
    if byte_at(text, at) == MINUS:
        return 0.0, at, BROKEN
    return read_number(text, at)


@Compiled
def count(text):  # type: ignore[no-untyped-def]
    """The number of lines, and of colons."""
    lines = colons = 0
    for byte in text:
        lines += byte == NEWLINE
        colons += byte == COLON
    return lines, colons


@helper
def noted(slow, left, outcome, begin, end, which):  # type: ignore[no-untyped-def]
    """Record a number that Python has to read; returns how many there are now."""
    if outcome != LEFT_TO_PYTHON:
        return left
    slow[left, 0], slow[left, 1], slow[left, 2] = begin, end, which
    return left + 1


@helper
def read_label(text, at, row, labels, slow, left):  # type: ignore[no-untyped-def]
    """Read the label of a row, and its weight if there is one.

    Returns the weight, whether there is one, the position after it, the number of entries of
    ``slow``, and the error code.
    """
    begin = at
    labels[row], at, outcome = read_number(text, begin)
    left = noted(slow, left, outcome, begin, at, -1 - row)
    has_weight = outcome != BROKEN and byte_at(text, at) == COLON
    if outcome == BROKEN or not (has_weight or is_behind(text, at)):
        return 1.0, False, begin, left, BAD_LABEL
    if outcome == TOO_LARGE:
        return 1.0, False, begin, left, LARGE_LABEL
    if not has_weight:
        return 1.0, False, at, left, NO_TROUBLE
    begin = at + 1
    weight, at, outcome = read_weight(text, begin)
    left = noted(slow, left, outcome, begin, at, -1 - labels.size - row)
    if outcome == BROKEN or not is_behind(text, at):
        return weight, True, begin, left, BAD_WEIGHT
    if outcome == TOO_LARGE:
        return weight, True, begin, left, LARGE_WEIGHT
    return weight, True, at, left, NO_TROUBLE


@helper
def column_trouble(column, before, shift, is_followed):  # type: ignore[no-untyped-def]
    """The error code of a column after another one; ``is_followed`` if a colon comes next."""
    if column < 0 or not is_followed:
        return NO_COLUMN
    if column > LARGEST_COLUMN:
        return BAD_COLUMN
    if column <= before:
        return REPEATED if column == before else UNSORTED
    return COLUMN_ZERO if column < shift else NO_TROUBLE


@helper
def read_entries(text, at, shift, entry, values, columns, slow, left):  # type: ignore[no-untyped-def]
    """Read entries ``column:value`` up to the end of the line or a comment.

    Returns the first and the last column, -1 if there are none, the position after them, the
    numbers of entries and of entries of ``slow``, and the error code.
    """
    first = before = np.int64(-1)
    while byte_at(text, at) != NEWLINE and byte_at(text, at) != COMMENT:
        begin = at
        column, at = read_column(text, begin)
        trouble = column_trouble(column, before, shift, byte_at(text, at) == COLON)
        if trouble != NO_TROUBLE:
            return first, before, begin, entry, left, trouble
        begin = at + 1
        values[entry], at, outcome = read_number(text, begin)
        columns[entry] = np.int32(column - shift)
        left = noted(slow, left, outcome, begin, at, entry)
        if outcome == BROKEN or not is_behind(text, at):
            return first, before, begin, entry, left, BAD_VALUE
        if outcome == TOO_LARGE:
            return first, before, begin, entry, left, LARGE_VALUE
        if before < 0:
            first = column
        before = column
        entry += 1
        at = skip_spaces(text, at)
    return first, before, at, entry, left, NO_TROUBLE


@Compiled
def parse(text, shift, go_on, labels, weights, values, columns, starts, slow, lost, counts):  # type: ignore[no-untyped-def]
    """Read lines; the text ends with a newline.

    Columns are numbered from ``shift``. ``slow`` gets the numbers that Python has to read: begin,
    end, and the entry (``-1 - row`` for a label, ``-1 - labels.size - row`` for a weight). Indices
    of invalid rows, which are skipped, are written to ``lost``; the first one is described in
    ``counts``, and reading ends there unless ``go_on``. ``weights`` are written only if a row has
    one.
    """
    at, row, entry, line, left = 0, 0, 0, 0, 0
    first_column, last_column = np.int64(LARGEST_COLUMN), np.int64(-1)
    skipped = weighted = 0
    starts[0] = 0
    while at < text.size:
        line_at = at
        at = skip_spaces(text, at)
        entry_before, left_before = entry, left
        if byte_at(text, at) != NEWLINE and byte_at(text, at) != COMMENT:
            weight, has_weight, at, left, trouble = read_label(text, at, row, labels, slow, left)
            first = last = np.int64(-1)
            if trouble == NO_TROUBLE:
                at = skip_query(text, skip_spaces(text, at))
                first, last, at, entry, left, trouble = read_entries(
                    text, at, shift, entry, values, columns, slow, left
                )
            if trouble == NO_TROUBLE:
                if has_weight and weighted == 0:
                    weights[:row] = 1.0
                weighted += has_weight
                if weighted > 0:
                    weights[row] = weight
                row += 1
                starts[row] = entry
                if last >= 0:
                    first_column = min(first_column, first)
                    last_column = max(last_column, last)
            else:
                entry, left = entry_before, left_before
                lost[skipped] = row + skipped
                skipped += 1
                if skipped == 1:
                    counts[0].trouble, counts[0].trouble_line = trouble, line
                    counts[0].trouble_at, counts[0].line_at = at, line_at
                if not go_on:
                    break
        while byte_at(text, at) != NEWLINE:
            at += 1
        at += 1
        line += 1
    mine = counts[0]
    mine.rows, mine.entries, mine.lines, mine.slow, mine.skipped = row, entry, line, left, skipped
    mine.first_column, mine.last_column, mine.weighted = first_column, last_column, weighted
