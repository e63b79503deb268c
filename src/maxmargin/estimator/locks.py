"""The locks of learners, for threads and forks.

A process may fork while another of its threads learns. The fork waits until no state is being
changed in place, so the child has consistent ones. The child lacks that thread, so the locks that
it held are reset.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from sklearn.base import BaseEstimator

from maxmargin.core.forks import held_in_forks
from maxmargin.core.numba_backend import compiler_lock

# The longest time that a fork waits for changes in place, which take milliseconds.
FORK_SECONDS = 10.0


class Access:
    """The locks of a learner.

    ``writing`` is held during calls that learn (it is `busy` then), ``changing`` while the state is
    read or changed in place.
    """

    def __init__(self, clf: BaseEstimator) -> None:
        self.writing: Any = threading.RLock()
        self.changing: Any = threading.RLock()
        self.busy = False
        self.learner = weakref.ref(clf)
        ACCESSES[id(self)] = self


# The locks of all learners, for forks.
ACCESSES: weakref.WeakValueDictionary[int, Access] = weakref.WeakValueDictionary()

Method = TypeVar("Method", bound=Callable[..., Any])


def access_to(clf: Any) -> Access:
    """The locks of ``clf``, the same for all threads."""
    return clf.__dict__.get("_access") or clf.__dict__.setdefault("_access", Access(clf))


def writing(method: Method) -> Method:
    """Let only one call of such methods run at a time."""

    @wraps(method)
    def exclusive(self: Any, *args: Any, **kwargs: Any) -> Any:
        access = access_to(self)
        with access.writing:
            before, access.busy = access.busy, True
            try:
                return method(self, *args, **kwargs)
            finally:
                access.busy = before

    return cast(Method, exclusive)


def reading(method: Method) -> Method:
    """Exclude changes in place while the method runs."""

    @wraps(method)
    def locked(self: Any, *args: Any, **kwargs: Any) -> Any:
        with access_to(self).changing:
            return method(self, *args, **kwargs)

    return cast(Method, locked)


# ------------------------------------------------------------------------------------------ forks
class NoAccess:
    """Replaces the locks of a learner that was being changed while the process forked."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(
            "This process was forked while another thread changed the learner, so its state may be "
            "incomplete here: load or fit it in this process, or fork while no thread learns."
        )


# The locks that the fork under way holds.
_held: dict[int, Access] = {}


def _all_accesses() -> list[Access]:
    """A snapshot of all locks, since other threads may create more."""
    found = (reference() for reference in ACCESSES.valuerefs())
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


# A fork waits until no other thread compiles: in the child that thread is not there to release the
# lock. Hooks before a fork run in reverse order, so this one comes after the one below, for which
# threads that compile may have to release the locks of their learners.
held_in_forks(compiler_lock)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
