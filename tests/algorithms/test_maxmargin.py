"""`MaxMargin` against quadratic programmes that are solved apart from the library."""

import re

import numpy as np
import pytest
from brackets import best_margin, drawn
from extent import EVERYTHING, everything_or
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_info, threadpool_limits

from maxmargin import PUMMA, Certificate, MaxMargin
from maxmargin.solvers import linear_curvature, linear_oracle


@pytest.mark.parametrize("seed", range(2000 if EVERYTHING else 100))
def test_the_best_margin_is_between_margin_and_bound(seed):
    random = np.random.default_rng(seed)
    X, y, weights, penalty = drawn(random)
    intercept = bool(random.integers(2))
    clf = MaxMargin(soft_margin=penalty, tol=1e-4, fit_intercept=intercept)
    certificate = clf.fit(X, y, sample_weight=weights).certificate_
    attained, bound = best_margin(X, y, weights, penalty, intercept)
    tiny = 1e-9 * float(np.abs(X).max())
    assert certificate.bound >= attained * (1 - 1e-12)
    assert certificate.margin <= bound * (1 + 1e-12)
    if clf.converged_:
        assert certificate.ratio >= 1 - 1e-4
    elif attained > tiny:  # rows that are much longer than their differences are rounded as such
        assert np.abs(X).max() > 1e5 * X.std(axis=0).max()
        assert certificate.ratio > 0.99
    elif bound < tiny:
        assert certificate.bound <= 10 * tiny


@pytest.mark.unseeded
@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("penalty", [1.0, 0.01])
def test_the_objective_is_that_of_liblinear(as_sparse, penalty):
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    given = sparse.csr_matrix(X) if as_sparse else X
    ours = MaxMargin(soft_margin=penalty, tol=1e-8).fit(given, y)
    # An intercept with so large a coordinate costs LIBLINEAR next to nothing.
    theirs = LinearSVC(C=0.5 / penalty, dual=False, tol=1e-9, intercept_scaling=1e3, max_iter=10**5)
    theirs.fit(given, y)

    def objective(clf):
        slack = np.maximum(0.0, 1.0 - np.where(y, 1, -1) * clf.decision_function(given))
        return 0.5 * (clf.coef_**2).sum() + 0.5 * (slack**2).sum() / penalty

    assert objective(ours) == pytest.approx(objective(theirs), rel=1e-6)
    assert ours.certificate_.margin == pytest.approx(1 / np.sqrt(2 * objective(ours)), rel=1e-9)


def test_it_is_what_online_learners_approach():
    X, y = load_iris(return_X_y=True)
    best = MaxMargin(soft_margin=0.1).fit(X, y)
    near = PUMMA(soft_margin=0.1, tol=0.02, random_state=0).fit(X, y)
    for exact, online in zip(best.certificate_.classes, near.certificate_.classes, strict=True):
        assert online.margin <= exact.bound
        assert exact.margin <= online.bound


# ------------------------------------------------------------------------------------ ways to solve
def problem(seed, n=400, d=12):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) * (random.random((n, d)) < 0.4)
    y = X @ random.normal(size=d) + random.normal(size=n) > 0
    return X, y.astype(int)


