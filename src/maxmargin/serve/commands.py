"""The tasks that requests bring to the writer of a service."""

from __future__ import annotations

import asyncio
import concurrent.futures
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import msgspec
import numpy as np

from maxmargin.serve.events import DropShadow, Event, Lesson, NewShadow, Promotion, Waiting
from maxmargin.serve.http_errors import HTTPError, bad_request
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


def acknowledged(
    outcomes: Sequence[Outcome], learned: int, duplicates: int, sequence: int, *, is_batch: bool
) -> Answer:
    """The answer to a request to learn; ``sequence`` is the last number of a duplicate."""
    for number, refusal in outcomes:
        if refusal is not None:
            raise refusal
        sequence = max(sequence, number)
    again = {"duplicates": duplicates} if is_batch else {"duplicate": duplicates > 0}
    return {"learned": learned, **again, "sequence": sequence}


class Learn(Task):
    """Learn from a lesson; with an id for each row, from those that are new."""

    def __init__(self, lesson: Lesson, size: int = 0, *, by_row: bool = False) -> None:
        self.lesson, self.bytes, self.by_row = lesson, size, by_row
        self.duplicates = self.sequence = 0

    def claims(self) -> Iterable[str]:
        return [each for each in self.lesson.ids if each is not None]

    def prepare(self, model: ServedModel) -> Sequence[Event]:
        lesson = self.lesson
        learned = [model.learned_as(each) for each in lesson.ids]
        if any(learned) or (self.by_row and len(set(lesson.ids)) < len(lesson.ids)):
            self.sequence = max(learned)
            new = self._new_rows(learned) if self.by_row else []
            self.duplicates = len(lesson.ids) - len(new)
            if not new:
                return []
            self.lesson = lesson.part(new)
        model.check(self.lesson)
        return [self.lesson]

    def _new_rows(self, learned: list[int]) -> list[int]:
        """The rows whose ids have not been learned, nor stand in a row before."""
        seen: set[str | None] = set()
        new = []
        for k, each in enumerate(self.lesson.ids):
            if each is None or not (learned[k] or each in seen):
                new.append(k)
            seen.add(each)
        return new

    def answer(self, outcomes: Sequence[Outcome]) -> Answer:
        learned = self.lesson.size() if outcomes else 0
        return acknowledged(outcomes, learned, self.duplicates, self.sequence, is_batch=self.by_row)


class LabelledId(NamedTuple):
    """The label of the row that was predicted with this id."""

    id: str
    label: Any
    weight: float | None


class Label(Task):
    """Learn from rows that were predicted, given their labels; from each exactly once."""

    def __init__(self, answers: Sequence[LabelledId], size: int = 0, *, is_batch: bool) -> None:
        self.answers, self.bytes, self.is_batch = answers, size, is_batch
        self.duplicates = self.sequence = 0

    def claims(self) -> Iterable[str]:
        return [each.id for each in self.answers]

    def prepare(self, model: ServedModel) -> Sequence[Event]:
        lessons, now = dict[str, Lesson](), time.time()
        for key, label, weight in self.answers:
            if key in lessons:
                before: tuple[Any, int] | None = (lessons[key].labels[0], 0)
            else:
                before = model.labelled.get(key)
            if before is not None and before[0] != label:
                raise HTTPError(409, f"id {key!r} has the label {before[0]!r} already.")
            if before is not None or model.learned_as(key):
                self.duplicates += 1
                self.sequence = max(self.sequence, model.learned_as(key))
                continue
            predicted = model.waiting.get(key, now)
            if predicted is None:
                raise HTTPError(404, f"no prediction with the id {key!r} waits for its label.")
            lessons[key] = lesson_of(predicted, label, weight)
            model.check(lessons[key])
        return list(lessons.values())

    def answer(self, outcomes: Sequence[Outcome]) -> Answer:
        return acknowledged(
            outcomes, len(outcomes), self.duplicates, self.sequence, is_batch=self.is_batch
        )


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
        self.event, self.sequence = event, 0

    def prepare(self, model: ServedModel) -> Sequence[Event]:
        for key in self.event.ids:
            if (sequence := model.ids.get(key)) is not None:
                self.sequence = sequence
                return []
        model.check(self.event)
        return [self.event]

    def answer(self, outcomes: Sequence[Outcome]) -> Answer:
        for sequence, refusal in outcomes:
            if refusal is not None:
                raise refusal
            return {"sequence": sequence, "duplicate": False}
        return {"sequence": self.sequence, "duplicate": True}


class Call(Task):
    """Call a function between two events, when the learners do not change."""

    is_alone = True

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function

    def prepare(self, model: ServedModel) -> Sequence[Event]:
        return ()

    def answer(self, outcomes: Sequence[Outcome]) -> Any:
        return self.function()


def lesson_of(predicted: Prediction, label: Any, weight: float | None) -> Lesson:
    """The row of a prediction with its label."""
    row = msgspec.json.decode(predicted.row)
    rows = [row] if isinstance(row, dict) else np.array([row], dtype=np.float64)
    weights = None if weight is None else [weight]
    return Lesson(rows, [label], weights, (), predicted.id, predicted.answer)


def new_id() -> str:
    return secrets.token_hex(8)


def checked_id(found: str | None, most: int, where: str = "") -> str:
    """The id, which must not be too long; ``where`` is its place in the request."""
    if not found or len(found) > most:
        place = f"{where}: " if where else ""
        raise bad_request(f"{place}id must have 1 to {most} characters, got {found!r:.80}.")
    return found
