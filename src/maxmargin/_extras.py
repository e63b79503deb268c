"""Libraries that come with an extra of the package."""

from __future__ import annotations

import importlib
from typing import Any


def plotting(module: str) -> Any:
    """A module of matplotlib, or an error that says how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise ImportError("pictures need matplotlib: pip install 'maxmargin[plots]'") from None
