"""The experts of `AutoMargin`, each a line of a table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.experts.expert_steps import (
    ADAPTIVE_HINGE,
    ADAPTIVE_LOGISTIC,
    AROW,
    LOGISTIC,
    PASSIVE_AGGRESSIVE,
)
from maxmargin.experts.full_matrix import FULL_MATRIX
from maxmargin.experts.landmark_features import NEAR_LANDMARKS
from maxmargin.experts.random_features import BY_JOINED_RANGES, BY_RANGES, ON_FEATURES
from maxmargin.experts.scaled_columns import AS_IT_IS, BY_ALL, BY_COLUMN, ROOTED
from maxmargin.experts.standardized_columns import STANDARDIZED, STANDARDIZED_ROOTED


class Expert(NamedTuple):
    """A name, a family of steps with its number, and the kind of the matrix Sigma."""

    name: str
    family: int
    number: float
    kind: str


# The first was chosen on the development tables of `benchmarks.keel`, the others on one half of the
# data sets of `benchmarks.arena`. Those on standardized columns come last, and among those of
# either half the ones whose variances are roots.
EXPERTS = (
    Expert("logistic, r=1, full matrix", LOGISTIC, 1.0, FULL_MATRIX),
    Expert("PA-I, C=1, by column", PASSIVE_AGGRESSIVE, 1.0, BY_COLUMN),
    Expert("PA-I, C=1, one scale", PASSIVE_AGGRESSIVE, 1.0, BY_ALL),
    Expert("PA-I, C=1, as it is", PASSIVE_AGGRESSIVE, 1.0, AS_IT_IS),
    Expert("AROW, r=10, by column", AROW, 10.0, BY_COLUMN),
    Expert("AROW, r=1, one scale", AROW, 1.0, BY_ALL),
    Expert("logistic, r=3, by column", LOGISTIC, 3.0, BY_COLUMN),
    Expert("AdaGrad, hinge, rate=0.1", ADAPTIVE_HINGE, 0.1, ROOTED),
    Expert("AdaGrad, logistic, rate=2", ADAPTIVE_LOGISTIC, 2.0, ROOTED),
    Expert("PA-I, C=0.1, standardized", PASSIVE_AGGRESSIVE, 0.1, STANDARDIZED),
    Expert("PA-I, C=1, standardized", PASSIVE_AGGRESSIVE, 1.0, STANDARDIZED),
    Expert("AROW, r=1, standardized", AROW, 1.0, STANDARDIZED),
    Expert("logistic, r=0.3, standardized", LOGISTIC, 0.3, STANDARDIZED),
    Expert("logistic, r=1, standardized", LOGISTIC, 1.0, STANDARDIZED),
    Expert("logistic, r=3, standardized", LOGISTIC, 3.0, STANDARDIZED),
    Expert(
        "AdaGrad, logistic, rate=0.5, standardized", ADAPTIVE_LOGISTIC, 0.5, STANDARDIZED_ROOTED
    ),
    Expert("AdaGrad, logistic, rate=2, standardized", ADAPTIVE_LOGISTIC, 2.0, STANDARDIZED_ROOTED),
)
# Those on random features, each for all widths; chosen on generated streams and river's data.
CURVED = (
    Expert("PA-I, C=1", PASSIVE_AGGRESSIVE, 1.0, ON_FEATURES),
    Expert("PA-I, C=10", PASSIVE_AGGRESSIVE, 10.0, ON_FEATURES),
    Expert("AROW, r=0.1", AROW, 0.1, ON_FEATURES),
    Expert("logistic, r=1", LOGISTIC, 1.0, ON_FEATURES),
)
WITH_CURVED = EXPERTS + tuple(
    one._replace(name=f"{one.name}, on features of {width:g} median distances{measure}")
    for one in CURVED
    for measure, widths in (
        ("", BY_RANGES),
        (", joined ranges", BY_JOINED_RANGES),
        (", joined ranges, by landmarks", NEAR_LANDMARKS),
    )
    for width in widths
)


class ExpertTable(NamedTuple):
    """The experts as arrays, for compiled code."""

    families: np.ndarray
    numbers: np.ndarray


def table_of(experts: tuple[Expert, ...]) -> ExpertTable:
    families = np.array([one.family for one in experts])
    return ExpertTable(families, np.array([one.number for one in experts]))


# By the kernel.
MIXTURES = {"linear": EXPERTS, "rbf": WITH_CURVED}
TABLES = {kernel: table_of(experts) for kernel, experts in MIXTURES.items()}
