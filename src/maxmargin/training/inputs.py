"""Validation of arrays: rows and class codes without copies and without densifying."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d, validate_data

from maxmargin._extras import is_on_device
from maxmargin.core.loop import LARGEST_XX, SMALLEST_XX
from maxmargin.core.row_scans import are_canonical, first_malformed, first_unusable
from maxmargin.core.rows import NO_TAIL
from maxmargin.core.targets import Binary, Multilabel, OneVsRest, weighted
from maxmargin.kernels.cuda import cupy_library
from maxmargin.models.linear_model import as_rows, read_only
from maxmargin.training.protocol import Options
from maxmargin.training.state import Features, Matrix, State, Targets

if TYPE_CHECKING:
    from maxmargin.training.protocol import Trainer

# Column types of NumPy, pandas and polars that would be converted to counts of nanoseconds.
TIMES = ("datetime", "timedelta", "Date", "Duration", "Time")
# The start of NumPy's message about text.
NO_NUMBER = "could not convert string to float"
RAW_COLUMNS = (
    "Raw columns are prepared by a maxmargin.streams.Recipe, the first step of a pipeline, or in "
    "fit_stream(streams.open(rows, label=..., recipe=Recipe()))."
)
MOST_LISTED = 10
# Up to FEW_CLASSES labels are accepted; more are refused if they look like a regression target:
# more than FEW_FRACTIONS fractions, or more classes than half of the rows. The rows of a stream
# count as UNCOUNTED_ROWS.
FEW_CLASSES, FEW_FRACTIONS, UNCOUNTED_ROWS = 100, 1000, 20_000


LENGTHS = "its arrays do not have the lengths that its shape asks for"


# ------------------------------------------------------------------------------------------ columns
class InputNames(ClassifierMixin, BaseEstimator):
    """A stand-in for an estimator on which scikit-learn's validation sets attributes."""

    def __init__(self, features: Features | None) -> None:
        if features is not None:
            self.n_features_in_ = features.count
            if features.names is not None:
                self.feature_names_in_ = features.names

    def features(self) -> Features:
        return Features(self.n_features_in_, vars(self).get("feature_names_in_"))


@lru_cache
def _names_for(learner: str) -> type[InputNames]:
    """The class with the name of the learner, which is in scikit-learn's messages."""
    return type(learner, (InputNames,), {})


def check_X(
    options: Options, X: ArrayLike, features: Features | None = None
) -> tuple[Matrix, Features]:
    """``X`` as a float array or CSR matrix, without a copy if possible, and its columns.

    The columns must be ``features``, if given. Values are checked later, by `check_values`.
    """
    if type(X) is not np.ndarray and is_on_device(X):
        return check_device_X(options, X, features)
    X, canonical = sound(X) if sparse.issparse(X) else (X, True)
    if features is not None and is_plain(X, features) and canonical:
        return X, features  # as `validate_data` would return them, without its overhead
    rows, features = validated(options, X, features)
    return rows if canonical else without_duplicates(rows), features


def is_plain(X: Matrix, features: Features) -> bool:
    """True if ``X`` needs no conversion."""
    return (
        type(X) in (np.ndarray, sparse.csr_matrix, sparse.csr_array)
        and X.ndim == 2
        and X.shape[0] > 0
        and X.shape[1] == features.count
        and X.dtype in (np.float64, np.float32)
        and features.names is None
    )


def validated(options: Options, X: Matrix, features: Features | None) -> tuple[Matrix, Features]:
    """``X`` after scikit-learn's validation, and its columns, which must be ``features`` if given.

    Finiteness is not checked.
    """
    if features is not None:
        X = _without_names(X, features)
    if isinstance(X, np.ma.MaskedArray):
        raise ValueError("Input X is a masked array: fill what is masked, or leave those rows out.")
    kinds = getattr(X, "dtypes", [getattr(X, "dtype", "")])  # of a table or an array
    if any(str(kind).startswith(TIMES) for kind in kinds):
        raise ValueError(
            "Input X contains times: turn them into numbers, in units of your choice. "
            f"{RAW_COLUMNS}"
        )
    header = _names_for(options.name)(features)
    try:
        X = validate_data(
            header,
            X,
            reset=features is None,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
        )
    except ValueError as error:
        if str(error).startswith(NO_NUMBER):
            raise ValueError(f"{error}. {RAW_COLUMNS}") from error
        raise
    return X, features or header.features()


