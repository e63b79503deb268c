"""The public classes that files can name, and the modules that they live in.

`maxmargin` itself fills the table when it is imported. So files are read and written without
knowing the layers above, and a class is imported when a file first names it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

LEARNERS: dict[str, str] = {}


def register(learners: Mapping[str, str]) -> None:
    """Say which module each class lives in."""
    LEARNERS.update(learners)


def learner(name: str) -> type | None:
    """The learner that is called so, if there is one."""
    if name not in LEARNERS:
        return None
    found: type = getattr(importlib.import_module(LEARNERS[name]), name)
    return found
