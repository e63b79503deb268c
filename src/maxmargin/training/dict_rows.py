"""Rows that are dicts: their names are columns, and get some when they first appear."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.models.linear_model import LinearModel
from maxmargin.streams.iterators import entries
from maxmargin.training.feature_columns import Features
from maxmargin.training.state import State, grown
from maxmargin.training.types import DictRow, Matrix


def met(x: DictRow, state: State | None) -> tuple[State | None, Features]:
    """Give columns to names that have none, and weights to the columns, beside what there was."""
    features = Features(0) if state is None else named_features(state)
    columns = features.columns
    if columns is None:
        columns = features.named_columns()
    if columns is None:
        if state is not None:
            raise ValueError("x is a dict, but the learner was trained on rows without names.")
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
    if isinstance(state.model, LinearModel):
        # Room for more: names that come one by one must not cost all weights each time.
        needed = width if needed <= width else max(needed, 2 * width)
    return grown(state, needed, state.classes), features


def named_features(state: State) -> Features:
    """The columns of a learner, by the names that a stream of dicts gave them, if one did."""
    features, schema = state.features, state.schema or {}
    names = schema.get("columns") if schema.get("format") == "iterator" else None
    if features.columns is not None or names is None or len(names) != features.count:
        return features
    return features._replace(columns={name: k for k, name in enumerate(names)})


def with_names(features: Features, new: list[Hashable]) -> Features:
    """With columns for these names, which have none."""
    columns = features.columns
    if columns is None:
        columns = features.named_columns() or {}
    while len(columns) > features.count:
        columns.popitem()  # of a call that was refused
    for name in new:
        columns[name] = len(columns)
    names = None if features.names is None else np.array(list(columns), dtype=object)
    return Features(len(columns), names, columns)


def are_dicts(X: object) -> bool:
    return isinstance(X, list) and len(X) > 0 and all(isinstance(row, Mapping) for row in X)


def met_all(rows: Sequence[DictRow], state: State | None) -> tuple[State | None, Features, Matrix]:
    """`met` for some dicts, and these as a matrix."""
    found = [dict(entries(row, f"row {k}")) for k, row in enumerate(rows)]
    names: dict[Any, Any] = {}
    for row in found:
        names |= row
    if not names and state is None:
        raise ValueError("The first rows have no entries at all.")
    state, features = met(names, state)
    columns = features.columns if features.columns is not None else features.named_columns()
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
