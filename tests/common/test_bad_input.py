"""Bad input gets a clear error, and the model stays what it was."""

import numpy as np
import pandas
import pytest
from common.estimators import every_estimator, every_warm_estimator, memory, weights_of
from problems import separable, sparse_separable
from scipy import sparse
from sklearn.base import clone

from maxmargin import AutoMargin, MaxMargin, Perceptron
from maxmargin.evaluate import progressive

X, y = separable(n=12, d=4)


def with_value(value):
    bad = X.copy()
    bad[3, 1] = value
    return bad


def corrupt(column):
    """A CSR matrix one of whose columns is not there."""
    bad = sparse.csr_matrix(X)
    bad.indices[3 * 4 + 1] = column
    return bad


def cut_short():
    """A CSR matrix whose last rows lie beyond the end of its arrays."""
    bad = sparse.csr_matrix(X)
    bad.indptr[4:] += 100
    return bad


ROWS = {
    "NaN": (with_value(np.nan), r"contains NaN \(row 3, column 1\)"),
    "infinity": (with_value(np.inf), r"contains infinity \(row 3, column 1\)"),
    "negative infinity": (with_value(-np.inf), r"contains infinity \(row 3, column 1\)"),
    "sparse NaN": (sparse.csr_matrix(with_value(np.nan)), r"NaN \(row 3, column 1\)"),
    "sparse infinity": (sparse.csr_matrix(with_value(np.inf)), r"infinity \(row 3, column 1\)"),
    "huge": (with_value(1e200), r"too large to compute with \(row 3, largest value 1e\+200"),
    "tiny": (1e-200 * X, r"too small to compute with \(row 0, "),
    "sparse huge": (sparse.csr_matrix(with_value(1e200)), r"too large .* \(row 3, "),
    "sparse tiny": (sparse.csr_matrix(1e-200 * X), r"too small .* \(row 0, "),
    "text": (np.full(X.shape, "a"), "could not convert string to float"),
    "empty": (X[:0], "0 sample"),
    "no features": (X[:, :0], r"0 feature\(s\)"),
    "one-dimensional": (X[:, 0], "Expected 2D array, got 1D array"),
    "three-dimensional": (X[:, :, None], "Found array with dim 3"),
    "complex": (X * 1j, "Complex data not supported"),
    "column beyond the last": (corrupt(99), r"not a valid CSR matrix: row 3 .* outside 0\.\.3"),
    "column before the first": (corrupt(-1), r"not a valid CSR matrix: row 3 .* outside 0\.\.3"),
    "arrays cut short": (cut_short(), "not a valid CSR matrix: row 3 lies outside its arrays"),
    "masked": (np.ma.masked_array(X, X > 0.0), "masked array"),
    "times": (np.full(X.shape, "2026-01-01", dtype="M8[s]"), "contains times"),
}
LABELS = {
    "too few": (y[:-1], r"inconsistent numbers of samples: \[12, 11\]"),
    "none": (None, "y"),
    "continuous": (np.linspace(0.1, 0.9, 12), r"Unknown label type|not among the classes.*0\.1"),
    "NaN": (np.where(np.arange(12) == 5, np.nan, y), r"NaN|nan.*\(row 5\)"),
    "infinity": (np.where(np.arange(12) == 5, np.inf, y), r"infinity|inf.*\(row 5\)"),
    "two columns": (np.column_stack([y, y]), "y should be a 1d array"),
}


def each(cases):
    return pytest.mark.parametrize(
        ("bad", "message"), [pytest.param(*case, id=name) for name, case in cases.items()]
    )


def assert_refused(learner, message, learn):
    """An error that says so, for a new and for a fitted learner, and nothing else happens."""
    new = clone(learner)
    with pytest.raises((ValueError, TypeError), match=message):
        learn(new)
    assert not hasattr(new, "classes_")
    before = memory(learner)
    with pytest.raises((ValueError, TypeError), match=message):
        learn(learner)
    assert memory(learner) == before
    learner.partial_fit(X, y)


@pytest.fixture
def fitted(Estimator):
    return Estimator(max_iter=2, random_state=0).fit(X, y)


@every_estimator
@each(ROWS)
def test_rows_in_fit(fitted, bad, message):
    # What matters is X: there are as many labels as rows.
    assert_refused(fitted, message, lambda learner: learner.fit(bad, y[: bad.shape[0]]))


@every_estimator
@each(ROWS)
def test_rows_in_partial_fit(fitted, bad, message):
    labels = y[: bad.shape[0]]
    if message == r"0 feature\(s\)":
        message += "|has 0 features, but"
    assert_refused(
        fitted, message, lambda learner: learner.partial_fit(bad, labels, classes=[-1, 1])
    )


MISSING = [
    [None] * 3,
    [1, None, 0],
    np.array(["a", None, "b"], object),
    pandas.Series(["a", np.nan, "b"], dtype=object),
    pandas.Series(["a", pandas.NA, "b"], dtype="string"),
]


