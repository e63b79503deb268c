"""Wide sparse rows: columns with entries, dual coordinate ascent, and folds."""

import numpy as np
import pytest
from reference_leave_one_out import drawn, minimum, posed
from scipy import sparse
from scipy.optimize import minimize

from maxmargin import MaxMargin
from maxmargin.core.rows import SparseRows, Tail
from maxmargin.models.linear_model import as_rows
from maxmargin.solvers import linear_curvature, linear_oracle, newton_passes, regularization_path
from maxmargin.solvers.linear_oracle import with_entries
from maxmargin.solvers.newton import silent, solve
from maxmargin.solvers.regularization_path import _by_others, _Reached, best_scaled


def few_of_many_columns(seed=0, rows=120, width=5000, used=12):
    random = np.random.default_rng(seed)
    columns = np.sort(random.choice(width, used, replace=False))
    small = sparse.random(rows, used, 0.5, "csr", random_state=seed)
    y = np.asarray(small.sum(axis=1)).ravel() + random.normal(size=rows) > 3.0
    X = sparse.csr_matrix((small.data, columns[small.indices], small.indptr), (rows, width))
    return X, small, columns, y.astype(int) + (small[:, 0].toarray().ravel() > 0.8)


# ----------------------------------------------------------------------------- columns with entries
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_rows_in_columns_with_entries(kind):
    X, small, columns, _ = few_of_many_columns()
    X.indices, X.indptr = X.indices.astype(kind), X.indptr.astype(kind)
    before = X.indices.copy()
    rows, used = with_entries(as_rows(X, Tail(1.0, 0.0)))
    np.testing.assert_array_equal(used, columns)
    assert isinstance(rows, SparseRows)
    assert rows.width == columns.size
    assert np.shares_memory(rows.values, X.data)
    found = sparse.csr_matrix((rows.values, rows.columns, rows.starts), small.shape)
    np.testing.assert_array_equal(found.toarray(), small.toarray())
    np.testing.assert_array_equal(X.indices, before)


def test_columns_stay_where_most_have_entries():
    X = sparse.random(300, 2000, 0.05, "csr", random_state=0)
    assert with_entries(as_rows(X, Tail(1.0, 0.0)))[1] is None


@pytest.mark.parametrize("parameters", [{}, {"loss": "hinge"}, {"soft_margin": "auto"}])
def test_the_fit_is_that_of_the_columns_with_entries(parameters):
    X, small, columns, y = few_of_many_columns()
    wide, narrow = (MaxMargin(tol=1e-6, **parameters).fit(each, y) for each in (X, small))
    assert wide.coef_.shape == (3, 5000)
    np.testing.assert_allclose(wide.coef_[:, columns], narrow.coef_, rtol=1e-9, atol=1e-12)
    assert np.count_nonzero(wide.coef_) == np.count_nonzero(narrow.coef_)
    np.testing.assert_allclose(wide.intercept_, narrow.intercept_, rtol=1e-9)
    for ours, theirs in zip(wide.certificate_.classes, narrow.certificate_.classes, strict=True):
        assert ours.bound == pytest.approx(theirs.bound, rel=1e-9)
        if ours.evidence is not None:
            assert ours.evidence.vectors.shape == (2, 5000)
            assert ours.evidence.bound() == pytest.approx(ours.bound, rel=1e-9)


def test_the_path_has_weights_of_all_columns():
    X, small, columns, y = few_of_many_columns()
    wide, narrow = (MaxMargin().path(each, y, return_weights=True) for each in (X, small))
    assert wide.coefs.shape == (wide.lambdas.size, 3, 5000)
    ours = wide.coefs[np.isin(wide.lambdas, narrow.lambdas)][:, :, columns]
    theirs = narrow.coefs[np.isin(narrow.lambdas, wide.lambdas)]
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)


# ------------------------------------------------------------------------------------ dual ascent
@pytest.fixture
def without_factors(monkeypatch):
    for name in ("MOST_DIRECT", "MOST_ROWS"):
        monkeypatch.setattr(linear_oracle, name, 0)


def ascended(X, y, s, dual, order, coefs, w):
    """A pass of coordinate ascent; the last weight is the intercept."""
    for i in order:
        own = dual.ridge / s[i]
        lacking = 1.0 - y[i] * (X[i] @ w[:-1] + (dual.intercept > 0.0) * w[-1]) - own * coefs[i]
        after = coefs[i] + lacking / (X[i] @ X[i] + dual.intercept + own)
        after = min(max(after, 0.0), dual.most * s[i])
        w += y[i] * (after - coefs[i]) * np.append(X[i], dual.intercept)
        coefs[i] = after


