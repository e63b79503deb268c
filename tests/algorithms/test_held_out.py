"""`MaxMargin.predict_set` by rows that were held out."""

import numpy as np
import pytest
from scipy import sparse

from maxmargin import MaxMargin
from maxmargin.persistence import load, save
from maxmargin.training.protocol import state_of
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
        assert state_of(clf).held_out.size == 40
        inside = clf.predict_set(X[200:], coverage)
        found.append(inside[np.arange(40), y[200:]].mean())
    error = np.std(found) / np.sqrt(300)
    assert coverage - 3.0 * error <= np.mean(found) <= coverage + 1.0 / 41.0 + 3.0 * error


def test_leave_one_out_scores_are_those_of_fits_without_the_row():
    """Those by the factor are approximate where another row becomes active or inactive."""
    X, y = rows(60, np.random.default_rng(2), 3)
    clf = MaxMargin(held_out="loo", soft_margin=10.0).fit(X, y)
    found = []
    for i in range(60):
        others = np.arange(60) != i
        without = MaxMargin(soft_margin=10.0).fit(X[others], y[others])
        found.append(class_scores(without.decision_function(X[i : i + 1]))[0, y[i]])
    np.testing.assert_allclose(state_of(clf).held_out, np.sort(found), atol=0.02)
    np.testing.assert_array_equal(clf.coef_, MaxMargin(soft_margin=10.0).fit(X, y).coef_)


def test_leave_one_out_coverage_is_about_the_target():
    """No theorem says so; the mean over 100 fits of 60 rows, where the fitted scores have less."""
    random, found, fitted = np.random.default_rng(3), [], []
    for _ in range(100):
        X, y = rows(100, random)
        X = np.hstack([X, random.normal(size=(100, 9))])
        clf = MaxMargin(held_out="loo").fit(X[:60], y[:60])
        found.append(clf.predict_set(X[60:], 0.8)[np.arange(40), y[60:]].mean())
        scores = np.sort(class_scores(clf._scored(X[:60])[1])[np.arange(60), y[:60]])
        inside = class_scores(clf._scored(X[60:])[1]) <= threshold(scores, 0.8)
        fitted.append(inside[np.arange(40), y[60:]].mean())
    assert abs(np.mean(found) - 0.8) < 0.02
    assert np.mean(fitted) < 0.77


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
    np.testing.assert_allclose(state_of(clf).held_out, expected)
    sparse_too = MaxMargin(held_out=0.1).fit(sparse.csr_matrix(X), y)
    np.testing.assert_allclose(state_of(sparse_too).held_out, expected, rtol=1e-6, atol=1e-9)


def test_files(tmp_path):
    X, y = rows(100, random, 3)
    for held_out in (0.3, "loo"):
        clf = MaxMargin(held_out=held_out).fit(X, y)
        save(clf, tmp_path / "model.mm")
        again = load(tmp_path / "model.mm").predict_set(X)
        np.testing.assert_array_equal(again, clf.predict_set(X))


def test_a_class_of_which_all_rows_are_held_out():
    """It could be in no set, so that its rows would not be covered."""
    with pytest.raises(ValueError, match=r"held_out=0.3 leaves no rows of the classes"):
        MaxMargin(held_out=0.3).fit(np.arange(10.0)[:, None], range(10))


def test_refusals():
    X, y = rows(100, random)
    with pytest.raises(ValueError, match=r"set held_out, to a share such as .* before fit"):
        MaxMargin().fit(X, y).predict_set(X)
    for coverage in (1, "0.9", None):
        with pytest.raises(ValueError, match="coverage must be a number between 0 and 1, got"):
            MaxMargin(held_out=0.1).fit(X, y).predict_set(X, coverage)
    with pytest.raises(ValueError, match=r"held_out=0.999 leaves no rows to learn from"):
        MaxMargin(held_out=0.999).fit(X, y)
    for held_out in (0.1, "loo"):
        with pytest.raises(ValueError, match="held_out needs rows with one label each"):
            MaxMargin(held_out=held_out).fit(X, np.stack([y, 1 - y], axis=1))
    with pytest.raises(ValueError, match="held_out='loo' needs leave-one-out outputs"):
        MaxMargin(held_out="loo", loss="hinge").fit(X, y)
