"""Conversion of single rows (dicts, pairs (indices, values), arrays) and of lists of dicts."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import islice
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.core.rows import NO_TAIL, DenseRows, SparseRows, Tail
from maxmargin.models.linear_model import read_only
from maxmargin.streams.iterators import entries, refuse_texts
from maxmargin.training.state import Columns, DictRow, Features, Matrix, State, grown, online_model

MOST_NAMED = 5  # columns in a warning
# New names are normal in the first rows, and where there are so many times more than in a row.
FEW_ROWS, MANY_NAMES = 10, 10
# Size of the caches of layouts.
MOST_LAYOUTS = 1000
MOST_COLUMNS = 2**31 - 1  # the largest index of 32 bits

# A row as `learn_one` takes it, and a sparse one.
Row = Any
Pair = tuple[Any, Any]


class Layout:
    """Reads dicts with a fixed sequence of names into one sparse row.

    Attributes
    ----------
    row, values : the row, with the values of the dict read last
    fill : writes values into the row
    which : the names whose values to take; None for all, in the order of the dict
    complete : True if every name has a column
    names : of dicts whose values can be passed to ``fill`` as they are; None if there are none
    """

    __slots__ = "complete", "fill", "names", "row", "values", "which"

    def __init__(
        self,
        names: tuple[Hashable, ...],
        row: SparseRows,
        fill: Callable[..., None],
        which: list[Hashable] | None,
        complete: bool,
    ) -> None:
        self.row, self.values, self.fill = row, row.values, fill
        self.which, self.complete = which, complete
        self.names = list(names) if complete and which is None else None

    def read(self, x: DictRow) -> SparseRows:
        """The row of a dict with these names, valid until the next one is read."""
        if self.which is None:
            self.fill(*x.values())
        else:
            self.fill(*[x[name] for name in self.which])
        return self.row


def new_layout(
    names: tuple[Hashable, ...], columns: Columns, count: int, width: int, tail: Tail
) -> Layout:
    """A layout for these names; only the first ``count`` of ``columns`` are valid."""
    found = [columns.get(name, count) for name in names]
    numbers = sorted(found)
    size = bisect_left(numbers, count)  # number of names that have a column
    complete, which = size == len(names), None
    if not complete or numbers != found:
        name_of = dict(zip(found, names, strict=True))
        which = [name_of[number] for number in numbers[:size]]
    values, in_order = np.empty(size), np.array(numbers[:size], dtype=np.int32)
    # Twice as fast as the constructor of the named tuple.
    row = tuple.__new__(
        SparseRows, (read_only(values), read_only(in_order), starts_of(size), width, tail)
    )
    fill = partial(packing(size), values.data, 0)
    return Layout(names, row, fill, which, complete)


@lru_cache(MOST_LAYOUTS)
def packing(count: int) -> Callable[..., None]:
    """A function that writes ``count`` floats into a buffer."""
    return struct.Struct(f"{count}d").pack_into


@lru_cache(MOST_LAYOUTS)
def starts_of(count: int) -> np.ndarray:
    """The row pointers (``indptr``) of a single sparse row with ``count`` entries."""
    return read_only(np.array([0, count], dtype=np.int32))


def numbers_of(x: Row) -> np.ndarray:
    """``x`` as a contiguous float array, which the machine code expects."""
    try:
        return np.ascontiguousarray(x, dtype=np.float64)
    except (TypeError, OverflowError) as problem:
        raise ValueError(f"the row has a value that is not a number: {problem}.") from None


def checked_pair(x: Pair, width: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Validated columns, sorted, and values of a sparse row; ``width`` None means any."""
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
    if columns.size and not 0 <= columns[0] <= columns[-1] < (width or MOST_COLUMNS):
        raise ValueError(f"A sparse row has an index outside 0..{(width or MOST_COLUMNS) - 1}.")
    return np.ascontiguousarray(columns, dtype=np.int32), numbers


def dense_row(x: Row, width: int) -> np.ndarray:
    """A dense row as a matrix."""
    values = numbers_of(x)
    if values.shape not in ((width,), (1, width)):
        raise ValueError(
            f"the row has the shape {values.shape}, but {width} features are expected."
        )
    return values.reshape(1, -1)


def encoded(x: DictRow, columns: Columns | None, count: int, where: str = "the row") -> DictRow:
    """The row with text values one-hot encoded; see `streams.iterators`.

    The first ``count`` of ``columns`` have been learned, and take no text if they are numbers.
    """
    refuse_texts(x, columns or {}, count, where)
    return dict(entries(x, where))


def unusable_row_message(row: DenseRows | SparseRows, x: Row) -> str:
    if isinstance(x, dict):
        dict(entries(x, "the row"))  # raises if it can name the column itself
    values = np.ravel(row.values)
    for is_bad, what in ((np.isnan, "NaN"), (np.isinf, "infinity")):
        if (bad := np.flatnonzero(is_bad(values))).size:
            place = bad[0] if isinstance(row, DenseRows) else row.columns[bad[0]]
            return f"the row contains {what} (column {place})."
    return "the row is too large or too small to compute with: rescale its values."


