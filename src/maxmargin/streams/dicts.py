"""Rows given as dicts, as tables for a recipe."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import chain, islice
from numbers import Number
from typing import Any

import numpy as np

from maxmargin.streams.arrow import NAMES, WEIGHT, Piece, arrow, learned_as_text, place_behind
from maxmargin.streams.infer_columns import GLANCE
from maxmargin.streams.iterators import ROWS_AT_ONCE, as_row
from maxmargin.streams.source import Position, StreamError

# Names, which no dict has, of the columns of labels and weights beside dicts.
LABEL, WEIGHT_COLUMN = "\0label", "\0weight"
# The first rows, from which kinds are inferred, in whole pieces.
FIRST_ROWS = -(-GLANCE // ROWS_AT_ONCE) * ROWS_AT_ONCE


class DictReader:
    """Tables from an iterable of dicts, perhaps with labels and weights.

    A position is a number of rows. The columns are the names in the first rows; the value of a name
    that a dict lacks is missing.
    """

    total: int | None = None
    rows: int | None = None

    def __init__(self, rows: Iterable[Any]) -> None:
        self._rows, self.name = rows, f"<{type(rows).__name__}>"
        iterator = iter(rows)
        self.repeatable = iterator is not rows
        self._first = list(islice(iterator, FIRST_ROWS))
        self._rest = None if self.repeatable else iterator
        items = [self._item(item, k) for k, item in enumerate(self._first, 1)]
        self._has_label = any(label is not None for _, label, _ in items)
        self._has_weight = any(weight is not None for _, _, weight in items)
        self._names = list(dict.fromkeys(str(name) for row, _, _ in items for name in row))
        self._labels_are_text = any(isinstance(label, str) for _, label, _ in items)

    def kinds(self) -> dict[str, str | None]:
        found: dict[str, str | None] = dict.fromkeys(self._names, "text")
        if self._has_label:
            found[LABEL] = "text" if self._labels_are_text else "number"
        if self._has_weight:
            found[WEIGHT_COLUMN] = "number"
        return found

    def _item(self, item: Any, number: int) -> tuple[Mapping[str, Any], Any, Any]:
        if (row := as_row(item)) is None:
            raise StreamError(f"{self.name}, row {number}: expected a dict and a label.")
        return row

    def pieces(self, start: Position, kinds: Mapping[str, str]) -> Generator[Any, None, None]:
        items: Iterator[Any] = iter(self._rows)
        if self._rest is not None:
            items = chain(self._first, self._rest)
        row = start.offset
        items = islice(items, row, None)
        while some := list(islice(items, ROWS_AT_ONCE)):
            yield row, some
            row += len(some)

    def read(self, raw: tuple[int, list[Any]], kinds: Mapping[str, str]) -> Piece:
        begin, items = raw
        triples = [self._item(item, begin + k) for k, item in enumerate(items, 1)]
        rows, labels, weights = zip(*triples, strict=True)
        beside = {LABEL: list(labels), WEIGHT_COLUMN: list(weights)}
        columns = {
            name: column_of(name, beside.get(name) or [row.get(name) for row in rows], kind)
            for name, kind in kinds.items()
        }
        end = begin + len(items)
        return Piece(arrow().table(columns), end, 0, 0, (), place_behind(begin))

    def identity(self) -> str:
        return hashlib.sha256(repr(self._first[:ROWS_AT_ONCE]).encode()).hexdigest()


def column_of(name: str, values: list[Any], kind: str) -> Any:
    """Values as an Arrow array; each is converted independently of the others."""
    pa = arrow()
    is_number = kind in ("number", WEIGHT)
    if is_number:
        try:
            return pa.array(values, pa.float64(), from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError):
            pass
    if kind == NAMES and (found := next(filter(_is_number, values), None)) is not None:
        raise StreamError(f"{learned_as_text(name, f'the number {found!r}')}.")
    texts = [None if _is_missing(each) else _as_text(each, is_number) for each in values]
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError as problem:
        raise StreamError(f"column {name!r}: a text is not valid Unicode ({problem}).") from None


def _is_number(value: Any) -> bool:
    return isinstance(value, Number) and not _is_missing(value)


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    differs = value != value
    if isinstance(differs, bool | np.bool_):
        return bool(differs)
    return differs is value  # pandas.NA: any operation returns it


def _as_text(value: Any, is_number: bool) -> str:
    """A value as it is written in a table."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return str(int(value)) if is_number else str(value).lower()
    if is_number and isinstance(value, float | np.floating | Decimal):
        number = value if isinstance(value, Decimal) else Decimal(repr(float(value)))
        if not number.is_finite():
            return str(number)
        sign, digits, exponent = number.as_tuple()  # independent of the decimal separator
        return f"{'-' * sign}{''.join(map(str, digits))}e{exponent}"
    if isinstance(value, float | np.floating):
        return str(arrow().scalar(value).cast("string").as_py())
    return str(value)
