"""Readers of Parquet, Arrow and JSON files, of frames, and of streams of record batches."""

from __future__ import annotations

import hashlib
import importlib
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from itertools import chain
from typing import Any

from maxmargin.streams.arrow import Piece, TableReader, arrow, as_stream_errors, is_numeric, kind_of
from maxmargin.streams.files import Files, naming_errors
from maxmargin.streams.source import StreamError

# Rows per batch, where they can be chosen, and rows that identify a stream.
ROWS_AT_ONCE, ROWS_KNOWN = 2**14, 100
# Attributes of objects with a table, which can be read repeatedly.
OF_TABLES = ("collect_batches", "scanner", "columns", "column_names")


class DatasetReader(TableReader):
    """Files of one format, by pyarrow.dataset; folders may be partitioned as by Hive.

    The first file determines the columns.
    """

    def __init__(self, files: Files, format: str) -> None:
        self._files, self.name, self.total = files, files.name, files.size
        datasets = arrow("pyarrow.dataset")
        with as_stream_errors(self.name), naming_errors(self.name):
            how = {"format": format, "filesystem": files.system}
            how["partitioning"] = "hive" if files.is_folder else None
            data = datasets.dataset(files.paths, **how)
            schema = data.schema
            check_names(self.name, schema.names)
            if format == "parquet":  # texts remain codes, which take less time and memory
                coded = {field.name for field in schema if str(field.type) == "string"}
                how["format"] = datasets.ParquetFileFormat(dictionary_columns=coded)
                data = datasets.dataset(files.paths, **how)
            if format == "json":  # later rows may have fractions
                schema = arrow().schema([_as_float(field) for field in schema])
                data = datasets.dataset(files.paths, schema=schema, **how)
            self._data = data
            self.rows = data.count_rows() if format != "json" else None

    def kinds(self) -> dict[str, str | None]:
        return {field.name: kind_of(field.type) for field in self._data.schema}

    def pieces(self, kinds: Mapping[str, str], rows: int) -> Generator[Piece, None, None]:
        seen = 0
        with as_stream_errors(self.name), naming_errors(self.name):
            for batch in self._data.to_batches(
                columns=list(kinds),
                batch_size=rows,
                batch_readahead=1,
                fragment_readahead=1,
                use_threads=False,
            ):
                seen += batch.num_rows
                share = seen / self.rows if self.rows else 0.0
                yield _piece(batch, int(share * (self.total or 0)))

    def identity(self) -> str:
        return self._files.identity()


class FrameReader(TableReader):
    """A frame of any library that narwhals knows, converted slice by slice."""

    def __init__(self, frame: Any) -> None:
        self.name = f"<{type(frame).__module__.split('.')[0]} frame>"
        names = frame.column_names if hasattr(frame, "column_names") else frame.columns
        check_names(self.name, map(str, names))
        self._frame = _narwhals().from_native(frame, eager_only=True)
        if any(not isinstance(name, str) for name in self._frame.columns):  # pandas
            self._frame = self._frame.rename({name: str(name) for name in self._frame.columns})
        self.rows = len(self._frame)
        self.total = int(self._frame.estimated_size())

    def kinds(self) -> dict[str, str | None]:
        narwhals = _narwhals()
        texts = (narwhals.String, narwhals.Categorical, narwhals.Enum)

        def kind(dtype: Any) -> str | None:
            if dtype == narwhals.Boolean:
                return "boolean"
            if dtype.is_numeric():
                return "number"
            return "text" if any(dtype == text for text in texts) else None

        return {name: kind(dtype) for name, dtype in self._frame.schema.items()}

    def _slice(self, begin: int, end: int) -> Any:
        with as_stream_errors(self.name):
            return self._frame[begin:end].to_arrow().select(self._frame.columns)  # no index

    def pieces(self, kinds: Mapping[str, str], rows: int) -> Generator[Piece, None, None]:
        chosen, size = self._frame.select(*kinds), len(self._frame)
        for begin in range(0, size, rows):
            end = min(begin + rows, size)
            with as_stream_errors(self.name):
                table = chosen[begin:end].to_arrow()
            yield Piece(table, int((self.total or 0) * end / size))

    def whole(self) -> Any:
        """The frame as a table of pyarrow."""
        return self._slice(0, len(self._frame))

    def identity(self) -> str:
        """A hash of the columns and of the first and the last rows."""
        rows = len(self._frame)
        hashed = hashlib.sha256(f"{self._frame.schema} {rows}".encode())
        for begin in {0, max(0, rows - ROWS_AT_ONCE)}:
            for batch in self._slice(begin, begin + ROWS_AT_ONCE).to_batches():
                hashed.update(batch.serialize())
        return hashed.hexdigest()


