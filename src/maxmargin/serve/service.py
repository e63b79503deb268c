"""A served model, its database, and the thread that learns.

The thread takes the requests that wait, stores their events in one transaction, lets the model
learn from them in the order of their numbers, and answers. So one wait for the disk is enough for
all requests that have come meanwhile, and a stored event is learned or marked as refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from maxmargin import __version__
from maxmargin.serve.bodies import LabelOne, LearnBody, Refusal
from maxmargin.serve.database import Database, Event, Waiting
from maxmargin.serve.served_model import Lesson, ServedModel, opened

# What is stored together at most, and what may wait.
GROUP_TASKS, MOST_WAITING, MOST_BYTES = 1024, 2048, 2**27
# A snapshot is due after so many seconds, or so many times as long as the last one took.
SECONDS_BETWEEN_SNAPSHOTS, SNAPSHOT_SHARE = 60.0, 20.0
SECONDS_TO_RETRY = 10.0  # a snapshot that could not be written
REPLAYING, READY, STOPPING, STOPPED, FAILED = "replaying", "ok", "stopping", "stopped", "failed"

logger = logging.getLogger("maxmargin.serve")


class StoredEvent(msgspec.Struct):
    """An event that is being stored, with what is needed to undo it."""

    event: Event
    lesson: Any
    ids: list[str]
    waiting: Waiting | None = None
    refusal: Refusal | None = None


class QueuedRequest(ABC):
    """A request whose events are stored.

    Requests with an id in common are never stored together: the first may be refused, and then the
    id is free.
    """

    def __init__(self, ids: list[str], size: int) -> None:
        self.ids, self.bytes = ids, size
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()

    @abstractmethod
    def store(self, service: Service) -> list[StoredEvent]:
        """Write its events; a `Refusal` before anything is written refuses the request."""

    @abstractmethod
    def answer(self, stored: list[StoredEvent]) -> Any:
        """The answer, or a `Refusal`, when all is stored and learned."""

    def deliver(self, answer: Any) -> None:
        """Give the answer, or a `Refusal`, to the event loop that waits for it."""
        with contextlib.suppress(RuntimeError):  # a loop that is closed by now
            self.loop.call_soon_threadsafe(self._settle, answer)

    def _settle(self, answer: Any) -> None:
        if self.future.done():  # answered, or cancelled
            return
        if isinstance(answer, Refusal):
            self.future.set_exception(answer)
        else:
            self.future.set_result(answer)


class Learn(QueuedRequest):
    """Learn from a body; with an id for each row, from the rows that are new."""

    def __init__(self, body: LearnBody, lesson: Lesson, text: bytes) -> None:
        super().__init__([each for each in lesson.ids if each is not None], len(text))
        self.body, self.lesson, self.text = body, lesson, text
        self.duplicates = self.sequence = 0

    def store(self, service: Service) -> list[StoredEvent]:
        ids = self.lesson.ids
        if ids:
            new, seen = [], set[str | None]()
            for k, key in enumerate(ids):
                known = None if key is None else service.database.known(key)
                if known is not None:
                    self.sequence = max(self.sequence, known[0])
                if known is None and (key is None or key not in seen):
                    new.append(k)
                seen.add(key)
            self.duplicates = len(ids) - len(new)
            if not new:
                return []
            if self.duplicates:
                self._keep(new, service.model)
        ids = [each for each in self.lesson.ids if each is not None]
        return [service.append(Event(0, time.time(), self.text.decode()), self.lesson, ids)]

    def _keep(self, new: list[int], model: ServedModel) -> None:
        """Leave out the rows whose ids are known."""
        body = self.body
        for name in ("rows", "labels", "weights", "ids"):
            if isinstance(values := getattr(body, name), list):
                setattr(body, name, [values[k] for k in new])
        self.lesson, self.text = model.lesson(body), msgspec.json.encode(body)

    def answer(self, stored: list[StoredEvent]) -> Any:
        many = self.body.ids is not None
        count = len(self.lesson.codes) if stored else 0
        return acknowledged(stored, count, self.duplicates, self.sequence, many=many)


class Label(QueuedRequest):
    """Learn from rows that were predicted, given their labels; from each once."""

    def __init__(self, labels: list[LabelOne], size: int, *, many: bool) -> None:
        super().__init__([each.id for each in labels], size)
        self.labels, self.many = labels, many
        self.duplicates = self.sequence = 0

    def store(self, service: Service) -> list[StoredEvent]:
        found: dict[str, tuple[Any, Event, Lesson, Waiting]] = {}
        for each in self.labels:
            (code,) = service.model.codes_of([each.label])
            label = service.model.labels[code]
            if each.id in found:
                before, number = found[each.id][0], 0
            elif (known := service.database.known(each.id)) is not None:
                number, text = known
                before = label if text is None else msgspec.json.decode(text)
            elif (waiting := service.database.waiting(each.id)) is not None:
                found[each.id] = (label, *service.model.labelled(waiting, each), waiting)
                continue
            else:
                raise Refusal(404, f"no prediction with the id {each.id!r} waits for its label.")
            if before != label:
                raise Refusal(409, f"id {each.id!r} has the label {before!r} already.")
            self.duplicates += 1
            self.sequence = max(self.sequence, number)
        return [
            service.append(event, lesson, [key], waiting, msgspec.json.encode(label).decode())
            for key, (label, event, lesson, waiting) in found.items()
        ]

    def answer(self, stored: list[StoredEvent]) -> Any:
        return acknowledged(stored, len(stored), self.duplicates, self.sequence, many=self.many)


class Await(QueuedRequest):
    """Keep rows that were predicted, and the answers, by their ids until their labels come."""

    def __init__(self, predicted: dict[str, tuple[Any, Any]], size: int) -> None:
        super().__init__([], size)
        self.predicted = predicted

    def store(self, service: Service) -> list[StoredEvent]:
        for key, found in self.predicted.items():
            row, answer = (msgspec.json.encode(each).decode() for each in found)
            service.await_label(Waiting(key, time.time(), row, answer))
        return []

    def answer(self, stored: list[StoredEvent]) -> Any:
        return None


def acknowledged(
    stored: list[StoredEvent], learned: int, duplicates: int, sequence: int, *, many: bool
) -> dict[str, Any] | Refusal:
    """The answer to a request to learn: the refusal of one of its events, if there is one."""
    for each in stored:
        if each.refusal is not None:
            return each.refusal
        sequence = max(sequence, each.event.sequence)
    again = {"duplicates": duplicates} if many else {"duplicate": duplicates > 0}
    return {"learned": learned, **again, "sequence": sequence}


def new_id() -> str:
    return secrets.token_hex(8)


class Service:
    """Serves the model of a database until it is closed."""

    def __init__(self, database: Database, on_failure: Callable[[], None] = lambda: None) -> None:
        self.database, self.on_failure = database, on_failure
        self.model = opened(database)
        self.sequence = database.last_sequence()
        self.snapshot_sequence, self.snapshot_time = self.model.counts.sequence, time.monotonic()
        self.snapshot_seconds, self.snapshot_failed = 0.0, -SECONDS_TO_RETRY
        self.waiting, self.refused = database.count_waiting(), 0
        self.status, self.trouble = REPLAYING, ""
        self.failure: BaseException | None = None
        self.is_closed = False
        self.began = time.monotonic()
        self.queue: deque[QueuedRequest] = deque()
        self._current: list[QueuedRequest] = []
        self.unmarked: list[StoredEvent] = []  # refused events that the database does not name yet
        self._bytes = self._new_waiting = 0
        self._wake = threading.Condition()
        self.recovered = threading.Event()
        self._thread = threading.Thread(target=self._run, name="maxmargin learner", daemon=True)

    # ---------------------------------------------------------------------------------- requests
    def start(self) -> None:
        folder, snapshot = self.database.folder, self.snapshot_sequence
        logger.info(
            "version %s, serving %s: event %d, snapshot after event %d",
            *(__version__, folder, self.sequence, snapshot),
        )
        self._thread.start()

    async def ask(self, task: QueuedRequest) -> Any:
        """The answer to a task; a `Refusal` if it is refused."""
        with self._wake:
            if self.status != READY:
                raise self.not_ready()
            if len(self.queue) >= MOST_WAITING or self._bytes > MOST_BYTES:
                raise Refusal(429, "events come faster than they can be stored.", retry_after=1)
            self.queue.append(task)
            self._bytes += task.bytes
            self._wake.notify()
        return await task.future

    def not_ready(self) -> Refusal:
        why = {
            REPLAYING: f"events are replayed: {self.model.counts.sequence:,} of {self.sequence:,}.",
            FAILED: f"the server has failed: {self.failure}",
        }
        return Refusal(503, why.get(self.status, "the server stops."), retry_after=1)

    def stop(self) -> None:
        """Refuse further requests, and finish those that wait."""
        with self._wake:
            if self.status in (REPLAYING, READY):
                self.status = STOPPING
            self._wake.notify()

    def close(self) -> None:
        """Finish the waiting requests, save the model, and let others use the folder."""
        self.stop()
        if self._thread.ident is not None:
            self._thread.join()
        if not self.is_closed:
            logger.info("stopped after event %d", self.sequence)
            self.database.close()
            self.is_closed = True

    # ---------------------------------------------------------------------- while a task is stored
    def append(
        self,
        event: Event,
        lesson: Lesson,
        ids: list[str],
        waiting: Waiting | None = None,
        label: str | None = None,
    ) -> StoredEvent:
        """Store an event as the next one."""
        self.sequence += 1
        event = event._replace(sequence=self.sequence, time=time.time())
        self.database.append(event, ids, label)
        self._new_waiting -= waiting is not None
        return StoredEvent(event, lesson, ids, waiting)

    def await_label(self, waiting: Waiting) -> None:
        self._new_waiting += self.database.await_label(waiting)

    # ------------------------------------------------------------------------------- the thread
    def _run(self) -> None:
        try:
            self._recover()
            with self._wake:
                if self.status == REPLAYING:
                    self.status = READY
            self.recovered.set()
            while (tasks := self._next_tasks()) is not None:
                if tasks:
                    self._current = tasks
                    self._process(tasks)
                if self._is_snapshot_due():
                    self.save_snapshot()
            if self.model.counts.sequence > self.snapshot_sequence:
                self.save_snapshot()
            self.status = STOPPED
        except BaseException as error:
            logger.exception("the server has failed")
            with self._wake:
                self.failure, self.status = error, FAILED
                left = [*self._current, *self.queue]
                self.queue.clear()
            self.on_failure()
            for task in left:
                task.deliver(self.not_ready())
        finally:
            self.recovered.set()

    def _recover(self) -> None:
        """Learn from the events after the snapshot."""
        after, began, count = self.model.counts.sequence, time.monotonic(), 0
        for event in self.database.events(after):
            if self.status != REPLAYING:  # stopped meanwhile
                return
            stored = stored_again(self.model, event)
            self._learn(stored)
            count += 1
        if count:
            seconds = time.monotonic() - began
            logger.info("replayed %d events after event %d in %.1f s", count, after, seconds)
        self._mark_refused()

    def _next_tasks(self) -> list[QueuedRequest] | None:
        """The next tasks to store together, none if none come soon; None at the end."""
        with self._wake:
            if not self.queue:
                if self.status != READY:
                    return None
                self._wake.wait(timeout=1.0)
            taken, ids = list[QueuedRequest](), set[str]()
            while self.queue and len(taken) < GROUP_TASKS and ids.isdisjoint(self.queue[0].ids):
                ids.update(self.queue[0].ids)
                self._bytes -= self.queue[0].bytes
                taken.append(self.queue.popleft())
            return taken

    def _process(self, tasks: list[QueuedRequest]) -> None:
        """Store the events of some tasks, learn from them, and answer."""
        before, self._new_waiting = self.sequence, 0
        planned: list[tuple[QueuedRequest, list[StoredEvent]]] = []
        refused: list[tuple[QueuedRequest, Refusal]] = []
        try:
            with self.database.transaction():
                self._refuse_unmarked()
                for task in tasks:
                    try:
                        planned.append((task, task.store(self)))
                    except Refusal as error:  # before any writing
                        refused.append((task, error))
        except (sqlite3.Error, MemoryError) as error:
            self.sequence, refusal = before, self._cannot_write(error)
            for task in tasks:
                task.deliver(dict(refused).get(task, refusal))
            return
        if self.trouble:
            logger.info("the database can be written again")
            self.trouble = ""
        self.unmarked = []
        self.waiting += self._new_waiting
        for _, stored in planned:
            for each in stored:
                self._learn(each)
        self._mark_refused()
        for task, stored in planned:
            task.deliver(task.answer(stored))
        for task, refusal in refused:
            task.deliver(refusal)

    def _learn(self, stored: StoredEvent) -> None:
        """Learn from a stored event, or keep in mind that it was refused."""
        with self.model.lock:
            self.model.counts.sequence = stored.event.sequence
            if stored.refusal is None:
                try:
                    outputs = self.model.learn(stored.lesson)
                except Exception as error:
                    stored.refusal = refusal_of(error)
        if stored.refusal is None:
            self.model.count(stored.lesson, outputs)
            return
        why = stored.refusal.reason
        stored.event = stored.event._replace(refused=why)
        self.unmarked.append(stored)
        self.refused += 1
        self.waiting += stored.waiting is not None
        logger.info("event %d is refused: %s", stored.event.sequence, why)

    def _mark_refused(self) -> None:
        """Name refused events as such; where the disk is full, the next transaction does."""
        if self.unmarked:
            with contextlib.suppress(sqlite3.Error):
                with self.database.transaction():
                    self._refuse_unmarked()
                self.unmarked = []

    def _refuse_unmarked(self) -> None:
        for each in self.unmarked:
            self.database.refuse(each.event, each.ids, each.waiting)

    def _cannot_write(self, error: Exception) -> Refusal:
        """The answer while the disk is full, or cannot be written for another reason."""
        is_full = "full" in str(error)
        trouble = "the disk is full." if is_full else f"the database cannot be written: {error}."
        if trouble != self.trouble:
            logger.error("%s Events are refused until it can be written again", trouble)
        self.trouble = trouble
        return Refusal(507 if is_full else 503, trouble, retry_after=1)

    # -------------------------------------------------------------------------------- snapshots
    def _is_snapshot_due(self) -> bool:
        if self.model.counts.sequence == self.snapshot_sequence or self.unmarked:
            return False
        now = time.monotonic()
        if now - self.snapshot_failed < SECONDS_TO_RETRY:
            return False
        pause = max(SECONDS_BETWEEN_SNAPSHOTS, SNAPSHOT_SHARE * self.snapshot_seconds)
        return now - self.snapshot_time >= pause

    def save_snapshot(self) -> None:
        began = time.monotonic()
        try:
            self.database.save_snapshot(self.model.snapshot(time.time()))
            self.waiting = self.database.count_waiting()
        except (sqlite3.Error, OSError, MemoryError) as error:
            self.snapshot_failed = time.monotonic()
            logger.error("no snapshot could be written: %s; events are safe without it", error)
            return
        self.snapshot_sequence, self.snapshot_time = self.model.counts.sequence, time.monotonic()
        self.snapshot_seconds = self.snapshot_time - began
        logger.debug("snapshot after event %d by %s", self.snapshot_sequence, __version__)


def stored_again(model: ServedModel, event: Event) -> StoredEvent:
    """A stored event, as it was when it came."""
    try:
        lesson = model.lesson_of(event)
    except Refusal as error:
        return StoredEvent(event, None, [], refusal=error)
    waiting = None
    if event.prediction is not None and event.answer is not None:
        row = msgspec.json.encode(_row_in(event.body)).decode()
        waiting = Waiting(event.prediction, event.time, row, event.answer)
    return StoredEvent(event, lesson, [each for each in lesson.ids if each is not None], waiting)


def _row_in(body: str) -> Any:
    return msgspec.json.decode(body)["row"]


def refusal_of(error: Exception) -> Refusal:
    """Why an event is not learned; the model is as it was."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, MemoryError):
        return Refusal(503, f"there is too little memory for this request. {error}", retry_after=1)
    if isinstance(error, OSError):  # too many open files, where code is compiled
        return Refusal(503, str(error), retry_after=1)
    return Refusal(422, str(error) or type(error).__name__)
