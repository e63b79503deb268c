"""From users' arrays to rows and class codes: checked, never copied, never made dense."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from maxmargin._extras import is_on_device
from maxmargin.core.row_scans import first_unusable
from maxmargin.core.rows import NO_TAIL
from maxmargin.core.targets import Binary, Multilabel, OneVsRest, weighted
from maxmargin.models.linear_model import as_rows, read_only
from maxmargin.training import device_inputs, messages
from maxmargin.training import multilabel as indicators
from maxmargin.training.feature_columns import Features, is_plain, without_names
from maxmargin.training.options import Options
from maxmargin.training.sparse_inputs import sound
from maxmargin.training.state import State
from maxmargin.training.types import Matrix, Targets

# Types of columns in NumPy, pandas and polars, which would be read as counts of nanoseconds.
TIMES = ("datetime", "timedelta", "Date", "Duration", "Time")


# ------------------------------------------------------------------------------------------ columns
@lru_cache
def _class_named(name: str) -> type:
    return type(name, (), {})


class Header(ClassifierMixin, BaseEstimator):
    """A stand-in for an estimator, which scikit-learn's validation may write on."""

    def __init__(self, name: str, features: Features | None) -> None:
        self._name = name
        if features is not None:
            self.n_features_in_ = features.count
            if features.names is not None:
                self.feature_names_in_ = features.names

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # messages name the learner
        return _class_named(self._name)

    def features(self) -> Features:
        return Features(self.n_features_in_, vars(self).get("feature_names_in_"))


def check_X(
    options: Options, X: ArrayLike, features: Features | None = None
) -> tuple[Matrix, Features]:
    """``X`` as a float array or CSR matrix, in the user's own memory if possible, and its columns.

    These are ``features``, if there are such already. Values are checked later, by `check_values`.
    """
    if type(X) is not np.ndarray and is_on_device(X):
        return device_inputs.checked(options, X, features)
    X, canonical = sound(X) if sparse.issparse(X) else (X, True)
    if features is not None:
        if is_plain(X, features) and canonical:
            return X, features  # what `validate_data` would say, without its overhead
        X = without_names(X, features)
    header = Header(options.name, features)
    X = validated(header, X, reset=features is None, ensure_all_finite=False)
    if not canonical and not sound(X)[1]:
        X = X.copy()  # type: ignore[union-attr]  # entries are added up before they are squared
        X.sum_duplicates()  # type: ignore[union-attr]
    return X, features or header.features()


def validated(header: Header, X: Matrix, **options: bool) -> Matrix:
    if isinstance(X, np.ma.MaskedArray):
        raise ValueError("Input X is a masked array: fill what is masked, or leave those rows out.")
    kinds = getattr(X, "dtypes", [getattr(X, "dtype", "")])  # of a table, or of an array
    if any(str(kind).startswith(TIMES) for kind in kinds):
        raise ValueError("Input X contains times: turn them into numbers, in units of your choice.")
    dtypes = [np.float64, np.float32]
    try:
        return validate_data(header, X, accept_sparse="csr", dtype=dtypes, **options)
    except ValueError as error:
        messages.hint_at_recipes(error)
        raise


# ------------------------------------------------------------------------------------------- values
def check_values(X: Matrix, features: Features | None = None) -> float:
    """Raise if a row cannot be learned from; otherwise the largest norm of a row."""
    if type(X) is not np.ndarray and is_on_device(X):
        return device_inputs.check_values(X)
    bad, largest = first_unusable(as_rows(X, NO_TAIL))
    if bad >= 0:
        raise ValueError(messages.unusable_row(X, bad, features))
    return float(np.sqrt(largest))


def check_fit(
    options: Options, X: ArrayLike, y: ArrayLike, *, multilabel: bool = False
) -> tuple[Matrix, np.ndarray, Features, float]:
    """All rows and labels of a fit, the columns, and the largest norm of a row."""
    rows, features = check_X(options, X)
    labels = check_y(y, rows.shape[0], multilabel=multilabel)
    check_labels(labels)
    return rows, labels, features, check_values(rows, features)


