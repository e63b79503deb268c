"""`MaxMargin(loss="hinge")` against the objective itself, in extended precision, and LIBSVM."""

from fractions import Fraction

import numpy as np
import pytest
from brackets import drawn
from extent import EVERYTHING
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import maxmargin
from maxmargin import MaxMargin
from maxmargin.distributed import fit
from maxmargin.solvers import linear_curvature, linear_oracle

LONG = np.longdouble


def objective(X, y, weights, penalty, w, b, loss="hinge"):
    """In extended precision; y of -1 and 1."""
    w = np.asarray(w, LONG)
    slack = np.maximum(0, 1 - y * (np.asarray(X, LONG) @ w + LONG(b)))
    slack = slack if loss == "hinge" else slack**2
    return w @ w / 2 + (weights * slack).sum() / (2 * LONG(penalty))


def exact_objective(X, y, weights, penalty, w, b):
    """The same without any rounding."""
    w, b = [Fraction(float(v)) for v in w], Fraction(float(b))
    losses = Fraction(0)
    for x, sign, weight in zip(X, y, weights, strict=True):
        output = b + sum((Fraction(float(v)) * own for v, own in zip(x, w, strict=True)))
        losses += Fraction(float(weight)) * max(Fraction(0), 1 - int(sign) * output)
    return sum(v * v for v in w) / 2 + losses / (2 * Fraction(penalty))


def libsvm(X, y, weights, penalty):
    there = weights > 0
    clf = SVC(kernel="linear", C=0.5 / penalty, tol=1e-8, max_iter=10**5)
    clf.fit(X[there], y[there], sample_weight=weights[there])
    return clf.coef_[0], clf.intercept_[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(2000 if EVERYTHING else 100))
def test_the_optimum_is_between_dual_value_and_objective(seed):
    random = np.random.default_rng(seed)
    X, y, weights, penalty = drawn(random)
    penalty = penalty or 0.1
    intercept = bool(random.integers(2))
    clf = MaxMargin(loss="hinge", soft_margin=penalty, tol=1e-4, fit_intercept=intercept)
    certificate = clf.fit(X, y, sample_weight=weights).certificate_
    exact = exact_objective(X, y, weights, penalty, clf.coef_[0], clf.intercept_[0])
    assert Fraction(certificate.margin) <= 1 / (2 * exact)
    reached = LONG(float(exact))
    values = [reached]
    if intercept:
        values.append(objective(X, y, weights, penalty, *libsvm(X, y, weights, penalty)))
    assert certificate.bound >= 1 / (2 * min(values))
    if clf.converged_:
        assert certificate.ratio >= 1 - 1e-4
        assert reached <= 1.0002 * min(values)
    else:  # offsets and losses that leave no digits
        assert np.abs(X).max() > 1e5 * X.std(axis=0).max() or reached < 1e-6


@pytest.mark.parametrize("value", [0.0, 1.0, 1000.0])
def test_rows_that_are_all_equal(value):
    X, y = np.full((20, 3), value), np.repeat([-1, 1], [15, 5])
    clf = MaxMargin(loss="hinge", soft_margin=0.5).fit(X, y)
    assert clf.converged_
    np.testing.assert_allclose(clf.decision_function(X), -1.0, rtol=1e-3)
    assert clf.certificate_.margin == pytest.approx(1 / (2 * 10.0), rel=1e-3)


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("penalty", [5.0, 0.5, 0.05])
def test_the_objective_is_that_of_libsvm(as_sparse, penalty):
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    clf = MaxMargin(loss="hinge", soft_margin=penalty, tol=1e-6)
    clf.fit(sparse.csr_matrix(X) if as_sparse else X, y)
    signs, ones = np.where(y, 1, -1), np.ones(y.size)
    ours = objective(X, signs, ones, penalty, clf.coef_[0], clf.intercept_[0])
    theirs = objective(X, signs, ones, penalty, *libsvm(X, y, ones, penalty))
    assert clf.converged_
    assert (1 - 1e-5) * theirs <= ours <= (1 + 1e-6) * theirs
    assert clf.certificate_.margin == pytest.approx(float(1 / (2 * ours)), rel=1e-9)


@pytest.mark.parametrize("offset", [1e3, 1e6, 1e8])
@pytest.mark.parametrize("penalty", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_an_offset_of_all_rows_changes_the_intercept_alone(loss, offset, penalty):
    """The objective of rows about their mean is that of the rows, and so is the certificate."""
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 5))
    y = X @ random.normal(size=5) + random.normal(size=300) > 0
    far = X + offset * random.normal(size=5)
    near = far - far[0]  # exact: these are numbers with few digits behind the point
    given = {"loss": loss, "soft_margin": penalty, "tol": 1e-4}
    clf, wanted = MaxMargin(**given).fit(far, y), MaxMargin(**given).fit(near, y)
    assert clf.converged_
    assert clf.certificate_.margin == pytest.approx(wanted.certificate_.margin, rel=2e-4)
    signs = np.where(y, 1, -1)
    w, b = clf.coef_[0], clf.intercept_[0]
    # The intercept of near rows, exactly: extended precision is not enough for far ones.
    exact = Fraction(b) + sum(Fraction(v) * Fraction(x) for v, x in zip(w, far[0], strict=True))
    b = LONG(float(exact)) + LONG(float(exact - Fraction(float(exact))))
    reached = objective(near, signs, np.ones(300), penalty, w, b, loss)
    reached = 1 / (2 * reached) if loss == "hinge" else 1 / np.sqrt(2 * reached)
    assert clf.certificate_.margin <= reached
    assert clf.certificate_.margin == pytest.approx(float(reached), rel=1e-5)


