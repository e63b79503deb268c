"""Parquet and Arrow files, read a few columns and rows at a time."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from maxmargin.streams.arrow import Piece, arrow, kind_of, place_behind
from maxmargin.streams.source import Position, StreamError, identity_of_file

NUMBER_SIZE = 8
# Of a column of Parquet: pages are read one after another instead of a row group at once.
BUFFER_SIZE = 2**18


class ColumnarReader:
    """Tables from a Parquet or an Arrow (Feather, IPC) file.

    A position is a number of rows.

    Parameters
    ----------
    path : Path
    format : {"parquet", "arrow"}
    block_size : int
        Bytes of a block, with eight bytes for each value.
    """

    repeatable = True

    def __init__(self, path: Path, *, format: str, block_size: int) -> None:
        self._path = path
        self._block_size = block_size
        self.name, self.total = str(path), os.stat(path).st_size
        self._file: Any = ParquetFile(path) if format == "parquet" else ArrowFile(path)
        with as_stream_errors(self.name):
            self._schema = self._file.schema()
            names = self._schema.names
            self.rows: int | None = self._file.rows()
        name, times = Counter(names).most_common(1)[0] if names else ("", 1)
        if times > 1:
            raise StreamError(f"{path}: there are {times} columns {name!r}.")

    def kinds(self) -> dict[str, str | None]:
        """The columns, and what kind they are."""
        return {field.name: kind_of(field.type) for field in self._schema}

    def pieces(self, start: Position, kinds: Mapping[str, str]) -> Generator[Piece, None, None]:
        """The columns of ``kinds`` as tables."""
        rows = max(1, self._block_size // (NUMBER_SIZE * max(1, len(kinds))))
        row = start.offset
        with as_stream_errors(self.name):
            for table, share in self._file.tables(list(kinds), row, rows):
                table.validate(full=True)  # a damaged file may point anywhere
                place = place_behind(row)
                row += table.num_rows
                yield Piece(table, row, 0, int(share * self.total), (), place)

    def read(self, piece: Piece, kinds: Mapping[str, str]) -> Piece:
        return piece

    def identity(self) -> str:
        with open(self._path, "rb") as file:
            return identity_of_file(file, self.total)


class ParquetFile:
    """Row groups of a Parquet file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def _open(self) -> Any:
        parquet = arrow("pyarrow.parquet")
        return parquet.ParquetFile(self._path, pre_buffer=False, buffer_size=BUFFER_SIZE)

    def schema(self) -> Any:
        with self._open() as file:
            return file.schema_arrow

    def rows(self) -> int:
        with self._open() as file:
            return file.metadata.num_rows

    def tables(self, columns: list[str], first: int, rows: int) -> Iterator[tuple[Any, float]]:
        """The rows from ``first`` on, and the share of the file read up to there."""
        with self._open() as file:
            read = first
            for group in range(file.metadata.num_row_groups):
                size = file.metadata.row_group(group).num_rows
                if first < size:
                    batches = file.iter_batches(rows, row_groups=[group], columns=columns)
                    for table in even(batches, first, rows):
                        read += table.num_rows
                        yield table, read / file.metadata.num_rows
                first = max(0, first - size)


class ArrowFile:
    """Record batches of an Arrow file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def schema(self) -> Any:
        with arrow().OSFile(str(self._path)) as file:
            return arrow("pyarrow.ipc").open_file(file).schema

    def rows(self) -> None:
        """To know it, all batches would have to be read."""

    def tables(self, columns: list[str], first: int, rows: int) -> Iterator[tuple[Any, float]]:
        """The rows from ``first`` on, and the share of the file read up to there."""
        ipc = arrow("pyarrow.ipc")
        fields = [self.schema().get_field_index(name) for name in columns]
        options = ipc.IpcReadOptions(included_fields=sorted(fields))
        with arrow().OSFile(str(self._path)) as file:
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
        raise StreamError(f"{name}: {error}") from error
