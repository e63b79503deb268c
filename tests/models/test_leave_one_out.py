"""Leave-one-out outputs of `MaxMargin` against fits without each row, in plain NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_leave_one_out import drawn, features_of, kernel_left_out, left_out, refitted
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

from maxmargin.solvers import linear_oracle

WAYS = {
    "features, gathered": {},
    "features, scattered": {},
    "rows": {"MOST_DIRECT": 0},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("penalty", [0.1, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_formula_is_exact_for_rows_that_keep_their_states(
    monkeypatch, way, intercept, penalty, seed
):
    for name, value in WAYS[way].items():
        monkeypatch.setattr(linear_oracle, name, value)
    X, y, s = drawn(seed)
    if way == "features, scattered":
        X = X * (np.random.default_rng(seed).random(X.shape) < 0.5)
        rows = sparse.csr_matrix(np.hstack([X, np.zeros((len(y), 8))]))
    else:
        rows = X
    found = left_out(rows, (y > 0).astype(int), s, penalty, intercept)
    wanted, active = refitted(X, y, s, penalty, intercept, keep_states=True)
    assert 0 < active.sum() < y.size
    np.testing.assert_allclose(found[0], wanted, rtol=1e-7, atol=1e-7)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.3, 3.0, 30.0]))
def test_rows_that_are_not_active_change_nothing_when_left_out(seed, penalty):
    X, y, s = drawn(seed, n=25)
    wanted, active = refitted(X, y, s, penalty, intercept=True)
    found = left_out(X, (y > 0).astype(int), s, penalty)
    np.testing.assert_allclose(found[0, ~active], wanted[~active], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_refits_agree_but_for_few_signs(seed):
    X, y, s = drawn(seed, n=200, d=6)
    wanted, _ = refitted(X, y, s, 1.0, intercept=True)
    found = left_out(X, (y > 0).astype(int), s, 1.0)
    assert (np.sign(found[0]) != np.sign(wanted)).sum() <= 1
    assert np.abs(found[0] - wanted).mean() < 0.02 * np.abs(wanted).mean()


def test_each_class_has_a_factor_of_its_own():
    X, y, s = drawn(7, n=90)
    codes = (y > 0).astype(int) + (X[:, 0] > X[:, 0].mean() + 0.7)
    assert np.unique(codes).size == 3
    found = left_out(X, codes, s, 0.5)
    for c in range(3):
        wanted, _ = refitted(X, np.where(codes == c, 1.0, -1.0), s, 0.5, True, keep_states=True)
        np.testing.assert_allclose(found[c], wanted, rtol=1e-7, atol=1e-7)


def test_rows_of_weight_zero_are_not_there():
    X, y, s = drawn(3)
    s[5:15] = 0.0
    there = s > 0.0
    wanted = left_out(X[there], (y[there] > 0).astype(int), s[there], 1.0)
    found = left_out(X, (y > 0).astype(int), s, 1.0)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_a_large_offset_of_all_rows_costs_no_digits():
    X, y, s = drawn(4)
    near, far = (left_out(rows, (y > 0).astype(int), s, 1.0) for rows in (X, X + 1e6))
    np.testing.assert_allclose(near, far, rtol=1e-5, atol=1e-5)


# ------------------------------------------------------------------------------------- with kernels
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("penalty", [0.1, 3.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_formula_in_a_kernels_space(intercept, penalty, seed):
    """Against fits without each row, of vectors that have the kernel values as products."""
    X, y, s = drawn(seed)
    K = rbf_kernel(X, gamma=0.3)
    found = kernel_left_out(K, (y > 0).astype(int), s, penalty, intercept)
    wanted, active = refitted(features_of(K), y, s, penalty, intercept, keep_states=True)
    assert active.any()
    np.testing.assert_allclose(found[0], wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_refits_in_a_kernels_space_agree_but_for_few_signs(seed):
    X, y, s = drawn(seed, n=120)
    K = rbf_kernel(X, gamma=0.1)
    wanted, _ = refitted(features_of(K), y, s, 1.0, intercept=True)
    found = kernel_left_out(K, (y > 0).astype(int), s, 1.0)
    assert (np.sign(found[0]) != np.sign(wanted)).sum() <= 1
    assert np.abs(found[0] - wanted).mean() < 0.02 * np.abs(wanted).mean()


def test_classes_and_rows_of_weight_zero_in_a_kernels_space():
    X, y, s = drawn(7, n=90)
    codes = (y > 0).astype(int) + (X[:, 0] > X[:, 0].mean() + 0.7)
    s[5:15] = 0.0
    there, K = s > 0.0, rbf_kernel(X, gamma=0.3)
    found, F = kernel_left_out(K, codes, s, 0.5), features_of(K)[there]
    for c in range(3):
        signs = np.where(codes[there] == c, 1.0, -1.0)
        wanted, _ = refitted(F, signs, s[there], 0.5, True, keep_states=True)
        np.testing.assert_allclose(found[c], wanted, rtol=1e-6, atol=1e-6)
