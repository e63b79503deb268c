"""Columns of Parquet and Arrow files and of streams, read in blocks of rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Protocol

from maxmargin.streams.addresses import shown
from maxmargin.streams.arrow import Piece, arrow, kind_of, place_behind
from maxmargin.streams.files import LocalFile, Stored
from maxmargin.streams.source import Position, StreamError

NUMBER_SIZE = 8
# Of a column of Parquet, whose pages are read one by one instead of a row group at once.
BUFFER_SIZE = 2**18
# Makes reads of metadata at the end of a file short, see `Stored.open`.
METADATA = 64


class Columnar(Protocol):
    """Ordered rows in columns with types."""

    name: str  # for messages
    total: int | None  # size in bytes, if known
    repeatable: bool  # whether it can be read more than once

    def schema(self) -> Any:
        """The schema of pyarrow."""

    def rows(self) -> int | None:
        """The number of rows, if it is known without reading them."""

    def tables(self, columns: list[str], first: int, rows: int) -> Iterator[tuple[Any, float]]:
        """Tables of ``rows`` rows from row ``first`` on, and the share of all that is read."""

    def identity(self) -> str:
        """See `Source.identity`."""


class ColumnarReader:
    """Tables from a `Columnar`; a position is a number of rows.

    ``block_size`` is in bytes, eight for each value.
    """

    def __init__(self, source: Columnar, *, block_size: int) -> None:
        self._source = source
        self._block_size = block_size
        self.name, self.total, self.repeatable = source.name, source.total, source.repeatable
        with as_stream_errors(self.name):
            self._schema = source.schema()
            names = self._schema.names
            self.rows: int | None = source.rows()
        name, times = Counter(names).most_common(1)[0] if names else ("", 1)
        if times > 1:
            raise StreamError(f"{self.name}: there are {times} columns {name!r}.")

    def kinds(self) -> dict[str, str | None]:
        """The columns and their kinds."""
        return {field.name: kind_of(field.type) for field in self._schema}

    def pieces(self, start: Position, kinds: Mapping[str, str]) -> Generator[Piece, None, None]:
        rows = max(1, self._block_size // (NUMBER_SIZE * max(1, len(kinds))))
        row = start.offset
        with as_stream_errors(self.name):
            for table, share in self._source.tables(list(kinds), row, rows):
                table.validate(full=True)  # offsets in a damaged file may be invalid
                place = place_behind(row)
                row += table.num_rows
                yield Piece(table, row, 0, int(share * (self.total or 0)), (), place)

    def read(self, piece: Piece, kinds: Mapping[str, str]) -> Piece:
        return piece

    def identity(self) -> str:
        return self._source.identity()


class ColumnarFile:
    """Common parts of Parquet and Arrow files."""

    repeatable = True

    def __init__(self, file: Stored) -> None:
        self._file = file
        self.name, self.total = file.name, file.size

    @contextmanager
    def _opened(self, at_once: int) -> Iterator[Any]:
        """The file for pyarrow, which reads alternately at so many places."""
        if isinstance(self._file, LocalFile):
            with arrow().OSFile(str(self._file.path)) as file:
                yield file
        else:
            with self._file.open(at_once) as own, arrow().PythonFile(own, mode="r") as file:
                yield file

    def identity(self) -> str:
        return self._file.identity()


class ParquetFile(ColumnarFile):
    """Row groups of a Parquet file."""

    @cached_property
    def _metadata(self) -> Any:
        with self._opened(METADATA) as file:
            return arrow("pyarrow.parquet").read_metadata(file)

    def schema(self) -> Any:
        return self._metadata.schema.to_arrow_schema()

    def rows(self) -> int:
        return self._metadata.num_rows

    def tables(self, columns: list[str], first: int, rows: int) -> Iterator[tuple[Any, float]]:
        metadata, read = self._metadata, first
        how = {"metadata": metadata, "pre_buffer": False, "buffer_size": BUFFER_SIZE}
        # A small file may contain very much text: values remain codes in a dictionary.
        is_text = arrow("pyarrow.types").is_string
        how["read_dictionary"] = [field.name for field in self.schema() if is_text(field.type)]
        with self._opened(len(columns) + 1) as opened:
            file = arrow("pyarrow.parquet").ParquetFile(opened, **how)
            for group in range(metadata.num_row_groups):
                size = metadata.row_group(group).num_rows
                if first < size:
                    batches = file.iter_batches(rows, row_groups=[group], columns=columns)
                    for table in even(batches, first, rows):
                        read += table.num_rows
                        yield table, read / metadata.num_rows
                first = max(0, first - size)


class ArrowFile(ColumnarFile):
    """Record batches of an Arrow file."""

    def schema(self) -> Any:
        with self._opened(METADATA) as file:
            return arrow("pyarrow.ipc").open_file(file).schema

    def rows(self) -> None:
        """Unknown without reading all batches."""

    def tables(self, columns: list[str], first: int, rows: int) -> Iterator[tuple[Any, float]]:
        ipc = arrow("pyarrow.ipc")
        fields = [self.schema().get_field_index(name) for name in columns]
        options = ipc.IpcReadOptions(included_fields=sorted(fields))
        with self._opened(len(columns) + 1) as file:
            reader = ipc.open_file(file, options=options)
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                for table in even([batch], first, rows):
                    yield table, (number + 1) / reader.num_record_batches
                first = max(0, first - batch.num_rows)


def even(batches: Iterable[Any], skip: int, rows: int) -> Iterator[Any]:
    """Tables of ``rows`` rows from record batches, without the first ``skip`` rows."""
    pa = arrow()
    held: list[Any] = []
    count = 0
    for batch in batches:
        dropped = min(skip, batch.num_rows)
        skip, batch = skip - dropped, batch.slice(dropped)
        while count + batch.num_rows >= rows:
            taken = rows - count
            yield pa.Table.from_batches([*held, batch.slice(0, taken)])
            held, count, batch = [], 0, batch.slice(taken)
        if batch.num_rows:
            held, count = [*held, batch], count + batch.num_rows
    if held:
        yield pa.Table.from_batches(held)


@contextmanager
def as_stream_errors(name: str) -> Iterator[None]:
    """Errors of pyarrow about a damaged file, with its name."""
    try:
        yield
    except MemoryError:
        raise  # some of pyarrow's are ArrowExceptions as well
    except (arrow().ArrowException, OSError, UnicodeDecodeError) as error:
        message = shown(str(error))
        raise StreamError(f"{name}: {message}") from (error if message == str(error) else None)
