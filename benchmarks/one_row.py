"""A stream: `partial_fit` with one row per call, where checking the input is most of the work."""

from __future__ import annotations

import cProfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import Perceptron as SklearnPerceptron

from benchmarks.harness import Contender, Floor, Key, Report, Scale, race, ratios, seconds
from maxmargin import AMIRA, PassiveAggressive, Perceptron

NAME = "one-row"

CALLS, WIDTH = 500, 30
SKLEARN = "scikit-learn Perceptron"
PROFILED_ROUNDS, PROFILE_LINES = 10, 12


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
    notes = [
        f"Where the time of Perceptron goes, {case} rows: {where_time_goes(rows, labels)}."
        for case, rows in streams.items()
    ]
    data = f"{y.size} calls of partial_fit with a row of {WIDTH} float64 values"
    return Report(NAME, data, "s", values, floors, notes=notes)


def where_time_goes(rows: list[Any], labels: list[np.ndarray]) -> str:
    """The functions with most time of their own, by the profiler, which itself slows them down."""
    learn = one_by_one(Perceptron(), rows, labels)
    profile = cProfile.Profile()
    for _ in range(PROFILED_ROUNDS):
        profile.runcall(learn)
    own: dict[str, float] = defaultdict(float)
    for entry in profile.getstats():
        own[name_of(entry.code)] += entry.inlinetime
    whole = sum(own.values())
    most = sorted(own, key=own.__getitem__, reverse=True)[:PROFILE_LINES]
    return ", ".join(f"{name} {own[name] / whole:.0%}" for name in most)


def name_of(code: CodeType | str) -> str:
    return code if isinstance(code, str) else f"{Path(code.co_filename).stem}.{code.co_name}"