def _without_names(X: Matrix, features: Features) -> Matrix:
    """``X``, or its values if it is a table and the columns of the learner came from dicts."""
    if features.columns is None or features.names is not None or not hasattr(X, "columns"):
        return X
    columns = list(features.named_columns() or ())
    if list(X.columns) != columns:
        raise ValueError(
            f"The columns of X must be {columns}, in this order; got {list(X.columns)}."
        )
    return X.to_numpy()


def check_device_X(
    options: Options, X: Matrix, features: Features | None
) -> tuple[Matrix, Features]:
    """`check_X` for an array on a GPU, which stays there."""
    if options.device != "cuda":
        raise ValueError(
            f"X is on a GPU, and {options.name} is not: use device='cuda' and a kernel, or "
            "take X to the host."
        )
    xp = cupy_library().xp
    X = xp.asarray(X)
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise ValueError(f"Expected 2D array of numbers, got shape {X.shape} of {X.dtype}.")
    if 0 in X.shape:
        raise ValueError(f"Found array with shape {X.shape}, while a minimum of 1 is required.")
    if features is not None and X.shape[1] != features.count:
        raise ValueError(
            f"X has {X.shape[1]} features, but {options.name} is expecting {features.count} "
            "features as input."
        )
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float32 if X.dtype == np.float16 else np.float64)
    return X, features or Features(X.shape[1])


# --------------------------------------------------------------------------------- sparse matrices
def sound(X: Matrix) -> tuple[Matrix, bool]:
    """``X`` if all its indices are valid, and whether it is known to be canonical CSR.

    SciPy and the compiled loops follow ``indptr`` and ``indices`` without bounds checks, so both
    are checked here. Only arrays that are not contiguous, or whose index type the loops do not
    support, are copied.
    """
    if X.format == "dok":
        X = X.tocoo()
    if X.format not in ("csr", "csc"):
        _check_parts(X)
        return X, False
    parts = X.data, X.indices, X.indptr
    data = np.ascontiguousarray(X.data)
    indices, starts = (_as_indices(X, array) for array in (X.indices, X.indptr))
    canonical = _check_compressed(X, data, indices, starts)
    if any(new is not old for new, old in zip((data, indices, starts), parts, strict=True)):
        form = f"{X.format}_{'matrix' if sparse.isspmatrix(X) else 'array'}"
        X = getattr(sparse, form)((data, indices, starts), shape=X.shape)
    return X, canonical and X.format == "csr"


def without_duplicates(X: Matrix) -> Matrix:
    """A canonical CSR matrix: duplicates must be summed before values are squared."""
    if not sound(X)[1]:
        X = X.copy()
        X.sum_duplicates()
    return X


def _check_parts(X: Matrix) -> None:
    """Raise if SciPy cannot safely convert a COO, LIL, DIA or BSR matrix to CSR."""
    if X.format == "coo":
        fit = X.row.shape == X.col.shape == X.data.shape
        for name, indices, size in zip(("row", "column"), (X.row, X.col), X.shape, strict=True):
            if indices.size and not 0 <= indices.min() <= indices.max() < size:
                raise ValueError(_invalid(X, f"it has a {name} outside 0..{size - 1}"))
    elif X.format == "lil":
        fit = X.rows.shape == X.data.shape == X.shape[:1] and all(
            len(columns) == len(values) for columns, values in zip(X.rows, X.data, strict=True)
        )
    elif X.format == "dia":
        offsets = X.offsets
        fit = X.data.ndim == 2 and offsets.shape == X.data.shape[:1]
        if offsets.dtype.kind not in "iu" or np.unique(offsets).size < offsets.size:
            raise ValueError(_invalid(X, "its offsets are not distinct integers"))
    else:
        try:
            X.check_format(full_check=True)
        except (ValueError, IndexError) as problem:
            raise ValueError(_invalid(X, str(problem).rstrip("."))) from None
        fit = X.data.shape[0] == X.indices.shape[0]
    if not fit:
        raise ValueError(_invalid(X, LENGTHS))


