"""USPS digits with a Gaussian kernel: Table 2 of Zhao and Huang, and the time it takes.

Their rows 7 to 12: test errors after one and three passes and updates after five, for AMIRA
one-vs-rest and k-best. (The paper's text has lost the epsilons of the rows with most updates; 0.5
gives their errors.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from benchmarks.harness import (
    Comparison,
    Contender,
    Floor,
    Key,
    Report,
    Scale,
    race,
    ratios,
    wall_seconds,
)
from benchmarks.passes import fit_quietly
from maxmargin import AMIRA
from maxmargin.datasets import load_usps

NAME = "usps"
QUESTION = "How well and how fast are the digits of USPS learned with a Gaussian kernel?"

GAMMA = 1.0 / (2.0 * 3.5**2)
ORDERS = 10
ROUNDS = 5


class Line(NamedTuple):
    """A line of the printed table."""

    multiclass: str
    epsilon: float
    first: float  # error after one pass, in per cent
    third: float
    updates: int

    def name(self) -> str:
        return f"{self.multiclass} AMIRA({self.epsilon:g})"


PRINTED = (
    Line("ovr", 1.0, 7.32, 6.21, 1716),
    Line("ovr", 0.9, 4.62, 4.51, 11928),
    Line("ovr", 0.5, 5.02, 5.00, 27201),
    Line("k-best", 1.0, 7.19, 6.15, 667),
    Line("k-best", 0.85, 4.56, 4.60, 2585),
    Line("k-best", 0.5, 4.92, 4.91, 4084),
)


def learner(line: Line, passes: int, order: int) -> AMIRA:
    return AMIRA(
        epsilon=line.epsilon,
        multiclass=line.multiclass,
        kernel="rbf",
        gamma=GAMMA,
        fit_intercept=False,
        max_iter=passes,
        random_state=order,
    )


def run(scale: Scale) -> Report:
    try:
        X, y = load_usps()
        X_test, y_test = load_usps("test")
    except OSError as error:
        return Report(NAME, "no data", "s", {}, skipped={"all": str(error)})
    rows = scale.rows(y.size)
    X, y = X[:rows], y[:rows]
    floors: list[Floor] = []
    quality: dict[Key, float] = {}
    for line in PRINTED:
        found = np.array(
            [
                measured(line, order, X, y, X_test, y_test)
                for order in range(ORDERS if scale.share == 1.0 else 1)
            ]
        )
        first, third, updates = found.mean(axis=0)
        name = line.name()
        for what, ours, printed in (
            ("test error, 1 pass, %", first, line.first),
            ("test error, 3 passes, %", third, line.third),
            ("updates, 5 passes", updates, line.updates),
        ):
            quality[Key(name, what)] = float(ours)
            quality[Key(name, f"paper: {what}")] = float(printed)
        gaps = [abs(first - line.first), abs(third - line.third)]
        floors.append(Floor(f"{name}: distance from printed errors", "<=", 0.35, [max(gaps)]))
        off = abs(updates / line.updates - 1.0)
        floors.append(Floor(f"{name}: distance from printed updates", "<=", 0.1, [off]))
    case = "five passes, all classes"
    gram = Key(case, "scikit-learn rbf_kernel, the Gram matrix alone")
    contenders = [Contender(gram, lambda: wall_seconds(lambda: rbf_kernel(X, gamma=GAMMA)))]
    for line in PRINTED:
        clf = learner(line, 5, 0)
        contenders.append(
            Contender(
                Key(case, line.name()),
                lambda clf=clf: wall_seconds(lambda: fit_quietly(clf, X, y)),
            )
        )
    values = race(contenders, min(ROUNDS, scale.rounds))
    for line in PRINTED:
        key = Key(case, line.name())
        what = f"{line.name()}: five passes / scikit-learn's Gram matrix"
        floors.append(Floor(what, "<=", 1.5, ratios(values, key, gram)))
    words = "scikit-learn's Gram matrix alone"
    pairs = [Comparison(Key(case, line.name()), gram, words) for line in PRINTED]
    data = f"{rows:,} rows of {X.shape[1]} features, 10 classes"
    how = "By the clock; errors and updates beside those of Table 2 of Zhao and Huang."
    return Report(NAME, data, "s", values, floors, {}, how, pairs, quality)


def measured(
    line: Line, order: int, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray
) -> tuple[float, float, float]:
    errors = []
    for passes in (1, 3, 5):
        clf = fit_quietly(learner(line, passes, order), X, y)
        errors.append(100.0 * np.mean(clf.predict(X_test) != y_test))
    return errors[0], errors[1], clf.n_updates_
