"""Scales of columns learned from the slopes of a ridge regression, in plain NumPy."""

import numpy as np

LEAST = 1e-3


def laplacian(X, Z, gamma):
    """``exp(-gamma sum_j |x_j - z_j|)`` for all rows x of X and z of Z."""
    return np.exp(-gamma * np.abs(X[:, None, :] - Z[None, :, :]).sum(axis=2))


def targets_of(y):
    """A column for each class: 1 for its rows, -1 for others."""
    return np.where(y[:, None] == np.unique(y)[None, :], 1.0, -1.0)


def bordered(K, penalty):
    """The matrix of the optimality conditions: those of the rows, and that of the intercept."""
    ones = np.ones((len(K), 1))
    return np.block([[K + penalty * np.eye(len(K)), ones], [ones.T, np.zeros((1, 1))]])


def ridge(K, T, penalty):
    """Coefficients A and intercepts b that minimise ``|T - K A - b|^2 + penalty tr(A' K A)``."""
    right = np.vstack([T, np.zeros((1, T.shape[1]))])
    solution = np.linalg.solve(bordered(K, penalty), right)
    return solution[:-1], solution[-1]


def left_out(K, T, penalty):
    """The output for each row by the ridge regression on all other rows.

    With the bordered matrix M, row i misses its target by ``A_i / (M^-1)_ii`` if it is left out.
    """
    A, _ = ridge(K, T, penalty)
    inverse = np.linalg.inv(bordered(K, penalty))
    return T - A / np.diag(inverse)[:-1, None]


def slopes(X, Z, A, gamma):
    """``df_c / dx_j`` at each row x of X, for ``f = laplacian(x, Z) A + b``: rows x classes x j.

    The sign of 0 is 0, so that terms with equal entries are left out.
    """
    K = laplacian(X, Z, gamma)
    found = np.empty((len(X), A.shape[1], X.shape[1]))
    for j in range(X.shape[1]):
        signs = np.sign(X[:, None, j] - Z[None, :, j])
        found[:, :, j] = -gamma * (K * signs) @ A
    return found


def standardized(X):
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0)


def next_scales(X, T, scales, gamma, penalty):
    """``s_j sqrt(mean (df / dx_j)^2)`` for columns x, not yet multiplied by s; the largest is 1."""
    scaled = X * scales
    A, _ = ridge(laplacian(scaled, scaled, gamma), T, penalty)
    along = slopes(scaled, scaled, A, gamma) * scales
    found = scales * np.sqrt((along**2).mean(axis=(0, 1)))
    return np.maximum(found / found.max(), LEAST)


def learned_scales(X, y, choose, rounds=2):
    """From equal scales; ``choose(scaled, T)`` returns gamma and penalty of each fit."""
    X, T = standardized(X), targets_of(y)
    scales = np.ones(X.shape[1])
    for _ in range(rounds):
        scales = next_scales(X, T, scales, *choose(X * scales, T))
    return scales
