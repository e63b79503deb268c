"""The naive reference of learned scales agrees with its definitions."""

import numpy as np
import pytest
from reference_column_scales import (
    LEAST,
    laplacian,
    learned_scales,
    left_out,
    next_scales,
    ridge,
    slopes,
    standardized,
    targets_of,
)
from sklearn.metrics.pairwise import laplacian_kernel

GAMMA, PENALTY = 0.3, 0.7


def problem(rows=40, columns=4, classes=3, seed=0):
    random = np.random.default_rng(seed)
    X = random.standard_normal((rows, columns))
    return X, random.permutation(np.arange(rows) % classes)


def test_the_kernel_is_that_of_scikit_learn():
    X, _ = problem()
    np.testing.assert_allclose(laplacian(X, X[:7], GAMMA), laplacian_kernel(X, X[:7], gamma=GAMMA))


def test_ridge_is_a_minimum():
    X, y = problem()
    K, T = laplacian(X, X, GAMMA), targets_of(y)
    A, b = ridge(K, T, PENALTY)

    def objective(A, b):
        return ((T - K @ A - b) ** 2).sum() + PENALTY * np.trace(A.T @ K @ A)

    random = np.random.default_rng(1)
    for step in (1e-3, 1e-1, 1.0):
        for _ in range(10):
            other = A + step * random.standard_normal(A.shape)
            assert objective(other, b + step * random.standard_normal(b.shape)) > objective(A, b)
            assert objective(A, b + step * random.standard_normal(b.shape)) > objective(A, b)


def test_left_out_is_a_fit_without_the_row():
    X, y = problem(rows=25)
    K, T = laplacian(X, X, GAMMA), targets_of(y)
    found = left_out(K, T, PENALTY)
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        A, b = ridge(K[np.ix_(rest, rest)], T[rest], PENALTY)
        np.testing.assert_allclose(found[i], K[i, rest] @ A + b, rtol=1e-9, atol=1e-9)


def test_slopes_are_finite_differences_away_from_kinks():
    X, y = problem()
    A, b = ridge(laplacian(X, X, GAMMA), targets_of(y), PENALTY)
    new, step = problem(rows=12, seed=5)[0], 1e-6
    assert np.abs(new[:, None] - X[None]).min() > step  # no entry of a row is within a step
    found = slopes(new, X, A, GAMMA)
    for j in range(X.shape[1]):
        shift = step * np.eye(X.shape[1])[j]
        above, below = (laplacian(new + sign * shift, X, GAMMA) @ A + b for sign in (1.0, -1.0))
        np.testing.assert_allclose(found[:, :, j], (above - below) / (2.0 * step), atol=1e-8)


def test_slopes_leave_out_terms_with_equal_entries():
    """At a row that the expansion has, the slope is the mean of those to the left and the right."""
    X, y = problem()
    A, b = ridge(laplacian(X, X, GAMMA), targets_of(y), PENALTY)
    found, step = slopes(X, X, A, GAMMA), 1e-7
    for j in range(X.shape[1]):
        shift = step * np.eye(X.shape[1])[j]
        above, below = (laplacian(X + sign * shift, X, GAMMA) @ A + b for sign in (1.0, -1.0))
        np.testing.assert_allclose(found[:, :, j], (above - below) / (2.0 * step), atol=1e-6)


def test_slopes_are_along_the_columns_themselves():
    X, y = problem()
    T, scales, step = targets_of(y), np.array([1.0, 0.5, 0.2, 0.05]), 1e-7
    A, _ = ridge(laplacian(X * scales, X * scales, GAMMA), T, PENALTY)
    means = np.empty(4)
    for j in range(4):
        shift = step * np.eye(4)[j]
        above, below = (
            laplacian((X + sign * shift) * scales, X * scales, GAMMA) @ A for sign in (1.0, -1.0)
        )
        means[j] = np.sqrt((((above - below) / (2.0 * step)) ** 2).mean())
    found = next_scales(X, T, scales, GAMMA, PENALTY)
    means *= scales
    np.testing.assert_allclose(found, np.maximum(means / means.max(), LEAST), rtol=1e-5)


@pytest.mark.parametrize("classes", [2, 4])
def test_scales_find_the_columns_that_matter(classes):
    random = np.random.default_rng(3)
    X = random.standard_normal((200, 8)) * 10.0 ** np.arange(-4, 4)
    y = np.digitize(X[:, 2], np.quantile(X[:, 2], np.linspace(0, 1, classes + 1)[1:-1]))
    X = np.hstack([X, np.full((200, 1), 7.0)])  # a constant column is no column
    scales = learned_scales(X, y, lambda scaled, T: (1.0 / scaled.shape[1], 0.1))
    assert scales[2] == 1.0
    assert np.delete(scales, 2).max() < 0.2
    assert scales[-1] == LEAST
    np.testing.assert_allclose(standardized(X)[:, :-1].std(axis=0), 1.0)
