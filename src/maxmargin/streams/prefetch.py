"""Do what comes next while the last is worked on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from queue import Empty, Queue
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

WORKERS = 2
# Generators that wait for a pipe are not waited for.
PATIENCE_SECONDS = 1.0
END = object()


def ahead(
    items: Generator[Item, None, None], work: Callable[[Item], Result], workers: int = WORKERS
) -> Iterator[Result]:
    """``work(item)`` for each item, in order, a few of them ahead of their use.

    Items are taken one after another, by one thread at a time, and worked on by several. The
    threads are daemons: one that waits for a pipe does not keep the process alive.
    """
    taking = threading.Lock()
    stopped = threading.Event()
    # One place for each item under way, in their order.
    places: Queue[Queue[tuple[Any, BaseException | None]]] = Queue(workers + 1)

    def run() -> None:
        while True:
            place: Queue[tuple[Any, BaseException | None]] = Queue(1)
            with taking:
                if stopped.is_set():
                    return
                places.put(place)
                try:
                    item = next(items)
                except BaseException as error:
                    stopped.set()
                    place.put((END, None if isinstance(error, StopIteration) else error))
                    return
            try:
                place.put((work(item), None))
            except BaseException as error:
                place.put((None, error))

    threads = [threading.Thread(target=run, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    try:
        while True:
            result, error = places.get().get()
            if error is not None:
                raise error
            if result is END:
                return
            yield result
    finally:
        stopped.set()
        with suppress(Empty):
            while True:  # a thread may wait for a place
                places.get_nowait()
        if taking.acquire(timeout=PATIENCE_SECONDS):
            items.close()
            taking.release()
