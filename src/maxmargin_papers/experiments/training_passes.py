"""Training in whole passes, as papers count them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning

# So many passes at most between two looks at a learner that converges slowly.
MOST_TOGETHER = 32


def fit_quietly(clf: ClassifierMixin, X: Any, y: np.ndarray) -> Any:
    """Fit; learners that are stopped by a limit on passes are no surprise here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clf.fit(X, y)


def passes_in_one_order(
    clf: ClassifierMixin, X: Any, y: np.ndarray, passes: int, seed: int
) -> Iterator[int]:
    """Shuffle the rows once and train ``clf``; after each pass, its number.

    `fit` in one call would present rows that still bring updates more often than others.
    """
    order = np.random.RandomState(seed).permutation(y.size)
    X, y = X[order], y[order]
    clf.set_params(max_iter=1, warm_start=True, shuffle=False)
    for number in range(1, passes + 1):
        fit_quietly(clf, X, y)
        yield number


def passes_in_order(clf: ClassifierMixin, X: np.ndarray, y: np.ndarray, most: int) -> Iterator[int]:
    """Train ``clf`` in the order of the rows until a pass makes no update, or for ``most`` passes.

    Gives the number of passes made, at moments that become rarer in proportion.
    """
    done, together = 0, 1
    rows, labels = X, y
    while done < most:
        if len(labels) != together * len(y):
            rows, labels = np.tile(X, (together, 1)), np.tile(y, together)
        before = clf.n_updates_ if done else -1
        clf.partial_fit(rows, labels, classes=np.unique(y))
        done += together
        yield done
        if clf.n_updates_ == before:
            return
        together = int(np.clip(done // 8, 1, MOST_TOGETHER))


def margin_of(clf: ClassifierMixin, X: np.ndarray, y: np.ndarray, q: float = 2.0) -> float:
    """The least ``y (w.x + b) / |w|_q``, for labels -1 and +1, with w in the space of the rows."""
    return float((y * clf.decision_function(X)).min() / np.linalg.norm(clf.coef_.ravel(), ord=q))
