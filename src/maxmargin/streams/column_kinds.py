"""Kinds of columns of a table, and how each encodes its values.

This part of a recipe depends on single rows: it may run ahead of learning, in other threads.
"""

from __future__ import annotations

import abc
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.feature_extraction import FeatureHasher
from sklearn.preprocessing import normalize

from maxmargin.streams.arrow import (
    FALSE,
    MISSING,
    NAMES,
    TRUE,
    arrow,
    as_text,
    coded,
    is_string,
    kind_of,
    learned_as_text,
    numbers_of,
    remedies,
)
from maxmargin.streams.feature_rows import NOWHERE
from maxmargin.streams.source import StreamError

# Sums of squares of larger numbers may overflow.
LARGEST_NUMBER = 1e100
# A time zone as an offset from UTC.
OFFSET = re.compile(r"(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)")
DIGITS = r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$"
NOT_A_NUMBER = r"(?i)^[+-]?nan$"
YES, NO = (*TRUE, "1"), (*FALSE, "0")
# Words as scikit-learn's vectorizers find them, and ends of rows.
WORD_OR_END = re.compile(r"\w\w+|\n")
SECONDS_A_DAY = 86_400
ROWS_COPIED = 1024  # together: they stay in the cache
PARTS_OF_SECONDS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
# Invalid dates such as 30 February are parsed as one of the first days of the next month.
DAYS_TOO_LATE = 3
DATE_PARTS = {"month": 12, "weekday": 7, "hour": 24}
TIME = re.compile(r"%[HIMSpTR]")
# With or without a time; fractions of seconds and zones are ignored.
ISO_FORMAT = "%Y-%m-%d"


class Values(NamedTuple):
    """The encoded values of a column."""

    missing: np.ndarray | None  # None if it is not known yet, see `checked`
    numbers: np.ndarray | None = None  # with NaN for missing values
    # Features with the value 1, within those of this column; `NOWHERE` for none.
    places: Sequence[np.ndarray] = ()
    # Codes of the distinct values in order of appearance, and the values; the next code means a
    # missing value.
    codes: np.ndarray | None = None
    texts: Sequence[str] = ()
    words: Any = None  # counts of hashed words, a CSR matrix
    bad: np.ndarray | None = None  # rows with an invalid value

    def checked(self) -> Values:
        """The same, with missing and too large numbers marked."""
        if self.missing is not None or self.numbers is None:
            return self
        large = np.abs(self.numbers) > LARGEST_NUMBER
        return self._replace(missing=np.isnan(self.numbers), bad=large if large.any() else None)


class Column(abc.ABC):
    """A column of a table.

    Attributes
    ----------
    name : str
    kind : str
    has_number, is_scaled : bool
        Whether a row has a number, and whether it is standardized.
    parts : dict of int
        Names and sizes of groups of features of which a row has at most one.
    """

    name: str
    kind: ClassVar[str]
    has_number: ClassVar[bool] = False
    is_scaled: ClassVar[bool] = False

    @property
    def parts(self) -> Mapping[str, int]:
        return {}

    def input_kind(self) -> str:
        """The kind as which CSV and dicts are read."""
        return "text"

    @abc.abstractmethod
    def read(self, column: Any, na: Sequence[str] = MISSING) -> Values:
        """Encode values; ``na`` are the spellings of missing ones."""


@dataclass(frozen=True)
class Number(Column):
    """Numbers, also as text."""

    name: str

    kind: ClassVar[str] = "number"
    has_number: ClassVar[bool] = True
    is_scaled: ClassVar[bool] = True

    def input_kind(self) -> str:
        return "number"

    def read(self, column: Any, na: Sequence[str] = MISSING) -> Values:
        if not is_text(column):
            return Values(None, _numbers(column))
        numbers, bad = numbers_in(column, na)
        missing, large = np.isnan(numbers) & ~bad, np.abs(numbers) > LARGEST_NUMBER
        return Values(missing, numbers, bad=bad | large)


