"""The outputs of models for new rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from maxmargin._extras import is_on_device
from maxmargin.training import inputs
from maxmargin.training.feature_columns import Features
from maxmargin.training.options import Options
from maxmargin.training.state import State
from maxmargin.training.types import Matrix


def outputs(options: Options, state: State, X: ArrayLike) -> np.ndarray:
    """The outputs for rows, one column for each problem that users see."""
    return state.model.outputs(check_new_X(options, X, state.features))[:, inputs.shown(state)]


def check_new_X(options: Options, X: ArrayLike, features: Features) -> Matrix:
    """Rows to predict: finite, and of the columns that were learned from."""
    if is_on_device(X):
        X, _ = inputs.check_device_X(options, X, features)
        inputs.check_values(X)
        return X
    if sparse.issparse(X):
        X, _ = inputs.sound(X)
    if not inputs.is_plain(X, features):
        X, _ = inputs.validated(options, X, features)
    inputs.check_finite(X, features)
    return X
