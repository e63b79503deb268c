"""Types of what training passes on: aliases, and the columns of a learner."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np

from maxmargin.core.rows import DenseRows, SparseRows

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
