"""How Numba compiles loops, and the methods that they call.

Numba optimises every function that it compiles in full and makes machine code of it, even of one
that is only ever copied into its callers. A loop calls about a hundred methods, so most of that
work, and more than a third of the time, would be thrown away. A method therefore gets a library
that is only linked into others: it is simplified, and the whole is optimised once, in the loop.
"""

from __future__ import annotations

import gc
from typing import Any

from llvmlite.binding import parse_assembly
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.typed_passes import (
    AnnotateTypes,
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import (
    FixupArgs,
    GenericRewrites,
    IRProcessing,
    ReconstructSSA,
    TranslateByteCode,
)

__all__ = ["LOOPS", "METHODS"]


class MethodLibrary(JITCodeLibrary):
    """Code of one method as it stands, to be linked into the loops that call it."""

    def _optimize_functions(self, module: Any) -> None:
        """Nothing: that is the loop's."""

    def add_linking_library(self, library: Any) -> None:
        self._linking_libraries.append(library)

    def finalize(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Zero: no code of this library has an address."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> MethodLibrary:
        """Numba asks it for `set_env` alone."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Nothing: constants of Python objects, which no method has, would be found by it."""


class LoopLibrary(JITCodeLibrary):
    """Code of a loop, with all that it calls."""

    _linking_libraries: list[Any]

    def finalize(self) -> None:
        self._linking_libraries = callers_first(self._linking_libraries)
        super().finalize()

    def serialize_using_object_code(self) -> tuple[str, str, tuple[bytes, bytes]]:
        """Machine code, and what Numba wants with it: a module, for others to copy code from.

        No code is copied from a loop. So it has the names alone, which are all that is needed to
        find the machine code again, and a sixtieth of the size.
        """
        self._ensure_finalized()
        functions = (each.name for each in self.get_defined_functions())
        variables = (each.name for each in self._final_module.global_variables if is_defined(each))
        names = [f'define void @"{name}"() {{ ret void }}' for name in functions]
        names += [f'@"{name}" = global i8 0' for name in variables]
        module = parse_assembly("\n".join(names))
        return self.name, "object", (self._get_compiled_object(), module.as_bitcode())

    def _verify_declare_only_symbols(self) -> None:
        """A call to nowhere would end the process."""
        for function in self._final_module.functions:
            if not is_defined(function) and function.name.startswith("_ZN"):
                raise AssertionError(f"{function.name} is not linked into {self.name}")


def is_defined(symbol: Any) -> bool:
    return not symbol.is_declaration


def callers_first(libraries: list[Any]) -> list[Any]:
    """These and all that they need, in the order in which they can be linked.

    What has not been called yet is not linked at all.
    """
    callees_first: dict[Any, None] = {}

    def visit(library: Any) -> None:
        if library not in callees_first:
            if isinstance(library, MethodLibrary):
                for called in library._linking_libraries:
                    visit(called)
            callees_first[library] = None

    for library in libraries:
        visit(library)
    return list(reversed(callees_first))


@register_pass(mutates_CFG=False, analysis_only=False)
class MakeLibrary(FunctionPass):  # type: ignore[misc]
    """A pass that makes the library before Numba would make one of its own."""

    _name = "maxmargin_library"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        library = MethodLibrary if state.flags.no_cpython_wrapper else LoopLibrary
        state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return True


class Compiler(CompilerBase):  # type: ignore[misc]
    """Numba's compiler, without the passes that have nothing to do in this package's code.

    Those are for closures, ``with``, exceptions, expressions over whole arrays and the like. After
    each pass Numba looks at the function again, so they cost as much as those that do something.
    Rules of others may use all that Numba knows.
    """

    def compile_extra(self, function: Any) -> Any:
        """Without garbage collection, which would take a seventh of the time and find little."""
        collecting = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(function)
        finally:
            if collecting:
                gc.enable()

    def define_pipelines(self) -> list[Any]:
        if self.state.func_id.modname.startswith("maxmargin."):
            passes = PassManager("maxmargin")
            for each in NEEDED:
                passes.add_pass(each, each.__doc__ or "")
        else:
            passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(MakeLibrary, NopythonTypeInference)
        passes.finalize()
        return [passes]


# Of Numba's passes, in their order.
NEEDED = (
    TranslateByteCode,
    FixupArgs,
    IRProcessing,
    GenericRewrites,
    ReconstructSSA,
    NopythonTypeInference,
    PreLowerStripPhis,
    IRLegalization,
    AnnotateTypes,
    NativeLowering,
    NoPythonBackend,
)

# No exception may leave a loop half-way, so a division by zero gives inf as in NumPy; the loop and
# the rules guard against it.
#
# No loop allocates: arrays come in, live in tuples, and outlive the call. Numba would still count
# references to each array of a tuple whenever a method is called, which costs more than the method.
# `_nrt` switches that off. It must be off in the loops and in everything they call (a test looks
# for reference counting in the machine code, and numba's version range is pinned). And nothing is
# called from C: wrappers for that would take a fifth of the time to compile.
LOOPS = {"error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
LOOPS |= {"pipeline_class": Compiler}
METHODS = LOOPS | {"no_cpython_wrapper": True}
