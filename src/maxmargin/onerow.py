"""Learn from, and predict, one row that comes alone: a dict, a sparse or a dense row.

Finding the machine code for the types of the arguments takes Numba ten times as long as learning
from a short row. So the code is looked up once, for each kind of rows, and called directly.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin import examples
from maxmargin.core.bridge import Compiled
from maxmargin.core.loop import LARGEST_XX, NO_NOTES, SMALLEST_XX, tend
from maxmargin.core.rows import DenseRows, SparseRows
from maxmargin.growing import grow_model
from maxmargin.models import LinearModel
from maxmargin.structure import check_structure

THE_ROW = np.zeros(1, dtype=np.int32)
# The columns of so many different sets of names are remembered.
MOST_LAYOUTS = 1000

# Values and columns of a sparse row, and where it begins and ends.
Parts = tuple[np.ndarray, np.ndarray, np.ndarray]


@Compiled
def class_number(rows, space, first, shown):  # type: ignore[no-untyped-def]
    """Which of the problems from ``first`` on has the highest output; of one, is it positive?

    Below 0 if an output is no number, because the row has something that is none.
    """
    best, highest = 0, -np.inf
    for c in range(shown):
        output = space.look(rows, 0, first + c)
        if not abs(output) < np.inf:
            return -1
        if output > highest:
            best, highest = c, output
    if shown == 1:
        return 1 if highest >= 0.0 else 0
    return best


@Compiled
def are_usable(values):  # type: ignore[no-untyped-def]
    """Can a row with these values be learnt from? See `first_unusable`."""
    square, something = 0.0, False
    for value in values.flat:
        square += value * value
        something |= value != 0.0
    return SMALLEST_XX <= square <= LARGEST_XX or not something


class Layout(NamedTuple):
    """How to read dicts with certain names.

    Attributes
    ----------
    columns, starts : of the sparse row, in order
    pack : turns the values into bytes
    which : the names to take the values of, if not all in their order
    complete : are there columns for all names?
    """

    columns: np.ndarray
    starts: np.ndarray
    pack: Any
    which: list[Any] | None
    complete: bool


def new_layout(names: tuple[Any, ...], columns: dict[Any, int]) -> Layout:
    known = sorted((columns[name], place) for place, name in enumerate(names) if name in columns)
    which = [names[place] for _, place in known]
    return Layout(
        examples.read_only(np.array([column for column, _ in known], dtype=np.int32)),
        examples.read_only(np.array([0, len(known)], dtype=np.int32)),
        struct.Struct(f"{len(known)}d").pack,
        None if tuple(which) == names else which,
        len(known) == len(names),
    )


def numbers_of(x: Any) -> np.ndarray:
    """As a contiguous array: the machine code is for such."""
    try:
        return np.ascontiguousarray(x, dtype=np.float64)
    except (TypeError, OverflowError) as problem:
        raise ValueError(f"x has a value that is not a number: {problem}.") from None


def checked_pair(x: Any, width: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Columns, in order, and values of a sparse row; any number of columns if there is no width."""
    if len(x) != 2:
        raise ValueError("A sparse row is a pair (indices, values) of the same length.")
    columns, numbers = np.asarray(x[0]), numbers_of(x[1])
    if columns.ndim != 1 or columns.shape != numbers.shape:
        raise ValueError("A sparse row is a pair (indices, values) of the same length.")
    if columns.size and columns.dtype.kind not in "iu":
        raise ValueError(f"The indices of a sparse row must be integers, got {columns.dtype}.")
    if columns.size > 1 and not (columns[1:] > columns[:-1]).all():
        order = np.argsort(columns)
        columns, numbers = columns[order], numbers[order]
        if (columns[1:] == columns[:-1]).any():
            raise ValueError("A sparse row has an index twice.")
    if columns.size and not 0 <= columns[0] <= columns[-1] < (width or np.inf):
        raise ValueError(f"A sparse row has an index outside 0..{(width or 0) - 1}.")
    return np.ascontiguousarray(columns, dtype=np.int32), numbers


def dense_row(x: Any, width: int) -> np.ndarray:
    """A dense row as a matrix."""
    values = numbers_of(x)
    if values.shape not in ((width,), (1, width)):
        raise ValueError(f"x has the shape {values.shape}, but {width} features are expected.")
    return values.reshape(1, -1)


