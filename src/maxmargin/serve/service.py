"""One model that is served: a queue, a thread that writes and learns, and what is known.

The thread takes what has come, writes it to the log, waits until it is on the disk, lets the
learners learn from it in the order of the log, and answers. What the learners know is a function of
the last snapshot and of the log behind it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin.estimator import OnlineClassifier
from maxmargin.persistence.checkpoints import CheckpointFile
from maxmargin.persistence.container import explained, sync_folder
from maxmargin.serve.event_log import Log, LogError, Record, segments_of
from maxmargin.serve.events import DropShadow, Event, Lesson, NewShadow, Promotion, Waiting, decoded
from maxmargin.serve.http_errors import (
    HTTPError,
    bad_request,
    no_memory,
    unavailable,
    unprocessable,
)
from maxmargin.serve.limits import Limits
from maxmargin.serve.progressive_stats import Tally
from maxmargin.serve.recent_ids import Ids, Predictions, ids_from, labelled_from, waiting_from
from maxmargin.serve.scored_learner import (
    HalfLearned,
    ScoredLearner,
    checked_learner,
    new_learner,
    new_names,
)

SNAPSHOT, LOG = "snapshot.mm", "log"
# Rows that are learned in one go, at most, where lessons allow it.
BLOCK_ROWS = 4096
# What is written together, at most.
GROUP_TASKS, GROUP_BYTES = 1024, 2**26
# After a snapshot that could not be written, the next is tried so late.
SECONDS_TO_RETRY = 10.0
REPLAYING, READY, STOPPING, STOPPED, FAILED = "replaying", "ok", "stopping", "stopped", "failed"

logger = logging.getLogger("maxmargin.serve")


class Beginning(NamedTuple):
    """What a model begins with, where there is no state yet."""

    learner: OnlineClassifier
    classes: np.ndarray

    @classmethod
    def of(cls, learner: object, classes: Any = None) -> Beginning:
        """With a learner that may know something already; a ValueError says what is wrong."""
        learner = checked_learner(learner)
        if learner.__sklearn_is_fitted__():
            known = learner.classes_
            if classes is not None and not np.array_equal(np.unique(classes), known):
                raise ValueError(f"the model has the classes {known.tolist()}, not {classes}.")
            return cls(learner, known)
        if classes is None:
            raise ValueError("a learner that begins with nothing must be told all classes.")
        known = np.unique(classes)
        if known.size < 2:
            raise ValueError(f"there must be at least two classes, got {known.tolist()}.")
        ScoredLearner(learner, known).check_classes()
        return cls(learner, known)

    def origin(self) -> dict[str, Any]:
        """What it is called, for one to go on with the same."""
        return {
            "algorithm": type(self.learner).__name__,
            "parameters": repr(sorted(self.learner.get_params(deep=False).items())),
            "classes": self.classes,
        }


class Snapshot(NamedTuple):
    """All that a service knows after the event ``sequence``."""

    sequence: int
    events: int
    rows: int
    classes: np.ndarray
    live: ScoredLearner
    shadows: dict[str, ScoredLearner]
    names: list[str]
    ids: list[Any]
    labelled: list[Any]
    waiting: list[Any]
    answers: Tally
    origin: dict[str, Any]

    @classmethod
    def of(cls, content: dict[str, Any]) -> Snapshot:
        """What a file says; raises unless a service can go on from there."""
        classes = content["classes"]
        if not (isinstance(classes, np.ndarray) and classes.ndim == 1 and classes.size > 1):
            raise ValueError("its classes are none")
        if not np.array_equal(np.unique(classes), classes):
            raise ValueError("its classes are not different, or not in order")
        for name in ("sequence", "events", "rows"):
            if type(content[name]) is not int or not 0 <= content[name] < 2**62:
                raise ValueError("its counts are no numbers")
        if not all(type(name) is str for name in (*content["names"], *content["shadows"])):
            raise ValueError("its shadows have no names")
        if content["origin"].keys() != {"algorithm", "parameters", "classes"}:
            raise ValueError("its origin is none")
        given = {name: content[name] for name in cls._fields if name in content}
        given["live"] = ScoredLearner.from_tree(content["live"], classes)
        given["shadows"] = {
            name: ScoredLearner.from_tree(tree, classes)
            for name, tree in content["shadows"].items()
        }
        given["ids"] = ids_from(content["ids"])
        given["labelled"] = labelled_from(content["labelled"])
        given["waiting"] = waiting_from(content["waiting"])
        scored = content.get("answers")  # some snapshots do not have them
        given["answers"] = Tally() if scored is None else Tally.from_tree(scored)
        return cls(**given)

    def place(self) -> str:
        return f"event {self.sequence:,}"


class Outcome(NamedTuple):
    """What became of an event: its number, and why it was refused, if it was."""

    sequence: int
    refusal: HTTPError | None


class Task(ABC):
    """One request; ``bytes`` is about what it takes in memory while it waits.

    It is prepared when its turn has come, just before its events are written: only what is known
    at that moment decides.
    """

    bytes: int = 0
    # Where the answer goes: a future, and the loop that it belongs to, if any.
    future: Any = None
    loop: Any = None
    # Must it not share a write with others?
    is_alone: ClassVar[bool] = False

    def claims(self) -> Iterable[str]:
        """The ids that it depends on: tasks with the same are never written together."""
        return ()

    @abstractmethod
    def prepare(self, service: Service) -> Sequence[Event]:
        """The events to write; none if there is nothing to do any more."""

    @abstractmethod
    def answer(self, outcomes: Sequence[Outcome]) -> Any:
        """What the request is told, given what became of its events."""


class ChangeShadows(Task):
    """Add, remove or promote a shadow."""

    is_alone = True

    def __init__(self, event: NewShadow | DropShadow | Promotion) -> None:
        self.event, self.known = event, 0

    def prepare(self, service: Service) -> Sequence[Event]:
        (key,) = self.event.ids or (None,)
        if key is not None and key in service.ids:
            self.known = service.ids.get(key)
            return []
        service.check_change(self.event)
        service.check_room(self.event)
        return [self.event]

    def answer(self, outcomes: Sequence[Outcome]) -> Any:
        for sequence, refusal in outcomes:
            if refusal is not None:
                raise refusal
            return {"sequence": sequence, "duplicate": False}
        return {"sequence": self.known, "duplicate": True}


class NoMemory(MemoryError):
    """The learner that answers has no memory for an event, and is as it was before it."""


class Service:
    """A model, its shadows, its log and its thread.

    Parameters
    ----------
    name : str
    folder : path
        Where its log and snapshots are; what is there goes before ``beginning``.
    beginning : Beginning, default=None
    limits : Limits
    keep_log : bool
        Keep events that a snapshot has passed, for `maxmargin replay`?
    shadows : dict of str to (algorithm, parameters)
        Made when the service is ready, unless there have been such.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        beginning: Beginning | None = None,
        *,
        limits: Limits | None = None,
        keep_log: bool = False,
        shadows: dict[str, tuple[str, dict[str, Any]]] | None = None,
    ) -> None:
        self.name, self.folder, self.keep_log = name, folder, keep_log
        self.limits = limits = limits or Limits()
        self._wanted = shadows or {}
        self._on_failure: Callable[[], None] | None = None
        for algorithm, parameters in self._wanted.values():
            new_learner(algorithm, parameters)
        for made in (folder, folder / LOG):
            make_private(made)
        if (folder / SNAPSHOT).is_symlink():
            raise LogError(
                f"{folder / SNAPSHOT} is a link, and what it points at would be replaced: put the "
                "file itself there."
            )
        self._file = CheckpointFile(folder / SNAPSHOT, new_mode=0o600)
        self.log = Log(folder / LOG, limits.segment_bytes)
        found = self._file.read(Snapshot.of)
        if found is None:
            found = self._begun(beginning)
        elif beginning is not None:
            self._check_same(found, beginning)
        with explained(folder / SNAPSHOT):
            self._restore(found)
        if self._is_new:
            self._file.replace(self._content())
        self.snapshot_sequence, self._snapshot_time = self.sequence, time.monotonic()
        self._snapshot_failed = 0.0
        self._bytes_since = 0
        self.status, self.trouble = REPLAYING, ""
        self.failure: Exception | None = None
        self.began, self.replayed = time.monotonic(), 0
        self._queue: deque[Task] = deque()
        self._at_work: list[Task] = []
        self.queued_bytes = 0
        self._wake = threading.Condition()
        self.latencies = {"learn": deque[float](maxlen=2000), "predict": deque[float](maxlen=2000)}
        self.served = {"learn": 0, "predict": 0, "refused": 0}
        self.example: Any = None
        self.recovered = threading.Event()  # or failed to be
        self._thread = threading.Thread(target=self._run, name=f"maxmargin {name}", daemon=True)

    def _begun(self, beginning: Beginning | None) -> Snapshot:
        if segments_of(self.log.folder):
            raise LogError(
                f"{self.folder} has a log, but no {SNAPSHOT}: restore it, or move the folder away."
            )
        if beginning is None:
            raise ValueError(f"{self.folder} has no state yet: say which model to begin with.")
        if (count := beginning.classes.size) > self.limits.classes:
            raise ValueError(f"there are {count:,} classes, and at most {self.limits.classes:,}.")
        live = ScoredLearner(beginning.learner, beginning.classes)
        origin = beginning.origin()
        return Snapshot(0, 0, 0, beginning.classes, live, {}, [], [], [], [], Tally(), origin)

    def _check_same(self, found: Snapshot, beginning: Beginning) -> None:
        for name, now in beginning.origin().items():
            then = found.origin[name]
            if not np.array_equal(then, now):
                raise ValueError(
                    f"{self.folder} was begun with other {name}, {then}, than those given now, "
                    f"{now}: use another folder, or leave the model out to go on."
                )

    def _restore(self, found: Snapshot) -> None:
        limits = self.limits
        self._is_new = found.sequence == 0 and not (self.folder / SNAPSHOT).exists()
        self.sequence, self.events, self.rows = found.sequence, found.events, found.rows
        self.classes, self.origin = found.classes, found.origin
        self.labels = self.classes.tolist()
        self.places = {label: code for code, label in enumerate(self.labels)}
        self.live, self.shadows, self.names = found.live, found.shadows, found.names
        self.answers = found.answers  # of whichever learner was live when the caller asked
        self.ids = Ids(limits.known_ids, found.ids)
        self.labelled = Ids(limits.known_ids, found.labelled)
        self.waiting = Predictions(limits.waiting, limits.waiting_bytes, limits.waiting_seconds)
        self.waiting.fill(found.waiting)
        self._lost: list[str] = []  # shadows that had no memory, and whose end is not in the log

    # ---------------------------------------------------------------------------------- requests
    def start(self) -> None:
        self._thread.start()

    async def ask(self, task: Task) -> Any:
        """The answer to a task; a `HTTPError` if it is refused."""
        task.loop = asyncio.get_running_loop()
        task.future = task.loop.create_future()
        self._enqueue(task)
        return await task.future

    def ask_and_wait(self, task: Task) -> Any:
        """The same for threads."""
        task.future = concurrent.futures.Future()
        self._enqueue(task)
        return task.future.result()

    def _enqueue(self, task: Task) -> None:
        limits = self.limits
        with self._wake:
            if self.status != READY:
                raise self.not_ready()
            if len(self._queue) >= limits.queue or self.queued_bytes > limits.queue_bytes:
                raise HTTPError(429, "events come faster than they can be written.", retry_after=1)
            self._queue.append(task)
            self.queued_bytes += task.bytes
            self._wake.notify()

    def learned_as(self, key: str | None) -> int:
        """The number of the event with this id, by whichever route it came; 0 if there is none."""
        if key is None:
            return 0
        _, labelled = self.labelled.get(key) or (None, 0)
        return self.ids.get(key) or labelled

    def not_ready(self) -> HTTPError:
        why = {
            REPLAYING: f"the log is being replayed, {self.replayed:,} events so far.",
            STOPPING: "the service stops.",
            STOPPED: "the service has stopped.",
            FAILED: f"the service has failed: {self.failure}",
        }
        return unavailable(why.get(self.status, "the service is not ready."))

    def is_healthy(self) -> bool:
        return self.status == READY and not self.trouble

    def queue(self) -> int:
        return len(self._queue)

    def on_failure(self, call: Callable[[], None]) -> None:
        """Let a function be called when the service cannot go on."""
        self._on_failure = call
        if self.failure is not None:
            call()

    def stop(self) -> None:
        """Take nothing more; what has come is finished."""
        with self._wake:
            if self.status in (REPLAYING, READY):
                self.status = STOPPING
            self._wake.notify()

    def close(self) -> None:
        """Stop, finish what has come, and write a snapshot."""
        self.stop()
        if self._thread.ident is not None:
            self._thread.join()

    # ------------------------------------------------------------------------------- the thread
    def _run(self) -> None:
        try:
            self._recover()
            with self._wake:
                if self.status == REPLAYING:
                    self.status = READY
            self.recovered.set()
            self._make_wanted_shadows()
            while (tasks := self._taken()) is not None:
                if tasks:
                    self._at_work = tasks
                    self._work(tasks)
                if self._is_snapshot_due():
                    self._snapshot()
            self._finish()
        except Exception as error:
            self.failure = error
            self.status = FAILED
            self.recovered.set()
            logger.error("%s: %s", self.name, error)
            self._refuse_all(self.not_ready())
            if self._on_failure is not None:
                self._on_failure()
        finally:
            self.log.close()

    def _recover(self) -> None:
        """Learn from the events behind the snapshot."""
        events: list[Event] = []
        rows, first = 0, self.sequence + 1
        for record in self.log.recover(self.sequence):
            event = decoded_record(self.log.folder, record, self.limits)
            events.append(event)
            rows += event.size() if isinstance(event, Lesson) else 1
            self._bytes_since += len(record.payload)
            if rows >= BLOCK_ROWS:
                self._apply(events, first)
                self.replayed += len(events)
                events, rows, first = [], 0, self.sequence + 1
                if self.status != REPLAYING:  # told to stop
                    return
        self._apply(events, first)
        self.replayed += len(events)
        if self.log.torn:
            logger.warning(
                "%s: %d bytes of a write that was not finished, and not acknowledged, were cut "
                "off the log behind event %d.",
                self.name,
                self.log.torn,
                self.sequence,
            )

    def _make_wanted_shadows(self) -> None:
        for name, (algorithm, parameters) in self._wanted.items():
            if name not in self.names and self.status == READY:
                task = ChangeShadows(NewShadow(name, algorithm, parameters))
                task.future = concurrent.futures.Future()
                self._work([task])
                if (why := task.future.exception()) is not None:
                    logger.warning("%s: there is no shadow %s: %s", self.name, name, why)

    def _taken(self) -> list[Task] | None:
        """The next tasks to be written together; none if none come soon, None at the end."""
        with self._wake:
            if not self._queue:
                if self.status != READY:
                    return None
                self._wake.wait(timeout=1.0)
            taken, claimed, size = list[Task](), set[str](), 0
            while self._queue and len(taken) < GROUP_TASKS and size < GROUP_BYTES:
                task = self._queue[0]
                claims = set(task.claims())
                if claims & claimed or (task.is_alone and taken):
                    break
                claimed |= claims
                size += task.bytes
                taken.append(self._queue.popleft())
                if task.is_alone:
                    break
            self.queued_bytes -= size
            return taken

    def _work(self, tasks: list[Task]) -> None:
        """Write, learn, answer."""
        answers: list[tuple[Task, Any]] = []
        planned: list[tuple[Task, int]] = []
        # A log that is replayed with more memory must lose the same shadows.
        lost = [DropShadow(name) for name in self._lost]
        events: list[Event] = [*lost]
        payloads = [event.encoded() for event in lost]
        for task in tasks:
            try:
                found = task.prepare(self)
                payloads += [event.encoded() for event in found]
            except HTTPError as refusal:
                answers.append((task, refusal))
            except MemoryError as error:
                answers.append((task, no_memory(error)))
            except Exception as error:  # nothing of it has been written
                logger.exception("%s: a request was refused", self.name)
                answers.append((task, bad_request(str(error) or type(error).__name__)))
            else:
                events += found
                planned.append((task, len(found)))
        outcomes: list[Outcome] = []
        if events:
            try:
                self.log.append(payloads)
            except (OSError, MemoryError) as error:
                if isinstance(error, OSError):
                    self.trouble = f"the log cannot be written: {error.strerror or error}."
                    untold = unavailable(self.trouble)
                else:
                    untold = no_memory(error)
                answers += [(task, untold) for task, count in planned if count]
                planned = [(task, 0) for task, count in planned if not count]
            else:
                self.trouble = ""
                self._bytes_since += sum(map(len, payloads))
                del self._lost[: len(lost)]
                outcomes = self._apply_logged(events, payloads)
        place = len(lost)
        for task, count in planned:
            answers.append((task, _answer(task, outcomes[place : place + count])))
            place += count
        _deliver(answers)
        if self._lost and tasks:
            self._work([])

    def _apply_logged(self, events: list[Event], payloads: list[bytes]) -> list[Outcome]:
        """Apply the events that were just written, and refuse those that there is no memory for.

        These are taken out of the log before anybody is answered, so that a replay leaves them out
        too. If the log cannot be written at that moment, the service fails, and a replay goes on
        from what is in the log.
        """
        outcomes: list[Outcome] = []
        while True:
            done = list[Outcome]()
            try:
                self._apply(events[len(outcomes) :], self.sequence + 1, done)
                return outcomes + done
            except NoMemory as error:
                logger.warning("%s: an event was refused: %s", self.name, error)
                outcomes += done
                refused = len(payloads) - (len(events) - len(outcomes))
                del payloads[refused]
                self.log.replace_last(payloads)
                outcomes.append(Outcome(self.sequence, no_memory(error)))

    def _apply(
        self, events: Sequence[Event], first: int, outcomes: list[Outcome] | None = None
    ) -> None:
        """Let events have their effects, in order; ``first`` is the number of the first.

        What becomes of them is added to ``outcomes``, also if there is an exception later.
        """
        outcomes = [] if outcomes is None else outcomes
        k = 0
        while k < len(events):
            event = events[k]
            if isinstance(event, Lesson):
                block = self._block(events, k)
                self._teach(block, first + k, outcomes)
                k += len(block)
            else:
                outcomes.append(Outcome(first + k, self._change(event, first + k)))
                k += 1
                self.sequence = first + k - 1

    def _block(self, events: Sequence[Event], k: int) -> list[Lesson]:
        """The lessons from number ``k`` on that can be learned in one go.

        A log that is read again is cut elsewhere, and must give the same.
        """
        begin = events[k]
        assert isinstance(begin, Lesson)
        block, rows = [begin], begin.size()
        if not all(scored.can_join for scored in (self.live, *self.shadows.values())):
            return block
        for event in events[k + 1 :]:
            if not isinstance(event, Lesson) or not alike(begin, event):
                break
            rows += event.size()
            if rows > BLOCK_ROWS:
                break
            block.append(event)
        return block

    def _teach(self, lessons: list[Lesson], first: int, outcomes: list[Outcome]) -> None:
        """Let all learners learn; what the one that answers refuses, nobody learns."""
        try:
            why = learn_block(self.live, lessons)
        except HalfLearned:
            raise
        except MemoryError as error:
            if len(lessons) == 1:
                raise NoMemory(str(error)) from error
            why = str(error)
        if why is not None and len(lessons) > 1:
            for k, lesson in enumerate(lessons):
                self._teach([lesson], first + k, outcomes)
            return
        if why is not None:
            self.sequence = first
            outcomes.append(Outcome(first, unprocessable(why)))
            return
        for name, shadow in self.shadows.items():
            try:
                if learn_block(shadow, lessons) is not None:
                    for lesson in lessons if len(lessons) > 1 else ():
                        shadow.refused += learn_block(shadow, [lesson]) is not None
                    shadow.refused += len(lessons) == 1
            except MemoryError as error:
                logger.warning("%s: the shadow %s is dropped: %s", self.name, name, error)
                self._lost.append(name)
                self.shadows = without(self.shadows, name)
        for sequence, lesson in enumerate(lessons, first):
            self.events += 1
            self.rows += lesson.size()
            for key in lesson.ids:
                if key is not None:
                    self.ids.add(key, sequence)
                    self.waiting.remove(key)
            if lesson.prediction is not None:
                self.waiting.remove(lesson.prediction)
                self.labelled.add(lesson.prediction, [lesson.labels[0], sequence])
            outcomes.append(Outcome(sequence, None))
        scored = (lesson for lesson in lessons if lesson.answer is not None)
        wrong = [lesson.answer != self.places[lesson.labels[0]] for lesson in scored]
        self.answers.count(np.array(wrong, dtype=bool))
        self.sequence = first + len(lessons) - 1

    def _change(self, event: Event, sequence: int) -> HTTPError | None:
        if isinstance(event, Waiting):
            self.waiting.expire(event.time)
            for key, row, answer in zip(event.ids, event.rows, event.answers, strict=True):
                self.waiting.add(key, row, event.time, answer)
            return None
        assert not isinstance(event, Lesson)
        if event.name in self._lost:
            if isinstance(event, Promotion):
                raise MemoryError(f"the shadow {event.name}, which was promoted, is too large.")
            self._lost.remove(event.name)
        try:
            self.check_change(event)
        except HTTPError as refusal:
            return refusal
        if isinstance(event, NewShadow):
            self.shadows = {**self.shadows, event.name: self._new_shadow(event)}
            self.names.append(event.name)
        elif isinstance(event, DropShadow):
            self.shadows = without(self.shadows, event.name)
        else:
            assert isinstance(event, Promotion)
            others = without(self.shadows, event.name)
            called = before = self.live.algorithm.lower()
            number = 2
            while called in others:
                called, number = f"{before}-{number}", number + 1
            self.live, self.shadows = self.shadows[event.name], {**others, called: self.live}
        for each in event.ids:
            if each is not None:
                self.ids.add(each, sequence)
        return None

    def check_room(self, event: Any) -> None:
        """Raise a `HTTPError` if it would be too much, or could never learn.

        What is in the log is not checked again.
        """
        if isinstance(event, Lesson):
            self._check_columns(event.rows)
        elif isinstance(event, NewShadow):
            if len(self.shadows) >= self.limits.shadows:
                raise HTTPError(409, f"there are {len(self.shadows)} shadows already.")
            if (event.parameters.get("budget") or 0) > (most := self.limits.budget):
                raise unprocessable(f"the budget of a shadow is at most {most:,} rows.")
            shadow = self._new_shadow(event)
            self._check_numbers(self._columns(), shadow)
            self._check_learns(shadow)

    def _columns(self) -> int:
        learner = self.live.learner
        return int(learner.n_features_in_) if learner.__sklearn_is_fitted__() else 0

    def _check_columns(self, rows: Any) -> None:
        """Are there too many columns, with those that the rows bring?"""
        if self.live.preparing() is not None:  # the recipe decides on columns
            return
        known, most = self._columns(), self.limits.columns
        if isinstance(rows, list):
            columns = known + sum(map(len, rows))
            if columns <= most and self._numbers(columns) <= self.limits.numbers:
                return  # even if all names are new
            columns = known + len(new_names(self.live.learner, rows))
        else:
            columns = rows.shape[1]
        if columns > known:
            if columns > most:
                raise HTTPError(413, f"there would be {columns:,} columns; at most {most:,} fit.")
            self._check_numbers(columns)

    def _numbers(self, columns: int, *more: ScoredLearner) -> int:
        """What all learners keep, with so many columns."""
        return sum(each.numbers(columns) for each in (self.live, *self.shadows.values(), *more))

    def _check_numbers(self, columns: int, *more: ScoredLearner) -> None:
        needed, most = self._numbers(columns, *more), self.limits.numbers
        if needed > most:
            raise HTTPError(
                413,
                f"the learners would keep {needed:,} numbers for {columns:,} columns and "
                f"{self.classes.size:,} classes; at most {most:,} fit. Use fewer columns or "
                "shadows, a smaller budget, or a higher limit of numbers.",
            )

    def _check_learns(self, shadow: ScoredLearner) -> None:
        """Raise a `HTTPError` if a shadow, which is not used afterwards, can learn from no row."""
        row = np.zeros((1, self._columns() or 1))
        try:
            shadow.learner.partial_fit(row, self.classes[:1], classes=self.classes)
        except Exception as error:
            raise unprocessable(str(error) or type(error).__name__) from None

    def _new_shadow(self, event: NewShadow) -> ScoredLearner:
        learner = new_learner(event.algorithm, event.parameters)
        return ScoredLearner(learner, self.classes, schema=self.live.schema_of_raw())

    def check_change(self, event: Any) -> None:
        """Raise a `HTTPError` if there can be no such change."""
        if not isinstance(event, NewShadow):
            if event.name not in self.shadows:
                raise HTTPError(404, f"there is no shadow {event.name!r}.")
            return
        if event.name in self.shadows:
            raise HTTPError(409, f"there is a shadow {event.name!r} already.")
        try:
            self._new_shadow(event)
        except Exception as error:  # the same whenever the log is replayed
            raise unprocessable(str(error) or type(error).__name__) from None

    # -------------------------------------------------------------------------------- snapshots
    def _is_snapshot_due(self) -> bool:
        if self.sequence == self.snapshot_sequence:
            return False
        now = time.monotonic()
        if self._snapshot_failed and now - self._snapshot_failed < SECONDS_TO_RETRY:
            return False
        limits, events = self.limits, self.sequence - self.snapshot_sequence
        return (
            now - self._snapshot_time >= limits.snapshot_seconds
            or self._bytes_since >= limits.snapshot_bytes
            or events >= limits.snapshot_events
        )

    def _snapshot(self) -> None:
        """Write one, and drop what it has made needless; a full disk is no reason to stop."""
        try:
            self._file.replace(self._content())
        except (OSError, MemoryError) as error:
            self._snapshot_failed = time.monotonic()
            logger.warning("%s: no snapshot could be written: %s", self.name, error)
            return
        before, self.snapshot_sequence = self.snapshot_sequence, self.sequence
        self._snapshot_time, self._snapshot_failed = time.monotonic(), 0.0
        self._bytes_since = 0
        if not self.keep_log:
            with contextlib.suppress(OSError):
                self.log.drop_until(before)

    def _content(self) -> dict[str, Any]:
        return {
            "learner": self.live.learner,
            "sequence": self.sequence,
            "events": self.events,
            "rows": self.rows,
            "classes": self.classes,
            "live": self.live.tree(),
            "shadows": {name: scored.tree() for name, scored in self.shadows.items()},
            "names": self.names,
            "ids": self.ids.text(),
            "labelled": self.labelled.text(),
            "waiting": self.waiting.text(),
            "answers": self.answers.tree(),
            "origin": self.origin,
        }

    def _finish(self) -> None:
        if self.sequence != self.snapshot_sequence:
            self._snapshot()
        self.status = STOPPED

    def _refuse_all(self, refusal: HTTPError) -> None:
        with self._wake:
            tasks, self.queued_bytes = [*self._at_work, *self._queue], 0
            self._queue.clear()
        _deliver([(task, refusal) for task in tasks])


