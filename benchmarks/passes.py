"""The time of one pass of the Perceptron: as a user of `fit` meets it, and of the bare loop."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Perceptron as SklearnPerceptron

from benchmarks.harness import Comparison, Contender, Key, seconds
from maxmargin import Perceptron
from maxmargin.training.inputs import as_targets

BARE, WEIGHTED = "maxmargin, bare pass", "maxmargin, bare pass with weights"
OURS, THEIRS = "maxmargin, pass of fit", "scikit-learn, pass of fit"
OUR_FIT, THEIR_FIT = "maxmargin, fit(max_iter=1)", "scikit-learn, fit(max_iter=1)"
PEER = "scikit-learn's Perceptron"
HOW = (
    "A bare pass is the compiled loop alone, a pass of fit is what one more pass adds to fit, both "
    "by processor time. fit(max_iter=1) is a whole call: both libraries check the values first, "
    "and maxmargin also measures the margin."
)

MORE_PASSES = 10


def contenders(case: str, X: Any, y: np.ndarray, shuffle: bool) -> list[Contender]:
    ours = Perceptron(shuffle=shuffle, random_state=0, max_iter=1)
    theirs = SklearnPerceptron(shuffle=shuffle, random_state=0, max_iter=1, tol=None)
    return [
        Contender(Key(case, BARE), bare_pass(X, y, shuffle)),
        Contender(Key(case, OURS), pass_of_fit(ours, X, y)),
        Contender(Key(case, THEIRS), pass_of_fit(theirs, X, y)),
        Contender(Key(case, OUR_FIT), lambda: seconds(lambda: fit_quietly(ours, X, y))),
        Contender(Key(case, THEIR_FIT), lambda: seconds(lambda: fit_quietly(theirs, X, y))),
    ]


def bare_pass(
    X: Any, y: np.ndarray, shuffle: bool, weights: np.ndarray | None = None
) -> Callable[[], float]:
    """Seconds of the compiled loop over all rows."""
    trained = fit_quietly(Perceptron(shuffle=False, max_iter=3), X, y)
    model, rule = trained._state.model, trained._rule(2.0)
    rows = model.rows(X)
    targets = as_targets((y > 0).astype(np.int32), classes=2, sample_weight=weights)
    order = np.arange(y.size, dtype=np.int32)
    if shuffle:
        np.random.default_rng(0).shuffle(order)
    return steadily(lambda: model.learn_from(rows, targets, order, rule))


def steadily(work: Callable[[], object]) -> Callable[[], float]:
    """Seconds of one of many runs of ``work``; a first one finds the caches as others left them."""

    def many() -> None:
        for _ in range(MORE_PASSES):
            work()

    def measure() -> float:
        work()
        return seconds(many) / MORE_PASSES

    return measure


def pass_of_fit(estimator: Any, X: Any, y: np.ndarray) -> Callable[[], float]:
    """Seconds by which each further pass prolongs a fit: what is done once per fit cancels out."""
    short = clone(estimator).set_params(max_iter=1)
    long = clone(estimator).set_params(max_iter=1 + MORE_PASSES)

    def measure() -> float:
        fit_quietly(short, X, y)  # finds the caches as others left them
        once = seconds(lambda: fit_quietly(short, X, y))
        often = seconds(lambda: fit_quietly(long, X, y))
        return (often - once) / MORE_PASSES

    return measure


def fit_quietly(estimator: Any, X: Any, y: np.ndarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(X, y)


def comparisons(case: str, main: str = "") -> list[Comparison]:
    """Ours and theirs, pass by pass and as whole calls; ``main`` says which rows, for the plot."""
    further, whole = (f"one more pass, {main}", f"fit of one pass, {main}") if main else ("", "")
    return [
        Comparison(Key(case, OURS), Key(case, THEIRS), PEER, further),
        Comparison(Key(case, OUR_FIT), Key(case, THEIR_FIT), PEER, whole),
    ]
