"""The same values give the same model, wherever and however they are stored."""

from itertools import product

import numpy as np
import pytest
from common.estimators import (
    BOUNDED,
    SHELLS,
    STORING,
    assert_same_model,
    every_estimator,
    every_storing_estimator,
    weights_of,
)
from extent import everything_or
from problems import overlapping, sparse_separable, three_classes
from scipy import sparse

from maxmargin import NOCA, ROMMA, Forgetron, Perceptron

# Values that float32 can hold.
X, y = three_classes(n=40, d=11)
X = X.astype(np.float32).astype(np.float64)


def fitted(Estimator, X, y=y):
    return Estimator(max_iter=3, random_state=0).fit(X, y)


def from_file(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def every_second(X):
    """A view into a larger array, contiguous in no direction."""
    wide = np.full((2 * X.shape[0], 2 * X.shape[1]), np.nan)
    wide[::2, ::2] = X
    return wide[::2, ::2]


@every_storing_estimator
@pytest.mark.parametrize("view", everything_or([every_second], [np.asfortranarray, every_second]))
def test_memory_layouts(Estimator, view):
    other = view(X)
    assert_same_model(fitted(Estimator, other), fitted(Estimator, X))
    np.testing.assert_array_equal(other, X)


@every_estimator
def test_memory_that_cannot_be_written(Estimator):
    assert_same_model(fitted(Estimator, read_only(X)), fitted(Estimator, X))


@every_estimator
def test_memory_maps(Estimator, tmp_path):
    assert_same_model(fitted(Estimator, from_file(X, tmp_path)), fitted(Estimator, X))


@pytest.mark.parametrize("Estimator", everything_or([NOCA, ROMMA, Forgetron], BOUNDED))
def test_float32(Estimator):
    assert_same_model(fitted(Estimator, X.astype(np.float32)), fitted(Estimator, X))


TWO, THREE = overlapping(n=40, d=11), (X, y)


@pytest.mark.parametrize(
    ("Estimator", "data"),
    [*product(SHELLS, [TWO]), *product(everything_or(STORING, SHELLS), [THREE])],
)
def test_sparse_equals_dense(Estimator, data):
    rows, labels = data
    rows = np.where(np.abs(rows) < 0.2, 0.0, rows)
    dense = fitted(Estimator, rows, labels)
    stored = fitted(Estimator, sparse.csr_matrix(rows), labels)
    assert_same_model(stored, dense, rtol=1e-9)
    np.testing.assert_allclose(
        stored.decision_function(sparse.csr_matrix(rows)),
        dense.decision_function(rows),
        rtol=1e-9,
        atol=1e-9 * np.abs(weights_of(dense)).max(),
    )


# How rows are stored is not the learner's business: one stands for all.
@pytest.mark.parametrize("Estimator", everything_or([ROMMA], [Perceptron, ROMMA]))
@pytest.mark.parametrize(
    ("values", "indices"),
    everything_or(
        [(np.float32, np.int32), (np.float64, np.int64)],
        list(product((np.float32, np.float64), (np.int32, np.int64))),
    ),
)
def test_types_of_sparse_arrays(Estimator, values, indices):
    stored = sparse.csr_array(X.astype(values))
    stored.indices, stored.indptr = stored.indices.astype(indices), stored.indptr.astype(indices)
    for array in (stored.data, stored.indices, stored.indptr):
        array.flags.writeable = False
    assert_same_model(fitted(Estimator, stored), fitted(Estimator, sparse.csr_matrix(X)))


@pytest.mark.parametrize("convert", [sparse.coo_matrix, sparse.csc_matrix, sparse.lil_array])
def test_other_sparse_formats(convert):
    assert_same_model(fitted(Perceptron, convert(X)), fitted(Perceptron, sparse.csr_matrix(X)))


@every_estimator
def test_repeated_entries_are_added_up(Estimator):
    canonical, labels = sparse_separable(n=30, d=10)
    # Each entry in two parts, the second ones in reverse order behind the first ones.
    data, indices, indptr = [], [], [0]
    for row in canonical:
        data += [*(0.25 * row.data), *(0.75 * row.data)[::-1]]
        indices += [*row.indices, *row.indices[::-1]]
        indptr.append(len(data))
    repeated = sparse.csr_matrix((data, indices, indptr), shape=canonical.shape)
    assert_same_model(
        fitted(Estimator, repeated, labels), fitted(Estimator, canonical, labels), rtol=1e-9
    )
    np.testing.assert_array_equal(repeated.data, data)
    np.testing.assert_array_equal(repeated.indices, indices)
    np.testing.assert_array_equal(repeated.indptr, indptr)


def test_lists_and_integers():
    whole = np.round(10 * X).astype(int)
    expected = fitted(Perceptron, whole.astype(float))
    assert_same_model(fitted(Perceptron, whole), expected)
    assert_same_model(fitted(Perceptron, whole.tolist(), y.tolist()), expected)