def _check_compressed(X: Matrix, data: np.ndarray, indices: np.ndarray, starts: np.ndarray) -> bool:
    """Raise if the arrays of a CSR or CSC matrix are invalid; True if they are canonical."""
    major, minor = X.shape if X.format == "csr" else X.shape[::-1]
    if starts.size != major + 1 or data.ndim != 1 or data.size != indices.size:
        raise ValueError(_invalid(X, LENGTHS))
    if starts[0] != 0:
        raise ValueError(_invalid(X, "its index pointers do not begin with 0"))
    if are_canonical(indices, starts, minor):
        return True
    bad, canonical = first_malformed(indices, starts, minor)
    if bad >= 0:
        line, place = ("row", "column") if X.format == "csr" else ("column", "row")
        start, stop = int(starts[bad]), int(starts[bad + 1])
        inside = 0 <= start <= stop <= indices.size
        what = f"has a {place} outside 0..{minor - 1}" if inside else "lies outside its arrays"
        raise ValueError(_invalid(X, f"{line} {bad} {what}"))
    return bool(canonical)


def _as_indices(X: Matrix, array: np.ndarray) -> np.ndarray:
    """``array`` as contiguous signed integers of 32 or 64 bits; overflow becomes negative."""
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ValueError(_invalid(X, f"its indices are of the type {array.dtype}"))
    if array.dtype in (np.int32, np.int64) and array.dtype.isnative:
        return np.ascontiguousarray(array)
    return np.ascontiguousarray(array, dtype=np.int32 if array.dtype.itemsize < 4 else np.int64)


def _invalid(X: Matrix, what: str) -> str:
    return f"Input X is not a valid {X.format.upper()} matrix: {what}."


# ------------------------------------------------------------------------------------------- values
def check_values(X: Matrix, features: Features | None = None) -> float:
    """The largest norm of a row; raises if a row cannot be learned from."""
    if type(X) is not np.ndarray and is_on_device(X):
        xp = cupy_library().xp
        squares = xp.square(X, dtype=np.float64).sum(axis=1)
        largest = float(squares.max())
        if not largest <= LARGEST_XX:
            row = int(xp.argmax(~(squares <= LARGEST_XX)))
            raise ValueError(
                f"Input X contains NaN, infinity or a value too large to be squared (row {row})."
            )
        return float(np.sqrt(largest))
    bad, largest = first_unusable(as_rows(X, NO_TAIL))
    if bad >= 0:
        raise ValueError(_unusable_row(X, bad, features))
    return float(np.sqrt(largest))


def check_finite(X: Matrix, features: Features) -> None:
    """Raise if a value is NaN or infinite, with its row and column."""
    is_sparse = sparse.issparse(X)
    values = X.data if is_sparse else X
    try:
        assert_all_finite(values, input_name="X")
    except ValueError:
        place = int(np.argmin(np.isfinite(values)))
        row = place // X.shape[1]
        if is_sparse:
            row = int(np.searchsorted(X.indptr, place, side="right")) - 1
        raise ValueError(_unusable_row(X, row, features)) from None


def _unusable_row(X: Matrix, i: int, features: Features | None = None) -> str:
    """The error message for row ``i``; see `core.row_scans.first_unusable`."""
    if sparse.issparse(X):
        entries = slice(int(X.indptr[i]), int(X.indptr[i + 1]))
        values, columns = X.data[entries], X.indices[entries]
    else:
        values, columns = X[i], np.arange(X.shape[1])
    for is_bad, name in ((np.isnan, "NaN"), (np.isinf, "infinity")):
        if (where := np.flatnonzero(is_bad(values))).size:
            column = columns[where[0]]
            names = None if features is None else list(features.named_columns() or ())
            called = repr(names[column]) if names else column
            hint = f" {RAW_COLUMNS}" if names and name == "NaN" else ""
            return f"Input X contains {name} (row {i}, column {called}).{hint}"
    size = np.abs(values).max()
    extreme = "large" if size > 1.0 else "small"
    return (
        f"Input X contains a row that is too {extreme} to compute with (row {i}, largest value "
        f"{size:.3g}): norms must be 0 or between {SMALLEST_XX**0.5:.0e} and "
        f"{LARGEST_XX**0.5:.0e}. Rescale the features."
    )


def check_fit(
    options: Options, X: ArrayLike, y: ArrayLike, *, multilabel: bool = False
) -> tuple[Matrix, np.ndarray, Features, float]:
    """Validated rows and labels of a fit, the columns, and the largest norm of a row."""
    rows, features = check_X(options, X)
    labels = check_y(y, rows.shape[0], multilabel=multilabel)
    check_labels(labels)
    return rows, labels, features, check_values(rows, features)


