"""Handwritten digits with kernels: what the two tables of the paper have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from maxmargin.experiments.experiment import NoVerdict, Results, Tolerance
from maxmargin.experiments.figures import COLOURS
from maxmargin.experiments.training import shuffled_passes

Data = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""X, y, and the same for testing."""

COUNTS = Tolerance(0.1, "ties, and what counts as an update, are left open", relative=True)
OTHER_LEARNER = NoVerdict(
    "as many updates as ROMMA makes on mistakes alone, but aggressive ROMMA corrects every margin "
    "below 1: which learner this was is not known"
)


def small_digits() -> Data:
    """A stand-in: scikit-learn's digits, from 0 to 1."""
    X, y = load_digits(return_X_y=True)
    return X[:300] / 16.0, y[:300], X[300:400] / 16.0, y[300:400]


def errors_by_pass(clf: Any, data: Data, passes: int, seed: int) -> dict[str, Any]:
    """Test errors in per cent after each pass, and the updates of all classes in the end."""
    X, y, X_test, y_test = data
    errors = [
        100.0 * np.mean(clf.predict(X_test) != y_test)
        for _ in shuffled_passes(clf, X, y, passes, seed)
    ]
    return {"errors": errors, "updates": clf.n_updates_}


def draw_errors(axes: Any, results: Results, names: Sequence[str]) -> None:
    """The mean test errors after each pass, for learners that were run."""
    measured = {cell["learner"] for cell, _ in results.records}
    for name, colour in zip(names, COLOURS, strict=False):
        if name in measured:
            curve = results.curve("errors", learner=name)
            at = range(1, len(curve) + 1)
            axes.plot(at, curve, "o-", color=colour, markersize=3, label=name)
            axes.set_xticks(at)
