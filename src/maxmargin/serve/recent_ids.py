"""What a service remembers beside its learners: ids of events, and predictions without labels."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Generic, TypeVar

import msgspec

V = TypeVar("V")


class Ids(OrderedDict[str, V], Generic[V]):
    """A dict of the most recent ids."""

    def add(self, key: str, value: V, most: int) -> None:
        """Remember an id; the oldest goes when there are too many."""
        self[key] = value
        if len(self) > most:
            self.popitem(last=False)


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


class Predictions:
    """Predictions that wait for their labels; the oldest go when there are too many, or too large.

    What is kept is a function of the events in the log, at the times that stand there: looking one
    up changes nothing.
    """

    def __init__(self, most: int, most_bytes: int, seconds: float) -> None:
        self.most, self.most_bytes, self.seconds = most, most_bytes, seconds
        self.waiting: OrderedDict[str, Prediction] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, one: Prediction) -> None:
        """Keep a prediction, in place of one with the same id that has expired."""
        self.remove(one.id)
        self.waiting[one.id] = one
        self.bytes += one.size()
        while len(self.waiting) > self.most or self.bytes > self.most_bytes:
            self.remove(next(iter(self.waiting)))

    def get(self, key: str, now: float) -> Prediction | None:
        """The prediction with this id; None if the id is unknown or has expired."""
        one = self.waiting.get(key)
        return None if one is None or one.time < now - self.seconds else one

    def expire(self, now: float) -> None:
        """Remove the oldest ones that have expired."""
        while self.waiting and (one := next(iter(self.waiting.values()))).time < now - self.seconds:
            self.remove(one.id)

    def remove(self, key: str) -> None:
        one = self.waiting.pop(key, None)
        if one is not None:
            self.bytes -= one.size()


def to_text(values: Any) -> str:
    return msgspec.json.encode(list(values)).decode()
