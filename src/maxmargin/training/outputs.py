"""What models say of new rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from maxmargin._extras import is_on_device
from maxmargin.training import device_inputs, inputs
from maxmargin.training.feature_columns import Features, is_plain, without_names
from maxmargin.training.messages import check_finite
from maxmargin.training.options import Options
from maxmargin.training.sparse_inputs import sound
from maxmargin.training.state import State
from maxmargin.training.types import Matrix


def outputs(options: Options, state: State, X: ArrayLike) -> np.ndarray:
    """What a model says of rows, one column for each problem that users see."""
    return state.model.outputs(check_new_X(options, X, state.features))[:, inputs.shown(state)]


def check_new_X(options: Options, X: ArrayLike, features: Features) -> Matrix:
    """Rows to predict: finite, and of columns that the learner knows."""
    if is_on_device(X):
        X, _ = device_inputs.checked(options, X, features)
        device_inputs.check_values(X)
        return X
    if sparse.issparse(X):
        X, _ = sound(X)
    if not is_plain(X, features):
        X = without_names(X, features)
        X = inputs.validated(
            inputs.Header(options.name, features), X, reset=False, ensure_all_finite=False
        )
    check_finite(X, features)
    return X
