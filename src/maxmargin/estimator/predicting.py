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

from maxmargin._validation import StrOptions
from maxmargin.certificates import Certificate
from maxmargin.certificates.coverage_bounds import Coverage
from maxmargin.estimator.learner import BaseLearner
from maxmargin.training.calibration import Maps, Sigmoids, log_odds, log_shares, sigmoids
from maxmargin.training.inputs import shown
from maxmargin.training.options import Options
from maxmargin.training.outputs import Decision
from maxmargin.training.passes import certified
from maxmargin.training.prediction_sets import SetTracker, coverage_of, prediction_sets
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
    known = getattr(clf, "_parameter_constraints", {}).get("calibration", [])
    names = [name for each in known if isinstance(each, StrOptions) for name in each.options]
    values = [name for name in names if name != "online" or hasattr(clf, "partial_fit")]
    ways = [f"set calibration={value!r} before it learns" for value in values]
    ways.append("wrap it in sklearn.calibration.CalibratedClassifierCV")
    return f"no probabilities: {', or '.join(ways)}"


def _has_coverage(clf: BaseLearner) -> bool:
    return getattr(clf, "coverage", None) is not None


def _no_coverage(clf: BaseLearner) -> str:
    return "no target coverage: set coverage=0.9, or the share that you need, before it learns"


def if_covering(method: Method) -> Method:
    """Make a method available only with prediction sets."""
    return cast(Method, AvailableIf(method, _has_coverage, _no_coverage))


def if_calibrated(method: Method) -> Method:
    """Make a method available only with probabilities."""
    has_probabilities = operator.methodcaller("_has_probabilities")
    return cast(Method, AvailableIf(method, has_probabilities, _no_probabilities))


def known_sets(options: Options, state: State) -> SetTracker:
    """What prediction sets follow from; raises before the first row."""
    if state.sets is None or state.sets.target[0] != options.coverage:
        raise NotFittedError(
            f"This {options.name} has not learned from any row since coverage={options.coverage} "
            "was set: there are no prediction sets yet."
        )
    return state.sets


def observed_coverage(options: Options, state: State) -> Coverage:
    """The coverage so far, of a learner that has prediction sets."""
    if options.coverage is None:
        raise AttributeError("There are prediction sets only with coverage, such as 0.9.")
    return coverage_of(known_sets(options, state))


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
        """Predict probabilities, with ``calibration="online"`` (`MaxMargin`: ``"loo"``).

        For two classes Platt's sigmoid of the score; for more, those of one class against the rest,
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

        Examples
        --------
        >>> from maxmargin import Perceptron
        >>> clf = Perceptron(average=True, calibration="online", max_iter=1, random_state=0)
        >>> X = [[x / 100.0] for x in range(-100, 100)]
        >>> clf = clf.partial_fit(X * 5, [x > 0.1 for (x,) in X] * 5, classes=[False, True])
        >>> [round(float(chance), 1) for chance in clf.predict_proba([[-0.9], [0.9]])[:, 1]]
        [0.0, 1.0]
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
        return log_odds(self._maps(state), shown(state), scores)

    def _sigmoids(self, state: State) -> Sigmoids:
        """The maps from scores to `_log_odds`."""
        return sigmoids(self._maps(state), shown(state))

    def _maps(self, state: State) -> Maps:
        if state.calibration is None:
            raise NotFittedError(
                f"This {type(self).__name__} has not learned from any row since calibration="
                f"{self.__trainer__().options.calibration!r} was set: its scores have no "
                "probabilities yet."
            )
        return state.calibration

    # ------------------------------------------------------------------------------ prediction sets
    @if_covering
    def predict_set(self, X: ArrayLike) -> np.ndarray:
        """Predict sets of classes, with ``coverage``.

        The label of the next row that is learned from is in its set for the share ``coverage`` of
        all rows, up to the bound in `coverage_`, on any stream. A set may have several classes, or
        none: then the learner cannot tell. See `docs/guarantees.md`.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of bool, of shape (n_samples, n_classes)
            In the order of `classes_`.

        Examples
        --------
        >>> from maxmargin import PassiveAggressive
        >>> clf = PassiveAggressive(coverage=0.9)
        >>> X = [[x / 100.0] for x in range(-100, 100)]
        >>> clf = clf.partial_fit(X * 5, [x > 0.1 for (x,) in X] * 5, classes=[False, True])
        >>> clf.predict_set([[0.9]]).tolist()
        [[False, True]]
        >>> abs(clf.coverage_.observed - 0.9) <= clf.coverage_.bound
        True
        """
        return self._sets(*self._scored(X))

    def _sets(self, state: State, scores: np.ndarray) -> np.ndarray:
        """The sets for scores of shape (rows, problems)."""
        tracker, is_odds = known_sets(self.__trainer__().options, state), self._has_probabilities()
        evidence = self._log_odds(state, scores) if is_odds else scores
        return prediction_sets(tracker, evidence, is_odds, state.classes.size)

    @property
    def coverage_(self) -> Coverage:
        return observed_coverage(self.__trainer__().options, self._fitted())

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
