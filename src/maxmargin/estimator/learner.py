"""The base of all estimators: parameters, trainer, state, and pickling."""

from __future__ import annotations

import abc
import copy
import operator
from collections.abc import Callable
from functools import lru_cache
from importlib import metadata
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError

from maxmargin._extras import Self
from maxmargin.estimator import serialization
from maxmargin.estimator.parameters import SignatureOfInit, counterpart
from maxmargin.models.base import Model
from maxmargin.training.protocol import Trainer
from maxmargin.training.recipes import names_of
from maxmargin.training.state import RECIPE, State
from maxmargin.training.types import Tree

# Attributes that are recreated when needed.
FLEETING = {"_one_row", "_checked_parameters", "_trainer", "_inner", "_single"}


@lru_cache(maxsize=1)
def documentation_site() -> str:
    """The address of the documentation in pyproject.toml; empty if unknown."""
    try:
        urls = metadata.metadata("maxmargin").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return ""
    return dict(url.split(", ", 1) for url in urls).get("Documentation", "")


class BaseLearner(ClassifierMixin, BaseEstimator, abc.ABC):
    """The base class of all estimators of this library."""

    # The signature of __init__, not of __new__.
    __signature__ = SignatureOfInit()
    _doc_link_module = "maxmargin"

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
        """A trainer for the present hyper-parameters."""

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
    def _doc_link_template(self) -> str:  # type: ignore[override]
        """The link in scikit-learn's HTML representation of an estimator."""
        site = documentation_site()
        return f"{site}/api/maxmargin.{{estimator_name}}.html" if site else ""

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

    def __summary__(self) -> Tree:
        """A short description of the state, for the header of a file."""
        state = self.__state__()
        return {} if state is None else serialization.summary(state)


Value = TypeVar("Value")


@lru_cache
def _reader(kind: type[BaseLearner]) -> Callable[[BaseLearner], tuple[Any, ...]]:
    """A function that returns the hyper-parameters of a learner as a tuple."""
    return operator.attrgetter(*kind._parameter_constraints)


def _there(value: Value | None, otherwise: str) -> Value:
    if value is None:
        raise AttributeError(otherwise)
    return value
