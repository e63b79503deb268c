"""Plain NumPy references of the joint multiclass learners, and exact solutions to compare with.

Classes are 0, ..., M - 1, with one row of W each. Row x of class y and the rival z != y give the
constraint vector D(x, y, z) of the shape of W: x in row y, -x in row z, 0 elsewhere. Its margin
W.D is the score of y minus that of z. Each learner is one rule: from the scores and the inner
products of the constraint vectors of the row, it finds a factor c and multipliers eta >= 0 for
W <- c W + sum_z eta_z D(x, y, z). Linear learners present the rows once, in the order given, and
write the constraint vectors out; kernel learners present the rows of ``order`` (with repeats where
a row comes again) of a Gram matrix K and keep one coefficient for each row and class. A tie of
scores counts as a mistake where it involves the true class, and else goes to the lowest class.

Papers cited without a year:

- Ishibashi, Hatano & Takeda, Online Learning of Approximate Maximum p-Norm Margin Classifiers with
  Bias
- Zhao & Huang, Simple Online Learning with Approximate Max Margin and Fast Convergence
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from reference import Array, max_margin
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

Labels = NDArray[np.int64]
Indices = NDArray[np.intp]


class MulticlassTrace(NamedTuple):
    """What a learner did: all but W have one entry per trial.

    ``multipliers`` is (trials, M), as of the end: W is the sum of multipliers[t, z] D(x_t, y_t, z).
    Mass is their sum after each trial, history holds W.
    """

    W: Array
    history: Array
    scores: Array
    updated: NDArray[np.bool_]
    mistakes: NDArray[np.bool_]
    mass: Array
    multipliers: Array


class KernelMulticlassTrace(NamedTuple):
    """As ``MulticlassTrace``, with coefficients (n, M) for W = coefficients' Phi.

    ``multipliers`` is (n, M): one entry for each row of K and class, whatever the order.
    """

    coefficients: Array
    history: Array
    scores: Array
    updated: NDArray[np.bool_]
    mistakes: NDArray[np.bool_]
    mass: Array
    multipliers: Array


# From the scores, the class, the inner products (M, M) of the constraint vectors and |W|^2 to
# (c, eta); the row and the column of the class itself are 0.
Rule = Callable[[Array, int, Array, float], tuple[float, Array]]


# The projection.


def hildreth(gram: Array, gaps: Array, tolerance: float = 1e-14) -> Array:
    """Hildreth (1957), as in Zhao & Huang, Algorithm 3: the multipliers of a projection.

    To the nearest point with W'.D_z >= b_z for all z, where gram holds the D_z.D_z' and gaps the
    b_z - W.D_z; it is W + sum_z eta_z D_z. Ends when no eta has moved by more than tolerance times
    the largest. RuntimeError if that does not happen.
    """
    eta = np.zeros(len(gaps))
    for _ in range(100_000):
        before = eta.copy()
        for z in range(len(gaps)):
            eta[z] = max(0.0, eta[z] + (gaps[z] - np.dot(gram[z], eta)) / gram[z, z])
        if np.max(np.abs(eta - before)) <= tolerance * np.max(eta):
            return eta
    raise RuntimeError("Hildreth's algorithm did not converge")


def project_by_qp(gram: Array, gaps: Array) -> Array:
    """The same multipliers as the least eta'G eta / 2 - gaps.eta over eta >= 0, by nnls.

    With G = L L' that is the least |L' eta - L^-1 gaps|; G must be positive definite.
    """
    L = np.linalg.cholesky(gram)
    eta: Array = nnls(L.T, solve_triangular(L, gaps, lower=True))[0]
    return eta


# Rules.


def _rivals(scores: Array, label: int) -> list[int]:
    """The wrong classes, highest score first, ties by the lowest class."""
    wrong = [z for z in range(len(scores)) if z != label]
    return sorted(wrong, key=lambda z: -scores[z])


def _one_best(step: Callable[[float, float, float], tuple[float, float]]) -> Rule:
    """From (c, d) of a binary step on the best rival's margin m, |D|^2 and |W|^2; d = 0 is none."""

    def rule(scores: Array, label: int, gram: Array, ww: float) -> tuple[float, Array]:
        z = _rivals(scores, label)[0]
        eta = np.zeros(len(scores))
        c, eta[z] = step(scores[label] - scores[z], gram[z, z], ww)
        return c, eta

    return rule