# ------------------------------------------------------------------------------------------- labels
def check_y(y: Matrix, rows: int, *, multilabel: bool = False) -> np.ndarray:
    """``y`` as an array of ``rows`` labels, or, if ``multilabel`` allows, an indicator matrix."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if type(y) is not np.ndarray and is_on_device(y):
        y = cupy_library().xp.asarray(y).get()
    is_plain_array = type(y) is np.ndarray and y.ndim == 1
    if multilabel and not is_plain_array and _is_indicator(y):
        # The compiled loops use one byte per label.
        y = np.ascontiguousarray(y.toarray() if sparse.issparse(y) else y).astype(np.int8)
    elif not is_plain_array:
        y = column_or_1d(y, warn=True)
    if y.shape[0] != rows:  # in scikit-learn's words
        numbers = [rows, y.shape[0]]
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {numbers}")
    return y


def _is_indicator(y: Matrix) -> bool:
    """True for a matrix of 0 and 1."""
    y = np.asarray(y) if isinstance(y, list | tuple) else y
    if getattr(y, "ndim", 1) != 2 or type_of_target(y, "y") != "multilabel-indicator":
        return False
    values = y.data if sparse.issparse(y) else np.asarray(y)
    return bool(((values == 0) | (values == 1)).all())


def check_labels(y: np.ndarray) -> None:
    """Raise if ``y`` does not contain class labels."""
    if y.ndim == 2:
        return  # an indicator matrix
    if y.dtype.kind == "f":
        assert_all_finite(y, input_name="y")
    # Integers are always labels; `classes_of` checks their number.
    if y.dtype.kind not in "iu" or y.size <= 2 * FEW_CLASSES:
        try:
            check_classification_targets(y)
        except (TypeError, ValueError):
            check_none_is_missing(y)
            if len({isinstance(label, str) for label in y.tolist()}) == 2:
                raise ValueError(several_kinds(y)) from None
            raise


def is_missing(label: Any) -> bool:
    """True for None, NaN, and NA of pandas, which has no truth value."""
    is_nan = isinstance(label, float) and label != label
    return label is None or is_nan or type(label).__name__ == "NAType"


def check_none_is_missing(y: np.ndarray) -> None:
    """Raise if a label is missing."""
    missing = [k for k, label in enumerate(y.tolist()) if is_missing(label)]
    if missing:
        rows = f"the first in row {missing[0]}; leave such rows out, or name a class for them"
        raise ValueError(f"y: {len(missing):,} of {y.size:,} labels are missing, {rows}.")


def several_kinds(y: np.ndarray) -> str:
    kinds = sorted({type(label).__name__ for label in y.tolist()})
    return f"y must contain labels of one kind, strings or numbers, got {' and '.join(kinds)}."


def classes_of(y: np.ndarray) -> np.ndarray:
    """The sorted labels, at least two; for an indicator matrix, the column numbers."""
    if y.ndim == 2:
        same = np.flatnonzero((y == y[0]).all(axis=0))
        if same.size:
            raise ValueError(f"All rows have the same value of label {same[0]}: leave it out.")
        return np.arange(y.shape[1])
    classes = _distinct(y)
    if classes.size < 2:
        raise ValueError(only_one_class(classes))
    return classes if classes.size <= FEW_CLASSES else likely_classes(classes, y.size)


def _distinct(y: np.ndarray) -> np.ndarray:
    """The sorted labels; `bincount` is faster for integers in a narrow range."""
    if y.dtype.kind in "iu" and np.can_cast(y.dtype, np.intp) and y.size:
        low = int(y.min())
        if int(y.max()) - low < y.size:
            return (np.flatnonzero(np.bincount(y.astype(np.intp) - low)) + low).astype(y.dtype)
    return np.unique(y)


def only_one_class(classes: np.ndarray) -> str:
    (only,) = classes.tolist()
    return f"The data contain only one class, {only!r}; a classifier needs at least two."


def likely_classes(classes: np.ndarray, rows: int | None = None) -> np.ndarray:
    """The classes; raises if they look like a regression target."""
    is_fraction = classes.dtype.kind == "f" and bool((classes != np.round(classes)).any())
    most = max(FEW_CLASSES, (UNCOUNTED_ROWS if rows is None else rows) / 2)
    if classes.size > (FEW_FRACTIONS if is_fraction else most):
        among = "" if rows is None else f" among {rows:,} rows"
        raise ValueError(
            f"y has {classes.size:,} different labels{among}, {listed(classes)}: is it a number, "
            "or the name of a row, rather than a class? Streams take any labels that are named by "
            "classes=."
        )
    return classes


def listed(classes: np.ndarray) -> str:
    """The classes for a message, abbreviated if there are many."""
    shown = ", ".join(map(repr, classes[:MOST_LISTED].tolist()))
    more = classes.size - MOST_LISTED
    return f"[{shown}]" if more <= 0 else f"[{shown}, ... and {more:,} more]"


def class_codes(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The index of each label in the sorted ``classes``; an indicator matrix is returned as is."""
    if y.ndim == 2:
        if y.shape[1] != classes.size:
            raise ValueError(f"y has {y.shape[1]} labels a row, but {classes.size} are expected.")
        return y
    if classes.size == 2 and y.dtype.kind in "iuf" and classes.dtype.kind in "iuf":
        is_second = y == classes[1]
        if (is_second | (y == classes[0])).all():
            return is_second.astype(np.int32)
    try:
        codes = np.searchsorted(classes, y)
    except TypeError:
        check_none_is_missing(y)
        raise ValueError(f"{_unknown_label(classes)}.") from None
    is_found = np.asarray(classes[np.minimum(codes, classes.size - 1)] == y)
    if not is_found.all():
        i = int(np.argmin(is_found))
        raise ValueError(f"{_unknown_label(classes)}: {y[i : i + 1].tolist()[0]!r} (row {i}).")
    return codes.astype(np.int32)


