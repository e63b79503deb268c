"""What holds for all tests: no chance, no deadlines, and compiled code that is shared safely."""

import contextlib

import pytest
from extent import EVERYTHING
from hypothesis import settings
from numba.core.caching import IndexDataCacheFile
from randomness import no_unseeded_randomness

try:
    import fcntl
except ImportError:  # pragma: no cover
    fcntl = None

# The machine may be busy, so there are no deadlines.
settings.register_profile("same examples", deadline=None, derandomize=True)
settings.register_profile("new examples", deadline=None, print_blob=True)
settings.load_profile("new examples" if EVERYTHING else "same examples")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Tests, and fixtures of any scope, pass a seed wherever there are random numbers.

    Examples in docstrings need not: they show the shortest call.
    """
    allowed = isinstance(item, pytest.DoctestItem) or item.get_closest_marker("unseeded")
    with contextlib.nullcontext() if allowed else no_unseeded_randomness():
        return (yield)


def _one_at_a_time(save):
    """Numba reads the index of its cache, adds an entry and writes it again.

    Two processes that do so at once lose an entry, or give two functions the same file.
    """

    def locked(self, *args):
        with open(f"{self._index_path}.lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            save(self, *args)

    return locked


if fcntl is not None:
    IndexDataCacheFile.save = _one_at_a_time(IndexDataCacheFile.save)