@dataclass(frozen=True)
class Boolean(Column):
    """Truth values, as 0 and 1."""

    name: str

    kind: ClassVar[str] = "boolean"
    has_number: ClassVar[bool] = True

    def read(self, column: Any, na: Sequence[str] = MISSING) -> Values:
        if not is_text(column):
            numbers = _numbers(column)
            missing = np.isnan(numbers)
            return Values(missing, numbers, bad=~((numbers == 0.0) | (numbers == 1.0) | missing))
        codes, texts = coded(column)
        stripped = [text.strip() for text in texts]
        known = [1.0 if each in YES else 0.0 if each in NO else np.nan for each in stripped]
        numbers = np.array([*known, np.nan])[codes]
        missing = np.array([*(each in na for each in stripped), True])[codes]
        return Values(missing, numbers, bad=np.isnan(numbers) & ~missing)


@dataclass(frozen=True)
class Category(Column):
    """Values with features in order of appearance, or determined by a hash."""

    name: str
    capacity: int  # the number of values that have features
    hashed: bool = False
    names: bool = False  # values are text that no number or truth value is written as

    kind: ClassVar[str] = "category"

    def input_kind(self) -> str:
        return NAMES if self.names else "text"

    def read(self, column: Any, na: Sequence[str] = MISSING) -> Values:
        if self.names:
            check_text(self.name, column)
        codes, texts = _words_of(column, na)
        return Values(codes == len(texts), codes=codes, texts=texts)


@dataclass(frozen=True)
class Text(Column):
    """Sentences: hashed words, scaled to norm 1."""

    name: str
    bits: int

    kind: ClassVar[str] = "text"

    def input_kind(self) -> str:
        return NAMES

    def read(self, column: Any, na: Sequence[str] = MISSING) -> Values:
        check_text(self.name, column)
        pa, gaps = arrow(), {None, *na}
        rows = as_text(column).to_pylist()
        missing = np.array([(row and row.strip()) in gaps for row in rows], bool)
        lines = ("" if gone else row for row, gone in zip(rows, missing, strict=True))
        text = "".join(f"{line.replace(chr(10), ' ')}\n" for line in lines).lower()
        # Each distinct word is hashed once; the first code is that of the ends.
        found = pa.array(["\n", *WORD_OR_END.findall(text)]).dictionary_encode()
        names = ([f"{self.name}={word}"] for word in found.dictionary.to_pylist())
        buckets, codes = hasher(self.bits).transform(names).indices, found.indices.to_numpy()
        ends = np.flatnonzero(codes == 0)
        entries = buckets[codes[codes != 0]]
        parts = np.ones(entries.size), entries, ends - np.arange(ends.size)
        words = sparse.csr_matrix(parts, shape=(len(rows), 2**self.bits))
        words.sum_duplicates()
        return Values(missing, words=normalize(words, copy=False) if rows else words)


