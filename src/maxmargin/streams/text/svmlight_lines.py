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
DIGITS_OF_COLUMN = 15  # surely fit into an integer

# What is wrong with a line: numbers that compiled code can hand over, and their meaning.
TROUBLES = (
    "",
    "expected a label, a number",
    "the label is too large for a number",
    "expected 'column:value'",
    "the column is not a number below 2147483647",
    "the columns must be in ascending order",
    "a column occurs twice",
    "there is a column 0, but columns were taken to begin with 1",
    "expected a number behind the colon",
    "the value is too large for a number",
    "expected a weight behind the colon, a number that is not negative",
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

# Counts that `parse` hands over.
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
    """Does a token end here?"""
    return byte <= SPACE and byte in (SPACE, NEWLINE, TAB, RETURN)


@helper
def is_behind(text, at):  # type: ignore[no-untyped-def]
    """Has a token ended here, or does a comment begin?"""
    return is_end(byte_at(text, at)) or byte_at(text, at) == COMMENT


@helper
def skip_spaces(text, at):  # type: ignore[no-untyped-def]
    while byte_at(text, at) == SPACE or byte_at(text, at) == TAB or byte_at(text, at) == RETURN:
        at += 1
    return at


@helper
def skip_query(text, at):  # type: ignore[no-untyped-def]
    """Behind ``qid:number``, if that is what comes."""
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
    """The number that begins at ``text[at]``, -1 if there is none, and the place behind it."""
    number, end = read_digits(text, at, np.uint64(0))
    if end == at:
        return np.int64(-1), at
    if end - at > DIGITS_OF_COLUMN and end - at > DIGITS_OF_COLUMN + leading_zero_digits(text, at):
        return np.int64(LARGEST_COLUMN + 1), end
    return np.int64(number), end


@helper
def read_weight(text, at):  # type: ignore[no-untyped-def]
    """The weight that begins at ``text[at]``, the place behind it, and what became of it.

    A minus is not part of one, also where Python would have to read the number to know its sign.
    """
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


@Compiled
def parse(text, shift, go_on, labels, weights, values, columns, starts, slow, counts):  # type: ignore[no-untyped-def]
    """Read lines; the text ends with a newline.

    Columns are counted from ``shift``. Numbers for Python to read are noted in ``slow``: where they
    begin and end, and which entry they are (``-1 - row`` for a label, and for a weight
    ``-1 - labels.size - row``). A line with a trouble is left out; the first one is described in
    ``counts``, and reading ends there unless ``go_on``. ``weights`` are written only if there is a
    row with one.
    """
    at, row, entry, line, left = 0, 0, 0, 0, 0
    first_column, last_column, skipped, weighted = LARGEST_COLUMN, np.int64(-1), 0, 0
    starts[0] = 0
    while at < text.size:
        line_at = at
        at = skip_spaces(text, at)
        trouble, entry_before, left_before = NO_TROUBLE, entry, left
        is_row = byte_at(text, at) != NEWLINE and byte_at(text, at) != COMMENT
        if is_row:
            begin = at
            label, at, outcome = read_number(text, at)
            labels[row] = label
            if outcome == LEFT_TO_PYTHON:
                slow[left, 0], slow[left, 1], slow[left, 2] = begin, at, -1 - row
                left += 1
            has_weight, weight = outcome != BROKEN and byte_at(text, at) == COLON, 1.0
            if outcome == BROKEN or not (has_weight or is_behind(text, at)):
                trouble, at = BAD_LABEL, begin
            elif outcome == TOO_LARGE:
                trouble, at = LARGE_LABEL, begin
            elif has_weight:
                begin = at + 1
                weight, at, outcome = read_weight(text, begin)
                if outcome == LEFT_TO_PYTHON:
                    slow[left, 0], slow[left, 1] = begin, at
                    slow[left, 2] = -1 - labels.size - row
                    left += 1
                if outcome == BROKEN or not is_behind(text, at):
                    trouble, at = BAD_WEIGHT, begin
                elif outcome == TOO_LARGE:
                    trouble, at = LARGE_WEIGHT, begin
            if trouble == NO_TROUBLE:
                at = skip_query(text, skip_spaces(text, at))
            before = np.int64(-1)
            while (
                trouble == NO_TROUBLE
                and byte_at(text, at) != NEWLINE
                and byte_at(text, at) != COMMENT
            ):
                begin = at
                column, at = read_column(text, at)
                if column < 0 or byte_at(text, at) != COLON:
                    trouble, at = NO_COLUMN, begin
                elif column > LARGEST_COLUMN:
                    trouble, at = BAD_COLUMN, begin
                elif column <= before:
                    trouble, at = (REPEATED if column == before else UNSORTED), begin
                elif column < shift:
                    trouble, at = COLUMN_ZERO, begin
                else:
                    begin = at + 1
                    value, at, outcome = read_number(text, begin)
                    values[entry] = value
                    columns[entry] = np.int32(column - shift)
                    if outcome == LEFT_TO_PYTHON:
                        slow[left, 0], slow[left, 1], slow[left, 2] = begin, at, entry
                        left += 1
                    if outcome == BROKEN or not is_behind(text, at):
                        trouble, at = BAD_VALUE, begin
                    elif outcome == TOO_LARGE:
                        trouble, at = LARGE_VALUE, begin
                    else:
                        if before < 0:
                            first_in_line = column
                        before = column
                        entry += 1
                        at = skip_spaces(text, at)
            if trouble == NO_TROUBLE:
                if has_weight and weighted == 0:
                    weights[:row] = 1.0
                weighted += has_weight
                if weighted > 0:
                    weights[row] = weight
                row += 1
                starts[row] = entry
                if before >= 0:
                    first_column = min(first_column, first_in_line)
                    last_column = max(last_column, before)
            else:
                entry, left = entry_before, left_before
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
