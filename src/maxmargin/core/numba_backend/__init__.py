"""The one door to Numba: everything that knows how loops are compiled is behind it.

The contract, for code that is compiled:

- `Compiled` turns a function into a loop: it is compiled on first use for the types of its
  arguments, and ``loop.plain`` is the same function uncompiled, with the same results to the bit.
- `bridge` names methods of NamedTuples that compiled code may call as ``self.method(...)``.
- ``numba.njit(**METHODS)`` compiles a helper function that loops call.
- Compiled code allocates no arrays and raises no exceptions; a division by zero gives infinity.
"""

from __future__ import annotations

from maxmargin.core.numba_backend.compiled import Compiled
from maxmargin.core.numba_backend.compiler import LOOPS, METHODS
from maxmargin.core.numba_backend.methods import BRIDGED, bridge, with_methods_of

__all__ = ["BRIDGED", "LOOPS", "METHODS", "Compiled", "bridge", "with_methods_of"]
