"""What is said about input that is refused, and about what cannot go on."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.utils import assert_all_finite

from maxmargin.core.loop import LARGEST_XX, SMALLEST_XX
from maxmargin.streams import Option, OptionError
from maxmargin.training.feature_columns import Features
from maxmargin.training.types import Matrix

MOST_LISTED = 10
RAW_COLUMNS = (
    "Raw columns are prepared by a maxmargin.streams.Recipe, the first step of a pipeline, or in "
    "fit_stream(streams.open(rows, label=..., recipe=Recipe()))."
)
# What NumPy says of text.
NO_NUMBER = "could not convert string to float"
# So many classes need no explanation; more do if they are fractions, or if hardly any two rows have
# the same. Of a stream whose rows nobody has counted, that is as of so many.
FEW_CLASSES, FEW_FRACTIONS, UNCOUNTED_ROWS = 100, 1000, 20_000


def hint_at_recipes(error: ValueError) -> None:
    """Raise an error that says more, if this one is about text in place of numbers."""
    if str(error).startswith(NO_NUMBER):
        raise ValueError(f"{error}. {RAW_COLUMNS}") from error


def unusable_row(X: Matrix, i: int, features: Features | None = None) -> str:
    """Why nothing can be learned from row ``i``; see `core.row_scans.first_unusable`."""
    if sparse.issparse(X):
        mine = slice(int(X.indptr[i]), int(X.indptr[i + 1]))
        values, columns = X.data[mine], X.indices[mine]
    else:
        values, columns = X[i], np.arange(X.shape[1])
    for is_bad, name in ((np.isnan, "NaN"), (np.isinf, "infinity")):
        if (where := np.flatnonzero(is_bad(values))).size:
            column = columns[where[0]]
            names = None if features is None else list(features.named_columns() or ())
            called = repr(names[column]) if names else column
            return f"Input X contains {name} (row {i}, column {called})."
    size = np.abs(values).max()
    extreme = "large" if size > 1.0 else "small"
    return (
        f"Input X contains a row that is too {extreme} to compute with (row {i}, largest value "
        f"{size:.3g}): norms must be 0 or between {SMALLEST_XX**0.5:.0e} and "
        f"{LARGEST_XX**0.5:.0e}. Rescale the features."
    )


def check_finite(X: Matrix, features: Features) -> None:
    """Raise if a value is none, and say where."""
    is_sparse = sparse.issparse(X)
    values = X.data if is_sparse else X
    try:
        assert_all_finite(values, input_name="X")
    except ValueError:
        place = int(np.argmin(np.isfinite(values)))
        row = place // X.shape[1]
        if is_sparse:
            row = int(np.searchsorted(X.indptr, place, side="right")) - 1
        raise ValueError(unusable_row(X, row, features)) from None


def unknown_label(classes: np.ndarray) -> str:
    return f"y contains a label that is not among the classes {listed(classes)}"


def listed(classes: np.ndarray) -> str:
    """The classes, or the first of very many."""
    shown = ", ".join(map(repr, classes[:MOST_LISTED].tolist()))
    more = classes.size - MOST_LISTED
    return f"[{shown}]" if more <= 0 else f"[{shown}, ... and {more:,} more]"


def likely_classes(classes: np.ndarray, rows: int | None = None) -> np.ndarray:
    """The classes, unless they are numbers, it seems; each would get weights for all columns."""
    is_fraction = classes.dtype.kind == "f" and bool((classes != np.round(classes)).any())
    most = max(FEW_CLASSES, (UNCOUNTED_ROWS if rows is None else rows) / 2)
    if classes.size > (FEW_FRACTIONS if is_fraction else most):
        among = "" if rows is None else f" among {rows:,} rows"
        raise OptionError(
            f"y has {classes.size:,} different labels{among}, {listed(classes)}: is it a number, "
            "or the name of a row, rather than a class? Streams take any labels that are named by ",
            Option("classes", ""),
            ".",
        )
    return classes


def only_one_class(classes: np.ndarray) -> str:
    (only,) = classes.tolist()
    return f"The data contain only one class, {only!r}; a classifier needs at least two."


def diverged(name: str) -> str:
    return (
        f"{name} diverged: its weights are not finite any more (a rate, or a p, may be too large "
        "for the data, or intercept_scaling or soft_margin too far from the size of the rows)."
    )


def inconsistent(rows: int, labels: int) -> str:
    """In scikit-learn's words."""
    return f"Found input variables with inconsistent numbers of samples: [{rows}, {labels}]"
