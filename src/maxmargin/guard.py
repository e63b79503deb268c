"""Methods that do all or nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


def keeps_state_on_error(method: Method) -> Method:
    """A method that fails leaves the estimator as it was.

    One that is interrupted by Ctrl-C may keep what it has learnt, unless it says by ``_half_done``
    that it was in the middle of something.
    """

    @functools.wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = self.__dict__.copy()
        try:
            return method(self, *args, **kwargs)
        except BaseException as problem:
            if isinstance(problem, Exception) or self.__dict__.get("_half_done"):
                self.__dict__.clear()
                self.__dict__.update(before)
            raise

    return guarded  # type: ignore[return-value]