WAYS = {
    "sampled first": {"LEAST_SAMPLE": 20, "LEAST_PER_FEATURE": 1},
    "conjugate gradients": {"MOST_DIRECT": 0, "MOST_ROWS": 0, "MOST_PASSES": 0},
    "ascent first": {"MOST_DIRECT": 0, "MOST_ROWS": 0, "MOST_PASSES": 8},
    "one problem at a time": {"MOST_KEPT": 1},
    "no exact minimum": {"SMALL": 0},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("penalty", [0.0, 0.5])
@pytest.mark.parametrize(
    ("classes", "intercept"),
    everything_or([(2, False), (3, True)], [(2, False), (2, True), (3, False), (3, True)]),
)
def test_every_way_gives_the_same(monkeypatch, way, penalty, classes, intercept):
    X, y = problem(seed=classes)
    if penalty == 0.0:
        X = X + 3.0 * np.eye(12)[:3][y]
        y[:100], X[:100] = 0, X[:100] - 2.0
    if classes == 3:
        y = y + (X[:, 0] > 1.0)
    usual = MaxMargin(soft_margin=penalty, tol=1e-7, fit_intercept=intercept).fit(X, y)
    for name, value in WAYS[way].items():
        module = linear_oracle if hasattr(linear_oracle, name) else linear_curvature
        monkeypatch.setattr(module, name, value)
    for rows in (X, sparse.csr_matrix(X)):
        clf = MaxMargin(soft_margin=penalty, tol=1e-6, fit_intercept=intercept).fit(rows, y)
        assert clf.converged_ == usual.converged_
        margins = [each.margin for each in clf.certificate_.classes or [clf.certificate_]]
        wanted = [each.margin for each in usual.certificate_.classes or [usual.certificate_]]
        np.testing.assert_allclose(margins, wanted, rtol=2e-6)
        found, outputs = clf.decision_function(rows), usual.decision_function(X)
        np.testing.assert_allclose(found, outputs, atol=0.01 * np.abs(outputs).max())


@pytest.mark.parametrize("penalty", [0.0, 1e-2, 1.0])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("intercept", [False, True])
def test_fewer_rows_than_features(monkeypatch, seed, penalty, intercept):
    random = np.random.default_rng(seed)
    X = random.normal(size=(60, 160)) * (random.random((60, 160)) < 0.1)
    y, settings = random.integers(0, 3, 60), {"soft_margin": penalty, "fit_intercept": intercept}
    usual = MaxMargin(**settings, tol=1e-6).fit(X, y)
    assert usual.converged_
    monkeypatch.setattr(linear_oracle, "MOST_DIRECT", 0)
    each = [MaxMargin(**settings, tol=1e-6).fit(rows, y) for rows in (X, sparse.csr_matrix(X))]
    assert all(clf.converged_ and clf.n_iter_ < 60 for clf in each)
    wanted = [one.margin for one in usual.certificate_.classes]
    for clf in each:
        margins = [one.margin for one in clf.certificate_.classes]
        np.testing.assert_allclose(margins, wanted, rtol=2e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["dense", "Fortran", "CSR"])
def test_layouts(dtype, kind):
    X, y = problem(seed=5)
    X = X.astype(dtype).astype(float)
    rows = {"dense": X, "Fortran": np.asfortranarray(X), "CSR": sparse.csr_matrix(X)}[kind]
    clf = MaxMargin(tol=1e-6).fit(rows.astype(dtype), y)
    np.testing.assert_allclose(clf.coef_, MaxMargin(tol=1e-6).fit(X, y).coef_, rtol=1e-6, atol=1e-9)


def test_many_sparse_features():
    random = np.random.default_rng(0)
    X = sparse.random(300, 50_000, 4e-4, "csr", random_state=0)
    y = random.integers(0, 2, 300)
    clf = MaxMargin().fit(X, y)
    assert clf.converged_
    assert clf.coef_.shape == (1, 50_000)
    assert clf.score(X, y) > 0.95


# ------------------------------------------------------------------------------------------ weights
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 10.0]))
def test_a_weight_is_how_often_a_row_is_there(seed, penalty):
    random = np.random.default_rng(seed)
    X, y = random.normal(size=(30, 3)), random.integers(0, 2, 30)
    y[:2] = 0, 1
    times = random.integers(0, 4, 30)
    times[:2] = 1
    weighted = MaxMargin(soft_margin=penalty, tol=1e-9).fit(X, y, sample_weight=times)
    repeated = MaxMargin(soft_margin=penalty, tol=1e-9)
    repeated.fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(weighted.intercept_, repeated.intercept_, rtol=1e-6, atol=1e-9)


def test_weights_scale_lambda():
    X, y = problem(seed=1)
    one = MaxMargin(soft_margin=1.0, tol=1e-8).fit(X, y, sample_weight=np.full(y.size, 4.0))
    other = MaxMargin(soft_margin=0.25, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(one.coef_, other.coef_, rtol=1e-9)


def test_class_weights_are_weights_of_rows():
    X, y = problem(seed=2)
    y[:300] = 0
    by_class = MaxMargin(class_weight={0: 0.5, 1: 3.0}).fit(X, y)
    by_row = MaxMargin().fit(X, y, sample_weight=np.where(y, 3.0, 0.5))
    np.testing.assert_array_equal(by_class.coef_, by_row.coef_)
    share = y.size / (2 * np.bincount(y))
    balanced = MaxMargin(class_weight="balanced").fit(X, y)
    np.testing.assert_array_equal(
        balanced.coef_, MaxMargin().fit(X, y, sample_weight=share[y]).coef_
    )


@pytest.mark.parametrize("weight", [None, "a", 0.0, -1.0, 1e-320, np.nan])
def test_bad_class_weights(weight):
    with pytest.raises(ValueError, match=r"class_weight must be between .* for the class 1"):
        MaxMargin(class_weight={1: weight}).fit([[0.0], [1.0]], [0, 1])


def test_class_weights_may_name_classes_that_are_not_there():
    clf = MaxMargin(class_weight={0: 1.0, 1: 2.0, 7: 3.0}).fit([[0.0], [1.0]], [0, 1])
    assert clf.converged_


def test_a_class_of_weight_zero_is_not_there():
    X, y = load_iris(return_X_y=True)
    clf = MaxMargin().fit(X, y, sample_weight=(y != 1).astype(float))
    assert clf.classes_.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0, 1.0], r"not negative, got -1.0 \(row 1\)"),
        ([1.0, np.nan, 1.0], r"finite and not negative, got nan \(row 1\)"),
        ([1.0, 1e-60, 1.0], r"0 or between 1e-50 and 1e\+50, got 1e-60 \(row 1\)"),
        ([1.0, 1.0], "sample_weight.shape"),
        ([0.0, 0.0, 0.0], "weights are zero"),
        ([1.0, 1.0, 0.0], "only one class"),
    ],
)
def test_bad_weights(weights, message):
    clf = MaxMargin().fit([[0.0], [1.0]], [0, 1])
    before = clf.coef_.copy()
    with pytest.raises(ValueError, match=message):
        clf.fit([[0.0], [1.0], [2.0]], [0, 0, 1], sample_weight=weights)
    np.testing.assert_array_equal(clf.coef_, before)