class OneRow:
    """The way of a single row through a linear model.

    Made for a learner as it is now, with the columns of its feature names if it has such; to be
    made anew when its parameters or its arrays change.
    """

    def __init__(self, clf: Any) -> None:
        self.model = clf._model
        self.space, self.tally, self.tail = self.model.space, self.model.tally, self.model.tail
        self.rule: Any = None  # until it is asked to learn
        self.width = self.model.width()
        self.columns = columns_of(clf)
        self.features = clf.n_features_in_
        self.labels = clf.classes_.tolist()
        targets = [clf._targets(np.array([k], np.int32)) for k in range(len(self.labels))]
        self.targets = dict(zip(self.labels, targets, strict=True))
        self.first, stop, _ = clf._shown().indices(self.model.problems())
        self.shown = stop - self.first
        # Machine code, for dense and for sparse rows.
        self.checks: dict[int, Any] = {}
        self.learners: dict[type, Any] = {}
        self.predictors: dict[type, Any] = {}
        self.layouts: dict[tuple[Any, ...], Layout] = {}
        self.incomplete: dict[tuple[Any, ...], Layout] = {}  # of dicts with unknown names

    def meet_names(self, clf: Any) -> None:
        """There are more names than before."""
        self.features, self.columns = clf.n_features_in_, columns_of(clf)
        self.incomplete.clear()

    def is_of(self, clf: Any) -> bool:
        """Is the learner still as it was?"""
        return self.model is clf._model

    def learn(self, x: Any, y: Any) -> bool:
        """Learn from the row, unless it has names without columns; has it been?"""
        if self.rule is None:
            return False
        layout = None
        if isinstance(x, dict):
            layout = self.layout(x)
            if not layout.complete:
                return False
        try:
            targets = self.targets[y]
        except (KeyError, TypeError):
            raise ValueError(f"y is {y!r}, which is not among the classes {self.labels}.") from None
        rows = self._rows(x, layout)
        if not self._usable(rows.values):
            raise ValueError(_what_is_wrong(rows))
        self.model.begin()
        kind = type(rows)
        if kind not in self.learners:
            self.learners[kind] = self.model.loop.entry(
                rows, targets, THE_ROW, 0, self.rule, self.space, self.tally, NO_NOTES
            )
        _, due = self.learners[kind](
            rows, targets, THE_ROW, 0, self.rule, self.space, self.tally, NO_NOTES
        )
        if due:
            tend(self.space, self.tally[0].rr, self.tail.offset)
        return True

    def predict(self, x: Any) -> Any:
        rows = self._rows(x, self.layout(x) if isinstance(x, dict) else None)
        if len(self.labels) == 1:
            return self.labels[0]
        kind = type(rows)
        if kind not in self.predictors:
            entry = class_number.entry(rows, self.space, self.first, self.shown)
            self.predictors[kind] = entry
        number = self.predictors[kind](rows, self.space, self.first, self.shown)
        if number < 0:
            raise ValueError(_what_is_wrong(rows))
        return self.labels[number]

    # ---------------------------------------------------------------------------- what a row is
    def _rows(self, x: Any, layout: Layout | None) -> Any:
        """A single row."""
        if layout is not None:
            values = x.values() if layout.which is None else [x[name] for name in layout.which]
            try:
                numbers = np.frombuffer(layout.pack(*values))
            except struct.error:
                raise ValueError(_not_a_number(x)) from None
            parts = numbers, layout.columns, layout.starts, self.width, self.tail
            return tuple.__new__(SparseRows, parts)  # its own constructor takes twice as long
        if isinstance(x, tuple):
            return SparseRows(*self._from_pair(x), self.width, self.tail)
        values = dense_row(x, self.features)
        if self.width > self.features:
            values = np.pad(values, ((0, 0), (0, self.width - self.features)))
        return DenseRows(examples.read_only(values), self.tail)

    def _usable(self, values: np.ndarray) -> bool:
        if values.ndim not in self.checks:
            self.checks[values.ndim] = are_usable.entry(values)
        return self.checks[values.ndim](values)

    def layout(self, x: dict[Any, Any]) -> Layout:
        names = tuple(x)
        layout = self.layouts.get(names) or self.incomplete.get(names)
        if layout is None:
            if self.columns is None:
                raise ValueError("x is a dict, but the learner knows no names of features.")
            layout = new_layout(names, self.columns)
            layouts = self.layouts if layout.complete else self.incomplete
            if len(layouts) >= MOST_LAYOUTS:
                layouts.clear()
            layouts[names] = layout
        return layout

    def _from_pair(self, x: tuple[Any, Any]) -> Parts:
        columns, numbers = checked_pair(x, self.features)
        starts = np.array([0, columns.size], dtype=np.int32)
        numbers = examples.read_only(numbers)
        return numbers, examples.read_only(columns), examples.read_only(starts)


def _not_a_number(x: dict[Any, Any]) -> str:
    for name, value in x.items():
        try:
            struct.pack("d", value)
        except (struct.error, OverflowError):
            return f"The feature {name!r} is {value!r}, which is not a number."
    return "x has a value that is not a number."


