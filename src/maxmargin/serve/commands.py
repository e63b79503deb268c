"""The tasks that requests bring to the writer of a service."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import msgspec
import numpy as np

from maxmargin.serve.bodies import LabelRow
from maxmargin.serve.events import DropShadow, Event, Lesson, NewShadow, Promotion, Waiting
from maxmargin.serve.http_errors import HTTPError
from maxmargin.serve.recent_ids import Prediction
from maxmargin.serve.served_model import Outcome, ServedModel

Answer = dict[str, Any]


class Task(ABC):
    """One request.

    It is prepared in its turn, just before its events are written: only the model at that moment
    decides.
    """

    bytes: int = 0  # about what it takes in memory while it waits
    is_alone: ClassVar[bool] = False  # must it not share a write with others?
    duplicates = sequence = 0  # events that were learned before, and the number of the last one
    # Where the answer goes, and the event loop of the future, if it has one.
    future: asyncio.Future[Any] | concurrent.futures.Future[Any]
    loop: asyncio.AbstractEventLoop | None = None

    def claims(self) -> Iterable[str]:
        """The ids that it depends on: tasks with the same are never written together."""
        return ()

    @abstractmethod
    def prepare(self, model: ServedModel) -> Sequence[Event]:
        """The events to write; none if there is nothing left to do."""

    @abstractmethod
    def answer(self, outcomes: Sequence[Outcome]) -> Any:
        """The answer to the request, given what became of its events."""

    def acknowledged(self, outcomes: Sequence[Outcome], learned: int, *, is_batch: bool) -> Answer:
        """The answer to a request to learn."""
        again = {"duplicates": self.duplicates} if is_batch else {"duplicate": self.duplicates > 0}
        return {"learned": learned, **again, "sequence": self.last_of(outcomes)}

    def last_of(self, outcomes: Sequence[Outcome]) -> int:
        """The number of the last event; raises if one of them is refused."""
        sequence = self.sequence
        for number, refusal in outcomes:
            if refusal is not None:
                raise refusal
            sequence = max(sequence, number)
        return sequence


class Learn(Task):
    """Learn from a lesson; with an id for each row, from those that are new."""

    def __init__(self, lesson: Lesson, size: int = 0, *, by_row: bool = False) -> None:
        self.lesson, self.bytes, self.by_row = lesson, size, by_row

    def claims(self) -> Iterable[str]:
        return [each for each in self.lesson.ids if each is not None]

    def prepare(self, model: ServedModel) -> Sequence[Event]:
        ids = self.lesson.ids
        learned = [model.learned_as(key) for key in ids]
        seen, new = set[str | None](), list[int]()
        for k, key in enumerate(ids):
            if key is None or not (learned[k] or key in seen):
                new.append(k)
            seen.add(key)
        if len(new) < len(ids):
            self.duplicates, self.sequence = len(ids) - len(new), max(learned)
            if not new:
                return []
            self.lesson = self.lesson.part(new)
        model.check(self.lesson)
        return [self.lesson]

    def answer(self, outcomes: Sequence[Outcome]) -> Answer:
        learned = self.lesson.size() if outcomes else 0
        return self.acknowledged(outcomes, learned, is_batch=self.by_row)


class Label(Task):
    """Learn from rows that were predicted, given their labels; from each exactly once."""

    def __init__(self, labels: Sequence[LabelRow], size: int = 0, *, is_batch: bool) -> None:
        self.labels, self.bytes, self.is_batch = labels, size, is_batch

    def claims(self) -> Iterable[str]:
        return [each.id for each in self.labels]

    def prepare(self, model: ServedModel) -> Sequence[Event]:
        lessons, now = dict[str, Lesson](), time.time()
        for each in self.labels:
            key = each.id
            before, number = model.labelled.get(key) or (None, model.learned_as(key))
            if key in lessons:
                before, number = lessons[key].labels[0], 0
            if before is not None and before != each.label:
                raise HTTPError(409, f"id {key!r} has the label {before!r} already.")
            if before is not None or number:
                self.duplicates += 1
                self.sequence = max(self.sequence, number)
                continue
            predicted = model.waiting.get(key, now)
            if predicted is None:
                raise HTTPError(404, f"no prediction with the id {key!r} waits for its label.")
            lessons[key] = lesson_of(predicted, each)
            model.check(lessons[key])
        return list(lessons.values())

    def answer(self, outcomes: Sequence[Outcome]) -> Answer:
        return self.acknowledged(outcomes, len(outcomes), is_batch=self.is_batch)


class Await(Task):
    """Keep rows that were predicted, and the classes that were the answers, until labels come.

    An id that waits already, or that has been learned, changes nothing: the first answer under an
    id is the one that is scored.
    """

    def __init__(
        self, ids: list[str], rows: list[Any], answers: Sequence[Any], size: int = 0
    ) -> None:
        self.ids, self.rows, self.answers, self.bytes = ids, rows, answers, size

    def claims(self) -> Iterable[str]:
        return self.ids

    def prepare(self, model: ServedModel) -> Sequence[Event]:
        now = time.time()
        new = [
            Prediction(key, msgspec.Raw(msgspec.json.encode(row)), now, model.codes[answer])
            for key, row, answer in zip(self.ids, self.rows, self.answers, strict=True)
            if model.waiting.get(key, now) is None and not model.learned_as(key)
        ]
        return [Waiting(new)] if new else []

    def answer(self, outcomes: Sequence[Outcome]) -> Answer:
        return {"ids": self.ids}


class ChangeShadows(Task):
    """Add, remove or promote a shadow."""

    is_alone = True

    def __init__(self, event: NewShadow | DropShadow | Promotion) -> None:
        self.event = event

    def prepare(self, model: ServedModel) -> Sequence[Event]:
        for key in self.event.ids:
            if (sequence := model.ids.get(key)) is not None:
                self.sequence = sequence
                return []
        model.check(self.event)
        return [self.event]

    def answer(self, outcomes: Sequence[Outcome]) -> Answer:
        return {"sequence": self.last_of(outcomes), "duplicate": not outcomes}


class Call(Task):
    """Call a function between two events, when the learners do not change."""

    is_alone = True

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function

    def prepare(self, model: ServedModel) -> Sequence[Event]:
        return ()

    def answer(self, outcomes: Sequence[Outcome]) -> Any:
        return self.function()


def lesson_of(predicted: Prediction, labelled: LabelRow) -> Lesson:
    """The row of a prediction with its label."""
    row = msgspec.json.decode(predicted.row)
    rows = [row] if isinstance(row, dict) else np.array([row], dtype=np.float64)
    weights = None if labelled.weight is None else [labelled.weight]
    return Lesson(rows, [labelled.label], weights, (), predicted.id, predicted.answer)
