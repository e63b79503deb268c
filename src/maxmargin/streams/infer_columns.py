"""The kinds of the columns of a table, inferred from the first rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from maxmargin.streams.arrow import (
    FALSE,
    LEADING_ZERO,
    NUMBER,
    TRUE,
    are_enough,
    arrow,
    coded,
    is_numeric,
)
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
)
from maxmargin.streams.source import StreamError

# Number of rows that kinds are inferred from.
GLANCE = 5000
KINDS = ("number", "boolean", "category", "hashed", "text", "date", "drop")
# Formats of dates, in the order in which they are tried, with and without a time.
DAYS = (ISO_FORMAT, "%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y")
TIMES = ("", " %H:%M", " %H:%M:%S")
# Mean number of words, and share of distinct values, of sentences rather than names.
WORDS_OF_SENTENCES, DISTINCT_SENTENCES = 3.0, 0.2
# Share of distinct values, among at least so many, of a column that identifies rows.
DISTINCT_NAMES, ENOUGH_NAMES = 0.9, 50
# The least number of digits in a date, and how many values are checked for it first.
DIGITS_OF_DATES, FEW_VALUES = 4, 20
# A column with more distinct values is not compared with the label.
MOST_CLASSES = 1000
# Names of identifiers: id, user_id, "order no", userId; not "paid".
ID = re.compile(r"(?i:(^|[_\W])(id|uuid|guid|key|index|row|nr|no)$|^id[_\W])|(?<=[a-z])(Id|ID)$")

# Notes on columns; the first rows may be misleading.
ALWAYS_THE_SAME = "constant so far"
UNREAD = "which is not read"
IDENTIFIER = "an identifier: each row has its own value"


class Found(NamedTuple):
    """The inferred use of a column."""

    name: str
    column: Column | None  # None if it is left out
    gaps: bool  # are values missing?
    note: str = ""  # a remark for users


class RecipeOptions(NamedTuple):
    """The parameters of a `Recipe`."""

    kinds: Mapping[str, str]
    scale: bool
    missing: str
    hashes: bool
    max_categories: int
    hash_bits: int
    interactions: Sequence[tuple[str, str]]
    na: Sequence[str]  # all spellings of missing values


def found(name: str, column: Any, labels: np.ndarray | None, options: RecipeOptions) -> Found:
    """The use of a column, by its first values or by the kind given for it."""
    given = options.kinds.get(name)
    base, _, format = ("" if given is None else given).partition(":")
    if format:
        try:
            datetime.strptime(datetime(2001, 2, 3).strftime(format), format)
        except ValueError:
            raise StreamError(f"column {name!r}: {format!r} is not a date format.") from None
    if given is not None and (base not in KINDS or (format and base != "date")):
        raise StreamError(
            f"the kind of column {name!r} must be one of {', '.join(KINDS)}, not {given!r}."
        )
    if base == "drop":
        return Found(name, None, False)
    with naming(name, column):
        values = Sample(name, column, options)
        one = values.guess() if given is None else values.taken_for(base, format)
        note = one.note or (warning(values, labels) if one.column is not None else "")
    return one._replace(note=note)


def warning(values: Sample, labels: np.ndarray | None) -> str:
    """A warning about a column that is used, or an empty string."""
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


def is_written_value(text: str) -> bool:
    """Whether a number or a truth value is written as this text."""
    if text in TRUE or text in FALSE:
        return True
    return NUMBER.fullmatch(text) is not None and LEADING_ZERO.fullmatch(text) is None


class Sample:
    """The first values of a column."""

    def __init__(self, name: str, column: Any, options: RecipeOptions) -> None:
        self.name, self.column, self.options = name, decoded(column), options
        self.is_coded = self.column is not column
        self.is_text = is_text(column)
        # The distinct texts, without those for missing values, and their counts.
        self.known, self._counts = list[str](), np.zeros(0, np.int64)
        if self.is_text:
            codes, texts = coded(column)
            there = np.array([*(text.strip() not in options.na for text in texts), False])
            known = [texts[k] for k in np.flatnonzero(there)]
            self.known = [text.strip() for text in known]
            self._counts = np.bincount(codes, minlength=there.size)[there]
            self._codes = np.where(there[codes], codes, -1)

    def differ(self) -> bool:
        """Whether these are numbers with too many distinct values to name classes."""
        if self.is_text:
            return False
        first = self.column.slice(0, 4 * MOST_CLASSES).combine_chunks()
        return len(first.unique().drop_null()) > MOST_CLASSES + 1  # NaN may be one of them

    def codes(self) -> tuple[np.ndarray, int]:
        """Codes of the distinct values, -1 for missing ones, and the number of values."""
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
                note = "empty" if types.is_null(kind) else f"of the type {kind}, {UNREAD}"
                return Found(self.name, None, False, note)
            return self._number_or_identifier()
        if not self.known:
            return Found(self.name, None, True, "empty")
        if all(text in TRUE or text in FALSE for text in self.known):
            return self.taken_for("boolean")
        if are_enough([NUMBER.fullmatch(text) is not None for text in self.known], self._counts):
            if not any(LEADING_ZERO.fullmatch(text) for text in self.known):
                return self._number_or_identifier()
            names = self._names_or_sentences()
            return names._replace(note=names.note or "leading zeros: treated as names, not numbers")
        if self._date_format() is not None:
            return self.taken_for("date")
        return self._names_or_sentences()

    def _number_or_identifier(self) -> Found:
        """A column of numbers, dropped if they only count or identify the rows."""
        taken = self.taken_for("number")
        assert isinstance(taken.column, Number)
        numbers = taken.column.read(self.column, self.options.na).numbers
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
        words = float(np.mean([len(text.split()) for text in self.known]))
        if words >= WORDS_OF_SENTENCES and count >= DISTINCT_SENTENCES * rows:
            return self.taken_for("text")
        if rows >= ENOUGH_NAMES and count == rows and ID.search(self.name):
            return Found(self.name, None, False, IDENTIFIER)
        if rows >= ENOUGH_NAMES and count >= DISTINCT_NAMES * rows:
            # They may recur in later rows.
            return self.taken_for("hashed")._replace(note="nearly each row has its own value")
        if count > self.options.max_categories and not self.options.hashes:
            return self.taken_for("hashed")._replace(
                note=f"more than {self.options.max_categories:,} values"
            )
        return self.taken_for("category")

    def _date_format(self) -> str | None:
        """The first format that nearly all values have."""
        first = self.known[:FEW_VALUES]
        if sum(sum(map(str.isdigit, text)) >= DIGITS_OF_DATES for text in first) < len(first) / 2:
            return None  # words are recognized quickly
        texts = arrow().chunked_array([self.known])
        for day in DAYS:
            for time in TIMES if day != ISO_FORMAT else ("",):
                _, _, bad = dates_of(texts, day + time)
                if bad is not None and are_enough(~bad, self._counts):
                    return day + time
        return None

    def taken_for(self, kind: str, format: str = "") -> Found:
        return Found(self.name, self._column(kind, format), self.gaps())

    def _column(self, kind: str, format: str) -> Column | None:
        name, options = self.name, self.options
        if kind == "number":
            return Number(name)
        if kind == "boolean":
            return Boolean(name)
        if kind == "text":
            return Text(name, options.hash_bits)
        if kind == "date":
            return self._date(format)
        names = not all(map(is_written_value, self.known))
        is_hashed = options.hashes or kind == "hashed"
        return Category(name, options.max_categories, is_hashed, names)

    def _date(self, format: str) -> Date:
        format = format or (self.is_text and self._date_format()) or ISO_FORMAT
        if format != ISO_FORMAT:
            return Date(self.name, format, TIME.search(format) is not None)
        times, missing, bad = dates_of(self.column, format, self.options.na)
        known = times[~(missing if bad is None else missing | bad)]
        return Date(self.name, format, bool((known % SECONDS_A_DAY != 0).any()))
