"""The learned state of an estimator: one record, replaced as a whole."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np

from maxmargin.core.rows import DenseRows, SparseRows
from maxmargin.models.base import Model, OnlineModel
from maxmargin.training.platt import Sigmoids

# A float array or CSR matrix, of SciPy or CuPy, neither of which has types.
Matrix = Any
# Rows as a model takes them: arrays (linear), points (kernels), or lists of both (votes).
Rows = Any
# A NamedTuple of floats with methods, see `core.rule`.
Rule = tuple[Any, ...]
# A single row as linear models take it.
SingleRow = DenseRows | SparseRows
# A row as a dict, and the column of each name.
DictRow = dict[Hashable, Any]
Columns = dict[Hashable, int]
# Advances a progress bar.
Advance = Callable[..., None]
# The content of a file, by name.
Tree = dict[str, Any]


class Targets(Protocol):
    """Labels in the form that compiled loops use, see `core.targets`."""

    @property
    def labels(self) -> np.ndarray: ...


class Features(NamedTuple):
    """The columns that a learner has weights for.

    ``names`` are those of a table. ``columns`` come from dicts: its first ``count`` entries are
    the columns. Later `Features` of the same stream share it; it only grows, so adding a name is
    cheap.
    """

    count: int  # type: ignore[assignment]
    names: np.ndarray | None = None
    columns: Columns | None = None

    def shared_columns(self) -> Columns | None:
        """`named_columns` without a copy; only the first ``count`` entries are valid."""
        return self.named_columns() if self.columns is None else self.columns

    def named_columns(self) -> Columns | None:
        """The column of each name, from dicts or a table; None without names."""
        if self.columns is not None:
            return dict(islice(self.columns.items(), self.count))
        return None if self.names is None else {name: k for k, name in enumerate(self.names)}


RECIPE = "recipe"  # its key in a schema


class State(NamedTuple):
    """What a learner has learned.

    A call builds a new state and installs it with one assignment at its end, so
    an interrupted call leaves a consistent learner.

    Attributes
    ----------
    classes : the labels, sorted
    margins : measured margin of each problem, NaN if not measured
    measured : the number of trials of the model when its margins were measured
    unseen : there is a spare problem, of a class that never occurs, from which new classes start
    multilabel : a row can have several labels or none
    ceiling : an upper bound on every margin that needs no proof by updates
    n_iter, converged : of the last fit
    schema : how the columns of a stream were read
    totals : with balanced classes, the total weight of each class, and of all rows
    calibration : from scores to probabilities, or None
    more : attributes of a single kind of learner
    """

    model: Model
    classes: np.ndarray
    features: Features
    margins: np.ndarray
    measured: int = 0
    unseen: bool = False
    multilabel: bool = False
    ceiling: float = np.inf
    n_iter: int = 0
    converged: bool = False
    schema: dict[str, Any] | None = None
    totals: np.ndarray | None = None
    calibration: Sigmoids | None = None
    more: dict[str, Any] = {}

    @property
    def recipe(self) -> Any:
        """The preprocessing of raw rows, or None."""
        return None if self.schema is None else self.schema.get(RECIPE)

    def known_margins(self) -> np.ndarray:
        """The margins, NaN if rows were learned since they were measured."""
        if self.model.trials() == self.measured:
            return self.margins
        return np.full(self.model.n_margins(), np.nan)


def online_model(state: State) -> OnlineModel:
    """The model of a learner with a rule."""
    assert isinstance(state.model, OnlineModel)
    return state.model


def is_joint(state: State) -> bool:
    """Were several classes learned as one problem?"""
    return state.model.n_margins() == 1 < state.model.problems()


def takes_unused_columns(state: State, width: int) -> bool:
    """True if columns up to ``width`` that are always 0 would change nothing."""
    model = state.model
    return isinstance(model, OnlineModel) and model.allows_unused_columns(width)


def grown(state: State, width: int, classes: np.ndarray) -> State:
    """The state for rows of ``width`` columns and these classes, a superset of the old ones."""
    model, before = state.model, state.classes
    if width == model.width() and classes.size == before.size:
        return state
    codes = np.searchsorted(classes, before)
    if classes.size == before.size:
        which = list(range(model.problems()))
    elif not state.unseen:
        new = np.setdiff1d(classes, before).tolist()
        raise ValueError(
            f"y contains new classes, {new}: they can be learned only if the first call of "
            "partial_fit, learn_one or fit_stream was made with grow=True."
        )
    else:
        which = [before.size] * (classes.size + 1)
        for old, code in enumerate(codes):
            which[code] = old
    totals = state.totals
    if totals is not None:
        totals = np.zeros(classes.size + 1)
        totals[np.append(codes, classes.size)] = state.totals
    model = online_model(state).streaming(1).grown(width, which, codes)
    return state._replace(model=model, classes=classes, totals=totals)
