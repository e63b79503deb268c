"""Columns of Parquet and Arrow files and of streams, read a few columns and rows at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from maxmargin.streams.addresses import shown
from maxmargin.streams.arrow import Piece, arrow, kind_of, place_behind
from maxmargin.streams.files import LocalFile, Stored
from maxmargin.streams.source import Position, StreamError

NUMBER_SIZE = 8
# Of a column of Parquet: pages are read one after another instead of a row group at once.
BUFFER_SIZE = 2**18
# For metadata at the end of a file, little of it is read at a time.
A_LITTLE = 64


class Columnar(Protocol):
    """What has columns with types, and rows in an order."""

    name: str  # for messages
    total: int | None  # bytes in all, if that is known
    repeatable: bool  # can it be read more than once?

    def schema(self) -> Any:
        """That of pyarrow."""

    def rows(self) -> int | None:
        """Their number, if it is known without reading them."""

    def tables(self, columns: list[str], first: int, rows: int) -> Iterator[tuple[Any, float]]:
        """Rows from ``first`` on, so many at a time, and the share of all that was read so far."""

    def identity(self) -> str:
        """See `Source.identity`."""


class ColumnarReader:
    """Tables from what is columnar; a position is a number of rows.

    ``block_size`` is in bytes, with eight bytes for each value.
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
        """The columns, and what kind they are."""
        return {field.name: kind_of(field.type) for field in self._schema}

    def pieces(self, start: Position, kinds: Mapping[str, str]) -> Generator[Piece, None, None]:
        rows = max(1, self._block_size // (NUMBER_SIZE * max(1, len(kinds))))
        row = start.offset
        with as_stream_errors(self.name):
            for table, share in self._source.tables(list(kinds), row, rows):
                table.validate(full=True)  # a damaged file may point anywhere
                place = place_behind(row)
                row += table.num_rows
                yield Piece(table, row, 0, int(share * (self.total or 0)), (), place)

    def read(self, piece: Piece, kinds: Mapping[str, str]) -> Piece:
        return piece

    def identity(self) -> str:
        return self._source.identity()


class ColumnarFile:
    """What Parquet and Arrow files have in common."""

    repeatable = True

    def __init__(self, file: Stored) -> None:
        self._file = file
        self.name, self.total = file.name, file.size

    @contextmanager
    def _opened(self, at_once: int) -> Iterator[Any]:
        """The file, for pyarrow, read in so many places in turns."""
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

    def __init__(self, file: Stored) -> None:
        super().__init__(file)
        self._known: Any = None  # what stands at the end of the file

    def _metadata(self) -> Any:
        if self._known is None:
            with self._opened(A_LITTLE) as file:
                self._known = arrow("pyarrow.parquet").read_metadata(file)
        return self._known

    def schema(self) -> Any:
        return self._metadata().schema.to_arrow_schema()

    def rows(self) -> int:
        return self._metadata().num_rows

    def tables(self, columns: list[str], first: int, rows: int) -> Iterator[tuple[Any, float]]:
        metadata, read = self._metadata(), first
        how = {"metadata": metadata, "pre_buffer": False, "buffer_size": BUFFER_SIZE}
        # Written out, a small file may be very large: values come as numbers in a dictionary.
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
        with self._opened(A_LITTLE) as file:
            return arrow("pyarrow.ipc").open_file(file).schema

    def rows(self) -> None:
        """To know it, all batches would have to be read."""

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
    """The rows behind the first ``skip`` of record batches, ``rows`` at a time."""
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
    """What pyarrow says of a damaged file, with the name of the file."""
    try:
        yield
    except MemoryError:
        raise  # some of pyarrow's are ArrowExceptions as well
    except (arrow().ArrowException, OSError, UnicodeDecodeError) as error:
        message = shown(str(error))
        raise StreamError(f"{name}: {message}") from (error if message == str(error) else None)
