"""Locks in processes that fork while several threads run."""

from __future__ import annotations

import os
from typing import Any


def held_in_forks(lock: Any) -> Any:
    """Let forks wait for the lock, so that it is never held by a thread that the child lacks."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )
    return lock
