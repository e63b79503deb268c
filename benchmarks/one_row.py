"""A stream: `partial_fit` with one row per call, where checking the input is most of the work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import Perceptron as SklearnPerceptron

from benchmarks.harness import (
    Comparison,
    Contender,
    Floor,
    Key,
    Report,
    Scale,
    race,
    ratios,
    seconds,
)
from maxmargin import AMIRA, PassiveAggressive, Perceptron

NAME = "one-row"
QUESTION = "How long does partial_fit take with one row a call?"

CALLS, WIDTH = 500, 30
SKLEARN = "scikit-learn Perceptron"


def one_by_one(estimator: Any, rows: list[Any], labels: list[np.ndarray]) -> Callable[[], None]:
    estimator.partial_fit(rows[0], labels[0], classes=[0, 1])

    def learn() -> None:
        for row, label in zip(rows, labels, strict=True):
            estimator.partial_fit(row, label)

    return learn


def run(scale: Scale) -> Report:
    random = np.random.default_rng(0)
    X = random.standard_normal((scale.rows(CALLS), WIDTH))
    y = (X[:, 0] > 0).astype(int)
    labels = [y[i : i + 1] for i in range(y.size)]
    # Slices of the whole, as a stream gives them, but cut outside the timing.
    streams = {
        "dense": [X[i : i + 1] for i in range(y.size)],
        "CSR": [sparse.csr_matrix(X[i : i + 1]) for i in range(y.size)],
    }

    def per_call(estimator: Any, rows: list[Any]) -> Callable[[], float]:
        learn = one_by_one(estimator, rows, labels)
        return lambda: seconds(learn) / y.size

    learners = {
        SKLEARN: SklearnPerceptron,
        "Perceptron": Perceptron,
        "PassiveAggressive": PassiveAggressive,
        "AMIRA": AMIRA,
    }
    contenders = [
        Contender(Key(case, name), per_call(learner(), rows))
        for case, rows in streams.items()
        for name, learner in learners.items()
    ]
    values = race(contenders, scale.rounds)
    floors = [
        Floor(
            f"{name} / scikit-learn, {case}",
            "<=",
            0.5,
            ratios(values, Key(case, name), Key(case, SKLEARN)),
        )
        for case in streams
        for name in learners
        if name != SKLEARN
    ]
    pairs = [
        Comparison(
            Key(case, name),
            Key(case, SKLEARN),
            "scikit-learn's Perceptron",
            f"partial_fit of one row, {case}" if name == "Perceptron" else "",
        )
        for case in streams
        for name in learners
        if name != SKLEARN
    ]
    data = f"{y.size} calls of partial_fit with a row of {WIDTH} float64 values"
    how = "Processor time, the checks of the input included."
    return Report(NAME, data, "s/call", values, floors, how=how, comparisons=pairs)
