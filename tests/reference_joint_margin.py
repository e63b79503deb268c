"""Plain NumPy reference of ``MaxMargin(multiclass="joint")``, which forms every constraint vector.

For row x of class y and each rival c, the constraint is D.(W, b) >= 1 with D = (x, 1) in the block
of y, (-x, -1) in that of c. The objective

    P = |W|^2 / 2 + 1 / (4 lambda) sum_i s_i sum_c max(0, 1 - D_ic.(W, b))^2

is minimised over all its unknowns at once, and its dual

    D(a) = sum a - |sum_ic a_ic D_ic|^2 / 2 - lambda sum_ic a_ic^2 / s_i,    a >= 0,

with the sum taken over weights alone and the sums of the intercepts' coordinates 0, over the a_ic.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import lstsq


class JointOptimum(NamedTuple):
    """The minimum of P, with coefficients a of shape (rows, classes), 0 for own classes."""

    W: np.ndarray
    b: np.ndarray
    value: float
    coefs: np.ndarray


def constraint_vectors(X, y, classes):
    """D of shape (pairs, classes * (features + 1)), with the row and the rival of each."""
    D, pairs = [], []
    for i, (x, own) in enumerate(zip(X, y, strict=True)):
        for c in range(classes):
            if c != own:
                d = np.zeros((classes, X.shape[1] + 1))
                d[own], d[c] = np.append(x, 1.0), -np.append(x, 1.0)
                D.append(d.ravel())
                pairs.append((i, c))
    return np.array(D), np.array(pairs)


def joint_objective(W, b, X, y, penalty, s=None):
    """P, row by row."""
    s, losses = np.ones(len(y)) if s is None else s, 0.0
    for x, own, count in zip(X, y, s, strict=True):
        f = W @ x + b
        losses += count * sum(max(0.0, 1 - f[own] + f[c]) ** 2 for c in range(len(b)) if c != own)
    return float(np.sum(W * W) / 2 + losses / (4 * penalty))


def joint_optimum(X, y, classes, penalty, s=None, intercept=True):
    """The minimum, by Newton's method with halved steps; RuntimeError if it does not converge."""
    s = np.ones(len(y)) if s is None else np.asarray(s, float)
    D, pairs = constraint_vectors(X, y, classes)
    size, count = X.shape[1] + 1, s[pairs[:, 0]]
    is_bias = np.arange(classes * size) % size == size - 1
    if not intercept:
        D[:, is_bias] = 0.0
    ridge, v = np.where(is_bias, 0.0, 1.0), np.zeros(classes * size)

    def value(v):
        return v @ (ridge * v) / 2 + count @ np.maximum(0.0, 1 - D @ v) ** 2 / (4 * penalty)

    for _ in range(500):
        a = count * np.maximum(0.0, 1 - D @ v) / (2 * penalty)
        gradient = ridge * v - a @ D
        if np.abs(gradient).max() <= 1e-11 * (1.0 + np.abs(a) @ np.abs(D).max(axis=1)):
            W, b = v.reshape(classes, size)[:, :-1], v.reshape(classes, size)[:, -1]
            coefs = np.zeros((len(y), classes))
            coefs[pairs[:, 0], pairs[:, 1]] = a
            return JointOptimum(W, b, float(value(v)), coefs)
        active = D[a > 0]
        hessian = np.diag(ridge) + active.T @ (count[a > 0, None] * active) / (2 * penalty)
        step, t = lstsq(hessian, -gradient)[0] * (intercept | ~is_bias), 1.0
        while value(v + t * step) > value(v) + 1e-4 * t * (gradient @ step) and t > 1e-9:
            t /= 2
        v = v + t * step
    raise RuntimeError("Newton's method did not converge")


def joint_dual(coefs, K, y, penalty, s=None):
    """D(a), by a Gram matrix; -inf unless a is feasible up to the balance of intercepts."""
    s, classes = np.ones(len(y)) if s is None else s, coefs.shape[1]
    if coefs.min() < 0.0:
        return -np.inf
    beta = np.eye(classes)[y] * coefs.sum(axis=1, keepdims=True) - coefs
    square = float(np.sum(beta * (K @ beta)))
    return float(coefs.sum() - square / 2 - penalty * np.sum(coefs**2 / s[:, None]))


def joint_left_out(X, y, classes, penalty, s=None, intercept=True):
    """Outputs of each row by the minimum without it, of shape (rows, classes)."""
    s, found = np.ones(len(y)) if s is None else np.asarray(s, float), []
    for i in range(len(y)):
        rest = np.arange(len(y)) != i
        best = joint_optimum(X[rest], y[rest], classes, penalty, s[rest], intercept)
        found.append(best.W @ X[i] + best.b)
    return np.array(found)
