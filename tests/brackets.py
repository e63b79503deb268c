"""The best soft margin of awkward rows, between two numbers that are found apart from it all."""

import numpy as np
from scipy.optimize import nnls

LONG = np.longdouble


def extended(X, own):
    """Rows with a coordinate of their own, in extended precision, about their mean."""
    rows = X.astype(LONG) - X.astype(LONG).mean(axis=0)
    return np.hstack([rows, np.diag(np.asarray(own, LONG))])


def near_the_best(rows, y, intercept):
    """Coefficients of rows near those of the shortest mixture, from a least-squares problem."""
    scale = float(np.abs(rows).max())
    signed = (y[:, None] * rows / scale).astype(float).T
    masses = np.array([y > 0, y < 0], float) if intercept else np.ones((1, y.size))
    heavy = 1e4
    goal = np.r_[np.zeros(len(signed)), np.full(len(masses), heavy)]
    found, _ = nnls(np.vstack([signed, heavy * masses]), goal, maxiter=100 * y.size)
    return found.astype(LONG)


def bracket(rows, y, intercept):
    """Two numbers with the best margin between them: an attained one, and a proved bound."""
    coefs = near_the_best(rows, y, intercept)
    if intercept:
        coefs = np.where(y > 0, coefs / coefs[y > 0].sum(), coefs / coefs[y < 0].sum()) / 2
    else:
        coefs = coefs / coefs.sum()
    w = (y * coefs) @ rows
    length, outputs = np.sqrt(w @ w), y * (rows @ w)
    if length == 0:
        return LONG(0), LONG(0)
    lowest = [outputs[y > 0].min(), outputs[y < 0].min()]
    attained = sum(lowest) / 2 if intercept else min(lowest)
    return attained / length, length


def drawn(random):
    """Rows of some awkward kind, labels, weights and lambda."""
    d = int(random.integers(1, 8))
    n = int(random.integers(4, 60))
    kind = random.choice(["plain", "few", "imbalanced", "duplicates", "offset", "apart"])
    if kind == "few":
        n, d = int(random.integers(2, 8)), int(random.integers(5, 30))
    X = random.normal(size=(n, d)) * 10.0 ** random.integers(-3, 4)
    size = float(np.abs(X).mean())
    w = random.normal(size=d)
    y = np.where(X @ w + random.normal(size=n) * size * random.choice([0.0, 0.5, 3.0]) > 0, 1, -1)
    if kind == "imbalanced":
        X, y = np.repeat(X, 20, axis=0)[: 20 * n], np.full(20 * n, -1)
        X = X + 0.1 * size * random.normal(size=X.shape)
        y[0] = 1
    if kind == "duplicates":
        X, y = np.vstack([X, X[: n // 2], X[: n // 2]]), np.r_[y, y[: n // 2], y[: n // 2]]
    if kind == "offset":
        X = X + 1e6 * size
    if kind == "apart":
        X = X + size * y[:, None] * w
    y[:2] = 1, -1
    weights = random.choice([0.25, 1.0, 3.0, 1000.0], size=y.size)
    if random.random() < 0.5:
        weights[:] = 1.0
    weights[2:][random.random(y.size - 2) < 0.1] = 0.0
    return X, y, weights, float(random.choice([0.0, 1e-3, 1.0, 1e3]) * size**2)


def best_margin(X, y, weights, penalty, intercept):
    """`bracket` of rows with weights, and a coordinate of their own for lambda."""
    there = weights > 0
    own = np.sqrt(penalty / weights[there])
    if intercept:
        rows = extended(X[there], own)
    else:
        rows = np.hstack([X[there].astype(LONG), np.diag(own.astype(LONG))])
    return bracket(rows, y[there], intercept)
