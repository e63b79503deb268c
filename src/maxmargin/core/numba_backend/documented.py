"""The backend on Numba's documented functions: for versions that were not tested.

Numba compiles and optimises each function by itself and counts references to arrays, so compiling
and passes take longer than with the full backend. Nothing is kept on disk: Numba's own cache does
not notice edited rules.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba import extending, types

from maxmargin.core.numba_backend.contract import Function, reserve

OPTIONS = {"error_model": "numpy"}


class Compiled:
    """A loop; see `contract.Loop`."""

    def __init__(self, function: Callable[..., Any], nogil: bool = True) -> None:
        self.plain = function
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self._compiled = numba.njit(nogil=nogil, **OPTIONS)(function)

    def __call__(self, *args: Any) -> Any:
        return self._compiled(*args)

    def entry(self, *args: Any) -> Callable[..., Any]:
        return self._compiled


def helper(function: Function) -> Function:
    return extending.register_jitable(**OPTIONS)(function)


# What a primitive means in Python is what is compiled.
primitive = helper


def bridge(*names: str, inline: bool = True) -> None:
    """LLVM decides what is copied, whatever ``inline`` says."""
    reserve(names, inline)
    for name in names:
        _bridge(name)


def _bridge(name: str) -> None:
    # Classes may call the arguments of a method differently, so Numba must not compare their names.
    @extending.overload_method(types.BaseNamedTuple, name, jit_options=OPTIONS, strict=False)
    def method_of(self: Any, *args: Any) -> Callable[..., Any] | None:
        method = getattr(self.instance_class, name, None)
        if not inspect.isfunction(method):
            return None
        # Numba takes the number of arguments from here. It is the same in all classes.
        vars(method_of)["__signature__"] = inspect.signature(method)
        return method


def cache_folder() -> Path | None:
    return None


def cached_files() -> set[Path]:
    return set()
