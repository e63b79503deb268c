"""The backend that compiles quickly, counts no references, and keeps machine code on disk."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache as cache_of_calls
from pathlib import Path
from typing import Any

import numba
from numba import extending

from maxmargin.core.numba_backend import cache, instructions
from maxmargin.core.numba_backend.compiler import LOOPS, METHODS
from maxmargin.core.numba_backend.contract import Function
from maxmargin.core.numba_backend.methods import bridge as bridge


class Compiled:
    """A loop; see `contract.Loop`.

    Code made only of this package's classes is cached on disk. A class from anywhere else may
    change without our noticing, so loops over it are compiled afresh in each process.
    """

    def __init__(self, function: Callable[..., Any], nogil: bool = True) -> None:
        self.plain = function
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self._afresh = numba.njit(nogil=nogil, **LOOPS)(function)
        self.cached = numba.njit(nogil=nogil, **LOOPS)(function)
        self.cached._cache = cache.Store(function)

    def entry(self, *args: Any) -> Callable[..., Any]:
        """The machine code itself."""
        kinds = tuple(numba.typeof(arg) for arg in args)
        function = self._dispatcher(args)
        if kinds not in function.overloads:
            function.compile(kinds)
        return function.overloads[kinds].entry_point

    def __call__(self, *args: Any) -> Any:
        return self._dispatcher(args)(*args)

    def _dispatcher(self, args: tuple[Any, ...]) -> Any:
        return self.cached if _are_ours(args) else self._afresh


def helper(function: Function) -> Function:
    return extending.register_jitable(**METHODS)(function)


def primitive(meaning: Function) -> Function:
    """What compiled code runs has its name in `instructions`."""
    instructions.implement(meaning)
    return meaning


def cache_folder() -> Path | None:
    return cache.folder()


def cached_files() -> set[Path]:
    folder = cache.folder()
    return set() if folder is None else set(folder.glob(f"*{cache.SUFFIX}"))


def _are_ours(args: tuple[Any, ...]) -> bool:
    """Is code for them made of this package's classes only? Plain tuples are what is in them."""
    kinds = tuple(map(type, args))
    if not _are_kinds_of_ours(kinds):
        return False
    return tuple not in kinds or all(_are_ours(arg) for arg in args if type(arg) is tuple)


@cache_of_calls
def _are_kinds_of_ours(kinds: tuple[type, ...]) -> bool:
    return all(map(_is_ours, kinds))


def _is_ours(kind: type) -> bool:
    """Is it one of this package's classes, or none that code is made of?"""
    plain = kind is tuple or not issubclass(kind, tuple)
    return plain or kind.__module__.startswith("maxmargin.")