class BatchReader(TableReader):
    """Record batches, without copies, of a source that `gives_batches`.

    Tables can be read repeatedly. A bare stream is read once: its first batch is kept.
    """

    def __init__(self, source: Any) -> None:
        self.name, self._source = f"<{type(source).__name__}>", source
        self.repeatable = any(hasattr(source, name) for name in OF_TABLES)
        batches = iter(_batches(source))
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            raise StreamError(f"{self.name}: there are no rows.")
        check_names(self.name, first.schema.names)
        self._schema = first.schema
        known = f"{first.schema}{first.slice(0, ROWS_KNOWN).to_pylist()}"
        self._identity = hashlib.sha256(known.encode()).hexdigest()
        # The first batch of a stream, and the others.
        self._begun = None if self.repeatable else ([first], batches)

    def kinds(self) -> dict[str, str | None]:
        return {field.name: kind_of(field.type) for field in self._schema}

    def first(self, kinds: Mapping[str, str], rows: int) -> Generator[Piece, None, None]:
        if self._begun is None:
            yield from self.pieces(kinds, rows)
        else:
            yield _piece(self._begun[0][0].select(list(kinds)))

    def pieces(self, kinds: Mapping[str, str], rows: int) -> Generator[Piece, None, None]:
        with as_stream_errors(self.name):
            batches = (
                _batches(self._source, list(kinds)) if not self._begun else chain(*self._begun)
            )
            for batch in batches:
                yield _piece(batch.select(list(kinds)))

    def identity(self) -> str:
        """A hash of the columns and of the first rows."""
        return self._identity


def _piece(batch: Any, done: int = 0) -> Piece:
    batch.validate(full=True)  # offsets in a damaged file may be invalid
    return Piece(arrow().Table.from_batches([batch]), done)


def _as_float(field: Any) -> Any:
    return field.with_type(arrow().float64()) if is_numeric(field.type) else field


def check_names(name: str, columns: Iterable[str]) -> None:
    for column, times in Counter(columns).most_common(1):
        if times > 1:
            raise StreamError(f"{name}: there are {times} columns {column!r}.")


def _narwhals() -> Any:
    try:
        return importlib.import_module("narwhals")
    except ModuleNotFoundError:
        raise StreamError("frames need narwhals: pip install 'maxmargin[streams]'") from None


def is_frame(source: Any) -> bool:
    """Whether it has columns, and all rows in memory."""
    if hasattr(source, "collect"):  # a lazy frame, whose columns may be expensive
        return False
    if not (hasattr(source, "columns") or hasattr(source, "column_names")):
        return False
    try:
        narwhals = importlib.import_module("narwhals")
        frame = narwhals.from_native(source, eager_only=True, pass_through=True)
    except (ModuleNotFoundError, ValueError):  # the reader reports it
        return True
    return isinstance(frame, narwhals.DataFrame)


def gives_batches(source: Any) -> bool:
    names = ("__arrow_c_stream__", "collect_batches", "scanner")
    return any(hasattr(source, name) for name in names) or _is_of_hugging_face(source)


def _is_of_hugging_face(source: Any) -> bool:
    return hasattr(source, "with_format") and hasattr(source, "column_names")


def _batches(source: Any, columns: list[str] | None = None) -> Iterable[Any]:
    """Record batches with at least these columns."""
    if _is_of_hugging_face(source):
        rows = source.with_format("arrow")
        rows = rows if columns is None else rows.select_columns(columns)
        tables = rows.iter(batch_size=ROWS_AT_ONCE)
        return (batch for table in tables for batch in table.to_batches())
    export: Callable[[Any], Any] = arrow().RecordBatchReader.from_stream
    if hasattr(source, "collect_batches"):  # of polars
        frames = (source if columns is None else source.select(columns)).collect_batches()
        return (batch for frame in frames for batch in export(frame))
    if hasattr(source, "scanner"):  # of pyarrow
        return iter(source.scanner(columns=columns).to_reader())
    return iter(export(source))
