"""Warnings of fits that did not reach what was asked for: one for each search over many fits."""

from __future__ import annotations

import sys
import warnings
from typing import Any
from weakref import WeakSet

from sklearn.exceptions import ConvergenceWarning

SEARCHES = "sklearn.model_selection"
# Searches over many fits that were told of one.
told: WeakSet[Any] = WeakSet()


def warn(text: str) -> None:
    """Tell whoever called a fit; of all fits in a search by scikit-learn only the first is told."""
    if (search := _search()) is not None:
        if search in told:
            return
        told.add(search)
        text += " (Other fits of this search are not reported.)"
    warnings.warn(text, ConvergenceWarning, stacklevel=4)


def _search() -> Any:
    """The search that this fit is one of, if it is.

    In a process that only works for one, it is the class of the learner: so it is told there once.
    """
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