def _what_is_wrong(row: Any) -> str:
    values = np.ravel(row.values)
    for is_bad, what in ((np.isnan, "NaN"), (np.isinf, "infinity")):
        if (bad := np.flatnonzero(is_bad(values))).size:
            place = bad[0] if isinstance(row, DenseRows) else row.columns[bad[0]]
            return f"x contains {what} (column {place})."
    return "x is too large or too small to compute with: rescale the features."


# -------------------------------------------------------------- where nothing is prepared yet
def prepared(clf: Any) -> OneRow | None:
    """The short way for ``clf``, if there is one: it must be fitted, linear, and not averaged."""
    one = clf.__dict__.get("_one_row")
    if one is not None and one.is_of(clf):
        return one
    if not clf._is_fitted() or not isinstance(clf._model, LinearModel) or clf._model.average:
        return None
    if clf._model.private_coordinates():  # of rows of a fit
        return None
    clf._one_row = OneRow(clf)
    return clf._one_row


def learn_with_care(clf: Any, x: Any, y: Any, classes: Any, grow: bool) -> None:
    """Learn from a row that may be the first, or have new names or a new label."""
    new = _meet_names(clf, x) if isinstance(x, dict) else []
    try:
        _learn_with_names(clf, x, y, classes, grow)
    except Exception:
        for name in new:  # the guard puts back all the rest
            del clf.columns_[name]
        raise


def _learn_with_names(clf: Any, x: Any, y: Any, classes: Any, grow: bool) -> None:
    one = prepared(clf)
    if one is None or (grow and y not in one.targets):
        row = as_matrix(clf, x, first=not clf._is_fitted())
        names = clf.__dict__.pop("feature_names_in_", None)  # the row has none
        clf.partial_fit(row, np.array([y]), classes=classes, grow=grow)
        if names is not None:
            clf.feature_names_in_ = names
        return
    check_structure(clf)
    clf._margins = np.full(clf._model.verdicts(), np.nan)
    one.rule = clf._rule()
    one.learn(x, y)


def _meet_names(clf: Any, x: dict[Any, Any]) -> list[Any]:
    """Give columns to names that have none, and weights to the columns; these names."""
    columns = columns_of(clf)
    if columns is None:
        if clf._is_fitted():
            raise ValueError("x is a dict, but the learner was trained on rows without names.")
        columns = {}
    new = [name for name in x if name not in columns]
    if not new:
        return new
    columns |= {name: len(columns) + k for k, name in enumerate(new)}
    clf.columns_ = columns
    if not clf._is_fitted():
        return new
    clf.n_features_in_ = len(clf.columns_)
    if "feature_names_in_" in clf.__dict__:
        clf.feature_names_in_ = np.array(list(columns), dtype=object)
    if isinstance(clf._model, LinearModel):
        # Room for more: names that come one by one must not cost all weights each time.
        width = clf._model.width()
        if width < clf.n_features_in_:
            grow_model(clf, max(clf.n_features_in_, 2 * width), clf.classes_)
        if (one := clf.__dict__.get("_one_row")) is not None:
            one.meet_names(clf)
    else:
        grow_model(clf, clf.n_features_in_, clf.classes_)
    return new


def columns_of(clf: Any) -> dict[Any, int] | None:
    """The columns of feature names, from dicts or from a table; None if there are no names."""
    names = getattr(clf, "feature_names_in_", None)
    if "columns_" not in clf.__dict__ and names is not None:
        return {name: column for column, name in enumerate(names)}
    return clf.__dict__.get("columns_")


def as_matrix(clf: Any, x: Any, first: bool) -> Any:
    """A single row as `partial_fit` and `predict` take it."""
    if isinstance(x, dict):
        columns = columns_of(clf)
        if columns is None:
            raise ValueError("x is a dict, but the learner knows no names of features.")
        layout = new_layout(tuple(x), columns)
        known = [x[name] for name in (x if layout.which is None else layout.which)]
        try:
            numbers = np.frombuffer(layout.pack(*known))
        except (struct.error, OverflowError):
            raise ValueError(_not_a_number(x)) from None
        return sparse.csr_matrix((numbers, layout.columns, layout.starts), (1, len(columns)))
    if isinstance(x, tuple):
        indices, values = checked_pair(x, None if first else clf.n_features_in_)
        width = int(indices.max(initial=-1)) + 1 if first else clf.n_features_in_
        return sparse.csr_matrix((values, indices, [0, indices.size]), (1, width))
    values = numbers_of(x)
    return dense_row(values, values.size if first else clf.n_features_in_)
