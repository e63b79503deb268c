"""Rows given as dicts, as tables for a recipe."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Mapping
from itertools import chain, islice
from numbers import Number
from typing import Any

import numpy as np

from maxmargin.streams.arrow import NAMES, WEIGHT, Piece, TableReader, arrow, learned_as_text
from maxmargin.streams.infer_columns import GLANCE
from maxmargin.streams.iterators import ROWS_AT_ONCE, as_row
from maxmargin.streams.source import StreamError

# Names, which no dict has, of the columns of labels and weights of dicts.
LABEL, WEIGHT_COLUMN = "\0label", "\0weight"


class DictReader(TableReader):
    """Tables from an iterable of dicts, perhaps with labels and weights.

    The columns are the names in the first rows; the value of a name that a dict lacks is missing.
    """

    is_threaded = False  # some iterators, such as database cursors, work in no other thread

    def __init__(self, rows: Iterable[Any]) -> None:
        self._rows, self.name = rows, f"<{type(rows).__name__}>"
        iterator = iter(rows)
        self.repeatable = iterator is not rows
        self._first = list(islice(iterator, GLANCE))
        self._rest = None if self.repeatable else iterator
        items = self._items(self._first, 0)
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

    def _items(self, items: list[Any], before: int) -> list[tuple[Mapping[str, Any], Any, Any]]:
        rows = []
        for number, item in enumerate(items, before + 1):
            if (row := as_row(item)) is None:
                raise StreamError(f"{self.name}, row {number}: expected a dict and a label.")
            rows.append(row)
        return rows

    def first(self, kinds: Mapping[str, str], rows: int) -> Generator[Piece, None, None]:
        if self._first:
            yield self._piece(self._first, 0, kinds)

    def pieces(self, kinds: Mapping[str, str], rows: int) -> Generator[Piece, None, None]:
        items = iter(self._rows) if self._rest is None else chain(self._first, self._rest)
        row = 0
        while some := list(islice(items, ROWS_AT_ONCE)):
            yield self._piece(some, row, kinds)
            row += len(some)

    def _piece(self, items: list[Any], before: int, kinds: Mapping[str, str]) -> Piece:
        dicts, labels, weights = zip(*self._items(items, before), strict=True)
        extra = {LABEL: labels, WEIGHT_COLUMN: weights}
        values = {name: extra.get(name) or [each.get(name) for each in dicts] for name in kinds}
        columns = {name: column_of(name, list(values[name]), kinds[name]) for name in kinds}
        return Piece(arrow().table(columns))

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
    if isinstance(value, float | np.floating):
        return (
            repr(float(value)) if is_number else str(arrow().scalar(value).cast("string").as_py())
        )
    return str(value)
