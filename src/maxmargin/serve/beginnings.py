"""The learner that a server begins with, in the words of its data folder."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np

import maxmargin
from maxmargin import ConformalClassifier, LabelQueries
from maxmargin.estimator.wrapping_learner import WrappingLearner
from maxmargin.persistence import load, save

# Learners without a seed get one: what they learn must be the same whenever it is learned again.
SEED = 0


def new_learner(algorithm: str, parameters: dict[str, Any], coverage: float | None = None) -> Any:
    """A learner before its first row."""
    return servable(getattr(maxmargin, algorithm)(**parameters), coverage)


def servable(learner: Any, coverage: float | None = None) -> Any:
    """The learner with a seed, and with prediction sets if asked for; or a ValueError."""
    if coverage is not None and not isinstance(learner, ConformalClassifier):
        learner = ConformalClassifier(learner, coverage=coverage)
    if isinstance(learner, WrappingLearner) and learner.clf is None:
        learner.clf = learner.default()
    if isinstance(learner, LabelQueries) and learner.random_state is None:
        learner.random_state = SEED
    inner = inner_of(learner)
    if hasattr(inner, "steps") or not hasattr(inner, "learn_one"):
        raise ValueError(
            f"{type(inner).__name__} does not learn row by row, and cannot be served."
            + (" Let a Recipe prepare the rows of a learner." if hasattr(inner, "steps") else "")
        )
    if inner.random_state is None:
        inner.random_state = SEED
    learner.check_parameters()
    if not learner.__sklearn_is_fitted__():
        inner.check_can_stream()
    elif learner.__state__().multilabel:
        raise ValueError("rows with several labels cannot be served.")
    return learner


def inner_of(learner: Any) -> Any:
    """The learner in a wrapper, or the learner itself."""
    return learner.clf if isinstance(learner, WrappingLearner) else learner


def checked_classes(learner: Any, classes: Any) -> np.ndarray:
    """All labels, of a fitted learner or as they are given."""
    fitted = learner.classes_ if learner.__sklearn_is_fitted__() else None
    if fitted is None and classes is None:
        raise ValueError("a learner that is not fitted needs all labels: classes.")
    found = np.unique(np.asarray(fitted if classes is None else classes))
    if fitted is not None and not np.array_equal(fitted, found):
        raise ValueError(f"the learner has other classes: {fitted.tolist()}.")
    if found.size < 2 or found.dtype.kind not in "biufU":
        raise ValueError(
            "classes must be at least two labels, all strings or all numbers; "
            f"got {found.tolist()!r:.200}."
        )
    return found


def description(learner: Any, classes: np.ndarray) -> dict[str, str]:
    """What ``about`` says of the learner: of one that is not fitted, all of it."""
    found = {
        "algorithm": type(inner_of(learner)).__name__,
        "classes": json.dumps(classes.tolist()),
        "coverage": json.dumps(getattr(learner, "coverage", None)),
    }
    if isinstance(learner, LabelQueries):  # its file says all of it
        return found | {"labels": json.dumps([learner.budget, learner.b])}
    if not learner.__sklearn_is_fitted__():
        parameters = inner_of(learner).get_params(deep=False)
        try:
            text = json.dumps(parameters)
        except TypeError:  # such as a kernel function, or learners
            return found
        if json.loads(text) == parameters:
            found["parameters"] = text
    return found


def rebuilt(about: dict[str, str], blob: bytes) -> Any:
    """The learner before the first event, from its description or else from its model file."""
    if "parameters" not in about:
        return load(io.BytesIO(blob))
    parameters, coverage = json.loads(about["parameters"]), json.loads(about["coverage"])
    return new_learner(about["algorithm"], parameters, coverage)


def as_file(learner: Any) -> bytes:
    """The model file of a learner."""
    file = io.BytesIO()
    save(learner, file)
    return file.getvalue()