# ------------------------------------------------------------------------------------ hard margins
def test_hard_margin_of_separable_rows():
    X, y = load_iris(return_X_y=True)
    clf = MaxMargin(soft_margin=0, tol=1e-6).fit(X[:, 2:], y == 0)
    assert clf.converged_
    assert clf.score(X[:, 2:], y == 0) == 1.0
    # The plane between the hulls: the nearest rows are equally far from it.
    f = clf.decision_function(X[:, 2:])
    assert f[y == 0].min() == pytest.approx(-f[y != 0].max(), rel=1e-5)


def test_advice_where_rows_may_not_be_separable():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(
        ConvergenceWarning, match="use soft_margin > 0 if the rows are not separable"
    ):
        MaxMargin(soft_margin=0.0, max_iter=5).fit(X, y)


def test_rows_that_cannot_be_separated_are_proved_to_be():
    X, y = load_iris(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match="No hyperplane separates these rows by more than"):
        clf = MaxMargin(soft_margin=0).fit(X[:, :2], y == 1)
    assert not clf.converged_
    assert 0.0 <= clf.certificate_.bound < 1e-8


def test_the_same_row_with_two_labels():
    with pytest.warns(ConvergenceWarning, match="No hyperplane"):
        clf = MaxMargin(soft_margin=0).fit([[1.0, 2.0], [1.0, 2.0]], [0, 1])
    assert clf.certificate_.bound < 1e-9


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("penalty", [1e-3, 1e-2])
def test_columns_of_very_different_sizes(seed, penalty):
    random = np.random.default_rng(seed)
    X = random.normal(size=(20, 60)) * 10.0 ** random.uniform(-3, 3, 60) * 1e5
    clf = MaxMargin(soft_margin=penalty).fit(X, np.arange(20) % 2)
    assert clf.certificate_.margin <= clf.certificate_.bound
    assert clf.score(X, np.arange(20) % 2) == 1.0


def test_a_fit_that_rounding_stops_is_not_told_to_take_more_steps():
    random = np.random.default_rng(2)
    X = random.normal(size=(200, 60)) * 10.0 ** random.uniform(-8, 8, 60)
    stopped = r"after \d+ steps; .* It stopped before max_iter=100, because rounding .* scale the"
    with pytest.warns(ConvergenceWarning, match=stopped) as caught:
        clf = MaxMargin(soft_margin=1e-3, tol=1e-9).fit(X, X @ (1 / np.abs(X).max(axis=0)) > 0)
    assert clf.n_iter_ < 100
    printed = re.search(r"certifies ([\d.]+) of the best", str(caught[0].message))
    assert float(printed[1]) <= clf.certificate_.ratio


def test_a_hard_margin_that_needs_more_steps_does_not_speak_of_proofs():
    X = np.random.default_rng(0).normal(size=(60, 4))
    with pytest.warns(ConvergenceWarning, match="Increase max_iter"):
        MaxMargin(soft_margin=0, max_iter=1).fit(X, X[:, 0] > 0)


def test_too_few_steps_are_said():
    X, y = load_digits(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match="certifies 0"):
        clf = MaxMargin(max_iter=1, soft_margin=1e-3).fit(X, y)
    assert not clf.converged_
    assert clf.n_iter_ == 1


