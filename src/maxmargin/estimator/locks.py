"""The locks of a learner; `forks` keeps them whole in processes that fork."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from sklearn.base import BaseEstimator


class Access:
    """Locks: ``writing`` is held by a call that learns, from its beginning to its end (it is `busy`
    then), and ``changing`` while what others can see is changed in place, or read.
    """

    def __init__(self, clf: BaseEstimator) -> None:
        self.writing: Any = threading.RLock()
        self.changing: Any = threading.RLock()
        self.busy = False
        self.learner = weakref.ref(clf)
        EVERYONE[id(self)] = self


# All that there are, for forks.
EVERYONE: weakref.WeakValueDictionary[int, Access] = weakref.WeakValueDictionary()

Method = TypeVar("Method", bound=Callable[..., Any])


def access_to(clf: Any) -> Access:
    """The locks of ``clf``, the same for all threads."""
    return clf.__dict__.get("_access") or clf.__dict__.setdefault("_access", Access(clf))


def writing(method: Method) -> Method:
    @wraps(method)
    def alone(self: Any, *args: Any, **kwargs: Any) -> Any:
        access = access_to(self)
        with access.writing:
            before, access.busy = access.busy, True
            try:
                return method(self, *args, **kwargs)
            finally:
                access.busy = before

    return cast(Method, alone)


def reading(method: Method) -> Method:
    @wraps(method)
    def undisturbed(self: Any, *args: Any, **kwargs: Any) -> Any:
        with access_to(self).changing:
            return method(self, *args, **kwargs)

    return cast(Method, undisturbed)
