"""Predictions, and the attributes of a fitted learner."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import update_wrapper
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, log_expit
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if

from maxmargin.certificates import Certificate
from maxmargin.estimator.learner import BaseLearner
from maxmargin.training.inputs import shown
from maxmargin.training.outputs import Decision
from maxmargin.training.passes import certified
from maxmargin.training.platt import Sigmoids, log_shares
from maxmargin.training.recipes import prepared
from maxmargin.training.state import State

Method = TypeVar("Method", bound=Callable[..., Any])


class AvailableIf:
    """scikit-learn's `available_if` with a message that says what to do."""

    def __init__(
        self, method: Any, check: Callable[[Any], bool], reason: Callable[[Any], str]
    ) -> None:
        self._method, self._reason = available_if(check)(method), reason
        update_wrapper(self, method)  # type: ignore[arg-type]

    def __get__(self, clf: BaseLearner | None, kind: type | None = None) -> Any:
        try:
            return self._method.__get__(clf, kind)
        except AttributeError:
            name = self.__wrapped__.__name__  # type: ignore[attr-defined]
            message = f"This {type(clf).__name__} has no {name}, since it has {self._reason(clf)}."
            raise AttributeError(message) from None


def _no_probabilities(clf: BaseLearner) -> str:
    ways = "wrap it in sklearn.calibration.CalibratedClassifierCV"
    if "calibration" in getattr(clf, "_parameter_constraints", {}):
        ways = f"set calibration='loo' before it learns, or {ways}"
    return f"no probabilities: {ways}"


def if_calibrated(method: Method) -> Method:
    """Make a method available only with probabilities."""
    has_probabilities = operator.methodcaller("_has_probabilities")
    return cast(Method, AvailableIf(method, has_probabilities, _no_probabilities))


def as_scores(outputs: np.ndarray) -> np.ndarray:
    """Outputs of the visible problems, in the shape of `decision_function`."""
    return outputs.ravel() if outputs.shape[1] == 1 else outputs


class Predicting(BaseLearner):
    """A learner with `predict`, `coef_`, `certificate_` and the like."""

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """``w.x + b`` for each row; of shape (n_samples,) for two classes, else one column each."""
        return as_scores(self._scored(X)[1])

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the class of each row; a score of exactly 0 counts as positive.

        For multilabel targets, an array of 0 and 1 with a column per label.
        """
        return self._classes_for(self.decision_function(X))

    def _classes_for(self, scores: np.ndarray) -> np.ndarray:
        if self._fitted().multilabel:
            return (scores >= 0.0).astype(int)
        if self.classes_.size == 1:
            return np.repeat(self.classes_, scores.size)
        codes = (scores >= 0.0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    def _has_probabilities(self) -> bool:
        return getattr(self, "calibration", None) is not None

    @if_calibrated
    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Predict the probability of each class.

        For two classes a sigmoid of the score; for more, those of one class against the rest,
        normalised. For multilabel targets, the probability of each label. See
        `docs/probabilities.md`.

        `predict` uses the scores, not these probabilities: it may return another class if two are
        nearly equally likely.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return self._probabilities(*self._scored(X))

    def _probabilities(self, state: State, scores: np.ndarray) -> np.ndarray:
        """Probabilities for scores of shape (rows, problems)."""
        odds = self._log_odds(state, scores)
        if state.multilabel:
            return expit(odds)
        if state.classes.size == 2:
            return np.hstack([expit(-odds), expit(odds)])
        return np.exp(log_shares(odds))

    @if_calibrated
    def predict_log_proba(self, X: ArrayLike) -> np.ndarray:
        """Predict logarithms of probabilities, to full precision even if they are small."""
        state, scores = self._scored(X)
        odds = self._log_odds(state, scores)
        if state.multilabel:
            return log_expit(odds)
        if state.classes.size == 2:
            return np.hstack([log_expit(-odds), log_expit(odds)])
        return log_shares(odds)

    def _scored(self, X: ArrayLike) -> tuple[State, np.ndarray]:
        """The state, and scores of shape (rows, visible problems)."""
        state = self._fitted()
        return state, self.__trainer__().outputs(state, prepared(state, X))

    def _log_odds(self, state: State, scores: np.ndarray) -> np.ndarray:
        """The log-odds of the positive class of each visible problem."""
        return self._sigmoids(state).log_odds(scores)

    def _sigmoids(self, state: State) -> Sigmoids:
        """The maps from scores to `_log_odds`."""
        if state.calibration is None:
            raise NotFittedError(
                f"This {type(self).__name__} was not fitted since calibration="
                f"{self.calibration!r} was set: its scores have no probabilities yet."  # type: ignore[attr-defined]
            )
        return state.calibration

    def __decision__(self) -> Decision:
        """The map from rows to scores, probabilities and classes, as plain data."""
        state, visible = self._fitted(), shown(self._fitted())
        return Decision(
            formula=state.model.formula(state.features.count),
            shown=visible,
            classes=state.classes,
            multilabel=state.multilabel,
            features=state.features.count,
            sigmoids=self._sigmoids(state) if self._has_probabilities() else None,
            recipe=state.recipe,
        )

    # ----------------------------------------------------------------------------- what was learned
    @property
    def coef_(self) -> np.ndarray:
        state = self._fitted()
        return state.model.coefficients()[shown(state), : state.features.count]

    @property
    def intercept_(self) -> np.ndarray:
        state = self._fitted()
        return state.model.intercepts()[shown(state)]

    @property
    def support_(self) -> np.ndarray:
        return self._kernel_model().support_numbers()

    @property
    def support_vectors_(self) -> Any:
        return self._kernel_model().support_rows()

    @property
    def dual_coef_(self) -> np.ndarray:
        return self._kernel_model().weights()[shown(self._fitted())]

    def _kernel_model(self) -> Any:
        model = self._fitted().model
        if not model.has_supports:
            raise AttributeError("There are supports only with a kernel; see coef_.")
        return model

    @property
    def n_updates_(self) -> int:
        return self._fitted().model.updates()

    @property
    def certificate_(self) -> Certificate:
        state = self._fitted()
        model, features = state.model, state.features.count
        return certified(model, state.known_margins(), state.ceiling, shown(state), features)

    @property
    def converged_(self) -> bool:
        return self._fitted().converged
