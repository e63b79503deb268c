"""Rows, dense and sparse: the same answers, from the user's own memory."""

import tracemalloc

import numpy as np
import pytest
from problems import separable, sparse_separable
from scipy import sparse

from maxmargin import Perceptron
from maxmargin.core.numba_backend import Compiled
from maxmargin.core.row_scans import are_canonical, first_malformed
from maxmargin.core.rows import DenseRows, Tail
from maxmargin.models.linear_model import as_rows
from maxmargin.training.inputs import check_X
from maxmargin.training.protocol import trainer_of

OPTIONS = trainer_of(Perceptron()).options


@Compiled
def compiled_dot(rows, i, weights, c):
    return rows.dot(i, weights, c)


@Compiled
def compiled_square(rows, i):
    return rows.square(i)


@Compiled
def compiled_add(rows, i, weights, c, amount):
    rows.add(i, weights, c, amount)


def read_only(*arrays):
    for array in arrays:
        array.flags.writeable = False
    return arrays


FORMS = [np.asarray, sparse.csr_matrix]


@pytest.mark.parametrize("offset", [0.0, 1.5])
@pytest.mark.parametrize("form", FORMS)
def test_dot_square_and_add(form, offset):
    """A row is (x, offset): all three answers are those of that longer vector."""
    dense = sparse_separable(n=9, d=20)[0].toarray()
    dense[4] = 0.0
    long = np.column_stack([dense, np.full(9, offset)])
    weights = np.random.default_rng(0).normal(size=(2, 21))
    rows = as_rows(form(dense), Tail(offset, 0.0))
    assert rows.size() == 9
    for i in range(9):
        assert compiled_dot(rows, i, weights, 1) == rows.dot(i, weights, 1)
        assert compiled_square(rows, i) == rows.square(i)
        assert rows.dot(i, weights, 1) == pytest.approx(long[i] @ weights[1], abs=1e-14)
        assert rows.square(i) == pytest.approx(long[i] @ long[i], rel=1e-14)
        plain, compiled = weights.copy(), weights.copy()
        rows.add(i, plain, 1, 0.3)
        compiled_add(rows, i, compiled, 1, 0.3)
        np.testing.assert_array_equal(compiled, plain)
        np.testing.assert_array_equal(plain[0], weights[0])
        np.testing.assert_allclose(plain[1], weights[1] + 0.3 * long[i], rtol=1e-15)


COLUMNS, STARTS, WIDTH = [0, 2, 1], [0, 2, 3], 3


def malformed(changes):
    """Of rows with columns 0, 2 and with column 1, but for what is changed."""
    parts = {"columns": np.array(COLUMNS, np.int32), "starts": np.array(STARTS, np.int32)}
    for name, (place, value) in changes.items():
        parts[name][place] = value
    arrays = read_only(*parts.values())
    found = first_malformed(*arrays, WIDTH)
    assert found == first_malformed.plain(*arrays, WIDTH)
    assert (
        are_canonical(*arrays, WIDTH)
        == are_canonical.plain(*arrays, WIDTH)
        == (found[0] < 0 and found[1])
    )
    return found


@pytest.mark.parametrize(
    ("changes", "canonical"),
    [({}, True), ({"columns": (0, 2)}, False), ({"columns": (1, 0)}, False)],
)
def test_well_formed_rows(changes, canonical):
    assert malformed(changes) == (-1, canonical)


@pytest.mark.parametrize(
    ("changes", "bad"),
    [
        ({"columns": (1, 3)}, 0),
        ({"columns": (2, -1)}, 1),
        ({"columns": (0, 2**31 - 1)}, 0),
        ({"starts": (0, -1)}, 0),
        ({"starts": (1, -5)}, 0),
        ({"starts": (1, 4)}, 0),
        ({"starts": (2, 1)}, 1),
        ({"starts": (2, 4)}, 1),
        ({"starts": (2, 2**31 - 1)}, 1),
    ],
)
def test_rows_that_point_outside_their_arrays(changes, bad):
    assert malformed(changes) == (bad, False)


def test_columns_are_compared_within_rows_only():
    random = np.random.default_rng(0)
    lengths = random.integers(0, 5, 50)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    columns = np.concatenate([np.sort(random.choice(9, n, replace=False)) for n in lengths])
    columns = columns.astype(np.int32)
    assert are_canonical(*read_only(columns, starts), 9)
    for place in range(columns.size):
        for value in (-1, 0, 4, 8, 9):
            changed = columns.copy()
            changed[place] = value
            arrays = read_only(changed, starts)
            assert are_canonical(*arrays, 9) == (first_malformed(*arrays, 9) == (-1, True))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_dense_memory_is_not_copied(order, dtype):
    X = np.asarray(separable()[0], dtype=dtype, order=order)
    rows = as_rows(check_X(OPTIONS, X)[0], Tail(1.0, 0.0))
    assert isinstance(rows, DenseRows)
    assert np.shares_memory(rows.values, X)
    assert rows.values.dtype == dtype
    assert not rows.values.flags.writeable
    assert X.flags.writeable


def test_strided_memory_is_not_copied():
    X = np.arange(48.0).reshape(8, 6)[::2, ::-2]
    rows = as_rows(check_X(OPTIONS, X)[0], Tail(1.0, 0.0))
    assert np.shares_memory(rows.values, X)
    assert rows.values.shape == (4, 3)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_memory_is_not_copied(dtype, index):
    X = sparse_separable()[0].astype(dtype)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    rows = as_rows(check_X(OPTIONS, X)[0], Tail(1.0, 0.0))
    pairs = (rows.values, X.data), (rows.columns, X.indices), (rows.starts, X.indptr)
    for mine, theirs in pairs:
        assert np.shares_memory(mine, theirs)
        assert mine.dtype == theirs.dtype
        assert not mine.flags.writeable


def test_repeated_entries_are_added_up_and_the_input_left_alone():
    twice = sparse.csr_matrix(([1.0, 2.0, -3.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    rows = as_rows(check_X(OPTIONS, twice)[0], Tail(0.0, 0.0))
    assert [rows.square(i) for i in range(2)] == [9.0, 9.0]
    assert twice.nnz == 3


@pytest.mark.parametrize("form", FORMS)
def test_read_only_input_is_learned_from(form):
    X, y = separable()
    expected = Perceptron(max_iter=3, shuffle=False).fit(form(X), y)
    X = form(X)
    read_only(*((X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,)), y)
    clf = Perceptron(max_iter=3, shuffle=False).fit(X, y)
    np.testing.assert_array_equal(clf.coef_, expected.coef_)


def test_fit_needs_little_memory_beside_its_input():
    X, y = separable(n=20_000, d=50)
    Perceptron(max_iter=1, random_state=0).fit(X, y)  # compiles
    tracemalloc.start()
    try:
        Perceptron(max_iter=3, random_state=0).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < X.nbytes / 4
