"""Bounds on leave-one-out outputs, errors and losses against fits without each row."""

import numpy as np
import pytest
from reference_leave_one_out import drawn, features_of, posed, refitted
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

from maxmargin import MaxMargin, load, save
from maxmargin.solvers import linear_oracle, regularization_path
from maxmargin.solvers.newton import approach, finish, silent
from maxmargin.solvers.regularization_path import _deviations

LAMBDAS = [0.1, 1.0, 10.0]


def enclosed(problems):
    """Outputs of rows that are left out, and how far they can be from those of refits."""
    part = slice(0, problems.number)
    oracle = problems.data.oracle(problems.task, part)
    start = approach(oracle, problems.task)
    finish(oracle, *start, silent)
    found = oracle.left_out(*start, np.arange(problems.numbers.size))[0]
    return found, _deviations(problems, part, oracle, start, found)


def check(found, away, wanted):
    """Returns for how many rows nothing is proved."""
    known = np.isfinite(away)
    allowed = away[known] + 1e-7 * (1.0 + np.abs(wanted[known]))
    assert (np.abs(found - wanted)[known] <= allowed).all()
    return np.count_nonzero(~known)


@pytest.mark.parametrize("rows", ["dense", "sparse", "products of rows"])
def test_two_thousand_refits(monkeypatch, rows):
    if rows == "products of rows":
        monkeypatch.setattr(linear_oracle, "MOST_DIRECT", 0)
    random = np.random.default_rng(0)
    refits = unproved = moved = 0
    for seed in range(18):
        X, y, s = drawn(seed, n=int(random.choice([20, 40, 60])), d=int(random.integers(1, 7)))
        if rows == "sparse":
            X = X * (random.random(X.shape) < 0.5)
        penalty, intercept = 10.0 ** random.uniform(-2.0, 2.0), bool(seed % 2)
        given = sparse.csr_matrix(X) if rows == "sparse" else X
        found, away = enclosed(posed(given, (y > 0).astype(int), s, penalty, intercept))
        wanted, _ = refitted(X, y, s, penalty, intercept)
        unproved += check(found[0], away[0], wanted)
        refits += y.size
        moved += np.count_nonzero(np.abs(found[0] - wanted) > 1e-6)
    assert 3 * refits > 2000
    assert moved > 0.05 * refits  # the formula is not exact, so something was to be proved
    assert unproved < 0.25 * refits


def proved(X, y, loo, **options):
    return MaxMargin(loo=loo, tol=1e-6, **options).path(X, y, lambdas=LAMBDAS)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("classes", [2, 3])
def test_exact_paths_are_those_of_refits(kernel, classes):
    X, y, _ = drawn(3, n=40)
    codes = (y > 0).astype(int) + (X[:, 0] > X[:, 0].mean()) * (classes - 2)
    features = X if kernel == "linear" else features_of(rbf_kernel(X, gamma=0.3))
    options = {"kernel": kernel, "gamma": 0.3} if kernel == "rbf" else {}
    exact = proved(X, codes, "exact", **options)
    certified = proved(X, codes, "certified", **options)
    for k, penalty in enumerate(LAMBDAS):
        problems = range(classes) if classes > 2 else [1]
        margins = np.stack(
            [
                refitted(features, np.where(codes == c, 1.0, -1.0), np.ones(40), penalty, True)[0]
                for c in problems
            ]
        )
        loss = (np.maximum(0.0, 1.0 - margins) ** 2).sum(axis=0).mean()
        if classes == 2:
            error = np.mean(margins[0] <= 0.0)
        else:
            outputs = np.where(codes == np.arange(classes)[:, None], margins, -margins)
            error = np.mean(outputs.argmax(axis=0) != codes)
        np.testing.assert_allclose(exact.loo_error_bounds[k], error, rtol=1e-12)
        np.testing.assert_allclose(exact.loo_loss_bounds[k], loss, rtol=1e-4)
        assert certified.loo_error_bounds[k, 0] <= error + 1e-12
        assert certified.loo_error_bounds[k, 1] >= error - 1e-12
        assert certified.loo_loss_bounds[k, 0] <= loss * (1.0 + 1e-6)
        assert certified.loo_loss_bounds[k, 1] >= loss * (1.0 - 1e-6)
    np.testing.assert_allclose(exact.loo_error, exact.loo_error_bounds[:, 0], rtol=1e-12)
    np.testing.assert_allclose(exact.loo_loss, exact.loo_loss_bounds[:, 0], rtol=1e-9)
    assert exact.is_best_proved


def test_some_errors_are_closed_without_any_refit():
    X, y, _ = drawn(0, n=400, d=2)
    path = MaxMargin(loo="certified").path(X, y)
    lowest, highest = path.loo_error_bounds.T
    assert (lowest == highest).mean() > 0.3
    assert (highest - lowest).max() <= 0.01
    assert ((lowest <= path.loo_error) & (path.loo_error <= highest)).all()


def test_the_formula_proves_nothing():
    X, y, _ = drawn(0)
    path = MaxMargin().path(X, y)
    assert path.loo_error_bounds is path.loo_loss_bounds is None
    assert not path.is_best_proved


def test_auto_chooses_by_what_is_proved(tmp_path):
    X, y, _ = drawn(5, n=60)
    clf = MaxMargin(soft_margin="auto", loo="exact").fit(X, y)
    assert clf.path_.is_best_proved
    save(clf, tmp_path / "m.mm")
    again = load(tmp_path / "m.mm").path_
    np.testing.assert_array_equal(again.loo_error_bounds, clf.path_.loo_error_bounds)
    np.testing.assert_array_equal(again.loo_loss_bounds, clf.path_.loo_loss_bounds)
    assert clone(clf).loo == "exact"


def test_without_factors_nothing_is_proved(monkeypatch):
    for name in ("MOST_DIRECT", "MOST_ROWS"):
        monkeypatch.setattr(linear_oracle, name, 0)
    X, y, _ = drawn(0)
    with pytest.raises(ValueError, match="loo='exact' needs the factor of a linear system"):
        MaxMargin(loo="exact").path(X, y)


def test_more_rows_than_a_sample_are_all_left_out(monkeypatch):
    monkeypatch.setattr(regularization_path, "MOST_LEFT_OUT", 10)
    X, y, _ = drawn(1)
    assert MaxMargin().path(X, y).n_left_out == 10
    assert MaxMargin(loo="certified").path(X, y).n_left_out == y.size
