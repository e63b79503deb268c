"""The one door to Numba: everything that knows how loops are compiled is behind it.

`Backend` is the contract, of which there are two implementations, `full` and `documented`; and
`contract.chosen_backend` says which one is behind the names below. `IS_FULL` says which it was.
"""

from __future__ import annotations

from maxmargin.core.numba_backend.contract import (
    BRIDGED,
    FULL,
    LANES,
    Backend,
    Loop,
    chosen_backend,
    with_methods_of,
)

__all__ = [
    "BRIDGED",
    "IS_FULL",
    "LANES",
    "Compiled",
    "Loop",
    "bridge",
    "cache_folder",
    "cached_files",
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
Compiled, bridge = _chosen.Compiled, _chosen.bridge
helper, primitive = _chosen.helper, _chosen.primitive
cache_folder, cached_files = _chosen.cache_folder, _chosen.cached_files
