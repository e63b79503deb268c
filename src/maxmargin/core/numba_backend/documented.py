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

from maxmargin.core.numba_backend.contract import Function

OPTIONS = {"error_model": "numpy"}


def dispatcher(function: Callable[..., Any], nogil: bool) -> Any:
    return numba.njit(nogil=nogil, **OPTIONS)(function)


def entry(dispatcher: Any, *args: Any) -> Callable[..., Any]:
    return dispatcher


def helper(function: Function) -> Function:
    return extending.register_jitable(**OPTIONS)(function)


# What a primitive means in Python is what is compiled.
primitive = helper


def bridge_method(name: str) -> None:
    """LLVM decides what is copied into callers."""

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
