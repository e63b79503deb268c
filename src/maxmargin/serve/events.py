"""Events, and their format in the log: a kind, a head in JSON, and the bytes of the rows.

Rows are a matrix of numbers, a list of dicts, or a table of Arrow.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np

from maxmargin._extras import Self
from maxmargin.serve.arrow_tables import table_within
from maxmargin.serve.limits import Limits
from maxmargin.streams.arrow import arrow

PREFIX = struct.Struct("<cI")  # the kind, and the length of the head


class LessonHead(msgspec.Struct, omit_defaults=True):
    """The JSON of a lesson in the log, before a matrix or a table."""

    y: list[Any]
    n: tuple[int, int] | None = None
    x: list[dict[str, Any]] | None = None
    w: list[float] | None = None
    i: Sequence[str | None] = ()
    p: str | None = None
    a: int | None = None


LESSON_HEADS = msgspec.json.Decoder(LessonHead)


@dataclass(slots=True)
class Lesson:
    """Rows to learn from, all or none."""

    rows: Any  # array of shape (rows, columns), list of dicts, or pyarrow.Table
    labels: list[Any]
    weights: list[float] | None = None
    # One for each row, or one for all of them.
    ids: Sequence[str | None] = ()
    prediction: str | None = None  # the id of the prediction that the label belongs to
    # The code of the class that this prediction gave to the caller. It is part of the lesson, so
    # that replaying the log scores it even where the prediction is no longer kept.
    answer: int | None = None

    kind: ClassVar[bytes] = b"L"

    def encoded(self) -> bytes:
        rows, blob = self.rows, b""
        head = LessonHead(self.labels, w=self.weights, i=self.ids, p=self.prediction, a=self.answer)
        if isinstance(rows, np.ndarray):
            head.n, blob = rows.shape, rows.tobytes()
        elif isinstance(rows, list):
            head.x = rows
        else:
            blob = table_to_bytes(rows)
        return packed(self.kind, head, blob)

    @classmethod
    def decoded(cls, text: memoryview, blob: memoryview, limits: Limits) -> Lesson:
        head = LESSON_HEADS.decode(text)
        count, weights = len(head.y), head.w
        rows: Any
        if head.n is not None:
            rows = np.frombuffer(blob, np.float64).reshape(head.n).copy()  # aligned
        elif head.x is not None:
            rows = head.x
        else:
            # What a service has written is not compressed, so its own bytes are within the limits,
            # even if these are smaller now.
            size = len(blob)
            values, most = max(limits.values, 8 * size), max(limits.table_bytes, size)
            rows = table_within(blob, count, values, most)
        if (rows.num_rows if hasattr(rows, "num_rows") else len(rows)) != count or not count:
            raise ValueError("its labels are not those of its rows")
        if weights is not None and len(weights) != count:
            raise ValueError("its weights are not those of its rows")
        if len(head.i) not in (0, 1, count):
            raise ValueError("its ids are not those of its rows")
        return cls(rows, head.y, weights, head.i, head.p, head.a)

    def size(self) -> int:
        return len(self.labels)

    def part(self, places: list[int]) -> Lesson:
        """Some of the rows of a lesson with an id for each."""
        rows, weights = self.rows, self.weights
        return Lesson(
            [rows[k] for k in places] if isinstance(rows, list) else rows[places],
            [self.labels[k] for k in places],
            None if weights is None else [weights[k] for k in places],
            [self.ids[k] for k in places],
        )


class PlainEvent(msgspec.Struct, forbid_unknown_fields=True):
    """An event that is stored as the JSON of its fields."""

    kind: ClassVar[bytes]

    def encoded(self) -> bytes:
        return packed(self.kind, self)

    @classmethod
    def decoded(cls, text: memoryview) -> Self:
        return msgspec.json.decode(text, type=cls)


class Prediction(msgspec.Struct, array_like=True):
    """A row that was predicted and waits for its label."""

    id: str
    row: msgspec.Raw  # JSON of an array or object
    time: float  # when it was predicted, in seconds of the epoch
    answer: int  # the code of the class that the caller was given

    def __post_init__(self) -> None:
        self.row = self.row.copy()  # or it would keep the text that it was read from
        if not bytes(self.row).startswith((b"[", b"{")):
            raise ValueError("a row must be an array or an object")

    def size(self) -> int:
        """About what it takes in memory, with its place in a dict."""
        return len(self.row) + len(self.id) + 250


class Waiting(PlainEvent):
    """Rows that were predicted, and whose labels may come."""

    predictions: list[Prediction]

    kind: ClassVar[bytes] = b"W"


class NewShadow(PlainEvent):
    """A new learner that learns from all events that follow."""

    name: str
    algorithm: str
    parameters: dict[str, Any]
    ids: tuple[str, ...] = ()

    kind: ClassVar[bytes] = b"S"


class ShadowEvent(PlainEvent):
    """An event about an existing shadow."""

    name: str
    ids: tuple[str, ...] = ()


class DropShadow(ShadowEvent):
    """A shadow is removed."""

    kind: ClassVar[bytes] = b"D"


class Promotion(ShadowEvent):
    """A shadow changes places with the learner that answers."""

    kind: ClassVar[bytes] = b"P"


Event = Lesson | Waiting | NewShadow | DropShadow | Promotion
KINDS: dict[bytes, Any] = {
    each.kind: each for each in (Lesson, Waiting, NewShadow, DropShadow, Promotion)
}


def packed(kind: bytes, head: msgspec.Struct, blob: bytes = b"") -> bytes:
    text = msgspec.json.encode(head)
    return b"".join((PREFIX.pack(kind, len(text)), text, blob))


def decoded(payload: bytes, limits: Limits | None = None) -> Event:
    """The event that ``encoded`` made of one; an exception if it is none, whatever that is.

    A log may come from a stranger: a table in it has the limits of one in a request.
    """
    kind, size = PREFIX.unpack_from(payload)
    start = PREFIX.size + size
    view = memoryview(payload)
    text, blob = view[PREFIX.size : start], view[start:]
    if kind == Lesson.kind:
        return Lesson.decoded(text, blob, limits or Limits())
    found: Event = KINDS[kind].decoded(text)
    return found


def table_to_bytes(table: Any) -> bytes:
    pa, sink = arrow(), arrow().BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()
