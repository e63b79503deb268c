"""What all estimators share: trainer, state, pickling, predictions and streams."""

from __future__ import annotations

import abc
import copy
import operator
from collections.abc import Callable
from functools import lru_cache, update_wrapper
from os import PathLike
from typing import Any, ClassVar, NoReturn, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, log_expit, log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if

from maxmargin import streams
from maxmargin._extras import Self
from maxmargin.certificates import Certificate
from maxmargin.estimator import serialization
from maxmargin.models.base import Model
from maxmargin.training.inputs import shown
from maxmargin.training.outputs import Decision
from maxmargin.training.passes import certificate_of
from maxmargin.training.platt import Sigmoids, log_shares
from maxmargin.training.protocol import Trainer
from maxmargin.training.recipes import names_of, prepared
from maxmargin.training.state import RECIPE, State, Tree, is_joint
from maxmargin.training.stream_run import Request, fit_stream

# Attributes that are recreated when needed.
FLEETING = {"_one_row", "_checked_parameters", "_has_warned", "_trainer", "_inner", "_single"}


class BaseLearner(ClassifierMixin, BaseEstimator, abc.ABC):
    """The base class of all estimators of this library."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]]
    _state: State

    # --------------------------------------------------------------------------- trainer and state
    @abc.abstractmethod
    def _new_trainer(self) -> Trainer:
        """A trainer for the current hyper-parameters."""

    def __trainer__(self) -> Trainer:
        return self._new_trainer()

    def __state__(self) -> State | None:
        """The state, or None before the first row."""
        return self.__dict__.get("_state")

    def __put_state__(self, state: State) -> None:
        self._state = state

    def __with_state__(self, state: State | None) -> Self:
        learner: Self = clone(self)
        if state is not None:
            learner._state = state
        return learner

    def _fitted(self) -> State:
        """The state; raises if there is none."""
        if (state := self.__state__()) is None:
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet.")
        return state

    @classmethod
    @lru_cache
    def _get_param_names(cls) -> list[str]:  # type: ignore[override]
        names: list[str] = super()._get_param_names()
        return names

    def check_parameters(self) -> None:
        """Raise if a hyper-parameter has an invalid value."""
        values = _reader(type(self))(self)  # type: ignore[arg-type]
        before = self.__dict__.get("_checked_parameters", ())
        if not before or any(map(operator.is_not, values, before)):  # else those of last time
            self._validate_params()
            self._checked_parameters = values

    @property
    def classes_(self) -> np.ndarray:
        return self._fitted().classes

    @property
    def n_iter_(self) -> int:
        return self._fitted().n_iter

    @property
    def n_mistakes_(self) -> int:
        return self._fitted().model.mistakes()

    @property
    def n_features_in_(self) -> int:
        return self._fitted().features.count

    @property
    def feature_names_in_(self) -> np.ndarray:
        return _there(names_of(self._fitted()), "The rows had no feature names.")

    @property
    def schema_(self) -> Tree:
        return _there(self._fitted().schema, "The learner was not fitted from a source.")

    @property
    def recipe_(self) -> Any:
        return _there(self._fitted().recipe, "The learner has no recipe.")

    def without_recipe(self) -> Self:
        """A learner with the same state for rows that are prepared already."""
        state = self._fitted()
        kept = {k: v for k, v in (state.schema or {}).items() if k != RECIPE}
        return self.__with_state__(state._replace(schema=kept or None))

    def __sklearn_is_fitted__(self) -> bool:
        return self.__state__() is not None

    def __getstate__(self) -> Any:
        """The attributes, with the state as the dictionary that files contain."""
        state: Tree = super().__getstate__()
        kept = {name: value for name, value in state.items() if name not in FLEETING}
        if learned := self.__learned__():
            if "schema" in learned:  # with the recipe, which can be pickled
                learned["schema"] = self._fitted().schema
            kept["_state"] = learned
        return kept

    def __deepcopy__(self, memo: Any) -> Self:
        new = object.__new__(type(self))
        kept = {name: value for name, value in vars(self).items() if name not in FLEETING}
        new.__dict__.update(copy.deepcopy(kept, memo))
        return new

    def __setstate__(self, state: Any) -> None:
        learned = dict(state.get("_state", {}))
        super().__setstate__({name: value for name, value in state.items() if name != "_state"})
        if learned:
            self.__relearn__(learned)

    def __learned__(self) -> Tree:
        """The learned state as plain values and arrays, for files and pickles."""
        state = self.__state__()
        return {} if state is None else serialization.learned(state, self.get_params(deep=False))

    def __relearn__(self, found: Tree) -> None:
        """Restore such a state; raises if it is inconsistent."""
        self._state = serialization.relearned(found, self._model_from)

    @abc.abstractmethod
    def _model_from(self, found: Tree, classes: np.ndarray) -> Model:
        """The model of a file."""


Value = TypeVar("Value")


@lru_cache
def _reader(kind: type[BaseLearner]) -> Callable[[BaseLearner], tuple[Any, ...]]:
    """A function that returns the hyper-parameters of a learner as a tuple."""
    return operator.attrgetter(*kind._parameter_constraints)


def _there(value: Value | None, otherwise: str) -> Value:
    if value is None:
        raise AttributeError(otherwise)
    return value


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
        normalised, or the softmax of classes that were learned together. For multilabel targets,
        the probability of each label. See `docs/probabilities.md`.

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
        return np.exp(self._log_chances(state, odds))

    @if_calibrated
    def predict_log_proba(self, X: ArrayLike) -> np.ndarray:
        """Predict logarithms of probabilities, to full precision even if they are small."""
        state, scores = self._scored(X)
        odds = self._log_odds(state, scores)
        if state.multilabel:
            return log_expit(odds)
        if state.classes.size == 2:
            return np.hstack([log_expit(-odds), log_expit(odds)])
        return self._log_chances(state, odds)

    def _log_chances(self, state: State, odds: np.ndarray) -> np.ndarray:
        """Logarithms of the probabilities of more than two classes."""
        return log_softmax(odds, axis=1) if is_joint(state) else log_shares(odds)

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
            joint=is_joint(state),
            recipe=state.recipe,
        )

    # ----------------------------------------------------------------------------- what was learned
    @property
    def coef_(self) -> np.ndarray:
        state = self._fitted()
        return self._hyperplanes().coefficients()[shown(state), : state.features.count]

    @property
    def intercept_(self) -> np.ndarray:
        state = self._fitted()
        return self._hyperplanes().intercepts()[shown(state)]

    def _hyperplanes(self) -> Any:
        model = self._fitted().model
        if not hasattr(model, "intercepts"):
            raise AttributeError(
                "A mixture has no weights of features of its own: see weights_, those of its "
                "experts."
            )
        return model

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
        return certificate_of(state, state.features.count)

    @property
    def converged_(self) -> bool:
        return self._fitted().converged


class Streamable(BaseLearner):
    """A learner with the method `fit_stream`."""

    def fit_stream(
        self,
        source: Any,
        *,
        passes: int = 1,
        classes: ArrayLike | None = None,
        recipe: Any = None,
        checkpoint: str | PathLike[str] | None = None,
        every: int | None = None,
        progress: bool | None = None,
        grow: bool = False,
        **options: NoReturn,
    ) -> Self:
        """Learn from a source of any size, in constant memory and in its order.

        Each row is learned as by `partial_fit`, while further rows are read. A learner that has
        learned goes on, with its columns, recipe and classes: two files one after the other give
        the same model, to the bit, as one file with the rows of both (one pass each, without
        ``tol``). `sklearn.base.clone` gives a learner that starts from scratch. With a checkpoint,
        a process that died at any moment and is started again with the same arguments ends with the
        same model, to the bit, as an uninterrupted one; Ctrl-C writes a checkpoint. The learner
        itself keeps the model that it had before, unless the call completes.

        Sample weights come from the source: from the column ``weight`` of a table, behind the label
        in svmlight text (``label:weight column:value ...``), or with the labels of arrays and
        iterables.

        Parameters
        ----------
        source : path, "-", or anything else that `maxmargin.streams.open` takes, or its result
        passes : int, default=1
            Maximum number of passes. Learning stops earlier if a pass makes no update or, with
            `tol`, if the margin is certified (which takes another pass).
        classes : array of shape (n_classes,), default=None
            All possible labels. By default those in the data; for a pipe, those in its first
            block.
        recipe : Recipe, default=None
            Prepares the rows, see `maxmargin.streams.Recipe`. The learner stores it (`recipe_`)
            and takes raw rows from then on. A learner that has learned keeps its own.
        checkpoint : path, default=None
            File for the state; if it exists, the run continues from it.
        every : int, default=None
            Rows between checkpoints, rounded up to the end of a block; by default, one is written
            every half minute.
        progress : bool, default=None
            Show a progress bar on a terminal. By default, if `verbose` is set.
        grow : bool, default=False
            Learn labels that are not among the classes as they occur, see `partial_fit`. In the
            first call it also prepares later calls for new labels.
        **options
            None here: those of the source, such as ``label``, are for `maxmargin.streams.open`.

        Returns
        -------
        self
        """
        for name in options:
            raise TypeError(
                f"fit_stream has no parameter {name!r}; those of the source are passed to "
                f"streams.open: fit_stream(streams.open(path, {name}=...))."
            )
        request = Request(passes, classes, checkpoint, every, bool(progress), grow)
        if progress is None:
            request = request._replace(progress=bool(getattr(self, "verbose", False)))
        request.check()
        self.check_parameters()
        before = self.__state__()
        if before is None:
            self.check_can_stream()
        elif recipe is not None:
            raise ValueError(
                "The learner has learned, and goes on with the columns that it knows: leave out "
                "recipe, or start from scratch with sklearn.base.clone(clf)."
            )
        opened = streams.open(source, schema=before and before.schema, recipe=recipe)
        self._state = fit_stream(self, before, opened, request)
        return self

    def check_can_stream(self) -> None:
        """Raise if a parameter depends on all rows of a fit."""
        self.__trainer__().check_can_stream()
