"""Data frames of pandas, polars, pyarrow and others, through narwhals."""

from __future__ import annotations

import hashlib
import importlib
from collections import Counter
from collections.abc import Generator, Mapping
from typing import Any

from maxmargin.streams.arrow import Piece, place_behind
from maxmargin.streams.columnar import NUMBER_SIZE, as_stream_errors
from maxmargin.streams.source import START, Position, StreamError


class FrameReader:
    """Tables from a data frame of any library that narwhals knows, converted slice by slice.

    ``block_size`` is in bytes, eight for each value.
    """

    repeatable = True

    def __init__(self, frame: Any, *, block_size: int) -> None:
        try:
            narwhals = importlib.import_module("narwhals")
        except ModuleNotFoundError:
            raise StreamError("frames need narwhals: pip install 'maxmargin[streams]'") from None
        self._block_size = block_size
        self.name = f"<{type(frame).__module__.split('.')[0]} frame>"
        names = frame.column_names if hasattr(frame, "column_names") else frame.columns
        for name, times in Counter(map(str, names)).most_common(1):
            if times > 1:
                raise StreamError(f"{self.name}: there are {times} columns {name!r}.")
        self._frame = narwhals.from_native(frame, eager_only=True)
        if any(not isinstance(name, str) for name in self._frame.columns):  # pandas
            self._frame = self._frame.rename({name: str(name) for name in self._frame.columns})
        self.rows: int | None = len(self._frame)
        self.total: int | None = int(self._frame.estimated_size())

    def kinds(self) -> dict[str, str | None]:
        """The columns and their kinds."""
        narwhals = importlib.import_module("narwhals")
        texts = (narwhals.String, narwhals.Categorical, narwhals.Enum)

        def kind_of(dtype: Any) -> str | None:
            if dtype == narwhals.Boolean:
                return "boolean"
            if dtype.is_numeric():
                return "number"
            return "text" if any(dtype == text for text in texts) else None

        return {name: kind_of(dtype) for name, dtype in self._frame.schema.items()}

    def pieces(self, start: Position, kinds: Mapping[str, str]) -> Generator[range, None, None]:
        """Ranges of rows, which `read` converts."""
        rows = max(1, self._block_size // (NUMBER_SIZE * max(1, len(kinds))))
        for row in range(start.offset, len(self._frame), rows):
            yield range(row, min(row + rows, len(self._frame)))

    def read(self, rows: range, kinds: Mapping[str, str]) -> Piece:
        with as_stream_errors(self.name):
            table = self._frame[rows.start : rows.stop].select(*kinds).to_arrow()
        done = int((self.total or 0) * rows.stop / len(self._frame))
        return Piece(table, rows.stop, 0, done, (), place_behind(rows.start))

    def whole(self) -> Any:
        with as_stream_errors(self.name):
            return self._frame.to_arrow().select(self._frame.columns)  # without an index

    def identity(self) -> str:
        """A hash of the columns and of the first and the last rows."""
        hashed = hashlib.sha256(f"{self._frame.schema} {len(self._frame)}".encode())
        names = dict.fromkeys(self._frame.columns, "")
        pieces = list(self.pieces(START, names))
        for rows in (*pieces[:1], *pieces[-1:]):
            for batch in self.read(rows, names).table.to_batches():
                hashed.update(batch.serialize())
        return hashed.hexdigest()


def is_frame(source: Any) -> bool:
    """Whether it has columns, and all rows in memory."""
    if hasattr(source, "collect"):  # a lazy frame, whose columns may be expensive
        return False
    if not (hasattr(source, "columns") or hasattr(source, "column_names")):
        return False
    try:
        narwhals = importlib.import_module("narwhals")
        frame = narwhals.from_native(source, eager_only=True, pass_through=True)
    except ModuleNotFoundError:
        return True  # the reader reports it
    except ValueError:  # two columns have the same name, which the reader reports
        return True
    return isinstance(frame, narwhals.DataFrame)
