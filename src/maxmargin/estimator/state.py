"""All that learning has given a learner: one record, replaced as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError

from maxmargin.estimator.inputs import Features
from maxmargin.models.base import Model


class State(NamedTuple):
    """What a fitted learner knows.

    A call builds a new state beside the old one and puts it in place by one assignment at its end,
    so that whatever stops the call leaves a whole learner behind.

    Attributes
    ----------
    model : Model
    classes : array
        The labels, sorted.
    features : Features
    margins : array
        The margin reached for each problem, NaN where it is not known.
    spare : bool
        Is there a problem of a class that never occurs? New classes continue it.
    ceiling : float
        No margin is larger, whatever else is proved.
    n_iter, converged : of the last fit
    schema : dict or None
        How the columns of a stream were read.
    more : dict
        Attributes that only one learner has.
    """

    model: Model
    classes: np.ndarray
    features: Features
    margins: np.ndarray
    spare: bool = False
    ceiling: float = np.inf
    n_iter: int = 0
    converged: bool = False
    schema: dict[str, Any] | None = None
    more: dict[str, Any] = {}


def problems_for(classes: np.ndarray, spare: bool) -> int:
    """How many weight vectors there are for these classes."""
    if spare:
        return classes.size + 1
    return 1 if classes.size == 2 else classes.size


def shown(state: State) -> slice:
    """The problems that users see."""
    if not state.spare:
        return slice(None)
    return slice(1, 2) if state.classes.size == 2 else slice(0, state.classes.size)


def grown(state: State, width: int, classes: np.ndarray) -> State:
    """The state for rows of ``width`` columns, and these classes."""
    model, before = state.model, state.classes
    if width == model.width() and classes.size == before.size:
        return state
    codes = np.searchsorted(classes, before)
    if classes.size == before.size:
        which = list(range(model.problems()))
    elif not state.spare:
        new = np.setdiff1d(classes, before).tolist()
        raise ValueError(
            f"y contains new classes, {new}: they can be learnt only if the first call of "
            "partial_fit was made with grow=True."
        )
    else:
        which = [before.size] * (classes.size + 1)
        for old, code in enumerate(codes):
            which[code] = old
    return state._replace(model=model.streaming().grown(width, which, codes), classes=classes)


class Stateful:
    """Gives a learner what everybody can know of its state, and lets it be passed on."""

    _state: State

    def _known(self) -> Any:
        """The state, or None."""
        return self.__dict__.get("_state")

    def _fitted(self) -> Any:
        """The state, which must be there."""
        if (state := self._known()) is None:
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet.")
        return state

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
        return _there(self._fitted().features.names, "The rows had no names of features.")

    @property
    def schema_(self) -> dict[str, Any]:
        return _there(self._fitted().schema, "The rows did not come from a source.")

    def __sklearn_is_fitted__(self) -> bool:
        return self._known() is not None

    def __getstate__(self) -> Any:
        state = super().__getstate__()  # type: ignore[misc]
        return packed({name: value for name, value in state.items() if name not in FLEETING})

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(unpacked(state))  # type: ignore[misc]


# What is made anew when it is needed.
FLEETING = {"_one_row", "_checked_parameters"}


def _there(value: Any, otherwise: str) -> Any:
    if value is None:
        raise AttributeError(otherwise)
    return value


# --------------------------------------------------------------------- pickle, joblib and skops
# skops asks its users to trust every class that it does not know itself. Record arrays and SciPy's
# matrices are such, so they travel as plain arrays, and become what they were on arrival.
class Sparse(NamedTuple):
    """The parts of a CSR matrix."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    shape: tuple[int, int]
    is_matrix: bool


def packed(state: dict[str, Any]) -> dict[str, Any]:
    """The same state, made of what travels well."""
    return _mapped(state, _packed_leaf, {})


def unpacked(state: dict[str, Any]) -> dict[str, Any]:
    """The state that `packed` was given."""
    return _mapped(state, _unpacked_leaf, {})


def _packed_leaf(value: Any) -> Any:
    if isinstance(value, np.recarray):
        return value.view(np.dtype((np.void, value.dtype)), np.ndarray)
    if sparse.issparse(value) and value.format == "csr":
        matrix = sparse.isspmatrix(value)
        return Sparse(value.data, value.indices, value.indptr, value.shape, matrix)
    return value


def _unpacked_leaf(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.names:
        # Machine code is for aligned records, and copies may have lost that they are.
        return value.view(np.dtype(value.dtype.descr, align=True)).view(np.recarray)
    if isinstance(value, Sparse):
        kind = sparse.csr_matrix if value.is_matrix else sparse.csr_array
        return kind((value.data, value.indices, value.indptr), shape=value.shape)
    return value


def _mapped(value: Any, leaf: Callable[[Any], Any], done: dict[int, Any]) -> Any:
    """``value`` with all its leaves changed; what was one object is one afterwards."""
    if id(value) not in done:
        done[id(value)] = _changed(value, leaf, done)
    return done[id(value)]


def _changed(value: Any, leaf: Callable[[Any], Any], done: dict[int, Any]) -> Any:
    if (new := leaf(value)) is not value:
        return new
    if isinstance(value, dict):
        return {name: _mapped(each, leaf, done) for name, each in value.items()}
    if type(value) is list:
        return [_mapped(each, leaf, done) for each in value]
    if not type(value).__module__.startswith("maxmargin."):
        return value
    if isinstance(value, tuple):
        return type(value)(*(_mapped(each, leaf, done) for each in value))
    new = object.__new__(type(value))
    vars(new).update(_mapped(vars(value), leaf, done))
    return new
