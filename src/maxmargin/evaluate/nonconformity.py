"""How badly a fixed copy of a classifier predicts rows: scores for drift alarms."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from maxmargin.algorithms.perceptron import Perceptron
from maxmargin.core.row_scans import all_outputs
from maxmargin.core.rows import NO_TAIL
from maxmargin.estimator import OnlineClassifier
from maxmargin.evaluate.batching import StreamRows
from maxmargin.evaluate.predictions import leads
from maxmargin.models.base import build
from maxmargin.models.expert_model import ExpertModel
from maxmargin.models.linear_model import LinearModel, as_rows
from maxmargin.training.inputs import class_codes, shown
from maxmargin.training.outputs import check_new_X
from maxmargin.training.protocol import put_state, state_of, trainer_of
from maxmargin.training.recipes import prepared
from maxmargin.training.state import State


def fixed_copy(clf: BaseEstimator) -> BaseEstimator:
    """A copy that is not meant to learn.

    Of a mixture of linear experts it is the mean of their log-odds, a hyperplane for each class: a
    stream can be watched by any fixed function, and this one takes a fraction of the time.
    """
    state = state_of(clf) if isinstance(clf, OnlineClassifier) else None
    if state is None or not isinstance(state.model, ExpertModel) or state.model.has_features():
        return copy.deepcopy(clf)
    plain, (weights, intercepts) = Perceptron(), state.model.pooled()
    nothing = np.zeros((1, weights.shape[1]))
    model = build(trainer_of(plain).spec, weights.shape[0], nothing, unseen=state.unseen).model
    assert isinstance(model, LinearModel)
    pooled = State(
        model=model.with_weights(weights, intercepts, trials=state.model.trials()),
        classes=state.classes,
        features=copy.deepcopy(state.features),
        margins=np.full(model.n_margins(), np.nan),
        unseen=state.unseen,
        schema=copy.deepcopy(state.schema),
    )
    put_state(plain, pooled)
    return plain


def nonconformity(clf: BaseEstimator, rows: StreamRows) -> np.ndarray:
    """How badly a classifier predicts rows: minus the lead of the class, so above 0 if it errs.

    Without scores, 1 where it errs and else 0.
    """
    X, y = rows.X, np.asarray(rows.y)
    is_dicts = isinstance(X, list)
    if not hasattr(clf, "decision_one" if is_dicts else "decision_function"):
        predicted = [clf.predict_one(x) for x in X] if is_dicts else clf.predict(X)
        return np.asarray(predicted != y, dtype=np.float64)
    if is_dicts:
        outputs = np.array([np.ravel(clf.decision_one(x)) for x in X])
    else:
        outputs = _outputs(clf, X)
    return -leads(outputs, class_codes(y, clf.classes_))


def _outputs(clf: BaseEstimator, X: Any) -> np.ndarray:
    """The outputs of rows; of linear models with the same bits in blocks of any size.

    Products of matrices are rounded as their shapes have it.
    """
    state = state_of(clf) if isinstance(clf, OnlineClassifier) else None
    if state is None or not isinstance(state.model, LinearModel):
        return clf.decision_function(X).reshape(X.shape[0], -1)
    rows = check_new_X(trainer_of(clf).options, prepared(state, X), state.features)
    model, found = state.model, np.empty((rows.shape[0], state.model.problems()))
    weights = np.pad(model.coefficients()[:, : rows.shape[1]], ((0, 0), (0, 1)))  # no offset
    all_outputs(as_rows(rows, NO_TAIL), weights, found)
    return (found + model.intercepts())[:, shown(state)]
