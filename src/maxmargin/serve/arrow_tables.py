"""Tables of Arrow from clients, and the rows in them.

Their sizes are checked before anything is decompressed. Compressed buffers begin with the size that
they will have, and Arrow decompresses no more than that. The sizes are in the metadata of each
batch, a FlatBuffer, of which pyarrow shows only the bytes; the few fields that matter are read
here. Their numbers are from Message.fbs of Arrow.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from maxmargin.serve.http_errors import HTTPError, bad_request, unprocessable
from maxmargin.serve.limits import Limits
from maxmargin.serve.scored_learner import ScoredLearner
from maxmargin.streams.arrow import arrow, kind_of
from maxmargin.streams.source import StreamError

SCHEMA, DICTIONARY, BATCH = 1, 2, 3  # kinds of messages
# Types of Arrow, by their names, in which the same bytes can stand for many values.
VIEWS = ("string_view", "binary_view")
REPEATING = ("dictionary<", "run_end_encoded<", "list_view<", "large_list_view<", *VIEWS)


class Sizes(NamedTuple):
    """What a stream holds."""

    rows: int
    # In all columns, dictionaries and nested columns; types without buffers have them too.
    values: int
    bytes: int  # when it is decompressed


class Table:
    """A table of FlatBuffers: fields by their numbers."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at
        self.fields = at - _number("<i", data, at)

    @classmethod
    def root(cls, data: bytes) -> Table:
        return cls(data, _number("<I", data, 0))

    def _place(self, field: int) -> int | None:
        offset = 4 + 2 * field
        if offset >= _number("<H", self.data, self.fields):
            return None
        found = _number("<H", self.data, self.fields + offset)
        return self.at + found if found else None

    def number(self, field: int, kind: str) -> int:
        place = self._place(field)
        return 0 if place is None else _number(kind, self.data, place)

    def table(self, field: int) -> Table | None:
        place = self._place(field)
        if place is None:
            return None
        return Table(self.data, place + _number("<I", self.data, place))

    def pairs(self, field: int) -> np.ndarray:
        """A vector of structs that are two long integers each."""
        place = self._place(field)
        if place is None:
            return np.empty((0, 2), dtype=np.int64)
        start = place + _number("<I", self.data, place)
        count = _number("<I", self.data, start)
        return np.frombuffer(self.data, "<i8", 2 * count, start + 4).reshape(-1, 2)


def _number(kind: str, data: Any, at: int) -> int:
    if at < 0:
        raise ValueError("an offset is negative")
    (found,) = struct.unpack_from(kind, data, at)
    return int(found)


def sizes_of(body: bytes) -> Sizes:
    """The sizes in the metadata of a stream; raises if they cannot be read."""
    rows = values = size = 0
    for message in arrow().ipc.MessageReader.open_stream(arrow().py_buffer(body)):
        head = Table.root(message.metadata.to_pybytes())
        kind, batch = head.number(1, "<B"), head.table(2)
        if kind == DICTIONARY and batch is not None:
            batch = batch.table(1)
        if batch is None or kind not in (DICTIONARY, BATCH):
            continue
        length, nodes = batch.number(0, "<q"), batch.pairs(1)
        if length < 0 or (nodes < 0).any():
            raise ValueError("a length is negative")
        rows += length if kind == BATCH else 0
        values += sum(nodes[:, 0].tolist())
        content = message.body
        size += content.size if content is not None else 0
        if batch.table(3) is not None and content is not None:  # compressed
            view = memoryview(content)
            starts = [at for at, count in batch.pairs(2).tolist() if count]
            size += sum(max(0, _number("<q", view, at)) for at in starts)
    return Sizes(rows, values, size)


def table_within(body: Any, rows: int, values: int, size: int) -> Any:
    """The table of a stream that has at most so many rows, values and bytes, once it is decoded.

    What is larger is refused before it is decompressed; any other exception says that it is no
    Arrow stream.
    """
    sizes = sizes_of(body)
    for found, most, what in (
        (sizes.rows, rows, "rows"),
        (sizes.values, values, "values"),
        (sizes.bytes, size, "bytes when decompressed"),
    ):
        if found > most:
            raise HTTPError(413, f"the table has {found:,} {what}; at most {most:,} are taken.")
    table = table_from_bytes(body)
    table.validate(full=True)  # one that is damaged could be read beyond its memory
    written = sum(map(written_bytes, table.column_names, table.columns))
    if written > size:
        raise HTTPError(
            413,
            f"the table has {written:,} bytes when repeated values are written out; "
            f"at most {size:,} are taken.",
        )
    return table


def table_from_bytes(body: Any) -> Any:
    return arrow().ipc.open_stream(arrow().py_buffer(body)).read_all()


