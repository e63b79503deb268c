"""Sparse matrices of any make give the model of a plain one, or are refused."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from maxmargin import NOCA, ROMMA, Forgetron, Perceptron
from maxmargin.training.inputs import sound

random = np.random.default_rng(0)
X = sparse.random(30, 200, density=0.1, format="csr", random_state=0)
y = random.integers(0, 2, size=30)


def with_arrays(data=X.data, indices=X.indices, indptr=X.indptr, form=sparse.csr_matrix):
    """A matrix with these arrays, whatever SciPy would have made of them."""
    made = form(X.shape)
    made.data, made.indices, made.indptr = data, indices, indptr
    return made


def every_second(array):
    return np.repeat(array, 2)[::2]


ODD = {
    "strided": with_arrays(*map(every_second, (X.data, X.indices, X.indptr))),
    "backwards": with_arrays(indices=X.indices[::-1].copy()[::-1]),
    "real parts": (X + 1j * X).tocsr().real,
    "an array": with_arrays(form=sparse.csr_array, indices=every_second(X.indices)),
    **{
        np.dtype(kind).name: with_arrays(
            indices=X.indices.astype(kind), indptr=X.indptr.astype(np.result_type(kind, np.uint16))
        )
        for kind in (np.uint8, np.int16, np.uint16, np.uint32, np.uint64, np.int64, ">i4")
    },
}


def assert_same(clf, other):
    np.testing.assert_array_equal(clf.coef_, other.coef_)
    assert repr(clf.certificate_) == repr(other.certificate_)
    np.testing.assert_array_equal(clf.decision_function(X), other.decision_function(X))


@pytest.mark.parametrize("odd", ODD.values(), ids=list(ODD))
def test_arrays_of_any_make(odd):
    plain, given = (ROMMA(max_iter=5, random_state=0).fit(rows, y) for rows in (X, odd))
    assert_same(given, plain)
    np.testing.assert_array_equal(plain.predict(odd), plain.predict(X))
    assert_same(given.partial_fit(odd, y), plain.partial_fit(X, y))


def test_sound_matrices_are_not_copied():
    for rows in (X, sparse.csr_array(X), X.tocsc()):
        assert sound(rows)[0] is rows
    given = ODD["uint32"]
    assert np.shares_memory(sound(given)[0].data, given.data)


def diagonals():
    return sparse.dia_matrix((np.ones((2, X.shape[1])), [0, 1]), shape=X.shape)


DAMAGES = {
    "a row far outside": with_arrays(indptr=np.where(np.arange(31) == 10, 5_000_000, X.indptr)),
    "the first row": with_arrays(indptr=np.where(np.arange(31) == 1, 2**30, X.indptr)),
    "an entry before the first row": with_arrays(indptr=np.where(np.arange(31) == 0, 1, X.indptr)),
    "too few starts": with_arrays(indptr=X.indptr[:-3]),
    "too few indices": with_arrays(indices=X.indices[:-1]),
    "columns that are no integers": with_arrays(indices=X.indices.astype(float)),
    "beyond all integers": with_arrays(
        indices=np.where(np.arange(X.nnz) == 7, 2**63 + 5, X.indices.astype(np.uint64))
    ),
    "CSC": X.tocsc(),
    "COO": X.tocoo(),
    "COO, too few values": X.tocoo(),
    "BSR": X.tobsr((1, 1)),
    "LIL, a row with a column too many": X.tolil(),
    "LIL, too few rows": X.tolil(),
    "LIL, a column outside": X.tolil(),
    "DIA, too few offsets": diagonals(),
    "DIA, an offset twice": diagonals(),
    "DIA, values in one dimension": diagonals(),
}
DAMAGES["CSC"].indptr[1] = 2**30
DAMAGES["COO"].row[3] = 2**30
DAMAGES["COO, too few values"].data = np.ones(2)
DAMAGES["BSR"].indices[1] = 2**30
DAMAGES["LIL, a row with a column too many"].rows[2] = [0]
DAMAGES["LIL, a row with a column too many"].data[2] = [1.0, 2.0]
DAMAGES["LIL, too few rows"].rows = DAMAGES["LIL, too few rows"].rows[:-1]
DAMAGES["LIL, a column outside"].rows[0][0] = 2**30
DAMAGES["DIA, too few offsets"].offsets = np.array([0], np.int32)
DAMAGES["DIA, an offset twice"].offsets[1] = DAMAGES["DIA, an offset twice"].offsets[0]
DAMAGES["DIA, values in one dimension"].data = np.ones(30)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
@pytest.mark.parametrize(
    "learner",
    [
        Perceptron(random_state=0),
        Forgetron(gamma=0.5, random_state=0),
        NOCA(random_state=0),
    ],
    ids=lambda each: type(each).__name__,
)
def test_damaged_matrices_are_refused(learner, damage):
    clf = learner.fit(X, y)
    for use in (
        lambda: clf.fit(damage, y),
        lambda: clf.partial_fit(damage, y),
        lambda: clf.predict(damage),
    ):
        with pytest.raises(ValueError, match=r"Input X is not a valid [A-Z]{3} matrix"):
            use()


@settings(max_examples=300)
@given(
    changes=st.lists(
        st.tuples(
            st.sampled_from(["indices", "indptr"]),
            st.integers(0, 2**16),
            st.integers(-3, 3) | st.integers(-(2**31), 2**31 - 1),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_what_points_outside_is_refused(changes):
    parts = {"indices": X.indices.copy(), "indptr": X.indptr.copy()}
    for name, place, value in changes:
        array = parts[name]
        moved = int(array[place % array.size]) + value
        array[place % array.size] = value if abs(value) > 3 else np.clip(moved, -(2**31), 2**31 - 1)
    indices, indptr = (array.tolist() for array in parts.values())
    rows = list(pairwise(indptr))
    inside = all(0 <= start <= stop <= X.nnz for start, stop in rows) and all(
        0 <= column < X.shape[1] for start, stop in rows for column in indices[start:stop]
    )
    inside = inside and indptr[0] == 0
    try:
        _, canonical = sound(with_arrays(**parts))
    except ValueError:
        assert not inside
    else:
        assert inside
        stored = [indices[start:stop] for start, stop in rows]
        assert canonical == all(columns == sorted(set(columns)) for columns in stored)
