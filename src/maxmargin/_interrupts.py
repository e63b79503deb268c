"""Ctrl-C during steps that must not be left half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C in the main thread until the end of the block."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # signals are handled elsewhere, or not in Python
        return
    received: list[tuple[int, object]] = []
    signal.signal(signal.SIGINT, lambda *signals: received.append(signals))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if received:
            handler(*received[0])  # type: ignore[arg-type]
