"""Online large-margin classification, with a certificate for every fit."""

from __future__ import annotations

import importlib
from typing import Any

from maxmargin import _registry

__version__ = "0.2.0"

# The public names; `__init__.pyi` says the same to type checkers. They are imported when they are
# first used, so that the command can answer before NumPy, SciPy, scikit-learn and Numba are there.
# An algorithm lives in the file of its name, in lower case.
ALGORITHMS = (
    "ALMA",
    "AMIRA",
    "AROW",
    "AdaGrad",
    "AutoMargin",
    "BisectionPerceptron",
    "DirectionalPerceptron",
    "FTRL",
    "FixedShare",
    "Forgetron",
    "MICRA",
    "MaxMargin",
    "NOCA",
    "NORMA",
    "PUMMA",
    "PassiveAggressive",
    "Pegasos",
    "Perceptron",
    "Projectron",
    "ROMMA",
    "RandomBudgetPerceptron",
    "Relaxation",
    "SCW",
    "TrackingALMA",
)
_HOMES = {name: f"algorithms.{name.lower()}" for name in ALGORITHMS} | {
    "Certificate": "certificates",
    "ConformalClassifier": "algorithms.conformalclassifier",
    "LabelQueries": "algorithms.labelqueries",
    "certify": "evaluate",
    "from_sklearn": "migration",
    "load": "persistence",
    "save": "persistence",
    "to_onnx": "export",
}
_registry.register(
    {
        name: f"{__name__}.{_HOMES[name]}"
        for name in (*ALGORITHMS, "ConformalClassifier", "LabelQueries")
    }
)
_MODULES = ("client", "datasets", "evaluate", "streams")

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES, *_MODULES])
