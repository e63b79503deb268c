"""Online large-margin classification, with a certificate for every fit."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maxmargin import datasets as datasets
    from maxmargin import evaluate as evaluate
    from maxmargin import streams as streams
    from maxmargin.algorithms.alma import ALMA
    from maxmargin.algorithms.amira import AMIRA
    from maxmargin.algorithms.bisectionperceptron import BisectionPerceptron
    from maxmargin.algorithms.directionalperceptron import DirectionalPerceptron
    from maxmargin.algorithms.forgetron import Forgetron
    from maxmargin.algorithms.micra import MICRA
    from maxmargin.algorithms.noca import NOCA
    from maxmargin.algorithms.norma import NORMA
    from maxmargin.algorithms.passiveaggressive import PassiveAggressive
    from maxmargin.algorithms.pegasos import Pegasos
    from maxmargin.algorithms.perceptron import Perceptron
    from maxmargin.algorithms.projectron import Projectron
    from maxmargin.algorithms.pumma import PUMMA
    from maxmargin.algorithms.randombudgetperceptron import RandomBudgetPerceptron
    from maxmargin.algorithms.relaxation import Relaxation
    from maxmargin.algorithms.romma import ROMMA
    from maxmargin.algorithms.trackingalma import TrackingALMA
    from maxmargin.certificates import Certificate
    from maxmargin.certify import certify
    from maxmargin.persistence import load, save

__version__ = "0.1.0"

# Where the public names live. They are imported when they are first used, so that the command can
# answer before NumPy, SciPy, scikit-learn and Numba are there.
_HOMES = {
    "ALMA": "algorithms.alma",
    "AMIRA": "algorithms.amira",
    "BisectionPerceptron": "algorithms.bisectionperceptron",
    "DirectionalPerceptron": "algorithms.directionalperceptron",
    "Forgetron": "algorithms.forgetron",
    "MICRA": "algorithms.micra",
    "NOCA": "algorithms.noca",
    "NORMA": "algorithms.norma",
    "PassiveAggressive": "algorithms.passiveaggressive",
    "Pegasos": "algorithms.pegasos",
    "Perceptron": "algorithms.perceptron",
    "Projectron": "algorithms.projectron",
    "PUMMA": "algorithms.pumma",
    "RandomBudgetPerceptron": "algorithms.randombudgetperceptron",
    "Relaxation": "algorithms.relaxation",
    "ROMMA": "algorithms.romma",
    "TrackingALMA": "algorithms.trackingalma",
    "Certificate": "certificates",
    "certify": "certify",
    "load": "persistence",
    "save": "persistence",
}
_MODULES = ("datasets", "evaluate", "streams")


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


__all__ = [
    "ALMA",
    "AMIRA",
    "MICRA",
    "NOCA",
    "NORMA",
    "PUMMA",
    "ROMMA",
    "BisectionPerceptron",
    "Certificate",
    "DirectionalPerceptron",
    "Forgetron",
    "PassiveAggressive",
    "Pegasos",
    "Perceptron",
    "Projectron",
    "RandomBudgetPerceptron",
    "Relaxation",
    "TrackingALMA",
    "certify",
    "load",
    "save",
]
