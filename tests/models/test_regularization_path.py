"""Paths over lambda against fits for each of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_leave_one_out import drawn, left_out, posed
from scipy import sparse
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax

from maxmargin.solvers import linear_oracle, regularization_path
from maxmargin.solvers.newton import silent, solve
from maxmargin.solvers.regularization_path import (
    SURE,
    UNKNOWN,
    finer,
    follow_path,
    lowest,
    outputs_left_out,
    usual_lambdas,
)

LAMBDAS = np.array([0.1, 1.0, 10.0])


def three_classes(seed=7):
    X, y, s = drawn(seed, n=90)
    return X, (y > 0).astype(int) + (X[:, 0] > X[:, 0].mean()), s


def scores(margins, codes, s):
    """Mean loss and error of rows, given ``y f(x)`` of each class."""
    if margins.shape[0] == 1:
        loss = s @ np.maximum(0.0, 1.0 - margins[0]) ** 2 / s.sum()
        return loss, s @ (margins[0] <= 0.0) / s.sum()
    own = codes == np.arange(margins.shape[0])[:, None]
    outputs = np.where(own, margins, -margins)
    return least_log_loss(outputs, own, s), s @ (outputs.argmax(axis=0) != codes) / s.sum()


def least_log_loss(outputs, own, s):
    """The mean log loss of the softmax of outputs times the best factor."""
    targets = np.where(own, SURE, (1.0 - SURE) / (own.shape[0] - 1.0))

    def loss(t):
        return -s @ (targets * log_softmax(t * outputs, axis=0)).sum(axis=0) / s.sum()

    return minimize_scalar(loss, bounds=(0.0, 100.0), options={"xatol": 1e-9}).fun


def least_loss(margins, signs, s):
    """The mean loss of outputs that are multiplied and shifted as suits them best."""

    def loss(there):
        return s @ np.maximum(1.0 - there[0] * margins - there[1] * signs, 0.0) ** 2 / s.sum()

    return minimize(loss, [1.0, 0.0], tol=1e-10).fun


@pytest.mark.parametrize("rows", ["dense", "sparse", "wide"])
def test_each_lambda_is_as_if_fitted_alone(monkeypatch, rows):
    if rows == "wide":
        monkeypatch.setattr(linear_oracle, "MOST_DIRECT", 0)
    X, codes, s = three_classes()
    X = sparse.csr_matrix(X) if rows == "sparse" else X
    task = posed(X, codes, s, 1.0)
    path = follow_path(task, LAMBDAS, silent, keep_weights=True)
    assert path.method == "leave-one-out"
    assert path.n_left_out == codes.size
    for k, penalty in enumerate(LAMBDAS):
        alone = solve(task.data, task.with_penalty(penalty).task, 3, silent)
        found = np.column_stack([path.coefs[k], path.intercepts[k]])
        np.testing.assert_allclose(found, alone.weights, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(path.margins[k], alone.margins, rtol=1e-7)
        assert (path.margins[k] >= (1.0 - 1e-8) * path.bounds[k]).all()
        loss, error = scores(left_out(X, codes, s, penalty), codes, s)
        np.testing.assert_allclose([path.loo_loss[k], path.loo_error[k]], [loss, error], rtol=1e-6)


def test_all_ways_to_leave_out_speak_of_the_same_rows(monkeypatch):
    X, codes, s = three_classes()
    task = posed(X, codes, s, 1.0)
    usual = follow_path(task, LAMBDAS, silent)
    monkeypatch.setattr(linear_oracle, "MOST_KEPT", 1)
    apart = follow_path(task, LAMBDAS, silent)
    np.testing.assert_allclose(apart.loo_loss, usual.loo_loss, rtol=1e-9)
    np.testing.assert_allclose(apart.loo_error, usual.loo_error, rtol=1e-12)


@pytest.mark.parametrize("one_class", [False, True])
def test_folds_are_fits_without_them(monkeypatch, one_class):
    for name in ("MOST_DIRECT", "MOST_ROWS"):
        monkeypatch.setattr(linear_oracle, name, 0)
    X, codes, s = three_classes()
    codes = codes if one_class else np.minimum(codes, 1)
    problems = 3 if one_class else 1
    task = posed(X, codes, s, 1.0)
    path = follow_path(task, LAMBDAS, silent)
    assert path.method == "5 folds"
    folds = regularization_path._folds(task, enough=codes.size)
    assert sorted(np.concatenate(folds)) == list(range(codes.size))
    counts = [np.bincount(codes[fold], minlength=3) for fold in folds]
    assert np.ptp(counts, axis=0).max() <= 1
    labels = np.arange(3)[:, None] if one_class else np.ones((1, 1))
    signs = np.where(codes == labels, 1.0, -1.0)
    for k, penalty in enumerate(LAMBDAS):
        margins = np.empty((problems, codes.size))
        for fold in folds:
            rest = np.setdiff1d(np.arange(codes.size), fold)
            other = posed(X[rest], codes[rest], s[rest], penalty)
            without = solve(other.data, other.task, other.number, silent).weights
            outputs = X[fold] @ without[:, :-1].T + without[:, -1]
            margins[:, fold] = signs[:, fold] * outputs.T
        loss, error = scores(margins, codes, s)
        if not one_class:
            loss = least_loss(margins[0], signs[0], s)
        np.testing.assert_allclose([path.loo_loss[k], path.loo_error[k]], [loss, error], rtol=1e-4)
    monkeypatch.setattr(regularization_path, "MOST_SCORED", 30)
    few = follow_path(task, LAMBDAS, silent)
    assert few.n_left_out == folds[0].size + folds[1].size


def test_a_sample_of_rows_corrects_the_losses_of_all(monkeypatch):
    X, y, s = drawn(1, n=600, d=5)
    task = posed(X, (y > 0).astype(int), s, 1.0)
    exact = follow_path(task, LAMBDAS, silent)
    monkeypatch.setattr(regularization_path, "MOST_LEFT_OUT", 150)
    sampled = follow_path(task, LAMBDAS, silent)
    assert (exact.n_left_out, sampled.n_left_out) == (600, 150)
    weights = solve(task.data, task.task, 1, silent).weights
    slack = 1.0 - y * (X @ weights[0, :-1] + weights[0, -1])
    fitted = s @ np.maximum(slack, 0.0) ** 2 / s.sum()
    added = exact.loo_loss[1] - fitted
    assert 0.0 < added < 0.1 * fitted
    assert abs(sampled.loo_loss[1] - exact.loo_loss[1]) < 0.5 * added


@pytest.mark.parametrize("rows", ["dense", "wide"])
def test_outputs_of_a_solution(monkeypatch, rows):
    X, codes, s = three_classes()
    task = posed(X, codes, s, 0.5)
    numbers, found = outputs_left_out(task, solve(task.data, task.task, 3, silent).weights, silent)
    assert (task.method, numbers.size) == ("leave-one-out", codes.size)
    np.testing.assert_allclose(found, left_out(X, codes, s, 0.5), rtol=1e-6, atol=1e-6)
    if rows == "wide":
        for name in ("MOST_DIRECT", "MOST_ROWS"):
            monkeypatch.setattr(linear_oracle, name, 0)
        numbers, folded = outputs_left_out(task, found, silent)
        assert (task.method, numbers.size) == ("5 folds", codes.size)
        agree = np.sign(folded[:, np.argsort(numbers)]) == np.sign(found)
        assert agree.mean() > 0.95


@given(
    places=st.lists(st.floats(-10.0, 10.0), min_size=1, max_size=30),
    first=st.integers(0, 29),
    unknown=st.integers(0, 2**30 - 1),
)
def test_the_search_ends_at_a_lambda_with_no_better_neighbour(places, first, unknown):
    losses = np.where([unknown >> k & 1 for k in range(len(places))], UNKNOWN, places)
    first, seen = first % losses.size, np.full(losses.size, np.nan)
    while (k := finer(seen, first)) is not None:
        assert np.isnan(seen[k])
        seen[k] = losses[k]
    best, known = lowest(seen), losses[~np.isnan(seen)]
    assert losses[best] == known.min()
    assert losses[best] <= losses[max(best - 1, 0) : best + 2].min()


def test_the_search_finds_the_least_of_losses_that_fall_and_rise():
    for least in range(13):
        losses = np.abs(np.arange(13.0) - least)
        seen = np.full(13, np.nan)
        while (k := finer(seen, 6)) is not None:
            seen[k] = losses[k]
        assert lowest(seen) == least
        assert np.isfinite(seen).sum() <= 7


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_grid_follows_the_scale_of_rows(scale):
    X, y, s = drawn(5)
    codes = (y > 0).astype(int)
    usual = usual_lambdas(posed(X, codes, s, 1.0).data)
    spread = s @ ((X - np.average(X, axis=0, weights=s)) ** 2).sum(axis=1) / s.sum()
    assert usual[0] < 1e-2 * spread < 1e2 * spread < usual[-1]
    np.testing.assert_allclose(usual[1:] / usual[:-1], np.sqrt(10.0))
    scaled = usual_lambdas(posed(scale * X + 7.0, codes, 5.0 * s, 1.0).data)
    np.testing.assert_allclose(scaled, scale**2 * usual)


@pytest.mark.parametrize("wide", [False, True])
def test_rows_of_weight_2_have_the_grid_of_rows_that_occur_twice(monkeypatch, wide):
    if wide:
        monkeypatch.setattr(linear_oracle, "MOST_DIRECT", 0)
    for seed in range(20):
        X, y, _ = drawn(seed)
        codes, counts = (y > 0).astype(int), 1.0 + np.arange(y.size) % 3
        weighted = usual_lambdas(posed(X, codes, counts, 1.0).data)
        repeated = np.repeat(np.arange(y.size), counts.astype(int))
        data = posed(X[repeated], codes[repeated], np.ones(repeated.size), 1.0).data
        np.testing.assert_array_equal(weighted, usual_lambdas(data))


def test_the_grid_of_wide_rows(monkeypatch):
    X, y, s = drawn(5)
    monkeypatch.setattr(linear_oracle, "MOST_DIRECT", 0)
    lambdas = usual_lambdas(posed(X, (y > 0).astype(int), s, 1.0).data)
    middle = s @ (X**2).sum(axis=1) / s.sum()
    assert lambdas[6] / np.sqrt(np.sqrt(10.0)) <= middle <= lambdas[6] * np.sqrt(np.sqrt(10.0))


def test_rows_without_any_spread_have_a_grid():
    X, codes, ones = np.ones((4, 2)), np.array([0, 1, 0, 1]), np.ones(4)
    lambdas = usual_lambdas(posed(X, codes, ones, 1.0).data)
    assert np.isfinite(lambdas).all()
    assert (lambdas > 0.0).all()
