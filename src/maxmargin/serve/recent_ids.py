"""What a service remembers beside its learners: ids of events, and predictions without labels."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

import msgspec

V = TypeVar("V")


class Ids(Generic[V]):
    """A dict of the most recent ids; the oldest goes when there are too many."""

    def __init__(self, most: int, items: list[tuple[str, V]]) -> None:
        self.most = most
        self._items = OrderedDict(items)

    def get(self, key: str | None) -> V | None:
        return None if key is None else self._items.get(key)

    def __len__(self) -> int:
        return len(self._items)

    def add(self, key: str, value: V) -> None:
        self._items[key] = value
        if len(self._items) > self.most:
            self._items.popitem(last=False)

    def text(self) -> str:
        return msgspec.json.encode(list(self._items.items())).decode()


class Prediction(msgspec.Struct, array_like=True):
    """A row that was predicted and waits for its label."""

    id: str
    row: msgspec.Raw  # JSON of an array or object
    time: float  # when it was predicted, in seconds of the epoch
    # The code of the class that the caller was given; some snapshots do not have it.
    answer: int | None = None

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

    def __init__(self, most: int, most_bytes: int, seconds: float, items: list[Prediction]) -> None:
        self.most, self.most_bytes, self.seconds = most, most_bytes, seconds
        self._waiting: OrderedDict[str, Prediction] = OrderedDict()
        self.bytes = 0
        for item in items:
            self.add(item)

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, one: Prediction) -> None:
        """Keep a prediction, in place of one with the same id that has expired."""
        self.remove(one.id)
        self._waiting[one.id] = one
        self.bytes += one.size()
        while len(self._waiting) > self.most or self.bytes > self.most_bytes:
            self.remove(next(iter(self._waiting)))

    def get(self, key: str, now: float) -> Prediction | None:
        """The prediction with this id; None if the id is unknown or has expired."""
        one = self._waiting.get(key)
        return None if one is None or self._has_expired(one, now) else one

    def expire(self, now: float) -> None:
        """Remove the oldest ones that have expired."""
        while self._waiting:
            one = next(iter(self._waiting.values()))
            if not self._has_expired(one, now):
                break
            self.remove(one.id)

    def _has_expired(self, one: Prediction, now: float) -> bool:
        return one.time < now - self.seconds

    def remove(self, key: str) -> None:
        one = self._waiting.pop(key, None)
        if one is not None:
            self.bytes -= one.size()

    def text(self) -> str:
        return msgspec.json.encode(list(self._waiting.values())).decode()
