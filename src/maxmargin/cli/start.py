"""A quick start: without most of what the command would wait for before it begins."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from typing import Any

# The usual number is some hundred.
OBJECTS_BETWEEN_COLLECTIONS = 100_000


@contextmanager
def little_garbage_collection() -> Iterator[None]:
    """The objects of a thousand modules stay to the end, and are no garbage then either.

    Python would look through them again and again while they come, and once more in the end, which
    takes a third of the time that the command has to itself.
    """
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, *gc.get_threshold()[1:])
    try:
        yield
    finally:
        gc.freeze()


class OnFirstUse:
    """A finder of modules that lets one be loaded when it is first used, not when imported."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name == self.name else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def import_scikit_learn() -> None:
    """Import scikit-learn without pandas and scipy.stats, in a third of the time.

    It imports both for a few functions that no command calls. So scipy.stats is loaded on its first
    use, and pandas by whoever needs it: scikit-learn takes it for missing, and finds it by itself
    when it is given a table.
    """
    if "sklearn" in sys.modules or "pandas" in sys.modules:
        return
    finder: Any = OnFirstUse("scipy.stats")
    sys.meta_path.insert(0, finder)
    sys.modules["pandas"] = None  # type: ignore[assignment]
    try:
        import sklearn  # noqa: F401
    finally:
        sys.meta_path.remove(finder)
        del sys.modules["pandas"]