@pytest.mark.parametrize("labels", MISSING)
def test_missing_labels(labels):
    X, places = np.eye(3), "3 of 3 labels are missing, the first in row 0"
    if labels[2] is not None:
        places = "1 of 3 labels are missing, the first in row 1"
    for learn in (
        lambda: MaxMargin().fit(X, labels),
        lambda: AutoMargin(random_state=0).fit(X, labels),
        lambda: AutoMargin(random_state=0).partial_fit(X, labels, classes=["a", "b"]),
    ):
        with pytest.raises(ValueError, match=places):
            learn()


def test_missing_labels_in_progressive():
    with pytest.raises(ValueError, match="1 of 3 labels are missing, the first in row 1"):
        progressive(AutoMargin(random_state=0), np.eye(3), ["a", None, "b"])


@every_estimator
@each(LABELS)
def test_labels_in_fit(fitted, bad, message):
    assert_refused(fitted, message, lambda learner: learner.fit(X, bad))


@every_estimator
@each(LABELS)
def test_labels_in_partial_fit(fitted, bad, message):
    assert_refused(fitted, message, lambda learner: learner.partial_fit(X, bad, classes=[-1, 1]))


@every_estimator
def test_one_class(fitted):
    ones = np.ones(12, dtype=int)
    assert_refused(fitted, r"only one class, .*1", lambda learner: learner.fit(X, ones))
    new = clone(fitted)
    with pytest.raises(ValueError, match=r"at least two labels, got \[1\]"):
        new.partial_fit(X, ones, classes=[1])
    assert not hasattr(new, "classes_")


@every_estimator
@pytest.mark.parametrize("label", [7, -7, 0.5])
def test_unknown_class_in_partial_fit(fitted, label):
    labels = np.array([*y[:5], label, *y[6:]])
    assert_refused(
        fitted,
        rf"not among the classes \[-1, 1\]: .*{label}.*\(row 5\)",
        lambda learner: learner.partial_fit(X, labels, classes=[-1, 1]),
    )


@every_estimator
def test_text_where_numbers_are_known(fitted):
    names = np.where(y > 0, "yes", "no")
    assert_refused(
        fitted,
        r"not among the classes \[-1, 1\]: .*(yes|no).*\(row 0\)",
        lambda learner: learner.partial_fit(X, names, classes=[-1, 1]),
    )


@every_estimator
def test_classes_of_partial_fit(Estimator, fitted):
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        Estimator().partial_fit(X, y)
    before = memory(fitted)
    with pytest.raises(ValueError, match=r"classes=\[0, 1\] is not the same .*\[-1, 1\]"):
        fitted.partial_fit(X, y, classes=[0, 1])
    assert memory(fitted) == before


@every_estimator
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix])
def test_another_number_of_columns(fitted, convert):
    before = memory(fitted)
    message = "X has 3 features, but .* is expecting 4 features as input"
    with pytest.raises(ValueError, match=message):
        fitted.partial_fit(convert(X[:, :3]), y)
    with pytest.raises(ValueError, match=message):
        fitted.predict(convert(X[:, :3]))
    with pytest.raises(ValueError, match=message):
        fitted.decision_function(convert(X[:, :3]))
    assert memory(fitted) == before


@every_warm_estimator
def test_warm_start_with_other_data(fitted):
    fitted.set_params(warm_start=True)
    before = memory(fitted)
    with pytest.raises(ValueError, match=r"warm_start needs .* got .*, 3, 0\)"):
        fitted.fit(X[:, :3], y)
    assert memory(fitted) == before
    with pytest.raises(ValueError, match=r"warm_start needs .* got \(\[1, 3\]"):
        fitted.fit(X, y + 2)
    assert memory(fitted) == before


@every_estimator
@pytest.mark.parametrize("case", ["NaN", "sparse infinity", "column beyond the last"])
def test_bad_rows_in_predict(fitted, case):
    bad, message = ROWS[case]
    for method in (fitted.predict, fitted.decision_function):
        with pytest.raises(ValueError, match=message.removesuffix(r" \(row 3, column 1\)")):
            method(bad)


@every_estimator
@pytest.mark.parametrize("scale", [1e-49, 1e49])
def test_extreme_rows_within_the_limits_are_learned(Estimator, scale):
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    rows[::3] *= scale
    learner = Estimator(max_iter=3, random_state=0).fit(rows, y)
    assert np.isfinite(weights_of(learner)).all()
    assert np.isfinite(learner.decision_function(rows)).all()


@pytest.mark.parametrize("warm_start", [False, True])
def test_divergence_is_an_error(warm_start):
    learner = Perceptron(random_state=0, warm_start=warm_start).fit(X, y)
    before = memory(learner)
    learner.set_params(rate=1e300)
    with pytest.raises(ValueError, match="diverged"):
        learner.fit(-1e20 * X, y)
    assert memory(learner) == before


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_first_bad_row_of_a_stored_stream_is_named(method):
    rows, labels = sparse_separable(n=50)
    rows.data[rows.indptr[31]] = np.nan
    rows.data[rows.indptr[40]] = np.nan
    learner = Perceptron()
    arguments = {} if method == "fit" else {"classes": [-1, 1]}
    with pytest.raises(ValueError, match=rf"NaN \(row 31, column {rows.indices[rows.indptr[31]]}"):
        getattr(learner, method)(rows, labels, **arguments)
