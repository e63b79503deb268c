"""What the schedule of `fit` saves, and what it costs where it does not help.

"Plain" is the same fit by shuffled full passes alone.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

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
from benchmarks.passes import fit_quietly
from maxmargin import AMIRA, NORMA, PUMMA, ROMMA, Perceptron
from maxmargin.datasets import load_adult, make_r_of_k, make_separable
from maxmargin.training import passes

NAME = "schedule"
QUESTION = "What does the order in which fit presents rows save?"

SCHEDULED, PLAIN = "fit", "plain passes"
ROUNDS = 5
# Shorter fits are made several times.
LEAST_SECONDS = 0.05


def cases(scale: Scale) -> Iterator[tuple[str, Any, Any, np.ndarray]]:
    X, y = make_separable(scale.rows(10_000), gap=0.25, random_state=0)
    yield "separable, PUMMA(0.05)", PUMMA(delta=0.05, max_iter=5000), X, y
    yield "separable, AMIRA(0.5)", AMIRA(epsilon=0.5, max_iter=5000), X, y
    yield "separable, Perceptron", Perceptron(max_iter=5000), X, y
    X, y = make_r_of_k(r=4, random_state=0)
    yield "r-of-k, PUMMA(0.1)", PUMMA(delta=0.1, max_iter=5000), X, y
    yield "r-of-k, ROMMA(0.1)", ROMMA(delta=0.1, intercept_scaling="max", max_iter=5000), X, y
    random = np.random.default_rng(0)
    X = random.standard_normal((scale.rows(20_000), 20))
    wide = np.where(X[:, 0] > 0.0, 1, -1)
    X[:, 0] += 3.0 * wide
    yield "wide gap, PUMMA(0.1)", PUMMA(delta=0.1), X, wide
    noisy = np.where(X[:, 1] + random.standard_normal(wide.size) > 0.0, 1, -1)
    yield "inseparable, Perceptron, 20 passes", Perceptron(max_iter=20), X, noisy
    yield "inseparable, NORMA, 20 passes", NORMA(max_iter=20), X, noisy
    with contextlib.suppress(OSError):
        X, y = load_adult()
        rows = scale.rows(8000)
        soft = {"soft_margin": 1.0, "max_iter": 10**5}
        yield "Adult, PUMMA(0.01)", PUMMA(delta=0.01, **soft), X[:rows], y[:rows]
        yield "Adult, AMIRA(0.1)", AMIRA(epsilon=0.1, **soft), X[:rows], y[:rows]


def run(scale: Scale) -> Report:
    names, contenders = [], []
    for name, clf, X, y in cases(scale):
        names.append(name)
        contenders.append(Contender(Key(name, SCHEDULED), fit(clf, X, y, plain=False)))
        contenders.append(Contender(Key(name, PLAIN), fit(clf, X, y, plain=True)))
    values = race(contenders, min(ROUNDS, scale.rounds))
    floors = [
        Floor(
            f"time of fit / plain passes, {name}",
            "<=",
            1.05,
            ratios(values, Key(name, SCHEDULED), Key(name, PLAIN)),
        )
        for name in names
    ]
    pairs = [Comparison(Key(name, SCHEDULED), Key(name, PLAIN), "plain passes") for name in names]
    how = (
        "Processor time of whole fits, right after one that is not counted: fit presents rows that "
        "still bring updates more often; plain passes present all rows in shuffled order."
    )
    return Report(NAME, "separable, noisy and real rows", "s", values, floors, {}, how, pairs)


def fit(clf: Any, X: Any, y: np.ndarray, plain: bool) -> Callable[[], float]:
    def once() -> object:
        return fit_quietly(clf.set_params(random_state=0), X, y)

    def measure() -> float:
        with focus_off() if plain else contextlib.nullcontext():
            # Whoever comes first after other rows would pay for fetching these from memory.
            count = math.ceil(LEAST_SECONDS / seconds(once))
            return seconds(lambda: [once() for _ in range(count)]) / count

    return measure


@contextlib.contextmanager
def focus_off() -> Iterator[None]:
    """Full passes only."""
    shares = {name: getattr(passes, name) for name in ("FIRST_SHARE", "SHARE")}
    try:
        for name in shares:
            setattr(passes, name, 0)
        yield
    finally:
        for name, share in shares.items():
            setattr(passes, name, share)
