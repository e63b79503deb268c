"""What the columns of a table are for, by a glance at the first rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from maxmargin.streams.arrow import arrow, coded, is_numeric
from maxmargin.streams.column_kinds import (
    ISO_FORMAT,
    SECONDS_A_DAY,
    TIME,
    Boolean,
    Category,
    Column,
    Date,
    Number,
    Text,
    dates_of,
    decoded,
    is_text,
    naming,
    written_numbers,
)
from maxmargin.streams.csv_text import BLANKS, FALSE, LEADING_ZERO, NUMBER, TRUE, are_enough
from maxmargin.streams.source import StreamError

# Rows that are looked at.
GLANCE = 5000
KINDS = ("number", "boolean", "category", "hashed", "text", "date", "drop")
# Formats of dates that are tried, in this order, with and without a time.
DAYS = (ISO_FORMAT, "%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y")
TIMES = ("", " %H:%M", " %H:%M:%S")
# So many words on average, and so few repetitions, are sentences rather than names.
WORDS_OF_SENTENCES, DISTINCT_SENTENCES = 3.0, 0.2
# A column with so many different values, of so many, tells rows apart.
DISTINCT_NAMES, ENOUGH_NAMES = 0.9, 50
# No date has fewer digits; so many values are looked at before all formats are tried.
DIGITS_OF_DATES, FEW_VALUES = 4, 20
# With more different values, a column is not asked whether it is the label.
MOST_CLASSES = 1000
# From so many rows on it is known how many values a category has, about.
ENOUGH_ROWS, MORE_VALUES = 100, 10
# Names of such columns: id, user_id, "order no", userId; not "paid".
ID = re.compile(r"(?i:(^|[_\W])(id|uuid|guid|key|index|row|nr|no)$|^id[_\W])|(?<=[a-z])(Id|ID)$")


ALWAYS_THE_SAME = "constant so far"
# Of a column that is left out by a glance at the first rows, which may be wrong.
IDENTIFIER = "an identifier: each row has its own value"


class Found(NamedTuple):
    """What a column was taken for."""

    name: str
    column: Column | None  # None if it is left out
    gaps: bool  # are there values missing?
    note: str = ""  # what a reader should know of it


class Choices(NamedTuple):
    """What the parameters of a recipe say of all columns."""

    kinds: Mapping[str, str]
    decimal: str
    hashes: bool
    bits: int
    seed: int
    most: int
    na: Sequence[str]


def found(name: str, column: Any, labels: np.ndarray | None, choices: Choices) -> Found:
    """What a column is for, by its first values and by the kind that was given for it."""
    given = choices.kinds.get(name)
    base, _, format = ("" if given is None else given).partition(":")
    if format:
        check_format(name, format)
    if given is not None and (base not in KINDS or (format and base != "date")):
        raise StreamError(
            f"the kind of column {name!r} must be one of {', '.join(KINDS)}, not {given!r}."
        )
    if base == "drop":
        return Found(name, None, False, "")
    with naming(name, column):
        values = Sample(name, column, choices)
        one = values.guess() if given is None else values.taken_for(base, format)
        note = one.note or (warning(values, labels) if one.column is not None else "")
    return one._replace(note=note)


def check_format(name: str, format: str) -> None:
    try:
        datetime.strptime(datetime(2001, 2, 3).strftime(format), format)
    except ValueError:
        raise StreamError(f"column {name!r}: {format!r} is not a date format.") from None


def warning(values: Sample, labels: np.ndarray | None) -> str:
    """What is suspicious about a column that is used."""
    if values.differ():
        return ""
    codes, count = values.codes()
    if count == 0:
        return "only missing values so far"
    if count == 1:
        return ALWAYS_THE_SAME
    if labels is not None and labels.size == codes.size and count <= MOST_CLASSES:
        _, classes = np.unique(labels, return_inverse=True)
        known = codes >= 0
        pairs = np.unique(codes[known] * (classes.max(initial=0) + 1) + classes[known]).size
        if count == pairs == np.unique(classes[known]).size > 1:
            return "determines the label exactly (label leakage?)"
    return ""


class Sample:
    """The first values of a column."""

    def __init__(self, name: str, column: Any, choices: Choices) -> None:
        self.name, self.column, self.choices = name, decoded(column), choices
        self.is_coded = self.column is not column
        self.is_text, self.is_plain = is_text(column), True
        # The distinct texts that are not missing, and how often each is there.
        self.present, self._counts = list[str](), np.zeros(0, np.int64)
        if self.is_text:
            codes, texts = coded(column)
            there = np.array([*(text.strip() not in choices.na for text in texts), False])
            known = [texts[k] for k in np.flatnonzero(there)]
            # CSV reads numbers of themselves if there is nothing but blanks around them.
            self.is_plain = all(NUMBER.fullmatch(text.strip(BLANKS)) for text in known)
            self.present = [text.strip() for text in known]
            self._counts = np.bincount(codes, minlength=there.size)[there]
            self._codes = np.where(there[codes], codes, -1)

    def differ(self) -> bool:
        """Are these numbers with so many distinct values that they cannot name classes?"""
        if self.is_text:
            return False
        first = self.column.slice(0, 4 * MOST_CLASSES).combine_chunks()
        return len(first.unique().drop_null()) > MOST_CLASSES + 1  # NaN may be one of them

    def codes(self) -> tuple[np.ndarray, int]:
        """Numbers of distinct values, -1 for what is missing, and how many there are."""
        if not self.is_text:
            pc = arrow("pyarrow.compute")
            encoded = pc.dictionary_encode(self.column.combine_chunks())
            missing = pc.is_null(self.column, nan_is_null=True).to_numpy()
            self._codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            self._codes = np.where(missing, -1, self._codes)
        codes = self._codes.astype(np.int64)
        counts = np.bincount(codes[codes >= 0], minlength=1)
        return codes, int(np.count_nonzero(counts))

    def gaps(self) -> bool:
        if not self.is_text:
            pc = arrow("pyarrow.compute")
            return bool(pc.any(pc.is_null(self.column, nan_is_null=True)).as_py())
        return bool((self._codes < 0).any())

    def guess(self) -> Found:
        types, kind = arrow("pyarrow.types"), self.column.type
        if self.is_coded:
            return self.taken_for("category")
        if not self.is_text:
            if types.is_boolean(kind):
                return self.taken_for("boolean")
            if types.is_temporal(kind) and not types.is_time(kind) and not types.is_duration(kind):
                return self.taken_for("date")
            if not is_numeric(kind):
                note = "empty" if types.is_null(kind) else f"of the type {kind}, which is not read"
                return Found(self.name, None, False, note)
            return self._dropped_if_counting("number")
        if not self.present:
            return Found(self.name, None, True, "empty")
        if all(text in TRUE or text in FALSE for text in self.present):
            return self.taken_for("boolean")
        plain = [NUMBER.fullmatch(text) is not None for text in self.present]
        if are_enough(plain, self._counts) or self._decimal() is not None:
            if not any(LEADING_ZERO.fullmatch(text) for text in self.present):
                return self._dropped_if_counting("number")
            names = self._names_or_sentences()
            return names._replace(note=names.note or "leading zeros: treated as names, not numbers")
        if self._date_format() is not None:
            return self.taken_for("date")
        return self._names_or_sentences()

    def _decimal(self) -> str | None:
        """The sign before decimals by which nearly all values are numbers."""
        texts = arrow().chunked_array([self.present])
        for decimal in sorted(".,", key=lambda sign: sign != self.choices.decimal):
            _, bad = written_numbers(texts, decimal)
            if are_enough(~bad, self._counts):
                return decimal
        return None

    def _dropped_if_counting(self, kind: str) -> Found:
        """A number for each row that only says which row it is."""
        taken = self.taken_for(kind)
        assert isinstance(taken.column, Number)
        numbers = taken.column.read(self.column, self.choices.na).numbers
        assert numbers is not None
        known = numbers[np.isfinite(numbers)]
        is_whole = bool((known == np.round(known)).all())
        if known.size < ENOUGH_NAMES or not is_whole or np.unique(known).size < known.size:
            return taken
        counts = bool((np.diff(known) == 1.0).all())
        is_identifier = counts or ID.search(self.name)
        return Found(self.name, None, False, IDENTIFIER) if is_identifier else taken

    def _names_or_sentences(self) -> Found:
        codes, count = self.codes()
        rows = int((codes >= 0).sum())
        words = float(np.mean([len(text.split()) for text in self.present]))
        if words >= WORDS_OF_SENTENCES and count >= DISTINCT_SENTENCES * rows:
            return self.taken_for("text")
        if rows >= ENOUGH_NAMES and count == rows and ID.search(self.name):
            return Found(self.name, None, False, IDENTIFIER)
        if rows >= ENOUGH_NAMES and count >= DISTINCT_NAMES * rows:
            # In later rows they may come again.
            return self.taken_for("hashed")._replace(note="nearly each row has its own value")
        if count > self.choices.most and not self.choices.hashes:
            return self.taken_for("hashed")._replace(note=f"more than {self.choices.most:,} values")
        return self.taken_for("category")

    def _date_format(self) -> str | None:
        """The first format that fits nearly all values."""
        first = self.present[:FEW_VALUES]
        if sum(sum(map(str.isdigit, text)) >= DIGITS_OF_DATES for text in first) < len(first) / 2:
            return None  # of words that is known quickly
        texts = arrow().chunked_array([self.present])
        for day in DAYS:
            for time in TIMES if day != ISO_FORMAT else ("",):
                _, _, bad = dates_of(texts, day + time)
                if bad is not None and are_enough(~bad, self._counts):
                    return day + time
        return None

    def taken_for(self, kind: str, format: str = "") -> Found:
        return Found(self.name, self._column(kind, format), self.gaps())

    def _column(self, kind: str, format: str) -> Column | None:
        name, choices = self.name, self.choices
        if kind == "number":
            if self.is_plain or not self.present:
                return Number(name, choices.decimal)
            return Number(name, self._decimal() or choices.decimal, written=True)
        if kind == "boolean":
            return Boolean(name)
        if kind == "text":
            return Text(name, choices.bits, choices.seed)
        if kind == "date":
            return self._date(format)
        # Twice as many values as there are, and some more; the most if there are few rows.
        (codes, count), capacity = self.codes(), choices.most
        if codes.size >= ENOUGH_ROWS:
            capacity = min(capacity, 2 * count + MORE_VALUES)
        return Category(name, capacity, hashed=choices.hashes or kind == "hashed")

    def _date(self, format: str) -> Date:
        format = format or (self.is_text and self._date_format()) or ISO_FORMAT
        if format != ISO_FORMAT:
            return Date(self.name, format, TIME.search(format) is not None)
        times, missing, bad = dates_of(self.column, format, self.choices.na)
        known = times[~(missing if bad is None else missing | bad)]
        return Date(self.name, format, bool((known % SECONDS_A_DAY != 0).any()))
