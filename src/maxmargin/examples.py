"""From users' arrays to rows and class numbers: checked, never copied, never made dense."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from maxmargin.core.loop import LARGEST_XX, SMALLEST_XX, first_unusable
from maxmargin.core.rows import DenseRows, SparseRows, Tail
from maxmargin.core.targets import Binary, OneVsRest
from maxmargin.spaces.pnorm import largest_square, new_pnorm

Rows = DenseRows | SparseRows
Targets = Binary | OneVsRest

NO_TAIL = Tail(0.0, 0.0)


def check_X(estimator: Any, X: Any, *, reset: bool) -> Any:
    """``X`` as a float array or CSR matrix of the right width; the user's own memory if possible.

    Values are checked later, by `as_rows`.
    """
    if not reset and _is_plain(X, estimator.n_features_in_, vars(estimator)):
        return X  # what `validate_data` would say, without its overhead for single rows
    if not reset:
        X = without_names(estimator, X)
    X = validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        ensure_all_finite=False,
    )
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()  # repeated entries must be added up before they are squared
        X.sum_duplicates()
    return X


def without_names(estimator: Any, X: Any) -> Any:
    """``X``, or the values of a table whose columns are those that the learner knows by dicts."""
    columns = vars(estimator).get("columns_")
    if columns is None or "feature_names_in_" in vars(estimator) or not hasattr(X, "columns"):
        return X
    if list(X.columns) != list(columns):
        raise ValueError(
            f"The columns of X must be {list(columns)}, in this order; got {list(X.columns)}."
        )
    return X.to_numpy()


def _is_plain(X: Any, width: int, fitted: dict[str, Any]) -> bool:
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.shape[0] > 0
        and X.shape[1] == width
        and X.dtype in (np.float64, np.float32)
        and "feature_names_in_" not in fitted
    )


def check_y(y: Any, rows: int) -> np.ndarray:
    """``y`` as a one-dimensional array of ``rows`` class labels."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if not (type(y) is np.ndarray and y.ndim == 1):
        y = column_or_1d(y, warn=True)
    if y.shape[0] != rows:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: [{rows}, {y.shape[0]}]"
        )
    return y


def as_rows(X: Any, tail: Tail) -> Rows:
    """Rows over the memory of ``X``, read-only, each with the coordinates of ``tail``."""
    if sparse.issparse(X):
        values, columns, starts = map(read_only, (X.data, X.indices, X.indptr))
        return SparseRows(values, columns, starts, X.shape[1], tail)
    return DenseRows(read_only(X), tail)


def read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def check_values(X: Any) -> float:
    """Raise if a row cannot be learnt from; otherwise the largest norm of a row."""
    bad, largest = first_unusable(as_rows(X, NO_TAIL))
    if bad >= 0:
        raise ValueError(_what_is_wrong(X, bad))
    return float(np.sqrt(largest))


def check_columns(X: Any) -> None:
    """Raise if a sparse matrix points outside its columns, which SciPy would follow."""
    if not sparse.issparse(X) or X.indices.size == 0:
        return
    if not 0 <= X.indices.min() <= X.indices.max() < X.shape[1]:
        raise ValueError(
            f"Input X is not a valid CSR matrix: it has a column outside 0..{X.shape[1] - 1}."
        )


def largest_norm(X: Any, p: float) -> float:
    """The largest p-norm of a row."""
    if p == 2.0:
        return check_values(X)
    return float(np.sqrt(largest_square(as_rows(X, NO_TAIL), new_pnorm(p, 0, X.shape[1]))))


def _what_is_wrong(X: Any, i: int) -> str:
    if sparse.issparse(X):
        start, stop = int(X.indptr[i]), int(X.indptr[i + 1])
        values, columns = X.data[start:stop], X.indices[start:stop]
        if not 0 <= start <= stop <= X.data.size or columns.size != stop - start:
            return f"Input X is not a valid CSR matrix: row {i} lies outside its arrays."
        if columns.size and not 0 <= columns.min() <= columns.max() < X.shape[1]:
            return (
                f"Input X is not a valid CSR matrix: row {i} has a column outside "
                f"0..{X.shape[1] - 1}."
            )
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


def check_labels(y: np.ndarray) -> None:
    """Raise if ``y`` are no class labels."""
    if y.dtype.kind == "f":
        assert_all_finite(y, input_name="y")
    check_classification_targets(y)


def classes_of(y: np.ndarray) -> np.ndarray:
    """The labels that occur, sorted; at least two."""
    classes = np.unique(y)
    if classes.size < 2:
        raise ValueError(
            f"The data contain only one class, {classes.tolist()[0]!r}; a classifier needs at "
            "least two."
        )
    return classes


def known_classes(classes: Any, before: np.ndarray | None) -> np.ndarray:
    """The labels of a stream, given those named in this call and those known before."""
    if before is not None:
        if classes is not None and not np.array_equal(before, np.unique(classes)):
            raise ValueError(
                f"classes={np.unique(classes).tolist()} is not the same as on the last call to "
                f"partial_fit, {before.tolist()}."
            )
        return before
    if classes is None:
        raise ValueError("classes must be passed on the first call to partial_fit.")
    known = np.unique(classes)
    if known.size < 2:
        raise ValueError(f"classes must contain at least two labels, got {known.tolist()}.")
    return known


def more_classes(classes: Any, before: np.ndarray | None, y: np.ndarray) -> np.ndarray:
    """All labels: those known before, those named in this call, and those that occur in it."""
    known = np.unique(y)
    for others in (classes, before):
        if others is not None:
            if (np.asarray(others).dtype.kind in "US") != (known.dtype.kind in "US"):
                raise ValueError(
                    f"Labels must be all of one kind, got {known.tolist()} and "
                    f"{np.asarray(others).tolist()}."
                )
            known = np.union1d(known, others)
    return known


def class_numbers(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The position of each label in ``classes``, which are sorted; an unknown label raises."""
    try:
        numbers = np.searchsorted(classes, y)
    except TypeError:
        raise ValueError(
            f"y contains a label that is not among the classes {classes.tolist()}."
        ) from None
    known = classes[np.minimum(numbers, classes.size - 1)] == y
    if not np.all(known):
        i = int(np.flatnonzero(~np.asarray(known))[0])
        raise ValueError(
            f"y contains a label that is not among the classes {classes.tolist()}: "
            f"{y[i : i + 1].tolist()[0]!r} (row {i})."
        )
    return numbers.astype(np.int32)


def as_targets(numbers: np.ndarray, classes: int, spare: bool = False) -> Targets:
    """One problem for two classes, one-vs-rest for more.

    With ``spare`` always one-vs-rest, and a last problem of a class that has no rows.
    """
    numbers = read_only(numbers)
    if spare:
        return OneVsRest(numbers, classes, 1)
    return Binary(numbers) if classes == 2 else OneVsRest(numbers, classes)
