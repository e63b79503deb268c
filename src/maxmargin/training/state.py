"""The learned state of an estimator: one record, replaced as a whole."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.training.platt import Sigmoids
from maxmargin.training.types import Features

RECIPE = "recipe"  # its key in a schema


class State(NamedTuple):
    """What a learner has learned.

    A call builds a new state beside the old one and installs it with one assignment at its end, so
    an interrupted call leaves a consistent learner.

    Attributes
    ----------
    model : a `Model`, a `MixtureModel`, or an exact solution (`Hyperplanes`, `KernelExpansion`)
    classes : the labels, sorted
    margins : measured margin of each problem, NaN if not measured
    measured : the number of trials of the model when its margins were measured
    unseen : there is a spare problem, of a class that never occurs, from which new classes start
    multilabel : a row can have several labels or none
    ceiling : an upper bound on every margin that needs no proof by updates
    n_iter, converged : of the last fit
    schema : how the columns of a stream were read
    totals : with balanced classes, the total weight of each class, and of all rows
    calibration : from scores to probabilities, or None
    more : attributes of a single kind of learner
    """

    model: Any
    classes: np.ndarray
    features: Features
    margins: np.ndarray
    measured: int = 0
    unseen: bool = False
    multilabel: bool = False
    ceiling: float = np.inf
    n_iter: int = 0
    converged: bool = False
    schema: dict[str, Any] | None = None
    totals: np.ndarray | None = None
    calibration: Sigmoids | None = None
    more: dict[str, Any] = {}

    @property
    def recipe(self) -> Any:
        """The preprocessing of raw rows, or None."""
        return None if self.schema is None else self.schema.get(RECIPE)

    def known_margins(self) -> np.ndarray:
        """The margins, NaN if rows were learned since they were measured."""
        if self.model.trials() == self.measured:
            return self.margins
        return np.full(self.model.verdicts(), np.nan)


def grown(state: State, width: int, classes: np.ndarray) -> State:
    """The state for rows of ``width`` columns and these classes, a superset of the present ones."""
    model, before = state.model, state.classes
    if width == model.width() and classes.size == before.size:
        return state
    codes = np.searchsorted(classes, before)
    if classes.size == before.size:
        which = list(range(model.problems()))
    elif not state.unseen:
        new = np.setdiff1d(classes, before).tolist()
        raise ValueError(
            f"y contains new classes, {new}: they can be learned only if the first call of "
            "partial_fit was made with grow=True."
        )
    else:
        which = [before.size] * (classes.size + 1)
        for old, code in enumerate(codes):
            which[code] = old
    totals = state.totals
    if totals is not None:
        totals = np.zeros(classes.size + 1)
        totals[np.append(codes, classes.size)] = state.totals
    model = model.streaming(1).grown(width, which, codes)
    return state._replace(model=model, classes=classes, totals=totals)
