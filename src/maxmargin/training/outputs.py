"""Outputs for new rows, and the decision function of a fitted learner as plain data."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator

from maxmargin._extras import is_on_device
from maxmargin.models.model_formulas import Formula
from maxmargin.training import inputs
from maxmargin.training.platt import Sigmoids
from maxmargin.training.protocol import Options
from maxmargin.training.state import Features, Matrix, State


def outputs(options: Options, state: State, X: ArrayLike) -> np.ndarray:
    """Outputs of shape (rows, visible problems)."""
    found = state.model.outputs(check_new_X(options, X, state.features))[:, inputs.shown(state)]
    if np.isnan(found).any():
        raise ValueError("X has values too large to compute with: rescale the features.")
    return found


def check_new_X(options: Options, X: ArrayLike, features: Features) -> Matrix:
    """Validate rows to predict: their columns, and that their values are finite."""
    if is_on_device(X):
        X, _ = inputs.check_device_X(options, X, features)
        inputs.check_values(X)
        return X
    canonical = True
    if sparse.issparse(X):
        X, canonical = inputs.sound(X)
    if not inputs.is_plain(X, features):
        X, _ = inputs.validated(options, X, features)
    if not canonical:
        X = inputs.without_duplicates(X)
    inputs.check_finite(X, features)
    return X


class Decision(NamedTuple):
    """How a learner maps rows to scores, probabilities and classes; from ``__decision__``.

    Attributes
    ----------
    formula : of the outputs, one column for each problem
    shown : the columns that are scores; for two classes one, whose sign decides
    multilabel : each score decides about a label of its own
    features : number of columns
    sigmoids : from scores to log-odds, if there are probabilities
    joint : log-odds are those of classes that were learned together
    by_density : outputs are log-odds or log-densities, and scores are probabilities
    recipe : prepares the rows, if any
    """

    formula: Formula
    shown: slice
    classes: np.ndarray
    multilabel: bool
    features: int
    sigmoids: Sigmoids | None = None
    joint: bool = False
    by_density: bool = False
    recipe: Any = None


def decision_of(learner: BaseEstimator) -> Decision:
    """The decision function of a fitted learner of this library."""
    if not hasattr(learner, "__decision__"):
        raise TypeError(f"{type(learner).__name__} is not a learner of maxmargin.")
    return learner.__decision__()
