"""Rows from iterables of blocks (X, y), or of dicts and labels, perhaps with weights."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin._extras import is_on_device
from maxmargin.streams.arrays import ENTRY_SIZE, content_of
from maxmargin.streams.source import (
    BLOCK_SIZE,
    Block,
    Source,
    StreamError,
    Survey,
    after,
    check_block_size,
    check_weight_array,
    check_weights,
    sorted_labels,
)

ROWS_AT_ONCE = 1024


class IteratorSource(Source):
    """Blocks from an iterable of blocks or rows.

    It is read in the thread that requests blocks, since some iterators, such as database cursors,
    work in no other thread.

    ``rows`` are pairs (X, y) of a block, X perhaps on a GPU, y being None without labels; or pairs
    of a row as a dict and its label, or dicts. A third item is the weights of the block or the
    weight of the row. A number in a dict is an entry of the column of its name; text is an entry 1
    of the column "name=text". An iterable that can be restarted, such as a list, can be read
    repeatedly. Names that are not in ``columns`` are ignored; by default all names are columns, in
    order of appearance.
    """

    format = "iterator"

    def __init__(
        self,
        rows: Iterable[Any],
        *,
        columns: Sequence[str] | None = None,
        block_size: int = BLOCK_SIZE,
    ) -> None:
        self._rows = rows
        self._iterator = iter(rows)
        self.repeatable = self._iterator is not rows
        self.name = f"<{type(rows).__name__}>"
        check_block_size(block_size)
        self._block_size = block_size
        self._is_fixed = columns is not None
        self._columns = {name: place for place, name in enumerate(columns or ())}
        self._survey: Survey | None = None
        # If it can be read only once: the block that the survey has read, and the rest.
        self._begun: tuple[list[Block], Iterator[Block]] | None = None

    def survey(self) -> Survey:
        if self._survey is None:
            blocks: Iterable[Block] = self._read(self._iterator)
            if not self.repeatable:
                rest = iter(blocks)
                first = [block for block in [next(rest, None)] if block is not None]
                self._begun, blocks = (first, rest), first
            labels: set[Any] = set()
            has_labels, width, row = False, 1, 0
            for block in blocks:
                if block.y is not None:
                    has_labels = True
                    labels.update(np.unique(block.y).tolist())
                width, row = max(width, block.X.shape[1]), block.end
            classes = sorted_labels(np.array(sorted(labels))) if has_labels else None
            self._survey = Survey(classes, width, row if self.repeatable else None)
        return self._survey

    def blocks(self, start: int = 0) -> Iterator[Block]:
        self.survey()
        return after(self._from_the_beginning(), start)

    def _from_the_beginning(self) -> Iterator[Block]:
        if self._begun is not None:
            return chain(*self._begun)
        return self._read(iter(self._rows))

    def _read(self, items: Iterator[Any]) -> Iterator[Block]:
        first = list(islice(items, 1))
        items = chain(first, items)
        has_rows = any(_is_row(item) for item in first)
        parts = self._parts_of_rows(items) if has_rows else self._parts(items)
        row, done, has_labels, has_weights = 0, 0, None, None
        for number, (X, y, weight) in enumerate(parts, 1):
            where = f"{self.name}, block {number}"
            if has_labels not in (None, y is not None):
                raise StreamError(f"{where}: some rows have labels, some none.")
            if has_weights not in (None, weight is not None):
                raise StreamError(f"{where}: some rows have weights, some none.")
            has_labels, has_weights = y is not None, weight is not None
            if weight is not None:
                weight = check_weight_array(np.asanyarray(weight), X.shape[0], where)
                weight = check_weights(weight, self.name, row)
            row, done = row + X.shape[0], done + _size(X)
            if X.shape[0]:
                yield Block(X, y, row, done, weight)

    def _parts(self, items: Iterator[Any]) -> Iterator[tuple[Any, np.ndarray | None, Any]]:
        width = None
        for number, item in enumerate(items, 1):
            if not _is_together(item):
                raise StreamError(
                    f"{self.name}, block {number}: expected a pair (X, y), or (X, y, weight)."
                )
            X, y, weight = (*item, None)[:3]
            X = X.tocsr() if sparse.issparse(X) else X if is_on_device(X) else np.asarray(X)
            y = None if y is None else np.asarray(y.get() if is_on_device(y) else y)
            trouble = ""
            if X.ndim != 2 or X.dtype.kind not in "fiub":
                trouble = f"expected numbers in two dimensions, found {X.dtype} in {X.ndim}"
            elif y is not None and y.shape != X.shape[:1]:
                trouble = f"{X.shape[0]} rows, but labels of shape {y.shape}"
            elif width not in (None, X.shape[1]):
                trouble = f"{X.shape[1]} columns, expected {width}"
            if trouble:
                raise StreamError(f"{self.name}, block {number}: {trouble}.")
            width = X.shape[1]
            yield X if X.dtype.kind == "f" else X.astype(np.float64), y, weight

    def _parts_of_rows(self, items: Iterator[Any]) -> Iterator[tuple[Any, np.ndarray | None, Any]]:
        starts, columns, values = [0], list[int](), list[float]()
        labels, weights = list[Any](), list[Any]()
        for number, item in enumerate(items, 1):
            if (together := as_row(item)) is None:
                raise StreamError(f"{self.name}, row {number}: expected a dict and a label.")
            row, label, weight = together
            where = f"{self.name}, row {number}"
            refuse_texts(row, self._columns, len(self._columns), where)
            for name, value in entries(row, where):
                if self._is_fixed:
                    place = self._columns.get(str(name))
                else:
                    place = self._columns.setdefault(str(name), len(self._columns))
                if place is not None and value:
                    columns.append(place)
                    values.append(value)
            starts.append(len(values))
            labels.append(label)
            weights.append(weight)
            if len(labels) == ROWS_AT_ONCE or len(values) * ENTRY_SIZE >= self._block_size:
                yield self._block(starts, columns, values, labels, weights, number)
                starts, columns, values, labels, weights = [0], [], [], [], []
        if labels:
            yield self._block(starts, columns, values, labels, weights, number)

    def _weights(self, given: list[Any], last: int) -> list[Any] | None:
        """The weights of the rows up to the number ``last``; None if no row has one."""
        if all(weight is None for weight in given):
            return None
        for row, weight in enumerate(given, last - len(given) + 1):
            if not isinstance(weight, Real | np.bool_):
                found = "there is none" if weight is None else f"found {weight!r}"
                raise StreamError(f"{self.name}, row {row}: expected a weight, {found}.")
        return given

    def _block(
        self,
        starts: list[int],
        columns: list[int],
        values: list[float],
        labels: list[Any],
        weights: list[Any],
        last: int,
    ) -> tuple[Any, np.ndarray | None, list[Any] | None]:
        """A block of the rows up to the number ``last``."""
        shape = (len(labels), max(1, len(self._columns)))
        parts = (np.array(values, np.float64), np.array(columns, np.int32), np.array(starts))
        X = sparse.csr_matrix(parts, shape=shape)
        X.sum_duplicates()
        return X, self._labels(labels, last), self._weights(weights, last)

    def _labels(self, labels: list[Any], last: int) -> np.ndarray | None:
        if all(label is None for label in labels):
            return None
        kinds = {isinstance(label, str | np.str_) for label in labels}
        y = np.array(labels)
        is_sound = len(kinds) == 1 and y.ndim == 1 and y.dtype.kind in "biufU"
        if not is_sound or (y.dtype.kind == "f" and not np.isfinite(y).all()):
            raise StreamError(
                f"{self.name}, rows {last - len(labels) + 1} to {last}: "
                "labels must be all numbers or all text, and none may be missing."
            )
        return y

    def identity(self) -> str:
        self.survey()
        hashed = hashlib.sha256()
        for block in self._begun[0] if self._begun else islice(self._from_the_beginning(), 1):
            hashed.update(content_of(block))
        return hashed.hexdigest()

    def restore(self, schema: dict[str, Any]) -> None:
        self.survey()  # names from later rows will appear again

    def schema(self) -> dict[str, Any]:
        self.survey()
        named = {"columns": list(self._columns)} if self._columns else {}
        return {"format": "iterator", **named}


def entries(row: Mapping[Any, Any], where: str) -> Iterator[tuple[Any, float]]:
    """The names of the columns of a dict's entries, and the entries."""
    for name, value in row.items():
        if type(value) is float and math.isfinite(value):  # the common case, tested quickly
            yield name, value
        elif isinstance(value, str):
            yield f"{name}={value}", 1.0
        elif isinstance(value, Real | np.bool_) and _is_finite(value):
            yield name, float(value)
        elif value is None:
            raise StreamError(
                f"{where}, column {name!r}: expected a finite number or text, found no value: "
                "leave the name out, or prepare rows with a Recipe, which imputes missing values."
            )
        else:
            raise StreamError(
                f"{where}, column {name!r}: expected a finite number or text, found {value!r:.40}."
            )


