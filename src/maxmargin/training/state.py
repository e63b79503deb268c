"""All that learning has given a learner: one record, replaced as a whole."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.models.base import Model
from maxmargin.training.calibration import Maps, copied_maps
from maxmargin.training.feature_columns import Features
from maxmargin.training.prediction_sets import SetTracker

RECIPE = "recipe"  # its place in a schema


class State(NamedTuple):
    """What a learner has learned.

    A call builds a new state beside the old one and puts it in place by one assignment at its end,
    so that whatever stops the call leaves a whole learner behind.

    Attributes
    ----------
    model : a Model, or what answers the same questions after a fit (`Hyperplanes`, `MixtureModel`)
    classes : the labels, sorted
    features : the columns
    margins : those reached for each problem, NaN where they were not measured
    measured : the number of trials of the model when its margins were measured
    unseen : is there a problem of a class that never occurs, for new classes to continue?
    multilabel : can a row have several of the labels, or none?
    ceiling : no margin is larger, whatever else is proved
    n_iter, converged : of the last fit
    schema : how the columns of a stream were read
    totals : the weights of each class so far, and of all, if classes are balanced
    calibration : Platt's maps from scores to probabilities, one for each problem, if asked for
    sets : what the threshold of prediction sets follows from, if asked for
    held_out : sorted scores of the labels of rows that were held out, if some were
    more : attributes that only one learner has
    """

    model: Model
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
    calibration: Maps | None = None
    sets: SetTracker | None = None
    held_out: np.ndarray | None = None
    more: dict[str, Any] = {}

    @property
    def recipe(self) -> Any:
        """What prepares the rows; None if they come prepared."""
        return None if self.schema is None else self.schema.get(RECIPE)

    def known_margins(self) -> np.ndarray:
        """The margins, unless something was learned since they were measured."""
        if self.model.trials() == self.measured:
            return self.margins
        return np.full(self.model.verdicts(), np.nan)


def grown(state: State, width: int, classes: np.ndarray) -> State:
    """The state for rows of ``width`` columns, and these classes."""
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
    maps = state.calibration and copied_maps(state.calibration, width, which)
    totals = state.totals
    if totals is not None:
        totals = np.zeros(classes.size + 1)
        totals[np.append(codes, classes.size)] = state.totals
    model = model.streaming(1).grown(width, which, codes)
    return state._replace(model=model, classes=classes, totals=totals, calibration=maps)
