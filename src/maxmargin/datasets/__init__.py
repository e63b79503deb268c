"""Data of the papers: artificial data, and loaders of the real data.

They are in the package `maxmargin_papers`, which is imported when one of them is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxmargin_papers.data import (
        load_adult,
        load_electricity,
        load_ionosphere,
        load_mnist,
        load_usps,
        load_vehicle,
        load_votes,
        make_drifting,
        make_endless_digits,
        make_r_of_k,
        make_separable,
        make_switching,
    )

__all__ = [
    "load_adult",
    "load_electricity",
    "load_ionosphere",
    "load_mnist",
    "load_usps",
    "load_vehicle",
    "load_votes",
    "make_drifting",
    "make_endless_digits",
    "make_r_of_k",
    "make_separable",
    "make_switching",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module("maxmargin_papers.data"), name)
    except ModuleNotFoundError as error:
        if error.name != "maxmargin_papers":
            raise
        raise ImportError(
            f"{__name__}.{name} needs the package maxmargin_papers, which comes with maxmargin and "
            "is missing here: install maxmargin again"
        ) from error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
