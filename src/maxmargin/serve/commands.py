"""The tasks that requests bring to the writer of a service."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from maxmargin.serve.events import Event, Lesson, Waiting
from maxmargin.serve.http_errors import HTTPError, bad_request
from maxmargin.serve.recent_ids import Prediction
from maxmargin.serve.service import Outcome, Service, Task


class Learn(Task):
    """Learn from a lesson; with an id for each row, from those that are new."""

    def __init__(self, lesson: Lesson, size: int = 0, *, by_row: bool = False) -> None:
        self.lesson, self.bytes, self.by_row = lesson, size, by_row
        self.duplicates, self.known = 0, 0

    def claims(self) -> Iterable[str]:
        return [each for each in self.lesson.ids if each is not None]

    def prepare(self, service: Service) -> Sequence[Event]:
        lesson = self.lesson
        known = [service.learned_as(each) for each in lesson.ids]
        if not any(known) and not (self.by_row and len(set(lesson.ids)) < len(lesson.ids)):
            service.check_room(lesson)
            return [lesson]
        if not self.by_row:
            self.duplicates, self.known = 1, known[0]
            return []
        seen: set[str | None] = set()
        new = []
        for k, each in enumerate(lesson.ids):
            if each is None or not (known[k] or each in seen):
                new.append(k)
            else:
                self.known = max(self.known, known[k])
            seen.add(each)
        self.duplicates = len(lesson.ids) - len(new)
        if not new:
            return []
        self.lesson = Lesson(
            [lesson.rows[k] for k in new] if isinstance(lesson.rows, list) else lesson.rows[new],
            [lesson.labels[k] for k in new],
            None if lesson.weights is None else [lesson.weights[k] for k in new],
            [lesson.ids[k] for k in new],
        )
        service.check_room(self.lesson)
        return [self.lesson]

    def answer(self, outcomes: Sequence[Outcome]) -> Any:
        for sequence, refusal in outcomes:
            if refusal is not None:
                raise refusal
            self.known = max(self.known, sequence)
        learned = self.lesson.size() if outcomes else 0
        if self.by_row:
            return {"learned": learned, "duplicates": self.duplicates, "sequence": self.known}
        return {"learned": learned, "duplicate": self.duplicates > 0, "sequence": self.known}


class LabelledId(NamedTuple):
    """The label that a prediction should have had."""

    id: str
    label: Any
    weight: float | None


class Label(Task):
    """Learn from rows that were predicted, now that their labels are there; each exactly once."""

    def __init__(self, answers: Sequence[LabelledId], size: int = 0, *, is_batch: bool) -> None:
        self.answers, self.bytes, self.is_batch = answers, size, is_batch
        self.duplicates, self.known = 0, 0

    def claims(self) -> Iterable[str]:
        return [each.id for each in self.answers]

    def prepare(self, service: Service) -> Sequence[Event]:
        lessons, now = dict[str, Lesson](), time.time()
        for key, label, weight in self.answers:
            if key in lessons:
                known = [lessons[key].labels[0], 0]
            else:
                known = service.labelled.get(key)
            if known is not None and known[0] != label:
                raise HTTPError(409, f"id {key!r} has the label {known[0]!r} already.")
            if known is not None or service.learned_as(key):
                self.duplicates += 1
                self.known = max(self.known, service.learned_as(key))
                continue
            predicted = service.waiting.get(key, now)
            if predicted is None:
                raise HTTPError(404, f"no prediction with the id {key!r} waits for its label.")
            lessons[key] = lesson_of(key, predicted, label, weight)
            service.check_room(lessons[key])
        return list(lessons.values())

    def answer(self, outcomes: Sequence[Outcome]) -> Any:
        refused = [refusal for _, refusal in outcomes if refusal is not None]
        learned = len(outcomes) - len(refused)
        if refused:
            raise refused[0]
        known = max([self.known, *(sequence for sequence, _ in outcomes)])
        if self.is_batch:
            return {"learned": learned, "duplicates": self.duplicates, "sequence": known}
        return {"learned": learned, "duplicate": self.duplicates > 0, "sequence": known}


class Await(Task):
    """Keep rows that were predicted, and the classes that were the answers, until labels come.

    A retry with a known id changes nothing: the first answer is the one that is scored. Nor does an
    id that has been learned already, whose label is known.
    """

    def __init__(
        self, ids: list[str], rows: list[Any], answers: Sequence[Any], size: int = 0
    ) -> None:
        self.ids, self.rows, self.answers, self.bytes = ids, rows, answers, size

    def claims(self) -> Iterable[str]:
        return self.ids

    def prepare(self, service: Service) -> Sequence[Event]:
        now = time.time()
        new = [
            (key, row, service.places[answer])
            for key, row, answer in zip(self.ids, self.rows, self.answers, strict=True)
            if service.waiting.get(key, now) is None and not service.learned_as(key)
        ]
        if not new:
            return []
        ids, rows, answers = (list(each) for each in zip(*new, strict=True))
        return [Waiting(ids, rows, now, answers)]

    def answer(self, outcomes: Sequence[Outcome]) -> Any:
        return {"ids": self.ids}


class Call(Task):
    """Call a function between two events, when the learners hold still."""

    is_alone = True

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function

    def prepare(self, service: Service) -> Sequence[Event]:
        return ()

    def answer(self, outcomes: Sequence[Outcome]) -> Any:
        return self.function()


def lesson_of(key: str, predicted: Prediction, label: Any, weight: float | None) -> Lesson:
    """What is learned when the label of a prediction comes."""
    row = msgspec.json.decode(predicted.row)
    rows = [row] if isinstance(row, dict) else np.array([row], dtype=np.float64)
    weights = None if weight is None else [weight]
    return Lesson(rows, [label], weights, (), key, predicted.answer)


def new_id() -> str:
    return secrets.token_hex(8)


def checked_id(found: str | None, most: int, where: str = "") -> str:
    if not found or len(found) > most:
        place = f"{where}: " if where else ""
        raise bad_request(f"{place}id must have 1 to {most} characters, got {found!r:.80}.")
    return found