@dataclass(frozen=True)
class Date(Column):
    """Dates: the age in days as a number, and month, day of the week and hour."""

    name: str
    format: str = ISO_FORMAT  # of text, as in `time.strptime`; ISO dates are read as well
    has_time: bool = False

    kind: ClassVar[str] = "date"
    has_number: ClassVar[bool] = True
    is_scaled: ClassVar[bool] = True

    @property
    def parts(self) -> Mapping[str, int]:
        return DATE_PARTS if self.has_time else {**DATE_PARTS, "hour": 0}

    def read(self, column: Any, na: Sequence[str] = MISSING) -> Values:
        if is_text(column):  # there are few distinct days
            rows, texts = coded(column)
            each = dates_of(arrow().array([*texts, None], arrow().string()), self.format, na)
            times, missing = each[0][rows], each[1][rows]
            bad = None if each[2] is None else each[2][rows]
        else:
            times, missing, bad = dates_of(column, self.format, na)
        known = ~(missing if bad is None else missing | bad)
        seconds = np.where(known, times, 0)
        days, within = np.divmod(seconds, SECONDS_A_DAY)
        dates = days.astype("datetime64[D]")
        months = dates.astype("datetime64[M]").astype(np.int64) % 12
        parts = [months, (days + 3) % 7]  # 1970 began on a Thursday
        if self.has_time:
            parts.append(within * 24 // SECONDS_A_DAY)
        ages = np.where(known, seconds / SECONDS_A_DAY, np.nan)
        places = [np.where(known, part, NOWHERE) for part in parts]
        return Values(missing, ages, places, bad=bad)


def check_text(name: str, column: Any) -> None:
    """Raise if a column that was learned as text has values of another kind."""
    if not is_text(column) and not arrow("pyarrow.types").is_null(column.type):
        found = kind_of(column.type) or str(column.type)
        raise StreamError(learned_as_text(name, f"a {found} column ({column.type})"))


def hasher(bits: int) -> FeatureHasher:
    """Hashes texts such as "name=value" to ``2**bits`` buckets."""
    return FeatureHasher(2**bits, input_type="string", alternate_sign=False)


@contextmanager
def naming(name: str, column: Any) -> Iterator[None]:
    """Errors of pyarrow about the values of a column, with its name."""
    try:
        yield
    except MemoryError:
        raise  # some of pyarrow's are ArrowExceptions as well
    except arrow().ArrowNotImplementedError:
        raise StreamError(
            f"column {name!r}: values of the type {column.type} cannot be read."
        ) from None
    except arrow().ArrowException as problem:
        raise StreamError(f"column {name!r}: {problem}.") from None


def values_of(each: Column, table: Any, na: Sequence[str] = MISSING) -> Values:
    """The encoded values of a column of a table."""
    with naming(each.name, column := table[each.name]):
        return each.read(decoded(column), na)


def trouble(
    columns: Sequence[Column], table: Any, row: int, na: Sequence[str], allows_missing: bool
) -> tuple[str, str]:
    """The first column whose value in ``row`` is invalid, and why."""
    for each in columns:
        one = table.select([each.name]).slice(row, 1)
        values, value = values_of(each, one, na).checked(), one[each.name][0].as_py()
        if values.bad is not None and values.bad[0]:
            number = values.numbers
            if number is not None and abs(number[0]) > LARGEST_NUMBER:
                size = "infinite" if np.isinf(number[0]) else "too large"
                return each.name, f"the number is {size}"
            found = f"expected a {each.kind}, found {str(value)[:40]!r}"
            cure = remedies(each.name, value.strip()) if isinstance(value, str) else ""
            return each.name, f"{found}{cure}"
        is_missing = values.missing is not None and values.missing[0]
        if not allows_missing and each.has_number and is_missing:
            return each.name, f"the {each.kind} is missing"
    raise AssertionError("the row has no trouble")


def copy_columns(columns: Sequence[np.ndarray | None], out: np.ndarray) -> None:
    """Write columns into the first ones of a matrix, some rows at a time."""
    for begin in range(0, out.shape[0], ROWS_COPIED):
        rows = slice(begin, begin + ROWS_COPIED)
        for place, column in enumerate(columns):
            assert column is not None
            out[rows, place] = column[rows]


def decoded(column: Any) -> Any:
    """The values of a column of codes, unless they are text."""
    is_coded = arrow("pyarrow.types").is_dictionary(column.type) and not is_text(column)
    return column.cast(column.type.value_type) if is_coded else column


def _numbers(column: Any) -> np.ndarray:
    if kind_of(column.type) not in ("number", "boolean"):
        raise arrow().ArrowInvalid(f"values of type {column.type} are not numbers")
    return numbers_of(column)


def is_text(column: Any) -> bool:
    types, kind = arrow("pyarrow.types"), column.type
    if types.is_primitive(kind):  # the common case, tested quickly
        return False
    return is_string(kind.value_type if types.is_dictionary(kind) else kind)


def _words_of(column: Any, na: Collection[str]) -> tuple[np.ndarray, list[str]]:
    """Codes and values without surrounding blanks and missing values."""
    (codes, texts), na = coded(column), frozenset(na)
    if not any(text in na or text != text.strip() for text in texts):
        return codes, texts
    known: dict[str, int] = {}
    stripped = [text.strip() for text in texts]
    numbers = [NOWHERE if each in na else known.setdefault(each, len(known)) for each in stripped]
    places = np.array([*numbers, NOWHERE])
    places[places == NOWHERE] = len(known)
    return places[codes], list(known)


def numbers_in(column: Any, na: Sequence[str] = MISSING) -> tuple[np.ndarray, np.ndarray]:
    """Text as numbers, NaN where they are missing, and which values are invalid."""
    pa, pc = arrow(), arrow("pyarrow.compute")
    texts = pc.utf8_trim_whitespace(_chunk(as_text(column)))
    missing = _is_missing(texts, na)
    missing |= pc.match_substring_regex(texts, NOT_A_NUMBER).fill_null(False).to_numpy(False)
    fine = pc.match_substring_regex(texts, DIGITS).fill_null(False)
    digits = pc.if_else(fine, texts, pa.scalar(None, texts.type))
    numbers = digits.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return np.where(missing, np.nan, numbers), ~fine.to_numpy(zero_copy_only=False) & ~missing


def dates_of(
    column: Any, format: str, na: Sequence[str] = MISSING
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Seconds since 1970 in local time, which dates are missing, and which are invalid."""
    pa, pc, types = arrow(), arrow("pyarrow.compute"), arrow("pyarrow.types")
    kind = column.type
    if types.is_integer(kind) or types.is_floating(kind):  # such as 20201231
        column = column.cast(pa.string())
    elif not is_text(column):
        if not (types.is_date(kind) or types.is_timestamp(kind) or types.is_null(kind)):
            raise pa.ArrowInvalid(f"values of type {kind} are not dates")
        if not types.is_timestamp(kind):
            column = column.cast(pa.timestamp("s"), safe=False)
        elif kind.tz is not None:
            column = _local_times(column)
        times = _chunk(column)
        missing = times.is_null().to_numpy(zero_copy_only=False)
        return _whole(times) // PARTS_OF_SECONDS[times.type.unit], missing, None
    texts = pc.utf8_trim_whitespace(_chunk(as_text(column)))
    missing = _is_missing(texts, na)
    if format == ISO_FORMAT:
        times, fine = _iso_dates(texts)
        return times, missing, ~fine & ~missing
    found = pc.strptime(texts, format=format, unit="s", error_is_null=True)
    times, fine = _whole(found), found.is_valid().to_numpy(zero_copy_only=False)
    is_early = pc.less_equal(pc.day(found), DAYS_TOO_LATE).fill_null(False)
    for k in np.flatnonzero(is_early.to_numpy(zero_copy_only=False)).tolist():
        try:
            time.strptime(texts[k].as_py(), format)
        except ValueError:
            fine[k] = False
    bad = ~fine & ~missing
    if bad.any():
        iso, are_iso = _iso_dates(texts)
        times, bad = np.where(bad & are_iso, iso, times), bad & ~are_iso
    return times, missing, bad


def _local_times(column: Any) -> Any:
    """Local times; pyarrow before version 22 has none for zones given as offsets."""
    pa, pc, kind = arrow(), arrow("pyarrow.compute"), column.type
    offset = OFFSET.fullmatch(kind.tz)
    if offset is None:
        return pc.local_timestamp(column)
    hours, minutes = (int(offset["sign"] + offset[name]) for name in ("hours", "minutes"))
    ahead = pa.scalar(timedelta(hours=hours, minutes=minutes), pa.duration(kind.unit))
    return pc.add(column.cast(pa.timestamp(kind.unit)), ahead)


def _iso_dates(texts: Any) -> tuple[np.ndarray, np.ndarray]:
    """Seconds since 1970 of ISO dates, and which values are valid."""
    pc, format = arrow("pyarrow.compute"), "%Y-%m-%d %H:%M:%S"
    texts = _with_times(texts)
    times = pc.strptime(texts, format=format, unit="s", error_is_null=True)
    # 30 February would be read as 1 March.
    fine = pc.equal(pc.strftime(times, format=format), texts).fill_null(False)
    return _whole(times), fine.to_numpy(zero_copy_only=False)


def _is_missing(texts: Any, na: Sequence[str]) -> np.ndarray:
    pa, pc = arrow(), arrow("pyarrow.compute")
    missing = pc.or_kleene(texts.is_null(), pc.is_in(texts, pa.array(na, texts.type)))
    return np.array(missing.fill_null(True).to_numpy(zero_copy_only=False))


def _with_times(texts: Any) -> Any:
    """ISO dates, each with a time to the second."""
    pc = arrow("pyarrow.compute")
    texts = pc.replace_substring_regex(texts, r"^(\d{4}-\d\d-\d\d)$", r"\1 00:00:00")
    texts = pc.replace_substring_regex(
        texts, r"^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(Z|[+-]\d\d:?\d\d)?$", r"\1 \2:00"
    )
    whole = r"^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)([.,]\d+)?(Z| ?UTC|[+-]\d\d(:?\d\d)?)?$"
    return pc.replace_substring_regex(texts, whole, r"\1 \2")


def _chunk(column: Any) -> Any:
    return column.combine_chunks() if hasattr(column, "combine_chunks") else column


def _whole(times: Any) -> np.ndarray:
    return times.cast(arrow().int64()).fill_null(0).to_numpy(zero_copy_only=False)
