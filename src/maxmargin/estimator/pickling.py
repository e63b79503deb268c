"""The state of a learner as pickle, joblib and skops pass it on: plain arrays, and our own parts.

skops asks its users to trust every class that it does not know itself. Record arrays and SciPy's
matrices are such, so they travel as plain arrays, and become what they were on arrival; data types
travel as the types of their numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.training.types import Tree


class Sparse(NamedTuple):
    """The parts of a CSR matrix."""

    data: np.ndarray
    indices: np.ndarray
    indptr: np.ndarray
    shape: tuple[int, int]
    is_matrix: bool


def packed(state: Tree) -> Tree:
    """The same state, made of what travels well."""
    return _mapped(state, _packed_leaf, {})


def unpacked(state: Tree) -> Tree:
    """The state that `packed` was given."""
    return _mapped(state, _unpacked_leaf, {})


def _packed_leaf(value: Any) -> Any:
    if isinstance(value, np.recarray):
        return value.view(np.dtype((np.void, value.dtype)), np.ndarray)
    if sparse.issparse(value) and value.format == "csr":
        matrix = sparse.isspmatrix(value)
        return Sparse(value.data, value.indices, value.indptr, value.shape, matrix)
    if isinstance(value, np.dtype) and value.names is None:
        return value.type  # which is as good, for data types of kernel values
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
    if type(value) in (list, tuple):
        return type(value)(_mapped(each, leaf, done) for each in value)
    if not type(value).__module__.startswith("maxmargin."):
        return value
    if isinstance(value, tuple):
        return type(value)(*(_mapped(each, leaf, done) for each in value))
    new = object.__new__(type(value))
    vars(new).update(_mapped(vars(value), leaf, done))
    return new
