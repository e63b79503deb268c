"""A model that goes on from weights that were learnt elsewhere."""

from __future__ import annotations

import numpy as np

from maxmargin.models.linear_model import LinearModel
from maxmargin.models.model_mixing import fold_all


def adopted(
    model: LinearModel, coefficients: np.ndarray, intercepts: np.ndarray, *, trials: int
) -> LinearModel:
    """A model like ``model``, which has learnt nothing, with these weights after so many trials.

    Nothing is known of the rows behind them: a bound counts only what is learnt from here on.
    """
    if not (np.isfinite(coefficients).all() and np.isfinite(intercepts).all()):
        raise ValueError("The weights are not all numbers.")
    model = model.twin()
    linear, offset = model.linear, model.tail.offset
    linear.weights[:, : linear.width] = coefficients
    if offset > 0.0:
        linear.weights[:, linear.width] = np.asarray(intercepts) / offset
    elif np.any(intercepts):
        raise ValueError("There are intercepts, but no coordinate for them.")
    model.tally.trials = trials
    fold_all(linear)
    return model.continued()
