"""Convergence warnings, at most one for each hyper-parameter search."""

from __future__ import annotations

import sys
import warnings
from typing import Any
from weakref import WeakSet

from sklearn.exceptions import ConvergenceWarning

SEARCHES = "sklearn.model_selection"
# Searches in which a warning was issued.
warned: WeakSet[Any] = WeakSet()


def warn(text: str) -> None:
    """Warn the caller of a fit; in a scikit-learn search, only for the first fit."""
    if (search := _search()) is not None:
        if search in warned:
            return
        warned.add(search)
        text += " (Other fits of this search are not reported.)"
    warnings.warn(text, ConvergenceWarning, stacklevel=4)


def _search() -> Any:
    """The search that runs this fit, if any; in a worker process, the class of the learner."""
    frame, found = sys._getframe(1), None
    while frame := frame.f_back:  # type: ignore[assignment]
        if str(frame.f_globals.get("__name__")).startswith(SEARCHES):
            found = frame
    if found is None:
        return None
    learner = found.f_locals.get("estimator")
    if found.f_code.co_name == "_fit_and_score":
        return type(learner)
    return found.f_locals.get("self", learner)
