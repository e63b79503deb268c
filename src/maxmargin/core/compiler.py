"""How Numba compiles loops, and the methods that they call.

Numba optimises every function that it compiles in full and makes machine code of it, even of one
that is only ever copied into its callers. A loop calls about a hundred methods, so most of that
work, and more than a third of the time, would be thrown away. A method therefore gets a library
that is only linked into others: it is simplified, and the whole is optimised once, in the loop.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.typed_passes import NopythonTypeInference

__all__ = ["LOOPS", "METHODS"]


class LinkedLibrary(JITCodeLibrary):
    """Code of one method, to be linked into the libraries of its callers."""

    def _optimize_final_module(self) -> None:
        """Inline and simplify, as Numba does first; the second, full optimisation is the loop's."""
        passes, builder = self._codegen._module_pass_manager(
            loop_vectorize=False, slp_vectorize=False, opt=self._codegen._opt_level, cost="cheap"
        )
        passes.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Zero: no code of this library has an address."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> LinkedLibrary:
        """Numba asks it for `set_env` alone."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Nothing: constants of Python objects, which no method has, would be found by it."""


@register_pass(mutates_CFG=False, analysis_only=False)
class LinkOnly(FunctionPass):  # type: ignore[misc]
    """The pass that gives a method its library, before Numba would make one of its own."""

    _name = "maxmargin_link_only"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        state.library = LinkedLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        return True


class MethodCompiler(CompilerBase):  # type: ignore[misc]
    """Numba's compiler, with `LinkOnly` among its passes."""

    def define_pipelines(self) -> list[Any]:
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.add_pass_after(LinkOnly, NopythonTypeInference)
        passes.finalize()
        return [passes]


# No exception may leave a loop half-way, so a division by zero gives inf as in NumPy; the loop and
# the rules guard against it.
#
# No loop allocates: arrays come in, live in tuples, and outlive the call. Numba would still count
# references to each array of a tuple whenever a method is called, which costs more than the method.
# `_nrt` switches that off. It must be off in the loops and in everything they call (a test looks
# for reference counting in the machine code, and numba's version range is pinned). And nothing is
# called from C: wrappers for that would take a fifth of the time to compile.
LOOPS = {"error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
METHODS = LOOPS | {"no_cpython_wrapper": True, "pipeline_class": MethodCompiler}
