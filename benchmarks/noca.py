"""NOCA on Adult and on the synthetic set of its paper, and against plain NumPy.

Accuracy is progressive: each row is predicted before it is learned from, in one pass.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

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
from maxmargin import NOCA
from maxmargin.datasets import load_adult

NAME = "noca"
QUESTION = "How good and how fast is a mixture of Gaussians?"

ORDERS = 5
ON_THE_WAY, ON_TEST_ROWS = "accuracy on the way, %", "accuracy on test rows, %"
HOW = (
    "Accuracy on the way is that of predictions made before a row is learned from, in one pass; on "
    "test rows it is that of the last hypothesis. Means over orders or sets."
)
FLOORS = {60: 80.8, 120: 81.2}
ROWS, WIDTH, COMPONENTS = 20_000, 14, 100


def run(scale: Scale) -> Report:
    floors, skipped = [], {}
    quality: dict[Key, float] = {}
    accuracies = []
    for seed in range(ORDERS):
        X, y = synthetic(scale.rows(10_000), seed)
        clf = NOCA(max_components=32, shuffle=False).fit(X, y)
        accuracies.append(progressive(clf, y))
    floors.append(Floor("accuracy, synthetic, 32 components", ">=", 98.7, accuracies))
    quality[Key("synthetic, 32 components", ON_THE_WAY)] = float(np.mean(accuracies))
    try:
        settings = {"encoding": "integer", "drop_missing": True, "scale": True}
        X, y = load_adult(**settings)
        X_test, y_test = load_adult("test", **settings)
    except OSError as error:
        skipped["Adult"] = str(error)
    else:
        for most, asked in FLOORS.items():
            fitted = [
                NOCA(epsilon=0.39, max_components=most, random_state=order).fit(X, y)
                for order in range(ORDERS)
            ]
            accuracies = [progressive(clf, y) for clf in fitted]
            floors.append(Floor(f"accuracy, Adult, {most} components", ">=", asked, accuracies))
            tests = [100.0 * clf.score(X_test, y_test) for clf in fitted]
            quality[Key(f"Adult, {most} components", ON_THE_WAY)] = float(np.mean(accuracies))
            quality[Key(f"Adult, {most} components", ON_TEST_ROWS)] = float(np.mean(tests))
    case = f"{WIDTH} features, {COMPONENTS} components"
    ours, plain = Key(case, "maxmargin"), Key(case, "plain NumPy")
    rows = scale.rows(ROWS)
    X, y = clouds(rows)
    contenders = [
        Contender(ours, per_row(lambda: NOCA(shuffle=False).fit(X, y), rows)),
        Contender(plain, per_row(numpy_reference(X[: rows // 10], y[: rows // 10]), rows // 10)),
    ]
    values = race(contenders, min(5, scale.rounds))
    floors.append(Floor("time of plain NumPy / ours", ">=", 20.0, ratios(values, plain, ours)))
    pairs = [Comparison(ours, plain, "plain NumPy")]
    data = "NOCA on random clouds, on the synthetic set of its paper, and on Adult"
    return Report(NAME, data, "s/row", values, floors, skipped, HOW, pairs, quality)


def progressive(clf: NOCA, y: np.ndarray) -> float:
    return 100.0 * (1.0 - clf.n_mistakes_ / y.size)


def per_row(work: Callable[[], object], rows: int) -> Callable[[], float]:
    return lambda: seconds(work) / rows


def numpy_reference(X: np.ndarray, y: np.ndarray) -> Callable[[], object]:
    """The same updates as the tests know them."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from reference_budget import noca

    return lambda: noca(X, y, 2, max_components=COMPONENTS)


def synthetic(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """One Gaussian between two others."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 2, rows)
    X = 0.405 * random.standard_normal((rows, 2))
    X[:, 0] += 2.0 * y * random.choice([-1, 1], rows)
    return X, y


def clouds(rows: int) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).standard_normal((rows, WIDTH))
    return X, (X[:, 0] * X[:, 1] > 0.0).astype(int)
