"""Requests: from their bodies to tasks of the thread that writes and learns, and their answers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, ClassVar

import msgspec
import numpy as np

from maxmargin.serve.arrow_tables import column_of, rows_of_table, table_of
from maxmargin.serve.bodies import (
    ARROW,
    JSON,
    LABEL,
    LABEL_LINE,
    LEARN,
    LEARN_LINE,
    NDJSON,
    LabelRow,
    LabelRows,
    LearnRows,
    check_containers,
    read_lines,
)
from maxmargin.serve.events import (
    DropShadow,
    Event,
    Lesson,
    NewShadow,
    Prediction,
    Promotion,
    Waiting,
)
from maxmargin.serve.http_errors import HTTPError, bad_request, unprocessable
from maxmargin.serve.served_model import Outcome, ServedModel
from maxmargin.training.inputs import listed
from maxmargin.training.sample_weights import check_weights

Answer = dict[str, Any]
Place = Callable[[int], str]


# ------------------------------------------------------------------------------------------ tasks
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


class AwaitLabels(Task):
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


# ------------------------------------------------------------------------------------------- rows
def rows_of(rows: list[Any], most: int, place: Place = "rows[{}]".format) -> Any:
    """Rows as a matrix, or as a list of dicts."""
    count, kind = len(rows), type(rows[0])
    if count > most:
        raise HTTPError(413, f"there are {count:,} rows; at most {most:,} are taken at once.")
    if count == 1:
        return rows if kind is dict else np.array(rows, dtype=np.float64)
    if set(map(type, rows)) != {kind}:
        bad = next(k for k, row in enumerate(rows) if type(row) is not kind)
        raise bad_request(f"{place(bad)} is not of the same kind as {place(0)}.")
    if kind is dict:
        return rows
    width = len(rows[0])
    if set(map(len, rows)) != {width}:
        bad = next(k for k, row in enumerate(rows) if len(row) != width)
        raise bad_request(f"{place(bad)} has {len(rows[bad])} columns, expected {width}.")
    return np.fromiter(chain.from_iterable(rows), np.float64, count * width).reshape(count, width)


def check_rows(model: ServedModel, rows: Any) -> None:
    """Raise a `HTTPError` if rows have the wrong number of columns, or too many."""
    most, learner = model.limits.columns, model.live.learner
    if isinstance(rows, list):
        left = most - model.columns()
        is_wide = sum(map(len, rows)) > left and len({name for row in rows for name in row}) > left
        if is_wide and model.live.preparing() is None:
            raise HTTPError(413, f"there would be more than {most:,} columns.")
    elif isinstance(rows, np.ndarray) and model.live.preparing() is None:
        width = rows.shape[1]
        if learner.__sklearn_is_fitted__():
            if width != (expected := learner.n_features_in_):
                raise unprocessable(f"rows have {width} columns; the model has {expected}.")
        elif width > most:
            raise HTTPError(413, f"rows have {width:,} columns; at most {most:,} are taken.")


def check_count(name: str, values: list[Any], rows: int) -> None:
    if len(values) != rows:
        raise bad_request(f"{name} has {len(values)} items, expected one for each of {rows} rows.")


# ------------------------------------------------------------------------------- labels and tasks
def as_classes(
    model: ServedModel, labels: Sequence[Any], place: Place = "rows[{}]".format
) -> list[Any]:
    """The labels as the classes have them: 1.0 is the class 1."""
    codes = model.codes
    try:
        if all(map(codes.__contains__, labels)):
            return [model.labels[codes[label]] for label in labels]
        bad = next(k for k, label in enumerate(labels) if label not in codes)
    except TypeError:
        bad = next(k for k, label in enumerate(labels) if isinstance(label, list | dict))
        raise bad_request(f"{place(bad)}: a label must be a string or a number.") from None
    classes = listed(model.classes)
    where = f"{place(bad)}: " if len(labels) > 1 else ""
    raise unprocessable(f"{where}the label {labels[bad]!r:.80} is not among the classes {classes}.")


def check_sample_weights(weights: list[float], rows: int) -> None:
    check_count("weights", weights, rows)
    try:
        check_weights(weights, rows)
    except ValueError as error:
        raise unprocessable(str(error)) from None


def new_id() -> str:
    return secrets.token_hex(8)


def checked_id(found: str, most: int, where: str = "") -> str:
    """The id, which must not be too long; ``where`` is its place in the request."""
    if not found or len(found) > most:
        place = f"{where}: " if where else ""
        raise bad_request(f"{place}id must have 1 to {most} characters, got {found!r:.80}.")
    return found


def learned_columns(
    model: ServedModel, table: Any, options: Any
) -> tuple[Any, list[Any], list[float] | None]:
    """Rows, labels and weights of a table."""
    label, weight = options.get("label") or "label", options.get("weight")
    weights = column_of(table, weight) if weight else None
    for k, each in enumerate(weights or ()):
        if type(each) not in (int, float):
            raise bad_request(f"rows[{k}]: the weight must be a number.")
    labels, names = column_of(table, label), table.column_names
    rows = rows_of_table(
        model.live, table.select([each for each in names if each not in (label, weight)])
    )
    return rows, labels, weights


def learn_task(model: ServedModel, kind: str, key: str | None, options: Any, body: bytes) -> Learn:
    """The task of ``POST /learn``; ``key`` is the id that the request has in its header."""
    limits, size = model.limits, 2 * len(body)
    place: Place = "rows[{}]".format
    rows, labels, weights = None, list[Any](), None
    ids: Sequence[str | None] = () if key is None else (key,)
    if kind == ARROW:
        table = table_of(body, limits)
        rows, labels, weights = learned_columns(model, table, options)
        size = len(body) + table.nbytes
    elif kind == NDJSON:
        if key is not None:
            raise bad_request("Idempotency-Key names one event; give each line an id instead.")
        places, lines = map(list, zip(*read_lines(LEARN_LINE, body, limits.rows), strict=True))
        place, ids = places.__getitem__, [each.id for each in lines]
        rows = rows_of([each.row for each in lines], limits.rows, place)
        labels = [each.label for each in lines]
        if any(each.weight is not None for each in lines):
            weights = [1.0 if each.weight is None else each.weight for each in lines]
    else:
        check_containers(body, limits.rows)
        found = LEARN.read(body)
        if isinstance(found, LearnRows):
            rows, labels, weights = rows_of(found.rows, limits.rows), found.labels, found.weights
            check_count("labels", labels, len(rows))
        else:
            rows, labels = rows_of([found.row], limits.rows), [found.label]
            weights = None if found.weight is None else [found.weight]
        if found.id is not None:
            ids = (found.id,)
    if weights is not None:
        check_sample_weights(weights, len(labels))
    labels = as_classes(model, labels, place)
    check_rows(model, rows)
    for k, each in enumerate(ids):
        if each is not None:
            checked_id(each, limits.id_length, place(k) if kind == NDJSON else "")
    return Learn(Lesson(rows, labels, weights, ids), size, by_row=kind == NDJSON)


def label_task(model: ServedModel, kind: str, body: bytes) -> Label:
    if kind == ARROW:
        raise HTTPError(415, f"labels come as {JSON} or {NDJSON}.")
    most = model.limits.rows
    items: Iterable[tuple[str, LabelRow]]
    if kind == NDJSON:
        items = read_lines(LABEL_LINE, body, most)
    else:
        check_containers(body, most)
        found = LABEL.read(body)
        if isinstance(found, LabelRows):
            if (count := len(found.labels)) > most:
                raise HTTPError(413, f"there are {count:,} labels; at most {most:,} are taken.")
            items = [(f"labels[{k}]", each) for k, each in enumerate(found.labels)]
        else:
            items = [("", found)]
    labelled = []
    for where, each in items:
        try:
            checked_id(each.id, model.limits.id_length)
            (each.label,) = as_classes(model, [each.label])
            if each.weight is not None:
                check_sample_weights([each.weight], 1)
        except HTTPError as error:
            raise error.at(where) from None
        labelled.append(each)
    return Label(labelled, 2 * len(body), is_batch=bool(where))
