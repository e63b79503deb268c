"""Rows from providers of Arrow record batches, without copies.

These are objects with ``__arrow_c_stream__`` (relations of DuckDB, results of ADBC, readers of
pyarrow), lazy frames of polars, and datasets of pyarrow and Hugging Face.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from maxmargin.streams.arrow import arrow
from maxmargin.streams.columnar import even
from maxmargin.streams.source import StreamError

# Rows per batch, where they can be chosen, and rows that identify a source.
ROWS_AT_ONCE, ROWS_KNOWN = 2**14, 100
# Attributes of tables, which can be read repeatedly.
OF_TABLES = ("collect_batches", "scanner", "columns", "column_names")


class Batches:
    """Record batches of a source that `gives_batches`.

    Tables can be read repeatedly. A bare stream is read once: its first batch is kept.
    """

    total: int | None = None

    def __init__(self, source: Any) -> None:
        self.name = f"<{type(source).__name__}>"
        self._source = source
        self.repeatable = any(hasattr(source, name) for name in OF_TABLES)
        batches = iter(_batches(source)[0])
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            raise StreamError(f"{self.name}: there are no rows.")
        self._schema = first.schema
        hashed = hashlib.sha256(str(first.schema).encode())
        for row in first.slice(0, ROWS_KNOWN).to_pylist():
            hashed.update(repr(row).encode())
        self._known = hashed.hexdigest()
        # The first batch of a stream, and the others.
        self._begun = None if self.repeatable else (first, batches)

    def schema(self) -> Any:
        return self._schema

    def rows(self) -> None:
        """Unknown without reading all batches."""

    def tables(self, columns: list[str], first: int, rows: int) -> Iterator[tuple[Any, float]]:
        for batches, skip in self._parts(columns, first):
            chosen = (batch.select(columns) for batch in batches)
            for table in even(chosen, skip, rows):
                yield table, 0.0

    def _parts(self, columns: list[str], first: int) -> Iterator[tuple[Iterable[Any], int]]:
        """Batches to read one after another, and how many rows to skip in each."""
        if self._begun is None:
            yield _batches(self._source, columns, first)
        else:  # whoever reads only the first rows takes no other batch
            held, rest = self._begun
            yield [held], first
            yield rest, max(0, first - held.num_rows)

    def identity(self) -> str:
        """A hash of the columns and of the first rows."""
        return self._known


def gives_batches(source: Any) -> bool:
    names = ("__arrow_c_stream__", "collect_batches", "scanner")
    return any(hasattr(source, name) for name in names) or _is_of_hugging_face(source)


def _is_of_hugging_face(source: Any) -> bool:
    return hasattr(source, "with_format") and hasattr(source, "column_names")


def _batches(
    source: Any, columns: list[str] | None = None, first: int = 0
) -> tuple[Iterable[Any], int]:
    """Batches with at least these columns, and how many rows to skip up to row ``first``."""
    if _is_of_hugging_face(source):
        source = source.skip(first) if first else source
        rows = source.with_format("arrow")
        rows = rows if columns is None else rows.select_columns(columns)
        tables = rows.iter(batch_size=ROWS_AT_ONCE)
        return (batch for table in tables for batch in table.to_batches()), 0
    if hasattr(source, "collect_batches"):  # of polars
        rows = source.slice(first) if first else source
        frames = (rows if columns is None else rows.select(columns)).collect_batches()
        return (batch for frame in frames for batch in _exported(frame)), 0
    if hasattr(source, "scanner"):  # of pyarrow
        return source.scanner(columns=columns).to_reader(), first
    return _exported(source), first


def _exported(source: Any) -> Any:
    return arrow().RecordBatchReader.from_stream(source)
