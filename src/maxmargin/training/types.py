"""Names for what training passes on, whose types are those of NumPy, SciPy and Numba."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol

import numpy as np

from maxmargin.core.rows import DenseRows, SparseRows

# A float array, or a CSR matrix, of SciPy or, on a GPU, of CuPy: both without types.
Matrix = Any
# Rows as a model takes them: arrays for linear models, points for kernels, lists of both for votes.
Rows = Any
# A NamedTuple of numbers with methods, see `core.rule`.
Rule = tuple[Any, ...]
# A single row as linear models take it.
SingleRow = DenseRows | SparseRows
# A row with names, and columns of names.
DictRow = dict[Hashable, Any]
Columns = dict[Hashable, int]
# Moves a progress bar on.
Advance = Callable[..., None]
# What stands in a file, by name.
Tree = dict[str, Any]


class Targets(Protocol):
    """Labels as compiled loops take them, see `core.targets`."""

    @property
    def labels(self) -> np.ndarray: ...
