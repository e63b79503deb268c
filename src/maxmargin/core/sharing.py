"""Methods that NamedTuples have in common, which cannot inherit."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeVar

Kind = TypeVar("Kind", bound=type)


def with_methods_of(other: type) -> Callable[[Kind], Kind]:
    """Class decorator: give a NamedTuple those methods of another class that it does not define."""

    def complete(cls: Kind) -> Kind:
        for name, method in vars(other).items():
            if inspect.isfunction(method) and not name.startswith("_") and not hasattr(cls, name):
                setattr(cls, name, method)
        return cls

    return complete
