"""The columns that a learner knows, by their numbers and by their names."""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

import numpy as np
from scipy import sparse

from maxmargin.training.types import Columns, Matrix


class Features(NamedTuple):
    """The columns that a learner knows.

    Attributes
    ----------
    count : int
    names : array of str or None
        As a table gave them.
    columns : dict or None
        As dicts gave them: the first ``count`` are the columns of names. It is shared with the
        features that come after these and only ever gets longer, so that a name more costs nothing.
    """

    count: int  # type: ignore[assignment]
    names: np.ndarray | None = None
    columns: Columns | None = None

    def named_columns(self) -> Columns | None:
        """The columns of names, from dicts or from a table; None if there are no names."""
        if self.columns is not None:
            return dict(islice(self.columns.items(), self.count))
        return None if self.names is None else {name: k for k, name in enumerate(self.names)}


def without_names(X: Matrix, features: Features) -> Matrix:
    """``X``, or the values of a table whose columns are those that the learner knows by dicts."""
    if features.columns is None or features.names is not None or not hasattr(X, "columns"):
        return X
    columns = list(features.named_columns() or ())
    if list(X.columns) != columns:
        raise ValueError(
            f"The columns of X must be {columns}, in this order; got {list(X.columns)}."
        )
    return X.to_numpy()


def is_plain(X: Matrix, features: Features) -> bool:
    """Is there nothing to convert?"""
    return (
        type(X) in (np.ndarray, sparse.csr_matrix, sparse.csr_array)
        and X.ndim == 2
        and X.shape[0] > 0
        and X.shape[1] == features.count
        and X.dtype in (np.float64, np.float32)
        and features.names is None
    )