def perceptron_rule(rate: float = 1.0, margin: float = 0.0) -> Rule:
    """The Perceptron on D of the best rival: Collins (2002), here with a margin."""
    return _one_best(lambda m, xx, ww: (1.0, rate if m <= margin else 0.0))


def passive_aggressive_rule(C: float | None = None, loss: str = "hinge") -> Rule:
    """Crammer et al. (2006) on D of the best rival: PA, or with C given PA-I or PA-II."""

    def step(m: float, xx: float, ww: float) -> tuple[float, float]:
        suffered = max(0.0, 1 - m)
        if C is None:
            return 1.0, suffered / xx
        if loss == "hinge":
            return 1.0, min(C, suffered / xx)
        return 1.0, suffered / (xx + 1 / (2 * C))

    return _one_best(step)


def amira_1best_rule(epsilon: float = 0.1) -> Rule:
    """Zhao & Huang, Algorithm 2."""
    return amira_kbest_rule(epsilon, 1)


def amira_kbest_rule(epsilon: float = 0.1, k: int | None = None) -> Rule:
    """Zhao & Huang, Algorithm 3; without k all wrong classes."""

    def rule(scores: Array, label: int, gram: Array, ww: float) -> tuple[float, Array]:
        eta = np.zeros(len(scores))
        margins = scores[label] - scores
        gaps = 1 - margins
        due = [z for z in _rivals(scores, label) if margins[z] <= 1 - epsilon and gaps[z] > 0]
        Z = sorted(due, key=lambda z: -gaps[z])[:k]
        if Z:
            eta[Z] = hildreth(gram[np.ix_(Z, Z)], gaps[Z])
        # Equal gaps have equal multipliers, as the solution is unique: without its rounding
        # classes that tie now still tie later on, and the choice among them is the same for all.
        for gap in np.unique(gaps[Z]):
            tied = [z for z in Z if gaps[z] == gap]
            eta[tied] = eta[tied[0]]
        return 1.0, eta

    return rule


def romma_rule(delta: float = 1.0) -> Rule:
    """Li & Long (2002) on D of the best rival, with delta as in Ishibashi, Hatano & Takeda.

    All rows of W shrink in an update, those of other classes too.
    """

    def step(m: float, xx: float, ww: float) -> tuple[float, float]:
        due = m <= 0 if delta == 1 else m < 1 - delta
        if not due:
            return 1.0, 0.0
        if xx * ww <= m:
            return 0.0, 1 / xx
        det = xx * ww - m * m
        return ((xx * ww - m) / det, ww * (1 - m) / det) if det > 0 else (1.0, 0.0)

    return _one_best(step)


# Linear learners.


def constraints(x: Array, label: int, classes: int) -> Array:
    """All D(x, y, z), of shape (M, M, n) with z first; D(x, y, y) = 0."""
    D = np.zeros((classes, classes, len(x)))
    for z in range(classes):
        D[z, label] += x
        D[z, z] -= x
    return D


def _run(X: Array, y: Labels, classes: int, rule: Rule) -> MulticlassTrace:
    W, multipliers = np.zeros((classes, X.shape[1])), np.zeros((len(X), classes))
    history, scores, updated, mistakes, mass = [], [], [], [], []
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        scores.append([np.dot(w, x) for w in W])
        mistakes.append(scores[-1][label] <= max(np.delete(scores[-1], label)))
        c, eta = 1.0, np.zeros(classes)
        if np.dot(x, x) > 0:
            D = constraints(x, int(label), classes)
            gram = np.array([[np.sum(one * other) for other in D] for one in D])
            c, eta = rule(np.array(scores[-1]), int(label), gram, float(np.sum(W * W)))
            W = c * W + sum(eta[z] * D[z] for z in range(classes))
        multipliers *= c
        multipliers[t] = eta
        history.append(W)
        updated.append(np.any(eta > 0))
        mass.append(np.sum(multipliers))
    return MulticlassTrace(
        W,
        np.array(history),
        np.array(scores),
        np.array(updated, dtype=bool),
        np.array(mistakes, dtype=bool),
        np.array(mass),
        multipliers,
    )