# ------------------------------------------------------------------------------------------- labels
def check_y(y: Matrix, rows: int, *, multilabel: bool = False) -> np.ndarray:
    """``y`` as an array of ``rows`` class labels, or of 0 and 1 if it is ``multilabel``."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if type(y) is not np.ndarray and is_on_device(y):
        y = device_inputs.on_host(y)
    is_plain_array = type(y) is np.ndarray and y.ndim == 1
    if multilabel and not is_plain_array and indicators.is_indicator(y):
        y = indicators.indicator(y)
    elif not is_plain_array:
        y = column_or_1d(y, warn=True)
    if y.shape[0] != rows:
        raise ValueError(messages.inconsistent(rows, y.shape[0]))
    return y


def check_labels(y: np.ndarray) -> None:
    """Raise if ``y`` are no class labels."""
    if y.ndim == 2:
        return  # they are 0 and 1
    if y.dtype.kind == "f":
        assert_all_finite(y, input_name="y")
    # Whole numbers are labels, of which `classes_of` says whether they are too many.
    if y.dtype.kind not in "iu" or y.size <= 2 * messages.FEW_CLASSES:
        check_classification_targets(y)


def classes_of(y: np.ndarray) -> np.ndarray:
    """The labels that occur, sorted; at least two. Of several a row, their numbers."""
    if y.ndim == 2:
        return indicators.numbers_of_labels(y)
    classes = _distinct(y)
    if classes.size < 2:
        raise ValueError(messages.only_one_class(classes))
    is_common = classes.size <= messages.FEW_CLASSES
    return classes if is_common else messages.likely_classes(classes, y.size)


def _distinct(y: np.ndarray) -> np.ndarray:
    """The labels that occur, sorted; whole numbers that lie together are counted, to be quick."""
    if y.dtype.kind in "iu" and np.can_cast(y.dtype, np.intp) and y.size:
        low = int(y.min())
        if int(y.max()) - low < y.size:
            return (np.flatnonzero(np.bincount(y.astype(np.intp) - low)) + low).astype(y.dtype)
    return np.unique(y)


def class_codes(y: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The place of each label in ``classes``, which are sorted; of multilabel a row, the labels."""
    if y.ndim == 2:
        return indicators.with_as_many_labels(y, classes.size)
    if classes.size == 2 and y.dtype.kind in "iuf" and classes.dtype.kind in "iuf":
        is_second = y == classes[1]
        if (is_second | (y == classes[0])).all():
            return is_second.astype(np.int32)
    try:
        codes = np.searchsorted(classes, y)
    except TypeError:
        raise ValueError(f"{messages.unknown_label(classes)}.") from None
    known = classes[np.minimum(codes, classes.size - 1)] == y
    if not np.all(known):
        i = int(np.flatnonzero(~np.asarray(known))[0])
        unknown = messages.unknown_label(classes)
        raise ValueError(f"{unknown}: {y[i : i + 1].tolist()[0]!r} (row {i}).")
    return codes.astype(np.int32)


def problems_for(classes: np.ndarray, unseen: bool = False, multilabel: bool = False) -> int:
    """How many weight vectors there are for these classes."""
    if unseen:
        return classes.size + 1
    return 1 if classes.size == 2 and not multilabel else classes.size


def shown(state: State) -> slice:
    """The problems that users see."""
    if not state.unseen:
        return slice(None)
    return slice(1, 2) if state.classes.size == 2 else slice(0, state.classes.size)


def as_targets(
    codes: np.ndarray, classes: int, unseen: bool = False, sample_weight: np.ndarray | None = None
) -> Targets:
    """One problem for two classes, one-vs-rest for more, and for several labels a row.

    ``unseen``: always one-vs-rest, with a last problem for a class that has not been seen yet;
    ``sample_weight``: weights for steps.
    """
    codes, is_single = read_only(codes), classes == 2 and not unseen
    if codes.ndim == 2:
        targets: Any = Multilabel(codes)
    else:
        targets = Binary(codes) if is_single else OneVsRest(codes, classes, int(unseen))
    return targets if sample_weight is None else weighted(targets, read_only(sample_weight))
