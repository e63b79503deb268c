"""Process the next items while the previous result is used."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from queue import Empty, Queue
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

WORKERS = 2
# How long to wait for a generator, which may be blocked by a pipe.
PATIENCE_SECONDS = 1.0
END = object()


def ahead(
    items: Generator[Item, None, None], work: Callable[[Item], Result], workers: int = WORKERS
) -> Iterator[Result]:
    """``work(item)`` for each item, in order, computed ahead by several threads.

    One thread at a time takes an item. The threads are daemons: one that is blocked by a pipe does
    not keep the process alive.
    """
    taking = threading.Lock()
    stopped = threading.Event()
    # A queue of length 1 for each item in progress.
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
            while True:  # a thread may be waiting for a place
                places.get_nowait()
        if taking.acquire(timeout=PATIENCE_SECONDS):
            items.close()
            taking.release()
