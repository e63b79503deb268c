"""Plain NumPy references of the kernel learners, on the Gram matrix K of all training rows.

A trial presents the row of one index; ``order`` lists the indices, with repeats where a row comes
again. The hyperplane is w = sum_j a_j phi(x_j), one coefficient a_j per row, of the sign of y_j.
Nothing is carried over between trials but the coefficients (and the pair and b where there is a
bias): every output sum_j a_j K_ij and every |w|^2 = a'Ka is summed anew. On K = X X' each learner
is that of the same name in ``reference`` and ``reference_pnorm`` on the rows X[order]. On
K + lambda I it has the 2-norm soft margin.

Papers cited without a year:

- Ishibashi, Hatano & Takeda, Online Learning of Approximate Maximum p-Norm Margin Classifiers with
  Bias
- Kivinen, Smola & Williamson, Large Margin Classification for Moving Targets
- Tsampouka & Shawe-Taylor, Perceptron-like Large Margin Classifiers
- Zhao & Huang, Simple Online Learning with Approximate Max Margin and Fast Convergence
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from reference import Array
from scipy.optimize import nnls
from sklearn.svm import SVC

Indices = NDArray[np.intp]


class KernelTrace(NamedTuple):
    """What a learner did: the last five fields have one entry per trial.

    History holds the coefficients and biases the b after a trial, outputs the f(x) + b before it.
    The mass of the certificates, sum_i |a_i|, is ``history @ y``.
    """

    coefficients: Array
    bias: float
    history: Array
    biases: Array
    outputs: Array
    updated: NDArray[np.bool_]
    mistakes: NDArray[np.bool_]


After = tuple[Array, float, bool]  # coefficients, b, updated
Trial = Callable[[Array, float, int, int, int], After]


# Kernels.


def rbf(X: Array, Z: Array, gamma: float) -> Array:
    """exp(-gamma |x - z|^2), a row for each x and a column for each z."""
    return np.array([[np.exp(-gamma * np.sum((x - z) ** 2)) for z in Z] for x in X])


def poly(X: Array, Z: Array, gamma: float, degree: int, coef0: float) -> Array:
    """(gamma x.z + coef0)^degree, a row for each x and a column for each z."""
    return np.array([[(gamma * np.dot(x, z) + coef0) ** degree for z in Z] for x in X])


# The parts of a trial.


def _run(K: Array, y: Array, order: Indices, trial: Trial) -> KernelTrace:
    """A trial is given a, b, the row i, its own number t from 1 and the number k of updates."""
    a, b, updates = np.zeros(len(K)), 0.0, 0
    history, biases, outputs, updated, mistakes = [], [], [], [], []
    for t, i in enumerate(order, start=1):
        outputs.append(np.dot(K[i], a) + b)
        mistakes.append(y[i] * outputs[-1] <= 0)
        a, b, changed = trial(a, b, int(i), t, updates)
        updates += changed
        history.append(a)
        biases.append(b)
        updated.append(changed)
    return KernelTrace(
        a,
        b,
        np.array(history),
        np.array(biases),
        np.array(outputs),
        np.array(updated, dtype=bool),
        np.array(mistakes, dtype=bool),
    )


def _margin(K: Array, y: Array, a: Array, i: int) -> float:
    return float(y[i] * np.dot(K[i], a))


def _square(K: Array, a: Array) -> float:
    """The square of |w|; rounding may leave a w = 0 of several terms below 0."""
    return max(0.0, float(a @ K @ a))


def _norm(K: Array, a: Array) -> float:
    return float(np.sqrt(_square(K, a)))


def _plus(a: Array, y: Array, i: int, d: float) -> Array:
    """The coefficients of w + d y_i phi(x_i)."""
    a = a.copy()
    a[i] += d * y[i]
    return a


# Learners without a bias.


def perceptron(
    K: Array, y: Array, order: Indices, *, margin: float = 0.0, rate: float = 1.0
) -> KernelTrace:
    """Freund & Schapire (1999); with a margin Tsampouka & Shawe-Taylor, section 2.1 with f = 1."""

    def trial(a: Array, b: float, i: int, t: int, k: int) -> After:
        if K[i, i] == 0 or _margin(K, y, a, i) > margin:
            return a, b, False
        return _plus(a, y, i, rate), b, True

    return _run(K, y, order, trial)


def averaged_perceptron(
    K: Array, y: Array, order: Indices, *, margin: float = 0.0, rate: float = 1.0
) -> KernelTrace:
    """Freund & Schapire (1999): the mean of w over all trials so far, w taken after each trial.

    Outputs and mistakes are those of the perceptron itself.
    """
    last = perceptron(K, y, order, margin=margin, rate=rate)
    history = np.array([np.mean(last.history[:t], axis=0) for t in range(1, len(order) + 1)])
    return last._replace(coefficients=history[-1], history=history)


def relaxation(
    K: Array,
    y: Array,
    order: Indices,
    *,
    margin: float = 1.0,
    target: float = 1.1,
    rate: float = 1.0,
) -> KernelTrace:
    """Tsampouka & Shawe-Taylor, equation (2.22)."""

    def trial(a: Array, b: float, i: int, t: int, k: int) -> After:
        m, xx = _margin(K, y, a, i), K[i, i]
        if xx == 0 or m > margin or m >= target:
            return a, b, False
        return _plus(a, y, i, rate * (target - m) / xx), b, True

    return _run(K, y, order, trial)


def passive_aggressive(
    K: Array, y: Array, order: Indices, *, C: float | None = None, loss: str = "hinge"
) -> KernelTrace:
    """Crammer et al. (2006): PA, or with C given PA-I ("hinge") or PA-II ("squared_hinge")."""

    def trial(a: Array, b: float, i: int, t: int, k: int) -> After:
        suffered, xx = 1 - _margin(K, y, a, i), K[i, i]
        if xx == 0 or suffered <= 0:
            return a, b, False
        if C is None:
            tau = suffered / xx
        elif loss == "hinge":
            tau = min(C, suffered / xx)
        else:
            tau = suffered / (xx + 1 / (2 * C))
        return _plus(a, y, i, tau), b, True

    return _run(K, y, order, trial)


def amira(K: Array, y: Array, order: Indices, *, epsilon: float = 0.1) -> KernelTrace:
    """Zhao & Huang, Algorithm 1."""

    def trial(a: Array, b: float, i: int, t: int, k: int) -> After:
        m, xx = _margin(K, y, a, i), K[i, i]
        if xx == 0 or m > 1 - epsilon or m >= 1:
            return a, b, False
        return _plus(a, y, i, (1 - m) / xx), b, True

    return _run(K, y, order, trial)


def romma(K: Array, y: Array, order: Indices, *, delta: float = 1.0) -> KernelTrace:
    """Li & Long (2002), with delta as in Ishibashi, Hatano & Takeda.

    The new w' is the shortest with y_i w'.x_i >= 1 and w'.w >= w.w; w opposite to it allows none.
    """

    def trial(a: Array, b: float, i: int, t: int, k: int) -> After:
        m, xx, ww = _margin(K, y, a, i), K[i, i], _square(K, a)
        due = m <= 0 if delta == 1 else m < 1 - delta
        if xx == 0 or not due:
            return a, b, False
        if xx * ww <= m:
            return _plus(0 * a, y, i, 1 / xx), b, True
        det = xx * ww - m * m
        if det <= 0:
            return a, b, False
        return _plus((xx * ww - m) / det * a, y, i, ww * (1 - m) / det), b, True

    return _run(K, y, order, trial)


def alma(
    K: Array,
    y: Array,
    order: Indices,
    *,
    alpha: float = 0.1,
    B: float | None = None,
    C: float | None = None,
) -> KernelTrace:
    """Gentile (2001), ALMA_2(alpha; B, C), on phi(x) / |phi(x)|; the coefficients are of phi(x)."""
    B = np.sqrt(8) / alpha if B is None else B
    C = np.sqrt(2) if C is None else C

    def trial(a: Array, b: float, i: int, t: int, k: int) -> After:
        length = np.sqrt(K[i, i])
        if length == 0 or _margin(K, y, a, i) / length > (1 - alpha) * B / np.sqrt(k + 1):
            return a, b, False
        a = _plus(a, y, i, C / np.sqrt(k + 1) / length)
        return a / max(1.0, _norm(K, a)), b, True

    return _run(K, y, order, trial)


def micra(
    K: Array,
    y: Array,
    order: Indices,
    *,
    beta: float | None,
    eta: float = 1.0,
    epsilon: float = 0.5,
    zeta: float = 0.5,
) -> KernelTrace:
    """Tsampouka & Shawe-Taylor (2007), MICRA^(epsilon, zeta), with R the largest norm seen.

    The first usable pattern is the start and counts as the first update.
    """

    def trial(a: Array, b: float, i: int, t: int, k: int) -> After:
        R, length = np.sqrt(max(K[j, j] for j in order[:t])), _norm(K, a)
        if K[i, i] == 0:
            return a, b, False
        if length == 0:
            return _plus(a, y, i, 1.0), b, True
        if _margin(K, y, a, i) / length > (R if beta is None else beta) / k**epsilon:
            return a, b, False
        return _plus(a, y, i, eta / k**zeta * length / R), b, True

    return _run(K, y, order, trial)


def directional_perceptron(
    K: Array,
    y: Array,
    order: Indices,
    *,
    beta: float,
    length: str = "free",
    step: str = "constant",
    rate: float = 1.0,
) -> KernelTrace:
    """Tsampouka & Shawe-Taylor, (2.30); length "fixed" is (2.49), step "relaxed" is (2.32).

    The theory needs f > 0: where beta is too large for that, there is no update.
    """

    def trial(a: Array, b: float, i: int, t: int, k: int) -> After:
        norm, xx = _norm(K, a), K[i, i]
        m = _margin(K, y, a, i) / norm if norm > 0 else 0.0
        if xx == 0 or (norm > 0 and m > beta):
            return a, b, False
        f = 1 - beta * m / xx if step == "relaxed" else 1.0
        if f <= 0:
            return a, b, False
        a = _plus(a, y, i, rate * f)
        norm = _norm(K, a)
        return (beta / norm * a if length == "fixed" and norm > 0 else a), b, True

    return _run(K, y, order, trial)


def pegasos(
    K: Array, y: Array, order: Indices, *, lambda_: float = 1e-4, project: bool = False
) -> KernelTrace:
    """Shalev-Shwartz, Singer & Srebro (2007), Pegasos with one example per step."""

    def trial(a: Array, b: float, i: int, t: int, k: int) -> After:
        due = bool(K[i, i] > 0 and _margin(K, y, a, i) < 1)
        a = (1 - 1 / t) * a
        if due:
            a = _plus(a, y, i, 1 / (lambda_ * t))
        norm = _norm(K, a)
        scale = min(1.0, 1 / (np.sqrt(lambda_) * norm)) if project and norm > 0 else 1.0
        return scale * a, b, due

    return _run(K, y, order, trial)


def norma(
    K: Array, y: Array, order: Indices, *, rate: float, decay: float, margin: float
) -> KernelTrace:
    """Kivinen, Smola & Williamson, NORMA_2(alpha, lambda, rho), (2); no old term is dropped."""

    def trial(a: Array, b: float, i: int, t: int, k: int) -> After:
        due = bool(K[i, i] > 0 and _margin(K, y, a, i) <= margin)
        a = (1 - rate * decay) * a
        return (_plus(a, y, i, rate) if due else a), b, due

    return _run(K, y, order, trial)


def tracking_alma(
    K: Array, y: Array, order: Indices, *, rate: float, radius: float, margin: float
) -> KernelTrace:
    """Kivinen, Smola & Williamson, their simplified ALMA_2(alpha, B, rho)."""

    def trial(a: Array, b: float, i: int, t: int, k: int) -> After:
        if K[i, i] == 0 or _margin(K, y, a, i) > margin:
            return a, b, False
        a = _plus(a, y, i, rate)
        return a / max(1.0, _norm(K, a) / radius), b, True

    return _run(K, y, order, trial)


# Learners with a bias, by a pair of the last positive and the last negative row that was used.


def _pair_run(
    K: Array,
    y: Array,
    order: Indices,
    due: Callable[[float], bool],
    step: Callable[[Array, Array], Array],
) -> KernelTrace:
    """Feed step with a and the coefficients of z = x+ - x- of each new pair; it returns a.

    Until there is a pair w = 0 and b = y_1, and the first row is no update.
    """
    pair: dict[float, int] = {}

    def trial(a: Array, b: float, i: int, t: int, k: int) -> After:
        label = float(y[i])
        if not pair:
            pair[label] = i
            return a, label, False
        if not due(label * float(np.dot(K[i], a) + b)):
            return a, b, False
        pair[label] = i
        z = np.zeros(len(K))
        z[pair[1]], z[pair[-1]] = 1.0, -1.0
        if z @ K @ z <= 0:
            raise ValueError("the same point has both labels")
        a = step(a, z)
        return a, -float(np.dot(K[pair[1]], a) + np.dot(K[pair[-1]], a)) / 2, True

    return _run(K, y, order, trial)


def pumma(K: Array, y: Array, order: Indices, *, delta: float) -> KernelTrace:
    """Ishibashi, Hatano & Takeda, PUMMA(delta, 2), Figure 1, with (16) for b.

    The new w' is the shortest with w'.z >= 2 and w'.w >= w.w: (12) with the p-norm of z where the
    second does not bind, else both are equations. ValueError if no w' exists.
    """

    def due(margin: float) -> bool:
        return margin < 1 - delta or margin <= 0

    def step(a: Array, z: Array) -> Array:
        ww, wz, zz = a @ K @ a, a @ K @ z, z @ K @ z
        if 2 * wz / zz >= ww:
            return 2 / zz * z
        det = ww * zz - wz * wz
        if det <= 0:
            raise ValueError("the pair is opposite to the hyperplane")
        result: Array = ww * (2 - wz) / det * z + (ww * zz - 2 * wz) / det * a
        return result

    return _pair_run(K, y, order, due, step)


def pair_amira(K: Array, y: Array, order: Indices, *, epsilon: float) -> KernelTrace:
    """Zhao & Huang, Algorithm 1, by the reduction of Ishibashi, Hatano & Takeda, section 3.2."""

    def due(margin: float) -> bool:
        return margin <= 1 - epsilon and margin < 1

    def step(a: Array, z: Array) -> Array:
        half = z / 2
        result: Array = a + (1 - a @ K @ half) / (half @ K @ half) * half
        return result

    return _pair_run(K, y, order, due, step)


# Margins.


def max_margin(K: Array, signs: Array, intercept: bool) -> float:
    """By libsvm; without intercept the distance of the origin from the hull of all ``y x``."""
    if intercept:
        svc = SVC(kernel="precomputed", C=1e8, tol=1e-10).fit(K, signs)
        weights = np.zeros(signs.size)
        weights[svc.support_] = svc.dual_coef_[0]
        return float(1.0 / np.sqrt(weights @ K @ weights))
    values, vectors = np.linalg.eigh(K * np.outer(signs, signs))
    root = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    last = 1e-3  # any number will do; the solution is proportional to the nearest point
    mixture, _ = nnls(np.vstack([root / last, np.ones(len(K))]), np.append(np.zeros(len(K)), 1.0))
    return float(np.linalg.norm(root @ mixture) / mixture.sum())
