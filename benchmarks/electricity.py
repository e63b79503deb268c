"""Prices of electricity in the order of time: accuracy on the way, and rows a second.

Each row is predicted before it is learned from. Features are standardised by the mean and the
variance of all rows so far, the row itself included; a constant feature of 1 is the intercept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

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
from maxmargin import AMIRA, NORMA, PassiveAggressive, Perceptron, TrackingALMA
from maxmargin.datasets import load_electricity
from maxmargin.evaluate import STEP, progressive

NAME = "electricity"
QUESTION = "How good and how fast is learning from the prices of electricity as they come?"

TIMES_FASTER = 50.0
ACCURACY = "accuracy, %"

# Learner and accuracy asked for. Of several candidates the best one on the stream itself counts, as
# nothing comes before it.
MARGINS = (1.0, 2.0, 3.0, 5.0)
LEARNERS: dict[str, tuple[Sequence[Any], float | None]] = {
    "Perceptron": ([Perceptron()], None),
    "PA-I": ([PassiveAggressive(C=1.0)], 92.0),
    "AMIRA": ([AMIRA()], 92.0),
    "NORMA": (
        [
            NORMA(rate=1.0, decay=decay, margin=margin)
            for decay in (0.0, 1e-4, 1e-3)
            for margin in MARGINS
        ],
        91.0,
    ),
    "TrackingALMA": (
        [
            TrackingALMA(rate=1.0, radius=radius, margin=margin)
            for radius in (30.0, 50.0, 100.0)
            for margin in MARGINS
        ],
        91.0,
    ),
}
# Whose speed is compared with that of river's learner of the same kind.
TIMED = ("Perceptron", "PA-I")
OURS, ONE_LOOK, THEIRS = "maxmargin", "maxmargin, counts at the end only", "river, row by row"

Rows = list[dict[int, float]]


class Found(NamedTuple):
    clf: Any
    accuracy: float


def run(scale: Scale) -> Report:
    try:
        X, labels = load_electricity()
    except OSError as error:
        return Report(NAME, "no data", "rows/s", {}, skipped={"all": str(error)})
    rows = scale.rows(labels.size)
    X, y = X[:rows], labels[:rows] == "UP"
    Z = standardised(X)
    last = 100.0 * np.sum(y[1:] == y[:-1]) / rows
    floors, pairs, skipped = [], [], {}
    quality = {Key("repeating the last label", ACCURACY): last}
    found: dict[str, Found] = {}
    for name, (candidates, asked) in LEARNERS.items():
        reached = [Found(clf, accuracy_of(clf, Z, y)) for clf in candidates]
        best = max(reached, key=lambda one: one.accuracy)
        found[name] = best
        if asked is not None:
            floors.append(Floor(f"accuracy of {name}, %", ">=", asked, [best.accuracy]))
        quality[Key(name, ACCURACY)] = best.accuracy
    contenders = [
        Contender(Key(name, contender), our_rate(found[name].clf, Z, y, step))
        for name in TIMED
        for contender, step in ((OURS, STEP), (ONE_LOOK, rows))
    ]
    try:
        from river import linear_model, preprocessing
    except ImportError as error:
        skipped["river"] = f"{error}: pip install river"
    else:
        scaled = rivers_rows(preprocessing.StandardScaler(), X)
        difference = max(abs(Z[i, j] - z) for i, row in enumerate(scaled) for j, z in row.items())
        floors.append(Floor("difference from river's scaling", "<=", 1e-9, [float(difference)]))
        labels = y.tolist()
        makers = {
            "Perceptron": linear_model.Perceptron,
            "PA-I": lambda: linear_model.PAClassifier(C=1.0, mode=1),
        }
        theirs = {name: rivers_accuracy(make(), scaled, labels) for name, make in makers.items()}
        extended = [{**row, -1: 1.0} for row in scaled]  # ALMAClassifier has no intercept
        alma = rivers_accuracy(linear_model.ALMAClassifier(), extended, labels)
        for name, accuracy in {**theirs, "ALMA": alma}.items():
            quality[Key(f"river's {name}", ACCURACY)] = accuracy
        points = abs(theirs["Perceptron"] - found["Perceptron"].accuracy)
        floors.append(Floor("points from river's Perceptron to ours", "<=", 0.1, [points]))
        contenders += [
            Contender(Key(name, THEIRS), rivers_rate(make, scaled, labels))
            for name, make in makers.items()
        ]
    values = race(contenders, scale.rounds)
    if "river" not in skipped:
        for name in TIMED:
            faster = ratios(values, Key(name, OURS), Key(name, THEIRS))
            floors.append(Floor(f"rows a second of {name} / river's", ">=", TIMES_FASTER, faster))
            ours, peer = Key(name, OURS), Key(name, THEIRS)
            pairs.append(Comparison(ours, peer, f"river's {name}", f"electricity, {name}"))
    data = f"{rows:,} rows of {X.shape[1]} features and a constant, standardised as they come"
    how = (
        "Each row is predicted before it is learned from: ours by progressive, river's by "
        "predict_one and learn_one on dicts that are standardised already; processor time. Of "
        "NORMA and TrackingALMA the best of 12 settings is shown."
    )
    return Report(NAME, data, "rows/s", values, floors, skipped, how, pairs, quality)


def standardised(X: np.ndarray) -> np.ndarray:
    """Each row by the mean and the variance of the rows up to it; 0 where all were the same."""
    X = X - X[0]  # so that equal numbers have a variance of exactly 0
    counts = np.arange(1, X.shape[0] + 1)[:, None]
    means = np.cumsum(X, axis=0) / counts
    before = np.concatenate([np.zeros((1, X.shape[1])), means[:-1]])
    variances = np.cumsum((X - before) * (X - means), axis=0) / counts
    return np.divide(X - means, np.sqrt(variances), out=np.zeros_like(X), where=variances > 0.0)


def accuracy_of(clf: Any, Z: np.ndarray, y: np.ndarray) -> float:
    return 100.0 * progressive(clone(clf), Z, y).accuracy


def our_rate(clf: Any, Z: np.ndarray, y: np.ndarray, step: int) -> Callable[[], float]:
    return lambda: y.size / seconds(lambda: progressive(clone(clf), Z, y, step=step))


def rivers_rows(scaler: Any, X: np.ndarray) -> Rows:
    """The rows as river has them: dictionaries, standardised one by one."""
    rows = []
    for row in X.tolist():
        named = dict(enumerate(row))
        scaler.learn_one(named)
        rows.append(scaler.transform_one(named))
    return rows


def predict_and_learn(model: Any, rows: Rows, labels: list[bool]) -> int:
    """How many predictions are right, each made before the row is learned from."""
    right = 0
    for row, label in zip(rows, labels, strict=True):
        right += model.predict_one(row) == label
        model.learn_one(row, label)
    return right


def rivers_accuracy(model: Any, rows: Rows, labels: list[bool]) -> float:
    return 100.0 * predict_and_learn(model, rows, labels) / len(rows)


def rivers_rate(make: Callable[[], Any], rows: Rows, labels: list[bool]) -> Callable[[], float]:
    return lambda: len(rows) / seconds(lambda: predict_and_learn(make(), rows, labels))
