"""What a service remembers beside its learners: ids of events, and predictions without labels."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import orjson


class Ids:
    """The last ids, each with what is known of it."""

    def __init__(self, most: int, found: Any = ()) -> None:
        self.most = most
        self._known: OrderedDict[str, Any] = OrderedDict((key, value) for key, value in found)

    def get(self, key: str) -> Any:
        return self._known.get(key)

    def __contains__(self, key: str | None) -> bool:
        return key in self._known

    def __len__(self) -> int:
        return len(self._known)

    def add(self, key: str, value: Any) -> None:
        self._known[key] = value
        if len(self._known) > self.most:
            self._known.popitem(last=False)

    def text(self) -> str:
        return orjson.dumps(list(self._known.items())).decode()

    @classmethod
    def from_text(cls, most: int, text: str) -> Ids:
        return cls(most, orjson.loads(text))


class Prediction(NamedTuple):
    """A row that was predicted, as JSON, and when."""

    row: bytes
    time: float


# What a dict takes beside an id and a row, about.
OVERHEAD = 250


class Predictions:
    """Those that wait for their labels; the oldest go when there are too many, or too large."""

    def __init__(self, most: int, most_bytes: int, seconds: float) -> None:
        self.most, self.most_bytes, self.seconds = most, most_bytes, seconds
        self._waiting: OrderedDict[str, Prediction] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: str) -> bool:
        return key in self._waiting

    def add(self, key: str, row: Any, time: float) -> None:
        if key in self._waiting:
            return
        one = Prediction(orjson.dumps(row), time)
        self._waiting[key] = one
        self.bytes += len(one.row) + len(key) + OVERHEAD
        while len(self._waiting) > self.most or self.bytes > self.most_bytes:
            self._drop(next(iter(self._waiting)))

    def row(self, key: str, now: float) -> Any:
        """The row of a prediction; None if it is not known, or too old."""
        self.expire(now)
        one = self._waiting.get(key)
        return None if one is None else orjson.loads(one.row)

    def expire(self, now: float) -> None:
        while self._waiting:
            key, one = next(iter(self._waiting.items()))
            if one.time >= now - self.seconds:
                break
            self._drop(key)

    def remove(self, key: str) -> None:
        if key in self._waiting:
            self._drop(key)

    def _drop(self, key: str) -> None:
        one = self._waiting.pop(key)
        self.bytes -= len(one.row) + len(key) + OVERHEAD

    def text(self) -> str:
        parts = [
            b"[%s,%s,%s]" % (orjson.dumps(key), one.row, orjson.dumps(one.time))
            for key, one in self._waiting.items()
        ]
        return (b"[" + b",".join(parts) + b"]").decode()

    def fill(self, text: str) -> None:
        for key, row, time in orjson.loads(text):
            self.add(key, row, time)
