"""The backend that compiles quickly, counts no references, and keeps machine code on disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba import extending

from maxmargin.core.numba_backend import cache, instructions
from maxmargin.core.numba_backend.compiler import LOOPS, METHODS
from maxmargin.core.numba_backend.contract import Function
from maxmargin.core.numba_backend.methods import bridge_method as bridge_method


def dispatcher(function: Callable[..., Any], nogil: bool) -> Any:
    made = numba.njit(nogil=nogil, **LOOPS)(function)
    made._cache = cache.Store(function)
    return made


def entry(dispatcher: Any, *args: Any) -> Callable[..., Any]:
    """The machine code itself."""
    kinds = tuple(numba.typeof(arg) for arg in args)
    if kinds not in dispatcher.overloads:
        dispatcher.compile(kinds)
    return dispatcher.overloads[kinds].entry_point


def helper(function: Function) -> Function:
    return extending.register_jitable(**METHODS)(function)


def primitive(meaning: Function) -> Function:
    """What compiled code runs has its name in `instructions`."""
    instructions.implement(meaning)
    return meaning


def cache_folder() -> Path | None:
    return cache.folder()
