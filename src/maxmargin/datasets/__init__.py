"""Data of the papers: artificial data, and loaders of the real data.

The loaders and the deformed digits are in the package `maxmargin_papers`, which is imported when
one of them is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from maxmargin.datasets.generated import (
    make_drifting,
    make_r_of_k,
    make_separable,
    make_switching,
)

if TYPE_CHECKING:
    from maxmargin_papers.data.adult import load_adult
    from maxmargin_papers.data.benchmark_sets import (
        load_electricity,
        load_ionosphere,
        load_mnist,
        load_usps,
        load_votes,
    )
    from maxmargin_papers.data.deformed_digits import make_endless_digits
    from maxmargin_papers.data.vehicle import load_vehicle

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

_MODULES = {
    "load_adult": "adult",
    "load_electricity": "benchmark_sets",
    "load_ionosphere": "benchmark_sets",
    "load_mnist": "benchmark_sets",
    "load_usps": "benchmark_sets",
    "load_vehicle": "vehicle",
    "load_votes": "benchmark_sets",
    "make_endless_digits": "deformed_digits",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f"maxmargin_papers.data.{_MODULES[name]}")
    except ModuleNotFoundError as error:
        if error.name != "maxmargin_papers":
            raise
        raise ImportError(
            f"{__name__}.{name} needs the package maxmargin_papers, which comes with maxmargin and "
            "is missing here: install maxmargin again"
        ) from error
    globals()[name] = value = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