# ----------------------------------------------------------------------------------------- the rest
def test_offsets_of_all_rows_cost_no_digits():
    X, y = problem(seed=3)
    usual, far = MaxMargin(tol=1e-6).fit(X, y), MaxMargin(tol=1e-4).fit(X + 1e6, y)
    assert far.converged_
    assert far.certificate_.margin == pytest.approx(usual.certificate_.margin, rel=1e-4)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_few_rows_of_many_features(loss, offset):
    """Products of rows are those about the mean, and the first mu is as large as they are."""
    random = np.random.default_rng(3)
    X, y = random.normal(size=(189, 1637)), random.integers(0, 2, 189)
    given = {"loss": loss, "soft_margin": 0.05}
    near, far = MaxMargin(**given).fit(X, y), MaxMargin(**given).fit(X + offset, y)
    assert near.converged_
    assert far.converged_
    assert far.n_iter_ <= 20
    assert far.certificate_.margin == pytest.approx(near.certificate_.margin, rel=2e-3)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_hinge_loss_of_many_words(seed, intercept):
    """With many rows and features, steps are found by conjugate gradients, at first without rows
    that are neither beyond their goal nor at the limit: none then has a say about the intercept."""
    random, words = np.random.default_rng(seed), 12
    columns = (4000 * random.random((2000, words)) ** 3).astype(int)
    entries = (np.ones(columns.size), (np.repeat(np.arange(2000), words), columns.ravel()))
    X = sparse.csr_matrix(entries, shape=(2000, 4000))
    y = X @ random.normal(size=4000) + random.normal(size=2000) > 0.0
    clf = MaxMargin(soft_margin=1.0, loss="hinge", fit_intercept=intercept).fit(X, y)
    assert clf.converged_
    assert clf.certificate_.ratio >= 0.999
    machine = LinearSVC(loss="hinge", C=0.5, fit_intercept=False, max_iter=20000, random_state=0)

    def objective(coef, bias):
        slack = 1.0 - np.where(y, 1.0, -1.0) * (X @ coef[0] + bias)
        return 0.5 * np.sum(coef**2) + 0.5 * np.maximum(slack, 0.0).sum()

    peer = objective(machine.fit(X, y).coef_, 0.0)
    assert objective(clf.coef_, clf.intercept_) <= 1.001 * peer


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_the_hinge_loss_of_rows_with_an_offset(offset):
    """Dense rows, and one such column of sparse ones, are measured from a point among them."""
    random = np.random.default_rng(5)
    X = random.normal(size=(300, 6))
    y = X[:, 0] + random.normal(size=300) > 0.0
    few = sparse.random(300, 60, 0.08, random_state=5, format="csr")
    column = sparse.csr_matrix(offset + X[:, :1])
    for rows in (X + offset, sparse.hstack([few, column], format="csr")):
        assert MaxMargin(soft_margin=1.0, loss="hinge", max_iter=200).fit(rows, y).converged_


def test_advice_where_an_offset_costs_digits(monkeypatch):
    """Many rows of many features are not centered, as that would fill sparse ones."""
    monkeypatch.setattr(linear_oracle, "MOST_DIRECT", 10)
    monkeypatch.setattr(linear_oracle, "MOST_ROWS", 10)
    random = np.random.default_rng(0)
    X = random.normal(size=(100, 20))
    y = X[:, 0] + random.normal(size=100) > 0.0
    with pytest.warns(ConvergenceWarning, match="center and scale the columns"):
        MaxMargin(soft_margin=1.0, loss="hinge").fit(X + 1e6, y)
    assert MaxMargin(soft_margin=1.0, loss="hinge").fit(X, y).converged_


def test_shards_prove_together_what_all_rows_do():
    X, y = problem(seed=4)
    clf = MaxMargin(soft_margin=1.0, tol=1e-6)
    parts = [clf.fit(X[k::2], y[k::2]).certificate_ for k in (0, 1)]
    clf.fit(X, y)
    merged = Certificate.merge(parts)
    assert merged.bound >= clf.certificate_.margin
    assert np.isnan(merged.margin)  # what rows lack adds up over shards
    assert Certificate.merge(parts[:1]) == parts[0]


def test_nothing_is_counted_that_does_not_happen():
    clf = MaxMargin().fit([[0.0], [1.0]], [0, 1])
    assert not hasattr(clf, "n_updates_")
    assert not hasattr(clf, "n_mistakes_")
    assert not hasattr(clf, "support_")


def test_streams_need_another_learner():
    for name in ("fit_stream", "learn_one", "predict_one"):
        with pytest.raises(AttributeError, match="use fit and predict, or AutoMargin for streams"):
            getattr(MaxMargin(), name)


@pytest.mark.parametrize(("width", "expected"), [(5, 1), (linear_oracle.ONE_THREAD + 1, 3)])
def test_small_matrices_have_one_thread(monkeypatch, width, expected):
    """Threads of BLAS wait for each other: beside other work that takes many times as long."""

    def threads():
        return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}

    seen, factor = set(), linear_curvature.cholesky

    def watched(matrix):
        seen.update(threads())
        return factor(matrix)

    monkeypatch.setattr(linear_curvature, "cholesky", watched)
    random = np.random.default_rng(0)
    X = random.normal(size=(600, width))
    with threadpool_limits(3):
        MaxMargin(max_iter=2).fit(X, X[:, 0] + random.normal(size=600) > 0.0)
        assert seen == {expected}
        assert threads() == {3}
