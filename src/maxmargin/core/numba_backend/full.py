"""The backend that compiles quickly, counts no references, and keeps machine code on disk.

Rules, spaces and rows are NamedTuples with ordinary methods: plain Python runs them as they are,
and `bridge_method` tells Numba to compile ``self.method(...)`` by looking the method up on the
tuple's class. Unlike functions passed as arguments, closures or jitclasses, a loop over such tuples
is found again in the cache by the next process.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba import extending, types
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_getattr

from maxmargin.core.numba_backend import cache, instructions
from maxmargin.core.numba_backend.compiler import LOOPS, METHODS
from maxmargin.core.numba_backend.contract import BRIDGED, Function


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


@functools.cache
def _compiled_method(method: Callable[..., Any], inline: bool) -> Any:
    """What compiles a method; classes that share the method share it as well."""
    return numba.njit(**METHODS, forceinline=inline)(method)


def _method_of(kind: types.BaseNamedTuple, name: str) -> types.Dispatcher:
    method = getattr(kind.instance_class, name)
    return types.Dispatcher(_compiled_method(method, BRIDGED[name]))


@infer_getattr
class Methods(AttributeTemplate):  # type: ignore[misc]
    """Tells Numba's type inference of all bridged methods of NamedTuples.

    Numba's `overload_method` would do, but makes a template for each name, all of which are tried
    for each attribute of each tuple: a fifth of the time that it takes to compile a loop.
    """

    key = types.BaseNamedTuple

    def generic_resolve(self, kind: types.BaseNamedTuple, name: str) -> types.BoundFunction | None:
        if name not in BRIDGED or not inspect.isfunction(getattr(kind.instance_class, name, None)):
            return None
        method = _method_of(kind, name)

        class MethodCall(AbstractTemplate):  # type: ignore[misc]
            key = (types.BaseNamedTuple, name)

            def generic(self, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
                signature = method.get_call_type(self.context, (kind, *args), kws)
                return signature.as_method()

        return types.BoundFunction(MethodCall, kind)


def bridge_method(name: str) -> None:
    @extending.lower_builtin(
        (types.BaseNamedTuple, name), types.BaseNamedTuple, types.VarArg(types.Any)
    )
    def call(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        function = context.get_function(_method_of(signature.args[0], name), signature)
        context.add_linking_libs(function.libs)
        return function(builder, args)


def cache_folder() -> Path | None:
    return cache.folder()
