"""`MaxMargin.predict_set` by rows that were held out."""

import numpy as np
import pytest
from scipy import sparse

from maxmargin import MaxMargin
from maxmargin.persistence import load, save
from maxmargin.training.split_conformal import class_scores, held_out_rows, threshold

random = np.random.default_rng(0)


def rows(n, random, classes=2):
    X = random.normal(size=(n, 3))
    noisy = X[:, 0] + 0.7 * random.normal(size=n)
    return X, np.digitize(noisy, [0.0] if classes == 2 else [-0.6, 0.6])


@pytest.mark.parametrize(("classes", "coverage"), [(2, 0.9), (3, 0.8)])
def test_coverage_on_exchangeable_rows(classes, coverage):
    """The mean over 300 fits, each with 40 held-out rows: between coverage and 1 / 41 more."""
    random, found = np.random.default_rng(1), []
    for _ in range(300):
        X, y = rows(240, random, classes)
        clf = MaxMargin(held_out=0.2).fit(X[:200], y[:200])
        assert clf._state.held_out.size == 40
        inside = clf.predict_set(X[200:], coverage)
        found.append(inside[np.arange(40), y[200:]].mean())
    error = np.std(found) / np.sqrt(300)
    assert coverage - 3.0 * error <= np.mean(found) <= coverage + 1.0 / 41.0 + 3.0 * error


def test_the_threshold_is_the_finite_sample_quantile():
    scores = np.arange(1.0, 10.0)  # nine: ranks of ten
    assert threshold(scores, 0.9) == 9.0
    assert threshold(scores, 0.85) == 9.0
    assert threshold(scores, 0.8) == 8.0
    assert threshold(scores, 0.95) == np.inf


def test_scores_of_classes():
    outputs = random.normal(size=(50, 4))
    expected = [[max(np.delete(row, c)) - row[c] for c in range(4)] for row in outputs]
    np.testing.assert_allclose(class_scores(outputs), expected)
    np.testing.assert_array_equal(class_scores(outputs[:, :1]), outputs[:, :1] * [1.0, -1.0])
    np.testing.assert_array_equal(class_scores(np.array([[1.0, 1.0, 0.0]])), [[0.0, 0.0, 1.0]])


def test_the_fit_is_that_of_the_other_rows():
    X, y = rows(200, random)
    clf = MaxMargin(held_out=0.1).fit(X, y)
    chosen = held_out_rows(np.ones(200), 0.1)
    rest = np.setdiff1d(np.arange(200), chosen)
    other = MaxMargin().fit(X[rest], y[rest])
    np.testing.assert_allclose(clf.coef_, other.coef_, rtol=1e-6)
    signs = np.where(y[chosen] == 1, -1.0, 1.0)
    expected = np.sort(clf.decision_function(X[chosen]) * signs)
    np.testing.assert_allclose(clf._state.held_out, expected)
    sparse_too = MaxMargin(held_out=0.1).fit(sparse.csr_matrix(X), y)
    np.testing.assert_allclose(sparse_too._state.held_out, expected, rtol=1e-6, atol=1e-9)


def test_files(tmp_path):
    X, y = rows(100, random, 3)
    clf = MaxMargin(held_out=0.3).fit(X, y)
    save(clf, tmp_path / "model.mm")
    np.testing.assert_array_equal(load(tmp_path / "model.mm").predict_set(X), clf.predict_set(X))


def test_refusals():
    X, y = rows(100, random)
    with pytest.raises(ValueError, match=r"set held_out, such as 0\.1, before fit"):
        MaxMargin().fit(X, y).predict_set(X)
    with pytest.raises(ValueError, match="coverage must be between 0 and 1, got 1"):
        MaxMargin(held_out=0.1).fit(X, y).predict_set(X, 1)
    with pytest.raises(ValueError, match="held_out needs rows with one label each"):
        MaxMargin(held_out=0.1).fit(X, np.stack([y, 1 - y], axis=1))
