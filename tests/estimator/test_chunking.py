"""Any way of cutting a stream into calls gives the same model, to the bit."""

import numpy as np
import pytest
from extent import EVERYTHING, everything_or
from hypothesis import given, settings
from problems import (
    chunk_sizes,
    kinds_of_learners,
    label,
    learners,
    separable,
    three_classes,
)
from scipy import sparse
from sklearn.base import clone

from maxmargin import ROMMA
from maxmargin.training.protocol import state_of

ROWS = 40
FORMS = {"dense": np.asarray, "CSR": sparse.csr_matrix}

every_learner = pytest.mark.parametrize("learner", kinds_of_learners(), ids=label)
every_form = pytest.mark.parametrize("form", FORMS)


def stream(classes, form, dtype):
    X, y = separable(n=ROWS, d=5, gap=0.05) if classes == 2 else three_classes(n=ROWS, d=5)
    X[:, 3] *= np.arange(ROWS) % 2  # so that sparse rows have different lengths
    return FORMS[form](X.astype(dtype)), y


def feed(learner, X, y, sizes, between=lambda clf: clf):
    """Present the rows in chunks of these sizes, doing something between the calls."""
    clf, start = clone(learner), 0
    for size in sizes:
        chunk = slice(start, start + size)
        clf = between(clf.partial_fit(X[chunk], y[chunk], classes=np.unique(y)))
        start += size
    assert start == X.shape[0]
    return clf


def bounds(clf):
    """One for each problem: which is the weakest depends on the margins, known to `fit` only."""
    certificate = clf.certificate_
    return [one.bound for one in certificate.classes or (certificate,)]


def assert_same(clf, expected):
    np.testing.assert_array_equal(clf.coef_, expected.coef_)
    np.testing.assert_array_equal(clf.intercept_, expected.intercept_)
    assert clf.n_updates_ == expected.n_updates_
    assert clf.n_mistakes_ == expected.n_mistakes_
    assert bounds(clf) == bounds(expected)
    mine, other = (state_of(each).model.linear.scalars.table for each in (clf, expected))
    for name in mine.dtype.names:
        np.testing.assert_array_equal(mine[name], other[name], err_msg=name)


WAYS = [
    (learner, dtype)
    for learner in kinds_of_learners()
    for dtype in (np.float64, np.float32)
    if EVERYTHING or dtype is np.float64 or type(learner) is ROMMA
]


@pytest.mark.parametrize(("learner", "dtype"), WAYS, ids=label)
@every_form
@pytest.mark.parametrize("classes", [2, 3])
def test_one_pass_is_any_chunking(learner, form, classes, dtype):
    X, y = stream(classes, form, dtype)
    expected = clone(learner).set_params(shuffle=False, max_iter=1).fit(X, y)
    assert expected.n_updates_ > 0
    assert_same(feed(learner, X, y, [ROWS]), expected)
    assert_same(feed(learner, X, y, [1] * ROWS), expected)

    @settings(deadline=None, max_examples=5)
    @given(sizes=chunk_sizes(ROWS))
    def check(sizes):
        assert_same(feed(learner, X, y, sizes), expected)

    check()


@pytest.mark.parametrize(
    "learner", everything_or([ROMMA(delta=0.1)], kinds_of_learners()), ids=label
)
def test_chunks_of_other_index_types(learner):
    """Sparse chunks with 32-bit and with 64-bit indices, in turn."""
    X, y = stream(3, "CSR", np.float64)

    def widened(rows):
        wide = rows.copy()
        wide.indices, wide.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
        return wide

    expected = feed(learner, X, y, [ROWS])
    clf = clone(learner)
    for number, start in enumerate(range(0, ROWS, 5)):
        chunk = X[start : start + 5]
        clf.partial_fit(
            widened(chunk) if number % 2 else chunk, y[start : start + 5], classes=[0, 1, 2]
        )
    assert_same(clf, expected)


@every_learner
def test_looking_changes_nothing(learner):
    """Predicting and asking for the certificate between the calls leave no trace."""
    X, y = stream(3, "dense", np.float64)

    def look(clf):
        clf.predict(X)
        assert clf.certificate_.bound > 0
        return clf

    assert_same(feed(learner, X, y, [1] * ROWS, between=look), feed(learner, X, y, [ROWS]))


@pytest.mark.parametrize("learner", learners()[:3], ids=label)
def test_fit_in_several_calls_of_the_loop(monkeypatch, learner):
    """`fit` cuts long passes, so that it can be interrupted."""
    X, y = stream(2, "dense", np.float64)
    plain = clone(learner).set_params(max_iter=3, random_state=0)
    expected = clone(plain).fit(X, y)
    monkeypatch.setattr("maxmargin.training.passes.VALUES_PER_CALL", 7 * X.shape[1])
    clf = clone(plain).fit(X, y)
    assert_same(clf, expected)
    assert clf.certificate_ == expected.certificate_
