"""The base of all estimators: parameters, trainer, state, and pickling."""

from __future__ import annotations

import abc
import operator
from collections.abc import Callable
from functools import lru_cache
from importlib import metadata
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from scipy import sparse
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
# Attributes that scikit-learn sets.
ROUTING = {"_metadata_request"}


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
        state: Tree = super().__getstate__()
        kept = {name: value for name, value in state.items() if name not in FLEETING}
        return _mapped(kept, _packed, {})

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(_mapped(state, _unpacked, {}))

    def __learned__(self) -> Tree:
        """The learned state, for a file."""
        parameters, state = self._parameters(), self.__state__()
        for name in vars(self).keys() - parameters.keys() - FLEETING - ROUTING - {"_state"}:
            raise TypeError(
                f"The attribute '{name}' of {type(self).__name__} cannot be saved: learning did "
                "not make it."
            )
        return {} if state is None else serialization.learned(state, parameters)

    def __relearn__(self, found: Tree) -> None:
        """Restore the state of a file; raises if it is inconsistent."""
        self._state = serialization.relearned(found, self._model_from)

    @abc.abstractmethod
    def _model_from(self, found: Tree, classes: np.ndarray) -> Model:
        """The model of a file."""

    def __summary__(self) -> Tree:
        """A short description of the state, for the header of a file."""
        state = self.__state__()
        return {} if state is None else serialization.summary(state)

    def _parameters(self) -> Tree:
        return self.get_params(deep=False)


Value = TypeVar("Value")


@lru_cache
def _reader(kind: type[BaseLearner]) -> Callable[[BaseLearner], tuple[Any, ...]]:
    """A function that returns the hyper-parameters of a learner as a tuple."""
    return operator.attrgetter(*kind._parameter_constraints)


def _there(value: Value | None, otherwise: str) -> Value:
    if value is None:
        raise AttributeError(otherwise)
    return value


# ------------------------------------------------------------------------------------------ pickles
# skops asks its users to trust every class that it does not know. So record arrays and SciPy's
# matrices are pickled as plain arrays, and data types as scalar types.
class Sparse(NamedTuple):
    """The parts of a CSR matrix."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    shape: tuple[int, int]
    is_matrix: bool


def _packed(value: Any) -> Any:
    if isinstance(value, np.recarray):
        return value.view(np.dtype((np.void, value.dtype)), np.ndarray)
    if sparse.issparse(value) and value.format == "csr":
        matrix = sparse.isspmatrix(value)
        return Sparse(value.data, value.indices, value.indptr, value.shape, matrix)
    if isinstance(value, np.dtype) and value.names is None:
        return value.type  # equivalent for data types of kernel values
    return value


def _unpacked(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.names:
        # Machine code expects aligned records; copies may have lost the alignment.
        return value.view(np.dtype(value.dtype.descr, align=True)).view(np.recarray)
    if isinstance(value, Sparse):
        kind = sparse.csr_matrix if value.is_matrix else sparse.csr_array
        return kind((value.data, value.indices, value.indptr), shape=value.shape)
    return value


def _mapped(value: Any, leaf: Callable[[Any], Any], done: dict[int, Any]) -> Any:
    """``value`` with ``leaf`` applied to all leaves; shared objects stay shared."""
    if id(value) not in done:
        done[id(value)] = _changed(value, leaf, done)
    return done[id(value)]


def _changed(value: Any, leaf: Callable[[Any], Any], done: dict[int, Any]) -> Any:
    if (new := leaf(value)) is not value:
        return new
    if isinstance(value, dict):
        return {name: _mapped(each, leaf, done) for name, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_mapped(each, leaf, done) for each in value)
    if not type(value).__module__.startswith("maxmargin."):
        return value
    if isinstance(value, tuple):
        return type(value)(*(_mapped(each, leaf, done) for each in value))
    new = object.__new__(type(value))
    vars(new).update(_mapped(vars(value), leaf, done))
    return new
