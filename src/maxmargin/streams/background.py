"""Items computed ahead of their use."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from queue import SimpleQueue
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# How long to wait for the thread at the end: a pipe may block it.
PATIENCE_SECONDS = 5.0
MOST_THREADS = 4


def ahead(items: Generator[Item, None, None]) -> Generator[Item, None, None]:
    """The same items; while one is used, a thread computes the next.

    The thread ends with the iterator. It is a daemon: one that waits for a pipe does not keep the
    process alive.
    """
    wanted: SimpleQueue[bool] = SimpleQueue()
    ready: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()

    def compute() -> None:
        try:
            while wanted.get():
                ready.put((next(items), None))
        except BaseException as error:
            ready.put((None, error))
        finally:
            items.close()

    thread = threading.Thread(target=compute, daemon=True)
    try:
        thread.start()
        wanted.put(True)
        while True:
            item, error = ready.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            wanted.put(True)
            yield item
    finally:
        wanted.put(False)
        if thread.ident is not None:
            thread.join(PATIENCE_SECONDS)


def map_ahead(
    work: Callable[[Item], Result], items: Generator[Item, None, None]
) -> Iterator[Result]:
    """``work(item)`` of each item in order; while one is used, threads compute the next ones."""
    threads = min(MOST_THREADS, os.cpu_count() or 1)
    waiting, end = deque[Future[Result]](), None
    with closing(items), ThreadPoolExecutor(threads) as pool:
        while end is None or waiting:
            try:
                while end is None and len(waiting) <= threads:
                    waiting.append(pool.submit(work, next(items)))
            except Exception as error:  # comes after the items before it
                end = error
            if waiting:
                yield waiting.popleft().result()
    if not isinstance(end, StopIteration):
        raise end
