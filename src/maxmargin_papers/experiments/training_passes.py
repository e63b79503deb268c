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


def fit_until_stopped(clf: ClassifierMixin, X: Any, y: np.ndarray) -> Any:
    """Fit a learner that a limit on its passes is expected to stop."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clf.fit(X, y)


def fit_until_converged(clf: ClassifierMixin, X: Any, y: np.ndarray) -> Any:
    """Fit until a full pass makes no update; RuntimeError if that does not happen.

    A run that was given up must never enter a mean over converged ones.
    """
    fit_until_stopped(clf.set_params(n_iter_no_change=None), X, y)
    if not clf.converged_:
        raise RuntimeError(f"{clf} did not converge in {clf.n_iter_} passes over {y.size} rows.")
    return clf


def shuffled_passes(
    clf: ClassifierMixin,
    X: Any,
    y: np.ndarray,
    passes: int,
    random_state: int | np.random.RandomState,
) -> Iterator[int]:
    """Train ``clf`` in shuffled passes; after each, its number.

    An integer as ``random_state`` gives all passes the same order, a RandomState each a new one.
    `fit` in one call would present rows that still bring updates more often than others.
    """
    clf.set_params(max_iter=1, warm_start=True, shuffle=True, random_state=random_state)
    for number in range(1, passes + 1):
        fit_until_stopped(clf, X, y)
        yield number


def passes_in_order(clf: ClassifierMixin, X: np.ndarray, y: np.ndarray, most: int) -> Iterator[int]:
    """Train ``clf`` in the order of the rows until a pass makes no update.

    Gives the number of passes made, at moments that become rarer in proportion. RuntimeError if
    ``most`` passes do not suffice.
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
    raise RuntimeError(f"{clf} did not converge in {done} passes over {len(y)} rows.")


def margin_of(clf: ClassifierMixin, X: np.ndarray, y: np.ndarray, q: float = 2.0) -> float:
    """The least ``y (w.x + b) / |w|_q``, for labels -1 and +1, with w in the space of the rows."""
    return float((y * clf.decision_function(X)).min() / np.linalg.norm(clf.coef_.ravel(), ord=q))