def written_bytes(name: str, column: Any) -> int:
    """What the texts of a column take where the same bytes may stand for many rows; else 0."""
    kind, is_dictionary = column.type, arrow("pyarrow.types").is_dictionary
    if is_dictionary(kind) and not _repeats(kind.value_type, but=VIEWS):
        return sum(
            int(_lengths(chunk.dictionary)[chunk.indices.drop_null().to_numpy()].sum())
            for chunk in column.chunks
        )
    if str(kind) in VIEWS:
        return sum(int(_lengths(chunk).sum()) for chunk in column.chunks)
    if _repeats(kind):
        raise unprocessable(f"column {name!r:.80} holds neither numbers nor text.")
    return 0


def _lengths(array: Any) -> np.ndarray:
    """Bytes of each text; 0 for all else."""
    if str(array.type) in VIEWS and len(array):
        views = np.frombuffer(array.buffers()[1], "<i4").reshape(-1, 4)
        found = views[array.offset : array.offset + len(array), 0].astype(np.int64)
        found[~array.is_valid().to_numpy(zero_copy_only=False)] = 0
        return found
    if kind_of(array.type) != "text":
        return np.zeros(len(array), dtype=np.int64)
    lengths = arrow("pyarrow.compute").binary_length(array).fill_null(0)
    return lengths.to_numpy(zero_copy_only=False).astype(np.int64)


def _repeats(kind: Any, but: Collection[str] = ()) -> bool:
    """Can the same bytes stand for many values in such a column?"""
    name = str(kind)
    if name.startswith(REPEATING):
        return name not in but
    return any(_repeats(kind.field(k).type) for k in range(kind.num_fields))


# ------------------------------------------------------------------------------------------- rows
def table_of(body: bytes, limits: Limits) -> Any:
    """The table of an Arrow stream, which must not be too large once it is decoded."""
    try:
        table = table_within(body, limits.rows, limits.values, limits.table_bytes)
    except HTTPError:
        raise
    except StreamError as error:
        raise HTTPError(415, str(error)) from None
    except Exception as error:
        raise bad_request(f"the body is not a valid Arrow stream: {error}.") from None
    if table.num_rows == 0:
        raise bad_request("the table has no rows.")
    if len(set(table.column_names)) < table.num_columns:
        raise bad_request("the table has two columns of the same name.")
    return table


def column_of(table: Any, name: str) -> list[Any]:
    if name not in table.column_names:
        raise bad_request(f"the table has no column {name!r:.80}.")
    return values_of(table.column(name))


def values_of(column: Any) -> list[Any]:
    """A column as Python's values; rows with the same dictionary value share one object."""
    if not arrow("pyarrow.types").is_dictionary(column.type):
        found: list[Any] = column.to_pylist()
        return found
    values: list[Any] = []
    for chunk in column.chunks:
        categories = [*chunk.dictionary.to_pylist(), None]
        values += [categories[-1 if k is None else k] for k in chunk.indices.to_pylist()]
    return values


def rows_of_table(scored: ScoredLearner, table: Any) -> Any:
    """The rows of a table as the model takes them: a table, dicts, or a matrix."""
    learner = scored.learner
    if scored.preparing() is not None:
        return table.combine_chunks()
    if learner.__sklearn_is_fitted__():
        names = getattr(learner, "feature_names_in_", None)
        if names is not None:
            if lost := [name for name in names if name not in table.column_names]:
                raise unprocessable(f"the table has no column {lost[0]!r}.")
            table = table.select(list(names))
        elif (columns := getattr(learner, "columns_", None)) is not None:
            if columns.keys() != set(table.column_names):
                return dicts_of_table(table)
            table = table.select(list(columns))
    if not table.num_columns:
        raise bad_request("the table has no columns beside the label.")
    rows = np.empty((table.num_rows, table.num_columns))
    for k, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if kind_of(column.type) not in ("number", "boolean"):
            raise unprocessable(f"column {name!r:.80} does not hold numbers.")
        rows[:, k] = column.cast("float64", safe=False).to_numpy()
    if not np.isfinite(rows).all():
        bad = int(np.argmin(np.isfinite(rows).all(axis=1)))
        raise unprocessable(f"row {bad} has a value that is missing or not finite.")
    return rows


def dicts_of_table(table: Any) -> list[dict[str, Any]]:
    """Rows as dicts of values that the log preserves."""
    types, columns = arrow("pyarrow.types"), []
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type.value_type if types.is_dictionary(column.type) else column.type
        if kind_of(kind) is None:
            raise unprocessable(f"column {name!r:.80} holds neither numbers nor text.")
        values = values_of(column)
        if types.is_decimal(kind):
            values = [None if value is None else float(value) for value in values]
        columns.append(values)
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]
