"""Threads on one estimator: those that learn come one after another, those that read see a whole.

Most calls build a new state beside the old one; a single row is learnt in place.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from maxmargin.estimator.locks import Access

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
