"""What a service remembers beside its learners: ids of events, and predictions without labels."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec


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
        return msgspec.json.encode(list(self._known.items())).decode()


class Prediction(NamedTuple):
    """A row that was predicted, as JSON, when, and the code of the class that was the answer."""

    row: bytes
    time: float
    answer: int | None


# What a dict takes beside an id and a row, about.
OVERHEAD = 250


class Predictions:
    """Those that wait for their labels; the oldest go when there are too many, or too large.

    What is kept is a function of the events in the log: they change it at their own times, and
    whoever asks changes nothing.
    """

    def __init__(self, most: int, most_bytes: int, seconds: float) -> None:
        self.most, self.most_bytes, self.seconds = most, most_bytes, seconds
        self._waiting: OrderedDict[str, Prediction] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: str, row: Any, time: float, answer: int | None) -> None:
        """Keep a prediction, in place of one with the same id that has expired."""
        self.remove(key)
        one = Prediction(msgspec.json.encode(row), time, answer)
        self._waiting[key] = one
        self.bytes += len(one.row) + len(key) + OVERHEAD
        while len(self._waiting) > self.most or self.bytes > self.most_bytes:
            self._drop(next(iter(self._waiting)))

    def get(self, key: str, now: float) -> Prediction | None:
        """The prediction with this id; None if it is not known, or too old."""
        one = self._waiting.get(key)
        return None if one is None or self._is_old(one, now) else one

    def expire(self, now: float) -> None:
        """Drop the oldest, as far as they are too old."""
        while self._waiting:
            key, one = next(iter(self._waiting.items()))
            if not self._is_old(one, now):
                break
            self._drop(key)

    def _is_old(self, one: Prediction, now: float) -> bool:
        return one.time < now - self.seconds

    def remove(self, key: str) -> None:
        if key in self._waiting:
            self._drop(key)

    def _drop(self, key: str) -> None:
        one = self._waiting.pop(key)
        self.bytes -= len(one.row) + len(key) + OVERHEAD

    def text(self) -> str:
        parts = [
            b"[%s,%s,%s]" % (msgspec.json.encode(key), one.row, msgspec.json.encode(one[1:])[1:-1])
            for key, one in self._waiting.items()
        ]
        return (b"[" + b",".join(parts) + b"]").decode()

    def fill(self, found: list[Any]) -> None:
        for key, row, time, *answer in found:  # some snapshots have no answers
            self.add(key, row, time, *(answer or [None]))


# ---------------------------------------------------------------------------------------- for files
def ids_from(text: str) -> list[Any]:
    """What `Ids.text` has written of events; a ValueError if it is something else."""
    return _checked(text, lambda number: type(number) is int)


def labelled_from(text: str) -> list[Any]:
    """The same of ids with their labels."""
    return _checked(text, lambda known: len(known) == 2 and type(known[1]) is int)


def waiting_from(text: str) -> list[Any]:
    """What `Predictions.text` has written; a ValueError if it is something else."""

    def is_prediction(row: Any, time: Any, answer: Any = None) -> bool:
        is_row = type(row) in (list, dict) and type(time) in (int, float)
        return is_row and isinstance(answer, int | None)

    return _checked(text, is_prediction)


def _checked(text: str, is_right: Callable[..., bool]) -> list[Any]:
    found = msgspec.json.decode(text)
    for key, *known in found:
        if type(key) is not str or not is_right(*known):
            raise ValueError("its ids are none")
    return list(found)
