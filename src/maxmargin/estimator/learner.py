"""The base of all estimators: a state, a trainer, and how both are passed on."""

from __future__ import annotations

import abc
import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError

from maxmargin._extras import Self
from maxmargin.estimator import learner_forks, serialization
from maxmargin.estimator.callbacks import MADE_BY_CALLBACKS
from maxmargin.estimator.locks import access_to, reading
from maxmargin.estimator.parameters import SignatureOfInit, counterpart
from maxmargin.estimator.pickling import packed, unpacked
from maxmargin.models.base import Model
from maxmargin.training.protocol import Trainer
from maxmargin.training.recipes import RECIPE, names_of, recipe_of
from maxmargin.training.state import State
from maxmargin.training.types import Tree

DOCS = "https://maxmargin.example.invalid/docs"
# What is made anew when it is needed.
FLEETING = {"_access", "_one_row", "_checked_parameters", "_trainer"}
# What scikit-learn is told of a learner, which is no part of what it learned.
ROUTING = {"_metadata_request", *MADE_BY_CALLBACKS}

learner_forks.watch()


class BaseLearner(ClassifierMixin, BaseEstimator, abc.ABC):
    """What all estimators of this library are: parameters, a trainer for them, and a state."""

    # Not that of __new__, for who reads documentation.
    __signature__ = SignatureOfInit()
    # Where scikit-learn's pictures of estimators link to.
    _doc_link_module = "maxmargin"
    _doc_link_template = f"{DOCS}/api/maxmargin.{{estimator_name}}.html"

    _parameter_constraints: ClassVar[dict[str, list[Any]]]
    _state: State

    def __new__(cls, *args: Any, **given: Any) -> Self:
        """An instance, unless a keyword is scikit-learn's name for a parameter of this learner."""
        for keyword in given:
            if hint := counterpart(cls, keyword):
                raise TypeError(f"{cls.__name__} has no parameter {keyword!r}: {hint}.")
        return super().__new__(cls)

    # --------------------------------------------------------------------------- trainer and state
    @abc.abstractmethod
    def _new_trainer(self) -> Trainer:
        """What learns by the present hyper-parameters."""

    def __trainer__(self) -> Trainer:
        return self._new_trainer()

    def __state__(self) -> State | None:
        """The state, or None; if the call before was interrupted, its end is made up for."""
        state: State | None = self.__dict__.get("_state")
        if state is not None and state.model.unsettled:
            with access_to(self).changing:
                state.model.settle()
        return state

    def __put_state__(self, state: State) -> None:
        self._state = state

    def __with_state__(self, state: State | None) -> Self:
        learner: Self = clone(self)
        if state is not None:
            learner._state = state
        return learner

    def _fitted(self) -> State:
        """The state, which must be there."""
        if (state := self.__state__()) is None:
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet.")
        return state

    def check_parameters(self) -> None:
        """Raise if a hyper-parameter has a value that it cannot have."""
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
    @reading
    def n_mistakes_(self) -> int:
        return self._fitted().model.mistakes()

    @property
    def n_features_in_(self) -> int:
        return self._fitted().features.count

    @property
    def feature_names_in_(self) -> np.ndarray:
        return _there(names_of(self._fitted()), "The rows had no names of features.")

    @property
    def schema_(self) -> Tree:
        return _there(self._fitted().schema, "The rows did not come from a source.")

    @property
    def recipe_(self) -> Any:
        return _there(recipe_of(self._fitted()), "The rows were not prepared by a recipe.")

    def without_recipe(self) -> Self:
        """A learner that knows the same, and takes rows that are prepared already."""
        state = self._fitted()
        kept = {k: v for k, v in (state.schema or {}).items() if k != RECIPE}
        return self.__with_state__(state._replace(schema=kept or None))

    def __sklearn_is_fitted__(self) -> bool:
        return self.__state__() is not None

    @reading
    def __getstate__(self) -> Any:
        self.__state__()
        state: Tree = super().__getstate__()
        return packed({name: value for name, value in state.items() if name not in FLEETING})

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(unpacked(state))

    @reading
    def __learned__(self) -> Tree:
        """What learning has given it, for a file."""
        parameters, state = self._parameters(), self.__state__()
        for name in vars(self).keys() - parameters.keys() - FLEETING - ROUTING - {"_state"}:
            raise TypeError(
                f"The attribute '{name}' of {type(self).__name__} cannot be saved: learning did "
                "not make it."
            )
        return {} if state is None else serialization.learned(state, parameters)

    def __relearn__(self, found: Tree) -> None:
        """Know what a file says; raises unless it fits together."""
        self._state = serialization.relearned(found, self._model_from)

    @abc.abstractmethod
    def _model_from(self, found: Tree, classes: np.ndarray) -> Model:
        """The model of a file."""

    @reading
    def __summary__(self) -> Tree:
        """What there is to say about what was learned, in few words."""
        state = self.__state__()
        return {} if state is None else serialization.summary(state)

    def _parameters(self) -> Tree:
        return self.get_params(deep=False)


Value = TypeVar("Value")


@lru_cache
def _reader(kind: type[BaseLearner]) -> Callable[[BaseLearner], tuple[Any, ...]]:
    """Gives the hyper-parameters of such a learner, as a tuple."""
    return operator.attrgetter(*kind._parameter_constraints)


def _there(value: Value | None, otherwise: str) -> Value:
    if value is None:
        raise AttributeError(otherwise)
    return value
