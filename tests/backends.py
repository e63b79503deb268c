"""Which tests are about the full backend of Numba alone."""

import pytest

from maxmargin.core.numba_backend import IS_FULL

WHY = "looks at machine code, cache files or reference counts, as the full backend has them"
only_full = pytest.mark.skipif(not IS_FULL, reason=WHY)


def skip_module_unless_full():
    """For modules that import what only tested versions of Numba have."""
    if not IS_FULL:
        pytest.skip(WHY, allow_module_level=True)
