"""The one door to Numba: everything that knows how loops are compiled is behind it.

`contract.Backend` has two implementations, `full` and `documented`; `contract.chosen_backend` says
which one is used, and `IS_FULL` which it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maxmargin.core.numba_backend.contract import (
    BRIDGED,
    FULL,
    LANES,
    Backend,
    chosen_backend,
    with_methods_of,
)

__all__ = [
    "BRIDGED",
    "IS_FULL",
    "LANES",
    "Compiled",
    "bridge",
    "cache_folder",
    "helper",
    "primitive",
    "with_methods_of",
]


def _backend(is_full: bool) -> Backend:
    if is_full:
        from maxmargin.core.numba_backend import full

        return full
    from maxmargin.core.numba_backend import documented

    return documented


IS_FULL = chosen_backend() == FULL
_chosen = _backend(IS_FULL)
helper, primitive, cache_folder = _chosen.helper, _chosen.primitive, _chosen.cache_folder


class Compiled:
    """Decorator: a function that is compiled on first use for each combination of argument types.

    ``nogil`` lets other threads run meanwhile.

    Attributes
    ----------
    plain : callable
        The same function, uncompiled, with the same results to the bit.
    """

    def __init__(self, function: Callable[..., Any], nogil: bool = True) -> None:
        self.plain = function
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.dispatcher = _chosen.dispatcher(function, nogil)

    def __call__(self, *args: Any) -> Any:
        return self.dispatcher(*args)

    def entry(self, *args: Any) -> Callable[..., Any]:
        """What is called with arguments of the same types as these, and with no others.

        For calls so short that finding the machine code each time would take longer.
        """
        return _chosen.entry(self.dispatcher, *args)


def bridge(*names: str, inline: bool = True) -> None:
    """Make the methods called ``names`` of every NamedTuple callable from compiled code.

    ``inline`` asks for copies of the method in its callers; rarely called methods compile faster
    without.
    """
    if twice := BRIDGED.keys() & set(names):
        raise ValueError(f"bridged before: {sorted(twice)}")
    BRIDGED.update(dict.fromkeys(names, inline))
    for name in names:
        _chosen.bridge_method(name)
