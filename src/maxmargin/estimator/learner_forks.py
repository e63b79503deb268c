"""Learners in processes that fork.

A process may fork while another of its threads learns. The fork waits until no state is being
changed in place, so the child has whole ones. That other thread is not there in the child, so the
locks that it held are renewed.
"""

from __future__ import annotations

import os
import time
from typing import Any

from maxmargin.core.forks import held_in_forks
from maxmargin.core.numba_backend import compiler_lock
from maxmargin.estimator.locks import EVERYONE, Access

# A fork waits no longer than this for changes in place, which take milliseconds.
FORK_SECONDS = 10.0


class NoAccess:
    """What a forked process has to a learner that was being changed at that moment."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(
            "This process was forked while another thread changed the learner, so its state may be "
            "incomplete here: load or fit it in this process, or fork while no thread learns."
        )


# Of the fork under way: the locks that it holds.
_held: dict[int, Access] = {}


def _all_accesses() -> list[Access]:
    """In one step: other threads may make more."""
    found = (reference() for reference in EVERYONE.valuerefs())
    return [access for access in found if access is not None]


def _before_fork() -> None:
    """Wait until nothing is changed in place."""
    end = time.monotonic() + FORK_SECONDS
    for access in _all_accesses():
        if access.changing.acquire(timeout=max(0.0, end - time.monotonic())):
            _held[id(access)] = access


def _after_fork_in_parent() -> None:
    for access in _held.values():
        access.changing.release()
    _held.clear()


def _after_fork_in_child() -> None:
    for access in _all_accesses():
        if id(access) not in _held:
            if not access.changing.acquire(blocking=False):  # by a thread that is not there
                if (learner := access.learner()) is not None:
                    learner.__dict__.pop("_one_row", None)
                    learner.__dict__["_access"] = NoAccess()
                continue
            access.changing.release()
        if access.writing.acquire(blocking=False):  # free, or held by the thread that forked
            access.writing.release()
        else:
            access.writing._at_fork_reinit()
            access.busy = False
    _after_fork_in_parent()


def watch() -> None:
    """Have forks wait, from here on."""
    # A fork waits until no other thread compiles: in the child nobody would finish that, nor
    # release the lock. Hooks before a fork run in reverse order, so this one comes after the one
    # below, for which threads that compile may have to release the locks of their learners.
    held_in_forks(compiler_lock)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=_before_fork,
            after_in_parent=_after_fork_in_parent,
            after_in_child=_after_fork_in_child,
        )
