"""Streams with columns and labels that nobody knew of."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from maxmargin import examples
from maxmargin.models import LinearModel
from maxmargin.spaces.linear import MOST_WITNESSED_WEIGHTS


def check_wider_X(clf: Any, X: Any) -> Any:
    """`examples.check_X` for rows that may have more columns than those before."""
    width, names = clf.n_features_in_, getattr(clf, "feature_names_in_", None)
    columns = np.shape(X)[1] if len(np.shape(X)) == 2 else 0
    if columns <= width:
        return examples.check_X(clf, X, reset=False)
    if "columns_" in clf.__dict__:
        raise ValueError("Columns of a learner that knows their names can only grow by dicts.")
    X = examples.check_X(clf, X, reset=True)
    now = getattr(clf, "feature_names_in_", None)
    if (now is None) != (names is None):
        raise ValueError("Columns can only grow if all rows have names for them, or none have.")
    if now is not None and names is not None and not np.array_equal(now[:width], names):
        raise ValueError(
            f"New columns must come behind the old ones, {names.tolist()}; got {now.tolist()}."
        )
    return X


def can_have_room(clf: Any, width: int) -> bool:
    """Does it make no difference to ``clf`` if it gets columns up to ``width`` that never occur?"""
    model = getattr(clf, "_model", None)
    if not isinstance(model, LinearModel) or getattr(clf, "p", 2.0) == "log":
        return False
    return model.problems() * (width + 1) <= MOST_WITNESSED_WEIGHTS


def grow_model(clf: Any, width: int, classes: np.ndarray) -> None:
    """Let the model of ``clf`` take rows of ``width`` columns, and these classes."""
    model, before = clf._model, clf.classes_
    if width == model.width() and classes.size == before.size:
        return
    numbers = np.searchsorted(classes, before)
    if classes.size == before.size:
        which = list(range(model.problems()))
    elif not clf._spare:
        new = np.setdiff1d(classes, before).tolist()
        raise ValueError(
            f"y contains new classes, {new}: they can be learnt only if the first call of "
            "partial_fit was made with grow=True."
        )
    else:
        spare = before.size
        which = [spare] * (classes.size + 1)
        for old, new in enumerate(numbers):
            which[new] = old
    # A copy: the old one stays whole if something fails.
    clf._model = copy.copy(model)
    clf._model.tally = model.tally.copy()
    clf._model.begin_stream()
    clf._model.grow(width, which, numbers)
    clf.classes_ = classes
