"""One model that is served: a queue of requests, and a thread that writes and learns.

The thread takes the requests that have come, writes their events to the log, waits until they are
on the disk, lets the learners learn from them in the order of the log, and answers.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.persistence.checkpoints import CheckpointFile
from maxmargin.persistence.container import sync_folder
from maxmargin.serve.event_log import Log, LogError, Record, segments_of
from maxmargin.serve.events import DropShadow, Event, NewShadow, decoded
from maxmargin.serve.http_errors import HTTPError, bad_request, busy, no_memory, unavailable
from maxmargin.serve.limits import Limits
from maxmargin.serve.requests import ChangeShadows, Task
from maxmargin.serve.scored_learner import new_learner
from maxmargin.serve.served_model import NoMemory, Outcome, ServedModel, blocks_of, logger
from maxmargin.serve.snapshots import Beginning

SNAPSHOT, LOG = "snapshot.mm", "log"
# What is written together, at most.
GROUP_TASKS, GROUP_BYTES = 1024, 2**26
# How long after a snapshot that could not be written the next one is tried.
SECONDS_TO_RETRY = 10.0
REPLAYING, READY, STOPPING, STOPPED, FAILED = "replaying", "ok", "stopping", "stopped", "failed"


class Service:
    """A model, its shadows, its log and its thread.

    The log and snapshots in ``folder`` take precedence over ``beginning``. With ``keep_log``,
    events before a snapshot are kept, for `maxmargin replay`. ``shadows`` (algorithms and
    parameters) are added when the service is ready, unless they have existed before.
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
        self._shadows_to_make = shadows or {}
        for algorithm, parameters in self._shadows_to_make.values():
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
        self.model = self._opened(beginning)
        self.snapshot_sequence, self._snapshot_time = self.model.sequence, time.monotonic()
        self._snapshot_failed = 0.0
        self._bytes_since = 0
        self.status, self.trouble = REPLAYING, ""
        self.failure: Exception | None = None
        self.began, self.replayed = time.monotonic(), 0
        self.queue: deque[Task] = deque()
        self._current: list[Task] = []
        self._queued_bytes = 0
        self._wake = threading.Condition()
        self.recovered = threading.Event()  # or failed to be
        self._thread = threading.Thread(target=self._run, name=f"maxmargin {name}", daemon=True)

    def _opened(self, beginning: Beginning | None) -> ServedModel:
        """The model as the last snapshot has it, or a new one, with its first snapshot."""
        found = self._file.read(ServedModel.of)
        if found is not None:
            if beginning is not None:
                self._check_same(found, beginning)
            return found.limited(self.name, self.limits)
        if segments_of(self.log.folder):
            raise LogError(
                f"{self.folder} has a log, but no {SNAPSHOT}: restore it, or move the folder away."
            )
        if beginning is None:
            raise ValueError(f"{self.folder} has no state yet: name a model to start with.")
        if (count := beginning.classes.size) > (most := self.limits.classes):
            raise ValueError(f"there are {count:,} classes, and at most {most:,}.")
        model = ServedModel.begun(beginning).limited(self.name, self.limits)
        self._file.replace(model.content())
        return model

    def _check_same(self, found: ServedModel, beginning: Beginning) -> None:
        given = beginning.origin()
        for name in given.__struct_fields__:
            then, now = getattr(found.origin, name), getattr(given, name)
            if not np.array_equal(then, now):
                raise ValueError(
                    f"{self.folder} was begun with other {name}, {then}, than those given now, "
                    f"{now}: use another folder, or leave the model out to go on."
                )

    # ---------------------------------------------------------------------------------- requests
    def start(self) -> None:
        self._thread.start()

    async def ask(self, task: Task) -> Any:
        """The answer to a task; a `HTTPError` if it is refused."""
        task.loop = asyncio.get_running_loop()
        task.future = task.loop.create_future()
        self.enqueue(task)
        return await task.future

    def ask_and_wait(self, task: Task) -> Any:
        """`ask` for threads."""
        task.future = concurrent.futures.Future()
        self.enqueue(task)
        return task.future.result()

    def enqueue(self, task: Task) -> None:
        """Let a task wait for its turn; its future gets the answer."""
        limits = self.limits
        with self._wake:
            if self.status != READY:
                raise self.not_ready()
            if len(self.queue) >= limits.queue or self._queued_bytes > limits.queue_bytes:
                raise busy("events come faster than they can be written.")
            self.queue.append(task)
            self._queued_bytes += task.bytes
            self._wake.notify()

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

    def stop(self) -> None:
        """Refuse further requests, and finish those that wait."""
        with self._wake:
            if self.status in (REPLAYING, READY):
                self.status = STOPPING
            self._wake.notify()

    def close(self) -> None:
        """Stop, finish the waiting requests, and write a snapshot."""
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
            self._make_shadows()
            while (tasks := self._next_tasks()) is not None:
                if tasks:
                    self._current = tasks
                    self._process(tasks)
                if self._is_snapshot_due():
                    self.write_snapshot()
            self._finish()
        except Exception as error:
            self.failure = error
            self.status = FAILED
            self.recovered.set()
            logger.error("%s: %s", self.name, error)
            with self._wake:
                tasks, self._queued_bytes = [*self._current, *self.queue], 0
                self.queue.clear()
            _deliver([(task, self.not_ready()) for task in tasks])
        finally:
            self.log.close()

    def _recover(self) -> None:
        """Learn from the events behind the snapshot."""
        records = self.log.recover(self.model.sequence)
        for events in blocks_of(map(self._replayed, records)):
            for _ in self.model.apply(events):
                self.replayed += 1
            if self.status != REPLAYING:  # stopped meanwhile
                return
        if self.log.torn:
            logger.warning(
                "%s: %d bytes of a write that was not finished, and not acknowledged, were cut "
                "off the log behind event %d.",
                self.name,
                self.log.torn,
                self.model.sequence,
            )

    def _replayed(self, record: Record) -> Event:
        self._bytes_since += len(record.payload)
        return decoded_record(self.log.folder, record, self.limits)

    def _make_shadows(self) -> None:
        for name, (algorithm, parameters) in self._shadows_to_make.items():
            if name not in self.model.names and self.status == READY:
                task = ChangeShadows(NewShadow(name, algorithm, parameters))
                task.future = concurrent.futures.Future()
                self._process([task])
                if (why := task.future.exception()) is not None:
                    logger.warning("%s: there is no shadow %s: %s", self.name, name, why)

    def _next_tasks(self) -> list[Task] | None:
        """The next tasks to write together, an empty list if none come soon; None at the end."""
        with self._wake:
            if not self.queue:
                if self.status != READY:
                    return None
                self._wake.wait(timeout=1.0)
            taken, claimed, size = list[Task](), set[str](), 0
            while self.queue and len(taken) < GROUP_TASKS and size < GROUP_BYTES:
                task = self.queue[0]
                claims = set(task.claims())
                if claims & claimed or (task.is_alone and taken):
                    break
                claimed |= claims
                size += task.bytes
                taken.append(self.queue.popleft())
                if task.is_alone:
                    break
            self._queued_bytes -= size
            return taken

    def _process(self, tasks: list[Task]) -> None:
        answers: list[tuple[Task, Any]] = []
        planned: list[tuple[Task, int]] = []
        # A log that is replayed with more memory must lose the same shadows.
        lost = [DropShadow(name) for name in self.model.lost]
        events: list[Event] = [*lost]
        payloads = [event.encoded() for event in lost]
        for task in tasks:
            try:
                found = task.prepare(self.model)
                payloads += [event.encoded() for event in found]
            except Exception as error:  # nothing of it has been written
                answers.append((task, refusal_of(error)))
            else:
                events += found
                planned.append((task, len(found)))
        outcomes: list[Outcome] = []
        if events:
            try:
                self.log.append(payloads)
            except (OSError, MemoryError) as error:
                refusal = refusal_of(error)
                if isinstance(error, OSError):
                    self.trouble = f"the log cannot be written: {error.strerror or error}."
                    refusal = unavailable(self.trouble)
                answers += [(task, refusal) for task, count in planned if count]
                planned = [(task, 0) for task, count in planned if not count]
            else:
                self.trouble = ""
                self._bytes_since += sum(map(len, payloads))
                del self.model.lost[: len(lost)]
                outcomes = self._apply(events, payloads)
        start = len(lost)
        for task, count in planned:
            answers.append((task, _answer(task, outcomes[start : start + count])))
            start += count
        _deliver(answers)
        if self.model.lost and tasks:
            self._process([])

    def _apply(self, events: list[Event], payloads: list[bytes]) -> list[Outcome]:
        """Apply the events that were just written, and refuse those that there is no memory for.

        These are taken out of the log before any request is answered, so that a replay leaves them
        out too. If the log cannot be written at that moment, the service fails, and a replay goes
        on from what is in the log.
        """
        outcomes: list[Outcome] = []
        while True:
            try:
                for outcome in self.model.apply(events[len(outcomes) :]):
                    outcomes.append(outcome)
                return outcomes
            except NoMemory as error:
                logger.warning("%s: an event was refused: %s", self.name, error)
                del payloads[len(payloads) - (len(events) - len(outcomes))]
                self.log.replace_last(payloads)
                outcomes.append(Outcome(self.model.sequence, no_memory(error)))

    # -------------------------------------------------------------------------------- snapshots
    def _is_snapshot_due(self) -> bool:
        events = self.model.sequence - self.snapshot_sequence
        if not events:
            return False
        now = time.monotonic()
        if self._snapshot_failed and now - self._snapshot_failed < SECONDS_TO_RETRY:
            return False
        limits = self.limits
        return (
            now - self._snapshot_time >= limits.snapshot_seconds
            or self._bytes_since >= limits.snapshot_bytes
            or events >= limits.snapshot_events
        )

    def write_snapshot(self) -> None:
        """Write a snapshot, and remove the log before the last one, unless the disk is full."""
        try:
            self._file.replace(self.model.content())
        except (OSError, MemoryError) as error:
            self._snapshot_failed = time.monotonic()
            logger.warning("%s: no snapshot could be written: %s", self.name, error)
            return
        before, self.snapshot_sequence = self.snapshot_sequence, self.model.sequence
        self._snapshot_time, self._snapshot_failed = time.monotonic(), 0.0
        self._bytes_since = 0
        if not self.keep_log:
            with contextlib.suppress(OSError):
                self.log.drop_until(before)

    def _finish(self) -> None:
        if self.model.sequence != self.snapshot_sequence:
            self.write_snapshot()
        self.status = STOPPED


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


def _answer(task: Task, outcomes: Sequence[Outcome]) -> Any:
    try:
        return task.answer(outcomes)
    except (HTTPError, MemoryError, OSError) as error:
        return refusal_of(error)


def refusal_of(error: Exception) -> HTTPError:
    """The answer to a request that failed."""
    if isinstance(error, HTTPError):
        return error
    if isinstance(error, MemoryError):
        return no_memory(error)
    if isinstance(error, OSError):
        return unavailable(str(error))
    logger.error("a request was refused", exc_info=error)
    return bad_request(str(error) or type(error).__name__)


def _deliver(answers: list[tuple[Task, Any]]) -> None:
    """Set the results of all tasks, those of one event loop in one call."""
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
        if future.done():  # the request was cancelled
            continue
        if isinstance(answer, HTTPError):
            future.set_exception(answer)
        else:
            future.set_result(answer)
