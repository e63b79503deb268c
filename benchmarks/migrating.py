"""``python -m benchmarks.migrating``: scikit-learn's learners and ours, side by side.

It prints the table of ``docs/migrating.md``: rows of the digits, breast cancer and noisy Gaussian
data, standardised, half of them to learn from; means of five orders of rows. Seconds are those of
the processor, the best of the five.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import linear_model
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from maxmargin import PassiveAggressive, Pegasos, Perceptron, from_sklearn

SEEDS = range(5)
NOISE = 0.05

Make = Callable[[int], Any]
PAIRS: dict[str, tuple[Make, Make]] = {
    "`Perceptron()`": (
        lambda seed: linear_model.Perceptron(random_state=seed),
        lambda seed: Perceptron(random_state=seed),
    ),
    "`PassiveAggressiveClassifier(C=0.01)`": (
        # The name that stays: the class itself is removed in version 1.10.
        lambda seed: linear_model.SGDClassifier(
            penalty=None, learning_rate="pa1", eta0=0.01, random_state=seed
        ),
        lambda seed: PassiveAggressive(C=0.01, random_state=seed),
    ),
    "the same, `average=True`": (
        lambda seed: linear_model.SGDClassifier(
            penalty=None, learning_rate="pa1", eta0=0.01, average=True, random_state=seed
        ),
        lambda seed: PassiveAggressive(C=0.01, average=True, random_state=seed),
    ),
    "`SGDClassifier(alpha=0.01)`": (
        lambda seed: linear_model.SGDClassifier(alpha=0.01, random_state=seed),
        lambda seed: Pegasos(lambda_=0.01, random_state=seed),
    ),
}


def problems() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    random = np.random.default_rng(0)
    X = random.standard_normal((20_000, 50))
    y = (X @ random.standard_normal(50) > 0.0) ^ (random.random(20_000) < NOISE)
    return {
        "digits": load_digits(return_X_y=True),
        "breast cancer": load_breast_cancer(return_X_y=True),
        "Gaussian, 5 % noise": (X, y),
    }


def halves(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    order = np.random.default_rng(1).permutation(y.size)
    train, test = np.array_split(order, 2)
    scaler = StandardScaler().fit(X[train])
    return scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test]


def measured(make: Make, parts: tuple[np.ndarray, ...]) -> tuple[float, float, float]:
    """Mean share of test rows that are right, mean passes, and the fewest seconds of a fit."""
    X, y, X_test, y_test = parts
    make(0).fit(X, y)  # compiles
    scores, passes, seconds = [], [], []
    for seed in SEEDS:
        began = time.process_time()
        clf = make(seed).fit(X, y)
        seconds.append(time.process_time() - began)
        scores.append(clf.score(X_test, y_test))
        passes.append(clf.n_iter_)
    return float(np.mean(scores)), float(np.mean(passes)), min(seconds)


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)
    print("| scikit-learn | data | right, % | ours | passes | ours | ms | ours |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, (theirs, ours) in PAIRS.items():
        for data, given in problems().items():
            parts = halves(*given)
            right, passes, seconds = zip(
                measured(theirs, parts), measured(ours, parts), strict=True
            )
            cells = [f"{100 * each:.1f}" for each in right]
            cells += [f"{each:.0f}" for each in passes] + [f"{1e3 * each:.0f}" for each in seconds]
            print(f"| {name} | {data} | {' | '.join(cells)} |")
    fitted = theirs(0).fit(*parts[:2])
    same = np.abs(
        from_sklearn(fitted).decision_function(parts[2]) - fitted.decision_function(parts[2])
    )
    print(f"\nfrom_sklearn: scores differ by at most {same.max():.0e}")


if __name__ == "__main__":
    main()