def refuse_texts(
    row: Mapping[Any, Any], columns: Mapping[Any, int], count: int, where: str
) -> None:
    """Raise if a column holds text that is among the first ``count``, which hold numbers.

    A column that was learned with texts before takes more of them, whatever numbers it had since.
    """
    for name, value in row.items():
        if isinstance(value, str) and columns.get(name, count) < count:
            if any(str(each).startswith(f"{name}=") for each in columns):
                continue
            raise StreamError(
                f"{where}, column {name!r}: it was learned as a number, and is the text "
                f"{value!r:.40} here."
            )


def _is_finite(number: Any) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a huge integer
        return False


def _is_together(item: Any) -> bool:
    return isinstance(item, tuple | list) and len(item) in (2, 3)


def _is_row(item: Any) -> bool:
    return isinstance(item, Mapping) or (_is_together(item) and isinstance(item[0], Mapping))


def as_row(item: Any) -> tuple[Mapping[str, Any], Any, Any] | None:
    """A dict, its label and its weight, which may be None; None for other items."""
    if not _is_row(item):
        return None
    row, label, weight = (*((item,) if isinstance(item, Mapping) else item), None, None)[:3]
    return row, label, weight


def _size(X: Any) -> int:
    return X.data.nbytes + X.indices.nbytes if sparse.issparse(X) else X.nbytes
