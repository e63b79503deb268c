"""Events, and how they stand in the log: a kind, a head in JSON, and numbers behind it.

Rows are a matrix of numbers, a list of dicts, or a table of Arrow.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, fields
from types import NoneType
from typing import Any, ClassVar

import msgspec
import numpy as np

from maxmargin._extras import Self
from maxmargin.serve.arrow_sizes import table_within
from maxmargin.serve.limits import Limits
from maxmargin.streams.arrow import arrow

PREFIX = struct.Struct("<cI")  # the kind, and the length of the head


@dataclass(slots=True)
class Lesson:
    """Rows to learn from, all or none.

    Attributes
    ----------
    rows : array of shape (rows, columns), list of dicts, or pyarrow.Table
    labels : list
    weights : list of float, or None
    ids : list of str or None, one for each row; or a list of one, for all of them
    prediction : str or None
        The id of the prediction that the label belongs to.
    answer : int or None
        The code of the class that this prediction gave to the caller. It is part of the lesson, so
        that replaying the log scores it even where the prediction is no longer kept.
    """

    rows: Any
    labels: list[Any]
    weights: list[float] | None = None
    ids: Sequence[str | None] = ()
    prediction: str | None = None
    answer: int | None = None

    kind: ClassVar[bytes] = b"L"

    def encoded(self) -> bytes:
        rows, blob = self.rows, b""
        head: dict[str, Any] = {"y": self.labels}
        if isinstance(rows, np.ndarray):
            head["n"], blob = rows.shape, rows.tobytes()
        elif isinstance(rows, list):
            head["x"] = rows
        else:
            blob = table_to_bytes(rows)
        if self.weights is not None:
            head["w"] = self.weights
        if self.ids:
            head["i"] = self.ids
        if self.prediction is not None:
            head["p"] = self.prediction
        if self.answer is not None:
            head["a"] = self.answer
        return packed(self.kind, head, blob)

    @classmethod
    def decoded(cls, head: dict[str, Any], blob: memoryview, limits: Limits) -> Lesson:
        if "n" in head:
            rows: Any = np.frombuffer(blob, np.float64).reshape(head["n"]).copy()  # aligned
        elif "x" in head:
            rows = head["x"]
        else:
            # What a service has written is not compressed, so its own bytes are within the limits,
            # whatever they are by now.
            count, size = len(head["y"]), len(blob)
            values, most = max(limits.values, 8 * size), max(limits.table_bytes, size)
            rows = table_within(blob, count, values, most)
        labels, weights, ids = head["y"], head.get("w"), head.get("i", ())
        prediction, answer = head.get("p"), head.get("a")
        count = rows.num_rows if hasattr(rows, "num_rows") else len(rows)
        _check(isinstance(labels, list) and len(labels) == count > 0, "labels")
        _check(not isinstance(rows, np.ndarray) or rows.ndim == 2, "rows")
        _check(not isinstance(rows, list) or all(type(row) is dict for row in rows), "rows")
        _check(weights is None or _are(weights, count, int, float), "weights")
        _check(_are(ids, len(ids), str, NoneType) and len(ids) in (0, 1, count), "ids")
        _check(isinstance(prediction, str | None) and isinstance(answer, int | None), "prediction")
        return cls(rows, labels, weights, ids, prediction, answer)

    def size(self) -> int:
        return len(self.labels)


@dataclass(slots=True)
class Waiting:
    """Rows that were predicted, and whose labels may come; each is JSON.

    Attributes
    ----------
    answers : list of int or None
        The codes of the classes that the caller was given; None in logs that do not have them.
    """

    ids: list[str]
    rows: list[Any]
    answers: Sequence[int | None]
    time: float

    kind: ClassVar[bytes] = b"W"

    def encoded(self) -> bytes:
        head = {"i": self.ids, "x": self.rows, "a": self.answers, "t": self.time}
        return packed(self.kind, head)

    @classmethod
    def decoded(cls, head: dict[str, Any], blob: memoryview) -> Waiting:
        ids, rows, time = head["i"], head["x"], head["t"]
        answers = head.get("a") or [None] * len(ids)
        _check(_are(ids, len(ids), str), "ids")
        _check(_are(rows, len(ids), list, dict), "rows")
        _check(_are(answers, len(ids), int, NoneType), "answers")
        _check(type(time) in (int, float), "time")
        return cls(ids, rows, answers, time)


class Change:
    """An event that is its fields, and nothing else."""

    __slots__ = ()
    kind: ClassVar[bytes]
    ids: Sequence[str | None]

    def encoded(self) -> bytes:
        known: Any = self
        return packed(self.kind, {each.name: getattr(self, each.name) for each in fields(known)})

    @classmethod
    def decoded(cls, head: dict[str, Any], blob: memoryview) -> Self:
        found = cls(**head)
        wanted = {"name": str, "algorithm": str, "parameters": dict}
        _check(all(type(head[each]) is wanted.get(each, list) for each in head), "fields")
        _check(_are(found.ids, len(found.ids), str, NoneType), "ids")
        return found


@dataclass(slots=True)
class NewShadow(Change):
    """A learner that begins with nothing, and learns along."""

    name: str
    algorithm: str
    parameters: dict[str, Any]
    ids: Sequence[str | None] = ()

    kind: ClassVar[bytes] = b"S"


@dataclass(slots=True)
class DropShadow(Change):
    """A shadow ends."""

    name: str
    ids: Sequence[str | None] = ()

    kind: ClassVar[bytes] = b"D"


@dataclass(slots=True)
class Promotion(Change):
    """A shadow changes places with the learner that answers."""

    name: str
    ids: Sequence[str | None] = ()

    kind: ClassVar[bytes] = b"P"


Event = Lesson | Waiting | NewShadow | DropShadow | Promotion
KINDS: dict[bytes, Any] = {
    each.kind: each for each in (Lesson, Waiting, NewShadow, DropShadow, Promotion)
}


def packed(kind: bytes, head: dict[str, Any], blob: bytes = b"") -> bytes:
    text = msgspec.json.encode(head)
    return b"".join((PREFIX.pack(kind, len(text)), text, blob))


def decoded(payload: bytes, limits: Limits | None = None) -> Event:
    """The event that ``encoded`` made of one; an exception if it is none, whatever that is.

    A log may come from a stranger: a table in it has the limits of one in a request.
    """
    kind, size = PREFIX.unpack_from(payload)
    start = PREFIX.size + size
    view = memoryview(payload)
    head, blob = msgspec.json.decode(view[PREFIX.size : start]), view[start:]
    if kind == Lesson.kind:
        return Lesson.decoded(head, blob, limits or Limits())
    found: Event = KINDS[kind].decoded(head, blob)
    return found


def _check(is_right: bool, what: str) -> None:
    if not is_right:
        raise ValueError(f"its {what} are not those of an event")


def _are(values: Any, size: int, *kinds: type) -> bool:
    """Is it a list of so many values of these types?"""
    return (
        isinstance(values, list | tuple)
        and len(values) == size
        and set(map(type, values)) <= set(kinds)
    )


def table_to_bytes(table: Any) -> bytes:
    pa, sink = arrow(), arrow().BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()
