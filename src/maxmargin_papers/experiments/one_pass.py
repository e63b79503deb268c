"""One pass over a stream: the error against rows seen, of the last weights and of their average."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

AVERAGED = 0.25
"""The last part of the rows seen, over which weights are averaged."""


def one_pass(
    clf: ClassifierMixin,
    blocks: Iterable[tuple[Any, np.ndarray]],
    classes: np.ndarray,
    X_test: Any,
    y_test: np.ndarray,
    *,
    wait: Callable[[], object] = lambda: None,
) -> dict[str, list[Any]]:
    """Learn from block after block, and look at new rows after each.

    Outputs are linear in the weights: the mean of those after the blocks of the last quarter of
    the rows seen so far is the output of the average of these weights.

    Parameters
    ----------
    clf : classifier of at least three classes
    blocks : iterable of (X, y)
    classes : array of all labels, sorted
    X_test, y_test : arrays
    wait : callable
        Waits for a device that works on its own, before clocks are read.

    Returns
    -------
    dict of lists
        With a number for each block: ``seen``, rows so far; ``supports``; ``last`` and
        ``averaged``, errors in per cent; ``making``, ``learning`` and ``testing``, seconds so far.
    """
    found: dict[str, list[Any]] = {
        name: []
        for name in ("seen", "supports", "last", "averaged", "making", "learning", "testing")
    }
    spent = dict.fromkeys(("making", "learning", "testing"), 0.0)
    moment = time.perf_counter()

    def spend(on: str) -> None:
        nonlocal moment
        wait()
        now = time.perf_counter()
        spent[on] += now - moment
        moment = now

    def error(outputs: np.ndarray) -> float:
        return 100.0 * float(np.mean(classes[outputs.argmax(axis=1)] != y_test))

    seen, recent = 0, deque[tuple[int, np.ndarray]]()
    for X, y in blocks:
        spend("making")
        clf.partial_fit(X, y, classes=classes)
        spend("learning")
        seen += len(y)
        recent.append((seen, clf.decision_function(X_test)))
        while recent[0][0] <= (1.0 - AVERAGED) * seen:
            recent.popleft()
        errors = error(recent[-1][1]), error(np.mean([each for _, each in recent], axis=0))
        spend("testing")
        numbers = (seen, len(clf.support_), *errors, *spent.values())
        for name, number in zip(found, numbers, strict=True):
            found[name].append(number)
    return found
