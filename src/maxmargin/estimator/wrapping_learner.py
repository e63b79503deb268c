"""A learner around another one: it holds a copy, which learns and predicts."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.utils.metaestimators import available_if

from maxmargin._extras import Self
from maxmargin._validation import InvalidParameterError
from maxmargin.estimator.learner import AvailableIf, BaseLearner, Method, Streamable
from maxmargin.models.base import Model
from maxmargin.training.protocol import Batch, put_state, state_of
from maxmargin.training.row_reading import Row, as_matrix, named_features
from maxmargin.training.state import Columns, State, Tree


def _has_probabilities(clf: WrappingLearner) -> bool:
    return hasattr(clf.learner(), "predict_proba")


def _takes_rows(clf: WrappingLearner) -> bool:
    return not isinstance(clf.clf, BaseLearner) or hasattr(clf.clf, "partial_fit")


def _needs_all(clf: WrappingLearner) -> str:
    return f"a {type(clf.clf).__name__}, which needs all rows at once: use fit"


def if_taking_rows(method: Method) -> Method:
    """Make a method available only with a learner that takes rows as they come."""
    return cast(Method, AvailableIf(method, _takes_rows, _needs_all))


class WrappingLearner(MetaEstimatorMixin, Streamable):
    """Base of learners around any other one, `clf`, which stays as it is: a copy learns.

    Both have the same state. What a wrapper adds is in `State.more`.
    """

    clf: Any
    # The class of the learner by default.
    default: ClassVar[type[BaseLearner]]

    def learner(self) -> Any:
        """The learner, with its state if it has learned."""
        inner = self.__dict__.get("_inner")
        if inner is None:
            inner = self._inner = self.default() if self.clf is None else clone(self.clf)
        if (state := self.__state__()) is not None and inner.__state__() is not state:
            put_state(inner, state)
        return inner

    def _known(self) -> Any:
        self._fitted()
        return self.learner()

    @property
    def estimator_(self) -> Any:
        return self._known()

    def __state__(self) -> State | None:
        if "_state" not in vars(self) and self.clf is not None:
            if (known := state_of(self.clf)) is None:
                return None
            self._state = copy.deepcopy(known)
        return super().__state__()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in self._parameter_constraints:
            self.__dict__.pop("_inner", None)

    def set_params(self, **params: Any) -> Self:
        """Set the parameters, as in scikit-learn; those of the learner are called ``clf__name``."""
        self.__dict__.pop("_inner", None)
        return super().set_params(**params)

    def _validate_params(self) -> None:
        name = type(self).__name__
        if not isinstance(self.clf, BaseLearner | None):
            raise InvalidParameterError(
                f"The 'clf' parameter of {name} must be a learner of maxmargin, got "
                f"{type(self.clf).__name__}; put a scaler before it: make_pipeline("
                f"StandardScaler(), {name}(clf))."
            )
        super()._validate_params()
        if isinstance(self.clf, WrappingLearner):
            raise ValueError(
                f"The 'clf' parameter of {name} must be a learner that holds no other one, got "
                f"{type(self.clf).__name__}."
            )

    def _check_passes(self, passes: int, needs: str) -> None:
        """Raise unless there is only one pass, which has what is needed."""
        if passes != 1:
            raise ValueError(
                f"{type(self).__name__} needs {needs}, and passes={passes} asks for more: use "
                "passes=1."
            )

    def _single_row(self, x: Row) -> Any:
        """A single row as a batch takes it."""
        state = self.__state__()
        if isinstance(x, Mapping) or (state is not None and state.recipe is not None):
            return [x]
        if sparse.issparse(x):
            return x
        return as_matrix(x, None if state is None else named_features(state))

    def _batch_of(
        self, x: Row, y: Hashable, w: float, classes: ArrayLike | None, grow: bool
    ) -> Batch:
        """A batch of a single row."""
        weight = None if w == 1.0 else [w]
        return Batch(self._single_row(x), np.array([y]), classes, weight, grow=grow)

    # ---------------------------------------------------------------------------------- predicting
    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predict the class of each row, as the learner does."""
        return self._known().predict(X)

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """The scores of the learner."""
        return self._known().decision_function(X)

    def predict_one(self, x: Row, *, classes: ArrayLike | None = None, grow: bool = False) -> Any:
        """Predict the class of a single row, as the learner does."""
        return self.learner().predict_one(x, classes=classes, grow=grow)

    def decision_one(self, x: Row) -> Any:
        """The score of a single row, as of the learner."""
        return self._known().decision_one(x)

    @available_if(_has_probabilities)
    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """The probabilities of the learner, if it has some."""
        return self._known().predict_proba(X)

    @available_if(_has_probabilities)
    def predict_proba_one(self, x: Row) -> dict[Hashable, float]:
        """The probabilities of a single row, if the learner has some."""
        return self._known().predict_proba_one(x)

    @property
    def columns_(self) -> Columns:
        return self._known().columns_

    # --------------------------------------------------------------------------------------- files
    def _learned_with(self, more: Tree) -> Tree:
        """What the learner has learned, and this of its own."""
        return self.learner().__learned__() | more

    def _relearn_with(self, found: Tree, more: Tree) -> None:
        """Restore what the learner has learned, and this of its own."""
        inner = self.learner()
        inner.__relearn__(found)
        state = inner._fitted()
        self._state = state._replace(more={**state.more, **more})

    def _model_from(self, found: Tree, classes: np.ndarray) -> Model:
        return self.learner()._model_from(found, classes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = self.learner().__sklearn_tags__()
        tags.input_tags, tags.classifier_tags = inner.input_tags, inner.classifier_tags
        tags.classifier_tags.multi_label = False
        return tags
