"""Copies of classifiers that do not learn any more, and how badly they predict rows."""

from __future__ import annotations

import copy
from typing import Any, TypeGuard

import numpy as np
from sklearn.base import BaseEstimator

from maxmargin.algorithms.perceptron import Perceptron
from maxmargin.core.row_scans import all_outputs, deficits
from maxmargin.core.rows import NO_TAIL
from maxmargin.estimator import OnlineClassifier
from maxmargin.evaluate.batching import Rows, rows_of
from maxmargin.evaluate.predictions import leads
from maxmargin.models.base import Model
from maxmargin.models.build import build
from maxmargin.models.expert_model import ExpertModel
from maxmargin.models.linear_model import LinearModel, as_rows
from maxmargin.models.model_mixing import adopted
from maxmargin.training.inputs import class_codes, shown
from maxmargin.training.outputs import check_new_X
from maxmargin.training.protocol import put_state, state_of, trainer_of
from maxmargin.training.recipes import prepared
from maxmargin.training.state import State


def frozen_copy(clf: BaseEstimator) -> BaseEstimator:
    """A copy that does not learn any more.

    Of a mixture of linear experts it is the mean of their log-odds, a hyperplane for each class: a
    stream can be watched by any fixed function, and this one takes a fraction of the time.
    """
    state = state_of(clf) if isinstance(clf, OnlineClassifier) else None
    if state is None or not has_planes(state.model):
        return copy.deepcopy(clf)
    plain, (weights, intercepts) = Perceptron(), state.model.pooled()
    nothing = np.zeros((1, weights.shape[1]))
    model = build(trainer_of(plain).spec, weights.shape[0], nothing, unseen=state.unseen).model
    assert isinstance(model, LinearModel)
    pooled = State(
        model=adopted(model, weights, intercepts, trials=state.model.trials()),
        classes=state.classes,
        features=copy.deepcopy(state.features),
        margins=np.full(model.verdicts(), np.nan),
        unseen=state.unseen,
        schema=copy.deepcopy(state.schema),
    )
    put_state(plain, pooled)
    return plain


def has_planes(model: Model) -> TypeGuard[ExpertModel]:
    """True of a mixture of experts on columns alone."""
    return isinstance(model, ExpertModel) and not model.has_features()


def frozen_outputs(clf: BaseEstimator, X: Any) -> np.ndarray:
    """The outputs of a block of rows, of linear models with the same bits in blocks of any size."""
    state = state_of(clf) if isinstance(clf, OnlineClassifier) else None
    if state is None or not isinstance(state.model, LinearModel):
        return clf.decision_function(X).reshape(X.shape[0], -1)
    rows = check_new_X(trainer_of(clf).options, prepared(state, X), state.features)
    return outputs_by_rows(state.model, rows)[:, shown(state)]


def outputs_by_rows(model: LinearModel, X: Any) -> np.ndarray:
    """The outputs of a model, with the same bits whatever rows are beside a row.

    Products of matrices are rounded as their shapes have it.
    """
    found = np.empty((X.shape[0], model.problems()))
    all_outputs(as_rows(X, NO_TAIL), padded(model.coefficients(), X.shape[1]), found)
    return found + model.intercepts()


def padded(weights: np.ndarray, width: int) -> np.ndarray:
    """Weights for so many columns, and 0 for an offset that there is not."""
    found = np.zeros((weights.shape[0], width + 1))
    found[:, :-1] = weights[:, :width]
    return found


class CheckedBlock:
    """Rows that a learner has checked, the numbers of their classes, and the problems shown."""

    def __init__(self, X: Any, codes: np.ndarray, shown: slice) -> None:
        self.X, self.codes, self.shown = X, codes, shown
        self.rows = as_rows(X, NO_TAIL)


class FrozenModel:
    """A copy of a model, with the scores of a `frozen_copy` of its learner."""

    def __init__(self, model: Model, block: CheckedBlock) -> None:
        self.model: Model | None = None
        if has_planes(model):
            weights, intercepts = model.pooled()
        elif isinstance(model, LinearModel):
            weights, intercepts = model.coefficients(), model.intercepts()
        else:
            self.model = model.twin()
            return
        self.weights = padded(weights[block.shown], block.X.shape[1])
        self.intercepts = intercepts[block.shown]

    def strangeness(self, block: CheckedBlock, part: slice) -> np.ndarray:
        """`strangeness` of some rows."""
        if self.model is not None:
            outputs = self.model.outputs(rows_of(block.X, part))
            return -leads(outputs[:, block.shown], block.codes[part])
        found = np.empty(part.stop - part.start)
        deficits(block.rows, part.start, self.weights, self.intercepts, block.codes, found)
        return found


def strangeness(clf: BaseEstimator, rows: Rows) -> np.ndarray:
    """How badly a classifier predicts rows: minus the lead of the class, so above 0 if it errs.

    Without scores, 1 where it errs and else 0.
    """
    X, y = rows.X, np.atleast_1d(rows.y)
    if isinstance(X, dict):
        if not hasattr(clf, "decision_one"):
            return np.array([float(clf.predict_one(X) != rows.y)])
        outputs = np.reshape(clf.decision_one(X), (1, -1))
    elif not hasattr(clf, "decision_function"):
        return (clf.predict(X) != y).astype(np.float64)
    else:
        outputs = frozen_outputs(clf, X)
    return -leads(outputs, class_codes(y, clf.classes_))
