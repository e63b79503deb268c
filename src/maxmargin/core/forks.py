"""Locks in processes that fork while several threads run."""

from __future__ import annotations

import os
from typing import Any


def held_in_forks(lock: Any) -> Any:
    """The lock, which a fork waits for: so in the child no thread holds it that is not there."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )
    return lock