def _unknown_label(classes: np.ndarray) -> str:
    return f"y contains a label that is not among the classes {listed(classes)}"


# ------------------------------------------------------------------------------------------ targets
def problems_for(classes: np.ndarray, unseen: bool = False, multilabel: bool = False) -> int:
    """The number of weight vectors for these classes."""
    if unseen:
        return classes.size + 1
    return 1 if classes.size == 2 and not multilabel else classes.size


def shown(state: State) -> slice:
    """The visible problems: without the spare one of ``grow=True``."""
    if not state.unseen:
        return slice(None)
    return slice(1, 2) if state.classes.size == 2 else slice(0, state.classes.size)


def as_targets(
    codes: np.ndarray, classes: int, unseen: bool = False, sample_weight: np.ndarray | None = None
) -> Targets:
    """Binary targets for two classes, otherwise one-vs-rest or multilabel ones.

    With ``unseen`` always one-vs-rest, with a last problem for a class that has not occurred yet.
    ``sample_weight`` multiplies steps.
    """
    codes, is_single = read_only(codes), classes == 2 and not unseen
    if codes.ndim == 2:
        targets: Any = Multilabel(codes)
    else:
        targets = Binary(codes) if is_single else OneVsRest(codes, classes, int(unseen))
    return targets if sample_weight is None else weighted(targets, read_only(sample_weight))


# --------------------------------------------------------------------------- several labels a row
def multilabel_needs(trainer: Trainer) -> str:
    """The first parameter that rows with several labels need to be different; empty if none."""
    options = trainer.options
    needed = {
        "another learner": options.takes_several,
        "kernel='linear'": options.kernel == "linear" or options.several_in_kernels,
        "budget=None": options.budget is None,
        "multiclass='ovr'": options.multiclass == "ovr",
        "class_weight=None": options.class_weight is None,
    }
    return next((need for need, is_met in needed.items() if not is_met), "")


def check_number_of_labels(
    trainer: Trainer, y: np.ndarray, state: State | None = None, grow: bool = False
) -> None:
    """Raise unless the learner and its state take one label a row, or several, as ``y`` has.

    ``grow``, which allows new labels, cannot be combined with several labels a row.
    """
    multilabel = y.ndim == 2
    if state is not None and state.multilabel != multilabel:
        how_many = "several labels" if state.multilabel else "one label"
        raise ValueError(f"y must have {how_many} a row, as before.")
    if multilabel and (what := "grow=False" if grow else multilabel_needs(trainer)):
        raise ValueError(
            f"y has several labels a row: {trainer.options.name} needs {what} for that (or "
            "sklearn.multiclass.OneVsRestClassifier around it)."
        )
