"""`MaxMargin(kernel="auto")`, widths by leave-one-out errors, and landmarks."""

import numpy as np
import pytest
from reference_column_scales import laplacian, left_out, next_scales, ridge
from scipy import sparse
from sklearn.datasets import load_iris, load_wine, make_classification
from sklearn.exceptions import ConvergenceWarning

import maxmargin
from maxmargin import MaxMargin, PassiveAggressive
from maxmargin.kernels.products import l1_distances
from maxmargin.solvers import kernel_choice, landmarks
from maxmargin.solvers.kernel_choice import ChosenWidth, Ridge, RidgeLabels

PENALTY, GAMMA = 0.3, 0.4


def targets_for(rows=40, problems=3, weighted=False, intercept=True, seed=0):
    random = np.random.default_rng(seed)
    signs = random.choice([-1.0, 1.0], (rows, problems))
    weights = random.integers(1, 4, rows).astype(float) if weighted else np.ones(rows)
    return RidgeLabels(signs, weights, intercept)


def values_for(rows=40, columns=3, seed=1):
    X = np.random.default_rng(seed).normal(size=(rows, columns))
    return X, laplacian(X, X, GAMMA)


def rings(rows=300, noise=3, seed=0):
    """Two columns with a round boundary, and columns of noise in other units."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 2 + noise))
    y = np.where((X[:, :2] ** 2).sum(axis=1) < 1.4, "in", "out")
    return X * 10.0 ** np.arange(-2, noise) + 50.0, y


# -------------------------------------------------------------------------------- ridge regression
def test_ridge_regressions_are_those_of_the_reference():
    _, values = values_for()
    targets = targets_for()
    found = Ridge(values, targets)
    for penalty in (1e-3, PENALTY, 30.0):
        coefs, bias = ridge(values, targets.signs, penalty)
        np.testing.assert_allclose(found.coefficients(penalty), coefs, rtol=1e-7, atol=1e-9)
        expected = left_out(values, targets.signs, penalty)
        np.testing.assert_allclose(found.left_out(penalty), expected, rtol=1e-7, atol=1e-9)
        solved, intercepts = kernel_choice.solved(values, targets, penalty)
        np.testing.assert_allclose(solved, coefs, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(intercepts, bias, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("intercept", [True, False])
def test_a_row_of_weight_2_is_the_row_twice(intercept):
    _, values = values_for()
    targets = targets_for(weighted=True, intercept=intercept)
    copies = np.repeat(np.arange(40), targets.weights.astype(int))
    several = targets.take(copies)._replace(weights=np.ones(copies.size))
    twice = Ridge(values[np.ix_(copies, copies)], several).coefficients(PENALTY)
    sums = np.zeros((40, 3))
    np.add.at(sums, copies, twice)
    found = Ridge(values, targets).coefficients(PENALTY)
    np.testing.assert_allclose(found, sums, rtol=1e-8, atol=1e-10)
    solved, _ = kernel_choice.solved(values, targets, PENALTY)
    np.testing.assert_allclose(solved, found, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("intercept", [True, False])
def test_weighted_rows_are_left_out_as_a_whole(intercept):
    _, values = values_for()
    targets = targets_for(weighted=True, intercept=intercept)
    found = Ridge(values, targets).left_out(PENALTY)
    for i in range(0, 40, 7):
        rest = np.arange(40) != i
        coefs, bias = kernel_choice.solved(values[np.ix_(rest, rest)], targets.take(rest), PENALTY)
        np.testing.assert_allclose(found[i], values[i, rest] @ coefs + bias, atol=1e-9)


# ------------------------------------------------------------------------------- scales of columns
@pytest.mark.parametrize("columns", [1, 5, 8])
def test_scales_are_those_of_the_reference(columns):
    X, _ = values_for(columns=columns)
    X[::5] = X[1]  # equal entries
    targets = targets_for()
    scales = np.random.default_rng(2).uniform(0.1, 1.0, columns)
    values = laplacian(X * scales, X * scales, GAMMA)
    coefs = Ridge(values, targets).coefficients(PENALTY)
    chosen = ChosenWidth(0, GAMMA, PENALTY, 0.0, values, coefs)
    found = kernel_choice.next_scales(X, targets, scales, chosen)
    expected = next_scales(X, targets.signs, scales, GAMMA, PENALTY)
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_columns_that_matter_have_large_scales():
    X, y = rings()
    clf = MaxMargin(kernel="auto", soft_margin="auto").fit(X, y)
    assert clf.column_scales_.max() == 1.0
    assert clf.column_scales_[:2].min() > 3.0 * clf.column_scales_[2:].max()
    new, labels = rings(seed=1)
    equal = MaxMargin(kernel="laplacian", gamma="loo", soft_margin="auto")
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    equal.fit((X - mean) / deviation, y)
    assert clf.score(new, labels) > equal.score((new - mean) / deviation, labels)


def test_scales_stay_equal_where_learned_ones_predict_worse():
    """All columns matter equally, and rows are few: learned scales only add noise."""
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 20))
    clf = MaxMargin(kernel="auto").fit(X, X.sum(axis=1) > 0.0)
    np.testing.assert_array_equal(clf.column_scales_, np.ones(20))


@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_units_of_columns_do_not_matter(load):
    X, y = load(return_X_y=True)
    units = 10.0 ** np.linspace(-6, 6, X.shape[1])
    one = MaxMargin(kernel="auto", soft_margin="auto", calibration="loo").fit(X, y)
    other = MaxMargin(kernel="auto", soft_margin="auto", calibration="loo").fit(X * units, y)
    np.testing.assert_allclose(other.column_scales_, one.column_scales_, rtol=1e-6)
    np.testing.assert_allclose(other.predict_proba(X * units), one.predict_proba(X), atol=1e-6)


def test_sparse_rows_are_learned_as_dense_ones():
    X, y = make_classification(200, 12, n_informative=4, random_state=0)
    X *= np.random.default_rng(0).random(X.shape) < 0.3
    dense = MaxMargin(kernel="auto", soft_margin="auto").fit(X, y)
    rows = sparse.csr_matrix(X)
    clf = MaxMargin(kernel="auto", soft_margin="auto").fit(rows, y)
    np.testing.assert_allclose(clf.column_scales_, dense.column_scales_, rtol=1e-6)
    np.testing.assert_allclose(clf.decision_function(rows), dense.decision_function(X), atol=1e-6)


def test_wide_sparse_rows_keep_equal_scales(monkeypatch):
    monkeypatch.setattr(kernel_choice, "MOST_DENSE_VALUES", 100)
    X, y = make_classification(50, 12, random_state=0)
    clf = MaxMargin(kernel="auto").fit(sparse.csr_matrix(X), y)
    np.testing.assert_array_equal(clf.column_scales_, np.ones(12))


def test_constant_columns_have_no_scale():
    X, y = rings(noise=1)
    X[:, 2] = 1e9
    clf = MaxMargin(kernel="auto").fit(X, y)
    assert clf.column_scales_[2] == 0.0
    far = X.copy()
    far[:, 2] = -1e9
    np.testing.assert_array_equal(clf.decision_function(far), clf.decision_function(X))


def test_the_kernel_is_the_one_that_the_docs_state():
    X, y = rings()
    clf = MaxMargin(kernel="auto").fit(X, y)
    scaled = X / X.std(axis=0) * clf.column_scales_
    values = np.exp(-clf.gamma_ * l1_distances(scaled, scaled[clf.support_], float))
    scores = values @ clf.dual_coef_[0] + clf.intercept_
    np.testing.assert_allclose(scores, clf.decision_function(X), atol=1e-9)


def test_models_are_saved_with_their_scales(tmp_path):
    X, y = rings()
    clf = MaxMargin(kernel="auto", soft_margin="auto").fit(X, y)
    maxmargin.save(clf, tmp_path / "model")
    again = maxmargin.load(tmp_path / "model")
    np.testing.assert_array_equal(again.column_scales_, clf.column_scales_)
    assert again.gamma_ == clf.gamma_
    np.testing.assert_array_equal(again.decision_function(X), clf.decision_function(X))


@pytest.mark.parametrize("labels", ["several classes", "several labels"])
def test_more_than_two_classes(labels):
    X, y = load_iris(return_X_y=True)
    if labels == "several labels":
        y = np.stack([y > 0, y > 1], axis=1).astype(int)
    clf = MaxMargin(kernel="auto", soft_margin="auto").fit(X, y)
    assert clf.score(X, y) > 0.93
    assert clf.converged_


# ------------------------------------------------------------------------------------------ widths
@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_gamma_by_leave_one_out_is_near_the_best_by_folds(kernel):
    X, y = rings(noise=0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    new, labels = rings(rows=2000, noise=0, seed=1)
    new = (new - new.mean(axis=0)) / new.std(axis=0)
    chosen = MaxMargin(kernel=kernel, gamma="loo", soft_margin="auto").fit(X, y)
    scores = [
        MaxMargin(kernel=kernel, gamma=gamma, soft_margin="auto").fit(X, y).score(new, labels)
        for gamma in 10.0 ** np.arange(-3.0, 3.0)
    ]
    assert chosen.score(new, labels) > max(scores) - 0.01


def test_what_has_no_width():
    with pytest.raises(ValueError, match="gamma='loo' needs one of the kernels"):
        MaxMargin(kernel="poly", gamma="loo").fit(*rings())
    with pytest.raises(ValueError, match="chooses gamma itself"):
        MaxMargin(kernel="auto", gamma=0.1).fit(*rings())
    with pytest.raises(ValueError, match="'kernel' parameter"):
        PassiveAggressive(kernel="auto").fit(*rings())
    clf = MaxMargin().fit(*rings())
    for name in ("gamma_", "column_scales_"):
        assert not hasattr(clf, name)
    assert not hasattr(MaxMargin(kernel="rbf").fit(*rings()), "column_scales_")


# --------------------------------------------------------------------------------------- landmarks
def test_all_rows_as_landmarks_are_the_kernel_itself():
    X, y = load_iris(return_X_y=True)
    given = {"kernel": "rbf", "gamma": 0.5, "soft_margin": 0.1, "tol": 1e-6}
    exact = MaxMargin(**given).fit(X, y)
    clf = MaxMargin(**given, n_landmarks=1000).fit(X, y)
    np.testing.assert_allclose(clf.decision_function(X), exact.decision_function(X), atol=1e-5)
    margins = [each.margin for each in exact.certificate_.classes]
    found = [each.margin for each in clf.certificate_.classes]
    np.testing.assert_allclose(found, margins, rtol=1e-5)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_landmarks_are_exact_in_their_space(loss, form):
    X, y = rings(rows=250, noise=0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    given = {"kernel": "laplacian", "gamma": 0.7, "soft_margin": 0.5, "loss": loss}
    clf = MaxMargin(**given, n_landmarks=30).fit(form(X), y)
    chosen = X[clf.support_]
    assert clf.support_.size == 30
    matrix = laplacian(chosen, chosen, 0.7)
    features = np.linalg.solve(np.linalg.cholesky(matrix), laplacian(chosen, X, 0.7)).T
    linear = MaxMargin(soft_margin=0.5, loss=loss).fit(features, y)
    scores = linear.decision_function(features)
    np.testing.assert_allclose(clf.decision_function(form(X)), scores, atol=5e-3)
    # Each bound is above the other's margin, as both concern the same problem.
    one, other = clf.certificate_, linear.certificate_
    assert max(one.margin, other.margin) <= min(one.bound, other.bound)
    assert one.ratio >= 0.999


def test_landmarks_approach_the_kernel():
    X, y = rings(rows=400, noise=0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    given = {"kernel": "laplacian", "gamma": 0.7, "soft_margin": 0.5}
    exact = MaxMargin(**given).fit(X, y).decision_function(X)
    errors = [
        np.abs(MaxMargin(**given, n_landmarks=n).fit(X, y).decision_function(X) - exact).mean()
        for n in (5, 20, 80, 320)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.05


def test_many_rows_take_landmarks_by_themselves(monkeypatch):
    monkeypatch.setattr("maxmargin.algorithms.maxmargin.MOST_ROWS", {"cpu": 200})
    monkeypatch.setattr("maxmargin.algorithms.maxmargin.LANDMARKS", 40)
    X, y = rings(rows=300)
    clf = MaxMargin(kernel="auto", soft_margin="auto", calibration="loo").fit(X, y)
    assert clf.support_.size == 40
    assert clf.score(X, y) > 0.9
    chances = clf.predict_proba(X)[:, 1]
    assert np.mean((chances > 0.5) == (y == "out")) > 0.9
    assert MaxMargin(kernel="rbf").fit(X, y).support_.size > 40


def test_leave_one_out_scores_with_landmarks(monkeypatch):
    """Probabilities are those of the linear problem in the space of the features."""
    X, y = rings(rows=250, noise=0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    given = {"soft_margin": 0.5, "calibration": "loo", "tol": 1e-8}
    clf = MaxMargin(kernel="laplacian", gamma=0.7, n_landmarks=30, **given).fit(X, y)
    chosen = X[clf.support_]
    roots = np.linalg.cholesky(laplacian(chosen, chosen, 0.7))
    features = np.linalg.solve(roots, laplacian(chosen, X, 0.7)).T
    linear = MaxMargin(**given).fit(features, y)
    expected = linear.predict_proba(features)
    np.testing.assert_allclose(clf.predict_proba(X), expected, atol=1e-4)


def test_landmarks_of_equal_rows():
    """There are no more landmarks than different rows."""
    X, y = np.repeat([[0.0], [1.0], [2.0]], 20, axis=0), np.repeat([0, 1, 0], 20)
    clf = MaxMargin(kernel="rbf", gamma=1.0, soft_margin=0.1, n_landmarks=50).fit(X, y)
    assert clf.support_.size == 3
    assert clf.score(X, y) == 1.0


def test_pivots_are_those_of_a_cholesky_factor():
    X, values = values_for(rows=30)
    kernel = MaxMargin(kernel="laplacian", gamma=GAMMA).fit(X, X[:, 0] > 0)._state.model.kernel
    random = np.random.default_rng(0)
    found = landmarks.pivots(kernel, kernel.points(X), 10, random)
    assert np.unique(found).size == 10
    # No row drawn lies in the span of those before it.
    for n in range(1, 10):
        some = values[np.ix_(found[:n], found[:n])]
        line = values[found[n], found[:n]]
        assert 1.0 - line @ np.linalg.solve(some, line) > 1e-6


def test_landmarks_that_cannot_be():
    X, y = rings(rows=60)
    with pytest.raises(ValueError, match="n_landmarks"):
        MaxMargin(n_landmarks=10).fit(X, y)
    with pytest.raises(ValueError, match="n_landmarks"):
        MaxMargin(kernel="precomputed", n_landmarks=10).fit(X @ X.T, y)
    with pytest.raises(ValueError, match="'n_landmarks' parameter"):
        MaxMargin(kernel="auto", n_landmarks=0).fit(X, y)


@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
def test_advice_of_a_fit_that_is_cut_short():
    with pytest.warns(ConvergenceWarning, match="Increase max_iter, or use a larger soft_margin"):
        MaxMargin(kernel="auto", soft_margin=1e-3, max_iter=1, tol=1e-9).fit(*rings())


def test_few_rows():
    for rows in (2, 3, 5, 29, 31):
        X, y = np.arange(2.0 * rows).reshape(rows, 2), np.arange(rows) % 2
        clf = MaxMargin(kernel="auto", soft_margin="auto").fit(X, y)
        assert clf.predict(X).shape == (rows,)
