"""What is said about input that is refused, and about what cannot go on."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.core.loop import LARGEST_XX, SMALLEST_XX

MOST_LISTED = 10


def unusable_row(X: Any, i: int) -> str:
    """Why nothing can be learnt from row ``i``; see `core.looks.first_unusable`."""
    if sparse.issparse(X):
        mine = slice(int(X.indptr[i]), int(X.indptr[i + 1]))
        values, columns = X.data[mine], X.indices[mine]
    else:
        values, columns = X[i], np.arange(X.shape[1])
    for is_bad, name in ((np.isnan, "NaN"), (np.isinf, "infinity")):
        if (where := np.flatnonzero(is_bad(values))).size:
            return f"Input X contains {name} (row {i}, column {columns[where[0]]})."
    size = np.abs(values).max()
    extreme = "large" if size > 1.0 else "small"
    return (
        f"Input X contains a row that is too {extreme} to compute with (row {i}, largest value "
        f"{size:.3g}): norms must be 0 or between {SMALLEST_XX**0.5:.0e} and "
        f"{LARGEST_XX**0.5:.0e}. Rescale the features."
    )


def unknown_label(classes: np.ndarray) -> str:
    return f"y contains a label that is not among the classes {listed(classes)}"


def listed(classes: np.ndarray) -> str:
    """The classes, or the first of very many."""
    shown = ", ".join(map(repr, classes[:MOST_LISTED].tolist()))
    more = classes.size - MOST_LISTED
    return f"[{shown}]" if more <= 0 else f"[{shown}, ... and {more:,} more]"


def diverged(name: str) -> str:
    return (
        f"{name} diverged: its weights are not finite any more (a rate, or a p, may be too large "
        "for the data)."
    )


def inconsistent(rows: int, labels: int) -> str:
    """In scikit-learn's words."""
    return f"Found input variables with inconsistent numbers of samples: [{rows}, {labels}]"


def only_one(classes: np.ndarray) -> str:
    found = repr(classes.tolist()[0])
    return f"The data contain only one class, {found}; a classifier needs at least two."
