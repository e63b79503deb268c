"""Predicting, and what can be known of what was learnt."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from maxmargin.certificates import Certificate
from maxmargin.estimator.access import reading
from maxmargin.estimator.columns import Features, is_plain, without_names
from maxmargin.estimator.inputs import Header, validated
from maxmargin.estimator.passes import certified
from maxmargin.estimator.refusals import check_finite
from maxmargin.estimator.sparse_inputs import sound
from maxmargin.estimator.state import State, shown


class Predicting:
    """Gives a learner `predict`, `coef_`, `certificate_` and the like; it must be `Stateful`."""

    _fitted: Any
    classes_: np.ndarray

    @reading
    def decision_function(self, X: Any) -> np.ndarray:
        """``w.x + b`` for each row; of shape (n_samples,) for two classes, else one column each."""
        state = self._fitted()
        return self._scores(state, check_new_X(self, X, state.features))

    def _scores(self, state: State, X: Any) -> np.ndarray:
        scores = state.model.outputs(X)[:, shown(state)]
        return scores.ravel() if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row; a score of exactly 0 counts as positive.

        Where rows can have several labels, an array of 0 and 1 with a column for each.
        """
        return self._classes_for(self.decision_function(X))

    def _classes_for(self, scores: np.ndarray) -> np.ndarray:
        if self._fitted().multilabel:
            return (scores >= 0.0).astype(int)
        if self.classes_.size == 1:
            return np.repeat(self.classes_, scores.size)
        codes = (scores >= 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    # ------------------------------------------------------------------------------ what was learnt
    @property
    @reading
    def coef_(self) -> np.ndarray:
        state = self._fitted()
        return state.model.coefficients()[shown(state), : state.features.count]

    @property
    @reading
    def intercept_(self) -> np.ndarray:
        state = self._fitted()
        return state.model.intercepts()[shown(state)]

    @property
    @reading
    def support_(self) -> np.ndarray:
        return self._kernel_model().support_numbers()

    @property
    @reading
    def support_vectors_(self) -> Any:
        return self._kernel_model().support_rows()

    @property
    @reading
    def dual_coef_(self) -> np.ndarray:
        return self._kernel_model().weights()[shown(self._fitted())]

    def _kernel_model(self) -> Any:
        model = self._fitted().model
        if not model.has_supports:
            raise AttributeError("There are supports only with a kernel; see coef_.")
        return model

    @property
    @reading
    def n_updates_(self) -> int:
        return self._fitted().model.updates()

    @property
    @reading
    def certificate_(self) -> Certificate:
        state = self._fitted()
        model, features = state.model, state.features.count
        return certified(model, state.known_margins(), state.ceiling, shown(state), features)

    @property
    def converged_(self) -> bool:
        return self._fitted().converged


def check_new_X(clf: BaseEstimator, X: Any, features: Features) -> Any:
    """Rows to predict: finite, and of columns that the learner knows."""
    if sparse.issparse(X):
        X, _ = sound(X)
    if not is_plain(X, features):
        X = without_names(X, features)
        X = validated(Header(clf, features), X, reset=False, ensure_all_finite=False)
    check_finite(X, features)
    return X