def test_outputs_at_the_center_are_rounded_once():
    assert linear_oracle.exact_product(np.array([1e16, 1.0]), np.array([1.0, 1.0])) == 1e16
    assert linear_oracle.exact_product(np.array([1e16, 1.0, -1e16]), np.ones(3)) == 1.0
    assert np.isnan(linear_oracle.exact_product(np.array([np.inf]), np.ones(1)))


WAYS = {
    "sampled first": {"LEAST_SAMPLE": 20, "LEAST_PER_FEATURE": 1},
    "conjugate gradients": {"MOST_DIRECT": 0, "MOST_ROWS": 0},
    "products of rows": {"MOST_DIRECT": 0},
    "one problem at a time": {"MOST_KEPT": 1},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("intercept", [False, True])
def test_every_way_gives_the_same(monkeypatch, way, intercept):
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 12)) * (random.random((400, 12)) < 0.4)
    y = (X @ random.normal(size=12) + random.normal(size=400) > 0) + (X[:, 0] > 1.0)
    given = {"loss": "hinge", "soft_margin": 0.5, "fit_intercept": intercept, "max_iter": 300}
    usual = MaxMargin(**given, tol=1e-7).fit(X, y)
    for name, value in WAYS[way].items():
        module = linear_oracle if hasattr(linear_oracle, name) else linear_curvature
        monkeypatch.setattr(module, name, value)
    for rows in (X, sparse.csr_matrix(X)):
        clf = MaxMargin(**given, tol=1e-5).fit(rows, y)
        assert clf.converged_
        margins = [each.margin for each in clf.certificate_.classes]
        wanted = [each.margin for each in usual.certificate_.classes]
        np.testing.assert_allclose(margins, wanted, rtol=2e-5)


def test_a_weight_is_the_row_so_many_times():
    X, y = load_iris(return_X_y=True)
    weights = np.arange(y.size) % 3
    given = {"soft_margin": 1.0, "loss": "hinge", "tol": 1e-7}
    clf = MaxMargin(**given).fit(X, y, sample_weight=weights)
    again = MaxMargin(**given).fit(np.repeat(X, weights, axis=0), y.repeat(weights))
    for one, other in zip(clf.certificate_.classes, again.certificate_.classes, strict=True):
        assert one.margin == pytest.approx(other.margin, rel=1e-6)
    balanced = MaxMargin(**given, class_weight={0: 2.0}).fit(X, y)
    doubled = MaxMargin(**given).fit(X, y, sample_weight=np.where(y == 0, 2.0, 1.0))
    np.testing.assert_array_equal(balanced.coef_, doubled.coef_)


def test_several_labels():
    X, y = load_iris(return_X_y=True)
    Y = np.eye(3, dtype=int)[y]
    clf = MaxMargin(soft_margin=1.0, loss="hinge")
    of_labels = clf.fit(X, Y).coef_
    np.testing.assert_array_equal(of_labels, clf.fit(X, y).coef_)


def test_without_a_soft_margin_both_losses_are_the_same():
    X, y = load_iris(return_X_y=True)
    X, y = X[:100], y[:100]
    hard = MaxMargin(soft_margin=0.0).fit(X, y)
    clf = MaxMargin(loss="hinge", soft_margin=0.0).fit(X, y)
    np.testing.assert_array_equal(clf.coef_, hard.coef_)
    assert clf.certificate_ == hard.certificate_


def test_all_weights_are_zero_at_the_optimum():
    X, y = np.array([[-1.0], [1.0], [2.0], [3.0]]), [0, 1, 1, 1]
    clf = MaxMargin(loss="hinge", soft_margin=1e4).fit(X, y)
    # Each row costs 1 / (2 lambda) at most: two of them suffice.
    assert clf.certificate_.bound >= 1e4 / 2
    assert clf.certificate_.ratio > 0.999


def test_files_keep_the_certificate(tmp_path):
    X, y = load_iris(return_X_y=True)
    clf = MaxMargin(loss="hinge").fit(X, y)
    maxmargin.save(clf, tmp_path / "model")
    again = maxmargin.load(tmp_path / "model")
    assert again.certificate_ == clf.certificate_
    assert again.loss == "hinge"
    np.testing.assert_array_equal(again.decision_function(X), clf.decision_function(X))


def test_a_fit_that_is_cut_short_says_so():
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.warns(UserWarning, match="as optimum over objective after 1 step;"):
        clf = MaxMargin(loss="hinge", max_iter=1).fit(X, y)
    assert not clf.converged_


def test_shards_are_refused():
    with pytest.raises(ValueError, match="loss='hinge'"):
        fit(MaxMargin(loss="hinge"), [([[0.0], [1.0]], [0, 1])])