# Kernel learners.


def _kernel_run(
    K: Array, y: Labels, order: Indices, classes: int, rule: Rule
) -> KernelMulticlassTrace:
    A, multipliers = np.zeros((len(K), classes)), np.zeros((len(K), classes))
    history, scores, updated, mistakes, mass = [], [], [], [], []
    for i in order:
        label = int(y[i])
        scores.append([np.dot(K[i], A[:, z]) for z in range(classes)])
        mistakes.append(scores[-1][label] <= max(np.delete(scores[-1], label)))
        c, eta = 1.0, np.zeros(classes)
        if K[i, i] > 0:
            gram = K[i, i] * (np.ones((classes, classes)) + np.eye(classes))
            gram[label] = gram[:, label] = 0.0
            c, eta = rule(np.array(scores[-1]), label, gram, float(np.sum(A * (K @ A))))
            A = c * A
            A[i, label] += np.sum(eta)
            A[i] -= eta
        multipliers *= c
        multipliers[i] += eta
        history.append(A)
        updated.append(np.any(eta > 0))
        mass.append(np.sum(multipliers))
    return KernelMulticlassTrace(
        A,
        np.array(history),
        np.array(scores),
        np.array(updated, dtype=bool),
        np.array(mistakes, dtype=bool),
        np.array(mass),
        multipliers,
    )


# Learners by name.

RULES: dict[str, Callable[..., Rule]] = {
    "perceptron_1best": perceptron_rule,
    "passive_aggressive_1best": passive_aggressive_rule,
    "amira_1best": amira_1best_rule,
    "amira_kbest": amira_kbest_rule,
    "romma_1best": romma_rule,
}


def learned(name: str, X: Array, y: Labels, classes: int, **settings: Any) -> MulticlassTrace:
    return _run(X, y, classes, RULES[name](**settings))


def learned_in_kernel(
    name: str, K: Array, y: Labels, order: Indices, classes: int, **settings: Any
) -> KernelMulticlassTrace:
    return _kernel_run(K, y, order, classes, RULES[name](**settings))


# Margins.


def joint_margin(W: Array, X: Array, y: Labels) -> float:
    """The least margin of W over all rows and rivals, divided by the Frobenius norm of W."""
    least = min(
        s[label] - s[z] for s, label in zip(X @ W.T, y, strict=True) for z in _rivals(s, label)
    )
    return float(least / np.sqrt(np.sum(W * W)))


def max_joint_margin(X: Array, y: Labels, classes: int) -> tuple[float, Array]:
    """The largest ``joint_margin``, and its W at functional margin 1; nan if there is none > 0.

    By duality it is the distance of the origin from the hull of all constraint vectors.
    """
    D = np.array(
        [
            constraints(x, label, classes)[z].ravel()
            for x, label in zip(X, y, strict=True)
            for z in range(classes)
            if z != label
        ]
    )
    margin, w, _ = max_margin(D, np.ones(len(D)), intercept=False)
    return margin, w.reshape(classes, -1)


def joint_coefficients(y: Labels, multipliers: Array) -> Array:
    """The coefficients (n, M) of W = coefficients' X from the multipliers of D(x_i, y_i, z).

    Those of D(x_i, y_i, y_i) = 0 must be 0.
    """
    coefficients = -multipliers
    coefficients[np.arange(len(y)), y] += np.sum(multipliers, axis=1)
    return coefficients


def joint_bound(K: Array, y: Labels, multipliers: Array) -> float:
    """|W| / sum of multipliers (n, M), all >= 0, with K the Gram matrix of the n rows.

    That is the length of a point of the hull of the constraint vectors: no margin is larger.
    """
    coefficients = joint_coefficients(y, multipliers)
    mass = np.sum(multipliers)
    return float(np.sqrt(np.sum(coefficients * (K @ coefficients))) / mass)