def make_private(folder: Path) -> None:
    """Make a folder that only its owner can enter; one that is there keeps its permissions."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    sync_folder(folder.absolute().parent)


def decoded_record(folder: Path, record: Record, limits: Limits | None = None) -> Event:
    """The event that stands in a log."""
    try:
        return decoded(record.payload, limits)
    except MemoryError:
        raise
    except Exception as error:
        found = [each.path for each in segments_of(folder) if each.first <= record.sequence]
        why = (str(error) or type(error).__name__).rstrip(".")
        is_large = isinstance(error, HTTPError) and error.status == 413
        raise LogError(
            f"{found[-1]}: event {record.sequence:,} cannot be read: {why}. "
            f"{'Raise the limit, restore' if is_large else 'Restore'} the file, or move the "
            "folder away to begin anew."
        ) from error


def without(shadows: dict[str, ScoredLearner], name: str) -> dict[str, ScoredLearner]:
    return {known: scored for known, scored in shadows.items() if known != name}


def learn_block(scored: ScoredLearner, lessons: list[Lesson]) -> str | None:
    """Let a learner learn from lessons that are alike; why it refuses all of them, if it does."""
    try:
        codes = [scored.places[label] for lesson in lessons for label in lesson.labels]
        scored.learn(_joined(lessons), codes, _weights(lessons))
    except MemoryError:
        raise
    except Exception as error:  # whatever it is, the learner is as it was
        return str(error) or type(error).__name__
    return None


def alike(one: Lesson, other: Lesson) -> bool:
    """Can their rows stand in one block?"""
    if (one.weights is None) != (other.weights is None):
        return False
    if isinstance(one.rows, np.ndarray):
        return isinstance(other.rows, np.ndarray) and one.rows.shape[1] == other.rows.shape[1]
    return isinstance(one.rows, list) and isinstance(other.rows, list)


def _joined(lessons: list[Lesson]) -> Any:
    if len(lessons) == 1:
        return lessons[0].rows
    if isinstance(lessons[0].rows, list):
        return [row for lesson in lessons for row in lesson.rows]
    return np.concatenate([lesson.rows for lesson in lessons])


def _weights(lessons: list[Lesson]) -> np.ndarray | None:
    if lessons[0].weights is None:
        return None
    return np.array([weight for lesson in lessons for weight in lesson.weights or ()], dtype=float)


def _answer(task: Task, outcomes: Sequence[Outcome]) -> Any:
    try:
        return task.answer(outcomes)
    except HTTPError as refusal:
        return refusal
    except MemoryError as error:
        return no_memory(error)
    except OSError as error:
        return unavailable(str(error))


def _deliver(answers: list[tuple[Task, Any]]) -> None:
    """Give answers to those who wait for them; all of a loop at once."""
    by_loop: dict[Any, list[tuple[Any, Any]]] = {}
    for task, answer in answers:
        by_loop.setdefault(task.loop, []).append((task.future, answer))
    for loop, settled in by_loop.items():
        if loop is None:
            _settle(settled)
        else:
            with contextlib.suppress(RuntimeError):  # a loop that is closed by now
                loop.call_soon_threadsafe(_settle, settled)


def _settle(settled: list[tuple[Any, Any]]) -> None:
    for future, answer in settled:
        if future.done():  # nobody waits any more
            continue
        if isinstance(answer, HTTPError):
            future.set_exception(answer)
        else:
            future.set_result(answer)