@pytest.mark.parametrize("dual", [(0.7, np.inf, 0.3), (0.0, 0.4, 0.3), (0.0, 0.4, 0.0)])
@pytest.mark.parametrize("rows", ["dense", "sparse"])
def test_a_pass_is_that_of_the_reference(rows, dual):
    X, y, s = drawn(3, n=40, d=4)
    dual, order = newton_passes.Dual(*dual), np.random.default_rng(0).permutation(40)
    given = sparse.csr_matrix(X) if rows == "sparse" else X
    passes = posed(given, (y > 0).astype(int), s, 1.0, intercept=dual.intercept > 0.0).data.passes
    coefs, weights, wanted, w = np.zeros((1, 40)), np.zeros((1, 5)), np.zeros(40), np.zeros(5)
    xx = (X * X).sum(axis=1) + dual.intercept
    for _ in range(3):
        newton_passes.ascend(passes.chosen(order), np.arange(1), dual, xx, coefs, weights)
        ascended(X, y, s, dual, order, wanted, w)
    np.testing.assert_allclose(coefs[0], wanted, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(weights[0], w, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("without_factors")
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("penalty", [0.05, 1.0, 30.0])
def test_ascent_reaches_the_minimum(penalty, intercept):
    X, y, s = drawn(4, n=150)
    task = posed(X, (y > 0).astype(int), s, penalty, intercept, tol=1e-5)
    found = solve(task.data, task.task, 1, silent)
    theta = minimum(X, y, s, penalty, intercept)
    assert found.reached.all()
    np.testing.assert_allclose(found.weights[0], theta, rtol=0.02, atol=0.02 * abs(theta).max())


@pytest.mark.usefixtures("without_factors")
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_certificates_of_the_hinge_loss(monkeypatch, seed, intercept):
    X, y, s = drawn(seed, n=200)
    penalty = float(10.0 ** np.random.default_rng(seed).uniform(-1.0, 1.5))

    def objective(clf):
        lacking = np.maximum(0.0, 1.0 - y * clf.decision_function(X))
        return 0.5 * np.square(clf.coef_).sum() + s @ lacking / (2.0 * penalty)

    given = {"soft_margin": penalty, "loss": "hinge", "fit_intercept": intercept}
    with monkeypatch.context() as direct:
        direct.setattr(linear_oracle, "MOST_DIRECT", 1500)
        best = objective(MaxMargin(**given, tol=1e-7).fit(X, y, s))
    clf = MaxMargin(**given, tol=1e-4).fit(X, y, s)
    certificate = clf.certificate_
    assert clf.converged_
    assert best * (1.0 - 1e-9) <= objective(clf) <= best / (1.0 - 1e-4)
    # 1 / (2 D) for a bound D on the optimum, 1 / (2 P) for the objective.
    assert 0.5 / certificate.bound <= best * (1.0 + 1e-6)
    assert objective(clf) <= 0.5 / certificate.margin * (1.0 + 1e-9)


@pytest.mark.usefixtures("without_factors")
@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_newton_steps_follow_where_passes_do_not_suffice(monkeypatch, loss):
    monkeypatch.setattr(linear_curvature, "MOST_PASSES", 4)
    X, y, s = drawn(1, n=150)
    clf = MaxMargin(soft_margin=0.01, loss=loss, tol=1e-5).fit(X, y, s)
    assert clf.converged_
    assert clf.n_iter_ > 0


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_texts_need_passes_only(monkeypatch, loss, C):
    X = sparse.random(400, 3000, 0.01, "csr", random_state=0)
    y = (X @ np.random.default_rng(0).normal(size=3000) > 0.3).astype(int)
    by_products = MaxMargin(loss=loss, soft_margin=0.5 / C, tol=1e-7).fit(X, y)
    monkeypatch.setattr(linear_oracle, "MOST_ROWS", 0)
    clf = MaxMargin(loss=loss, soft_margin=0.5 / C, tol=1e-4).fit(X, y)
    assert clf.converged_
    assert clf.n_iter_ == 0
    assert clf.certificate_.margin >= (1.0 - 1e-4) * by_products.certificate_.margin
    assert clf.certificate_.bound >= (1.0 - 1e-9) * by_products.certificate_.margin
    outputs, wanted = (each.decision_function(X) for each in (clf, by_products))
    np.testing.assert_allclose(outputs, wanted, atol=0.05)


# ------------------------------------------------------------------------------------------- folds
@pytest.mark.usefixtures("without_factors")
def test_a_fold_begun_near_all_rows_ends_where_one_from_nothing_does():
    X, y, s = drawn(6, n=200)
    task = posed(X, (y > 0).astype(int), s, 0.5, tol=1e-8)
    part, fold = slice(0, 1), np.arange(0, 200, 5)
    oracle, curvature, stage = _Reached.from_last(task, part, None)
    regularization_path.finish(oracle, curvature, stage, silent)
    near, nothing = (_by_others(task, part, fold, silent, each) for each in (oracle, None))
    np.testing.assert_allclose(near, nothing, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("scale", [0.01, 1.0, 50.0])
def test_outputs_at_their_best_scale(scale):
    random = np.random.default_rng(0)
    signs, weights = random.choice([-1.0, 1.0], 200), random.uniform(0.5, 2.0, 200)
    outputs = scale * (signs + random.normal(size=200) + 0.7)

    def loss(there):
        return weights @ np.maximum(1.0 - signs * (there[0] * outputs / scale + there[1]), 0.0) ** 2

    wanted = minimize(loss, [1.0, 0.0], tol=1e-12).fun
    found = best_scaled(signs * outputs, signs, weights)
    assert weights @ np.maximum(1.0 - found, 0.0) ** 2 == pytest.approx(wanted, rel=1e-6)


def test_outputs_of_the_wrong_sign_are_not_turned():
    signs = np.repeat([-1.0, 1.0], 50)
    found = best_scaled(-np.ones(100), signs, np.ones(100))
    assert np.maximum(1.0 - found, 0.0).sum() >= 100.0 - 1e-9
