"""Items computed one ahead of their use."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from queue import SimpleQueue
from typing import Any, TypeVar

Item = TypeVar("Item")

# How long to wait for the thread at the end: a pipe may block it.
PATIENCE_SECONDS = 5.0


def ahead(items: Generator[Item, None, None]) -> Iterator[Item]:
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
