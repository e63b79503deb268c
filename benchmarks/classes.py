"""One-vs-rest classes on two threads, against one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.data import sparse_data
from benchmarks.harness import Comparison, Contender, Key, Report, Scale, race, wall_seconds
from benchmarks.passes import fit_quietly
from maxmargin import Perceptron

NAME = "classes"
QUESTION = "What do two threads gain where there are many classes?"

ROWS, WIDTH, PASSES = 30_000, 200, 10
ONE, TWO = "n_jobs=1", "n_jobs=2"


def run(scale: Scale) -> Report:
    contenders, pairs = [], []
    for kind, X in kinds(scale.rows(ROWS)).items():
        for classes in (10, 26):
            case, y = f"{kind}, {classes} classes", labels(X, classes)
            keys = Key(case, ONE), Key(case, TWO)
            contenders += [
                Contender(key, fitting(jobs, X, y)) for jobs, key in enumerate(keys, start=1)
            ]
            pairs.append(Comparison(keys[1], keys[0], "one thread"))
    data = f"{scale.rows(ROWS):,} rows, dense with {WIDTH} features or CSR with 40 to 75 entries"
    how = f"Perceptron, {PASSES} passes at most, by the clock; the models are the same to the bit."
    return Report(NAME, data, "s", race(contenders, scale.rounds), how=how, comparisons=pairs)


def kinds(rows: int) -> dict[str, Any]:
    dense = np.random.default_rng(0).standard_normal((rows, WIDTH))
    return {"dense": dense, "sparse": sparse_data(rows)[0]}


def labels(X: Any, classes: int) -> np.ndarray:
    """By the highest of random scores, with some noise."""
    random = np.random.default_rng(classes)
    scores = X @ random.standard_normal((X.shape[1], classes))
    scores = scores.toarray() if sparse.issparse(scores) else scores
    return np.argmax(scores + 0.2 * scores.std() * random.standard_normal(scores.shape), axis=1)


def fitting(jobs: int, X: Any, y: np.ndarray) -> Callable[[], float]:
    clf = Perceptron(max_iter=PASSES, random_state=0, n_jobs=jobs)
    return lambda: wall_seconds(lambda: fit_quietly(clf, X, y))