def as_matrix(x: Row, features: Features | None) -> Matrix:
    """A single row as a matrix for `partial_fit` and `predict`."""
    count = None if features is None else features.count
    if isinstance(x, dict):
        columns = None if features is None else features.named_columns()
        if columns is None or count is None:
            raise ValueError(
                "the row is a dict, but the learner was trained on rows without names."
            )
        x = encoded(x, columns, count)
        row = new_layout(tuple(x), columns, count, count, NO_TAIL).read(x)
        return sparse.csr_matrix((row.values, row.columns, row.starts), (1, count))
    if isinstance(x, tuple):
        indices, values = checked_pair(x, count)
        width = int(indices.max(initial=-1)) + 1 if count is None else count
        return sparse.csr_matrix((values, indices, [0, indices.size]), (1, width))
    values = numbers_of(x)
    return dense_row(values, values.size if count is None else count)


# ------------------------------------------------------------------------------ columns of names
def with_columns(x: DictRow, state: State | None) -> tuple[State | None, Features]:
    """A new state with columns and weights for all names of a row."""
    features = Features(0) if state is None else named_features(state)
    columns = features.shared_columns()
    if columns is None:
        if state is not None:
            raise ValueError(
                "the row is a dict, but the learner was trained on rows without names."
            )
        columns = {}
    count = features.count
    new = [name for name in x if columns.get(name, count) >= count]
    if not new and state is not None:
        return state, features
    features = with_names(features, new)
    if state is None:
        return None, features
    schema = state.schema
    if schema is not None and schema.get("columns") is not None:
        schema = {**schema, "columns": list(features.named_columns() or ())}
    state = state._replace(features=features, schema=schema)
    width, needed = state.model.width(), features.count
    if online_model(state).learns_rows_in_place:
        # Doubling the width amortises the copy of all weights when names come one by one.
        needed = width if needed <= width else max(needed, 2 * width)
    return grown(state, needed, state.classes), features


def named_features(state: State) -> Features:
    """The columns of a learner, with the names from a stream of dicts if it learned from one."""
    features, schema = state.features, state.schema or {}
    names = schema.get("columns") if schema.get("format") == "iterator" else None
    if features.columns is not None or names is None or len(names) != features.count:
        return features
    return features._replace(columns={name: k for k, name in enumerate(names)})


def warning_of_names(x: Row, state: State, *, learning: bool = False) -> str:
    """A warning about a row without any known column, or an empty string.

    A text that has not occurred is normal, even if there is nothing else in the row. So are new
    names in rows to learn, unless rows have had few different names so far.
    """
    if not isinstance(x, dict) or not x:
        return ""
    if learning:
        has_many = state.recipe is None and state.features.count >= MANY_NAMES * len(x)
        if has_many or state.model.trials() < FEW_ROWS:
            return ""
    if state.recipe is not None:
        known, count = dict.fromkeys(state.recipe.feature_names_in_, 0), 1
    else:
        features = named_features(state)
        known, count = features.shared_columns() or {}, features.count
        if any(isinstance(value, str) for value in x.values()):
            return ""
    if not known or any(known.get(name, count) < count for name in x):
        return ""
    unknown, learned = (", ".join(map(repr, islice(each, MOST_NAMED))) for each in (x, known))
    return f"The row has none of the columns that were learned ({learned}); it has {unknown}."


def warning_of_recipe(names: Iterable[Hashable], state: State) -> str:
    """A warning about names that cannot become columns (``grow=True``), or an empty string."""
    if state.recipe is None:
        return ""
    known = set(state.recipe.feature_names_in_)
    new = ", ".join(map(repr, islice((name for name in names if name not in known), MOST_NAMED)))
    return new and (
        f"grow=True adds no columns to a recipe, which keeps those of the first rows: {new} will "
        "be ignored."
    )


def with_names(features: Features, new: list[Hashable]) -> Features:
    """The features with columns for these new names."""
    columns = features.shared_columns()
    columns = {} if columns is None else columns
    while len(columns) > features.count:
        columns.popitem()  # left by a call that failed
    for name in new:
        columns[name] = len(columns)
    names = None if features.names is None else np.array(list(columns), dtype=object)
    return Features(len(columns), names, columns)


def are_dicts(X: object) -> bool:
    return isinstance(X, list) and len(X) > 0 and all(isinstance(row, Mapping) for row in X)


def matrix_of_dicts(
    rows: Sequence[DictRow], state: State | None
) -> tuple[State | None, Features, Matrix]:
    """`with_columns` for several dicts, and the dicts as a matrix."""
    known = None if state is None else named_features(state)
    columns, count = (None, 0) if known is None else (known.shared_columns(), known.count)
    found = [encoded(row, columns, count, f"row {k}") for k, row in enumerate(rows)]
    names: dict[Any, Any] = {}
    for row in found:
        names |= row
    if not names and state is None:
        raise ValueError("The first rows have no entries at all.")
    state, features = with_columns(names, state)
    columns = features.shared_columns()
    assert columns is not None
    numbers, values, starts = list[int](), list[float](), [0]
    for row in found:
        numbers += [columns[name] for name in row]
        values += row.values()
        starts.append(len(values))
    parts = np.array(values, float), np.array(numbers, np.int32), np.array(starts, np.int32)
    X = sparse.csr_matrix(parts, (len(found), features.count))
    X.sort_indices()
    return state, features, X
