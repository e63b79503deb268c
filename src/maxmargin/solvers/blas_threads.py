"""BLAS on one thread, where more would change the last bits or take longer."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


class OneThread:
    """Limits BLAS to one thread, in the whole process, while at least one caller needs it."""

    def __init__(self) -> None:
        self._lock, self._asking = threading.Lock(), 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._asking == 0:
                self._limit = _libraries().limit(limits=1, user_api="blas")
            self._asking += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._asking -= 1
            if self._asking == 0:
                self._limit.restore_original_limits()


one_thread = OneThread()
