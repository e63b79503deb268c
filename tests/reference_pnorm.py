"""Plain NumPy references of the p-norm learners, of the pair learners and of the bisection.

As in ``reference``, rows are presented once, in the order given, and z = y x is the reflected
pattern. A p-norm learner keeps theta = sum_i a_i z_i and its mass sum_i a_i; its hyperplane is
w = link(theta). Everywhere p >= 2 and q = p / (p - 1).

Papers cited without a year:

- Ishibashi, Hatano & Takeda, Online Learning of Approximate Maximum p-Norm Margin Classifiers with
  Bias
- Kivinen, Smola & Williamson, Large Margin Classification for Moving Targets
- Tsampouka & Shawe-Taylor, Perceptron-like Large Margin Classifiers
- Zhao & Huang, Simple Online Learning with Approximate Max Margin and Fast Convergence
"""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from reference import Array, Trace
from scipy.optimize import brentq, linprog, minimize, root

After = tuple[Array, float, bool]  # theta, mass, updated
Trial = Callable[[Array, Array, float, Array, int], After]


class PairTrace(NamedTuple):
    """What a pair learner did; history holds (w, b), and the pair is (x+, x-), None if not seen."""

    w: Array
    b: float
    history: list[tuple[Array, float]]
    updated: NDArray[np.bool_]
    mistakes: NDArray[np.bool_]
    pair: tuple[Array | None, Array | None]


class Round(NamedTuple):
    """One round: found is the margin it ended with, 0 if none; checks are of one row each."""

    beta: float
    success: bool
    found: float
    checks: int


class Search(NamedTuple):
    """The best vector of a bisection, the margin found with it (0 if none), and the rounds."""

    w: Array
    margin: float
    rounds: list[Round]


def norm(v: Array, p: float) -> float:
    """The p-norm, by the largest entry so that no power overflows."""
    largest = np.max(np.abs(v), initial=0.0)
    return float(largest * np.sum((np.abs(v) / largest) ** p) ** (1 / p)) if largest > 0 else 0.0


def link(theta: Array, p: float) -> Array:
    """Kivinen, Smola & Williamson, section 3: w = f^-1(theta), the gradient of |theta|_p^2 / 2."""
    size = norm(theta, p)
    return np.sign(theta) * (np.abs(theta) / size) ** (p - 1) * size if size > 0 else 0 * theta


def inverse_link(w: Array, p: float) -> Array:
    """Kivinen, Smola & Williamson, section 3: theta = f(w), the gradient of |w|_q^2 / 2."""
    return link(w, p / (p - 1))


def soft(X: Array, lam: float) -> Array:
    """Rows of inner product K + lam I: every row has a coordinate sqrt(lam) of its own."""
    return np.hstack([X, np.sqrt(lam) * np.eye(len(X))])


# Learners without a bias.


def _run(X: Array, y: Array, p: float, trial: Trial) -> Trace:
    """A trial is given theta, w, the mass, z and the number k of updates before it."""
    theta, w, mass, updates = np.zeros(X.shape[1]), np.zeros(X.shape[1]), 0.0, 0
    history, updated, mistakes, masses = [], [], [], []
    for z in y[:, None] * X:
        mistakes.append(np.dot(w, z) <= 0)
        theta, mass, changed = trial(theta, w, mass, z, updates)
        w = link(theta, p)
        updates += changed
        history.append(w)
        updated.append(changed)
        masses.append(mass)
    return Trace(
        w,
        np.array(history),
        np.array(updated, dtype=bool),
        np.array(mistakes, dtype=bool),
        np.array(masses),
    )


def pnorm_perceptron(
    X: Array, y: Array, *, p: float, margin: float = 0.0, rate: float = 1.0
) -> Trace:
    """Kivinen, Smola & Williamson, section 3: the p-norm Perceptron, here with a margin."""

    def trial(theta: Array, w: Array, mass: float, z: Array, k: int) -> After:
        if not np.any(z) or np.dot(w, z) > margin:
            return theta, mass, False
        return theta + rate * z, mass + rate, True

    return _run(X, y, p, trial)


def pnorm_norma(X: Array, y: Array, *, p: float, rate: float, decay: float, margin: float) -> Trace:
    """Kivinen, Smola & Williamson, NORMA_p(alpha, lambda, rho), equation (2)."""

    def trial(theta: Array, w: Array, mass: float, z: Array, k: int) -> After:
        due = bool(np.any(z) and np.dot(w, z) <= margin)
        theta, mass = (1 - rate * decay) * theta, (1 - rate * decay) * mass
        return (theta + rate * z, mass + rate, True) if due else (theta, mass, False)

    return _run(X, y, p, trial)


def pnorm_tracking_alma(
    X: Array, y: Array, *, p: float, rate: float, radius: float, margin: float
) -> Trace:
    """Kivinen, Smola & Williamson, their simplified ALMA_p(alpha, B, rho)."""

    def trial(theta: Array, w: Array, mass: float, z: Array, k: int) -> After:
        if not np.any(z) or np.dot(w, z) > margin:
            return theta, mass, False
        theta, mass = theta + rate * z, mass + rate
        shrink = max(1.0, norm(theta, p) / radius)
        return theta / shrink, mass / shrink, True

    return _run(X, y, p, trial)


def pnorm_alma(
    X: Array,
    y: Array,
    *,
    p: float,
    alpha: float,
    B: float | None = None,
    C: float | None = None,
) -> Trace:
    """Gentile (2001), ALMA_p(alpha; B, C); the mass is of the rows as they were given."""
    B = np.sqrt(8) / alpha if B is None else B
    C = np.sqrt(2) if C is None else C

    def trial(theta: Array, w: Array, mass: float, z: Array, k: int) -> After:
        size = norm(z, p)
        due = (1 - alpha) * B * np.sqrt(p - 1) / np.sqrt(k + 1)
        if size == 0 or np.dot(w, z / size) > due:
            return theta, mass, False
        eta = C / (np.sqrt(p - 1) * np.sqrt(k + 1))
        theta = theta + eta * z / size
        shrink = max(1.0, norm(theta, p))
        return theta / shrink, (mass + eta / size) / shrink, True

    return _run(X, y, p, trial)


def additive(
    X: Array,
    y: Array,
    factors: Callable[[], float],
    *,
    p: float = 2.0,
    rate: float = 1.0,
    margin: float = 0.0,
    beta: float = 0.0,
) -> Array:
    """Tsampouka & Shawe-Taylor, (2.1): w after each update, until a pass is clean.

    An update is due by (2.2), w.z <= margin, or with a beta by (2.30), w.z <= beta |w|. It adds
    rate f z, where each f is a new one of the factors.
    """
    theta, w, history, clean = np.zeros(X.shape[1]), np.zeros(X.shape[1]), [], False
    while not clean:
        clean = True
        for z in y[:, None] * X:
            if np.dot(w, z) <= margin + beta * norm(theta, p):
                theta = theta + rate * factors() * z
                w = link(theta, p)
                history.append(w)
                clean = False
    return np.array(history)


def pnorm_romma(X: Array, y: Array, *, p: float, delta: float) -> Trace:
    """ROMMA in the p-norm: the w' of least |w'|_q with w'.z >= 1 and w'.theta >= |theta|_p^2.

    That is Ishibashi, Hatano & Takeda, (3), without the bias and with 2 z in place of the pair's
    difference. The mass is |w|_q^2.
    """

    def trial(theta: Array, w: Array, mass: float, z: Array, k: int) -> After:
        if not np.any(z) or (np.dot(w, z) >= 1 - delta and np.dot(w, z) > 0):
            return theta, mass, False
        theta = pair_theta(2 * z, theta, p)
        return theta, norm(theta, p) ** 2, True

    return _run(X, y, p, trial)


def pnorm_amira(X: Array, y: Array, *, p: float, epsilon: float) -> Trace:
    """AMIRA in the p-norm: theta + a z with the a > 0 that gives link(theta + a z).z = 1."""

    def trial(theta: Array, w: Array, mass: float, z: Array, k: int) -> After:
        if not np.any(z) or np.dot(w, z) > 1 - epsilon:
            return theta, mass, False
        a = amira_step(z, theta, p)
        return theta + a * z, mass + a, True

    return _run(X, y, p, trial)


def amira_step(z: Array, theta: Array, p: float) -> float:
    """The a of theta + a z, by Brent's method; link(theta + a z).z grows with a."""
    unit = 1 / norm(z, p)

    def excess(a: float) -> float:
        return float(np.dot(link(theta + a * unit * z, p), z)) - 1

    high = unit
    while excess(high) < 0:
        high *= 2
    return float(brentq(excess, 0.0, high, xtol=1e-300, rtol=1e-15)) * unit


# Learners with a bias, by a pair of the last positive and the last negative row that was used.


def _pair_run(
    X: Array, y: Array, due: Callable[[float], bool], step: Callable[[Array], Array]
) -> PairTrace:
    """Feed step with z = x+ - x- of each new pair; it returns w. Until then w = 0 and b = y_1."""
    w, b = np.zeros(X.shape[1]), 0.0
    pair: dict[float, Array] = {}
    history, updated, mistakes = [], [], []
    for x, label in zip(X, np.sign(y), strict=True):
        margin = float(label * (np.dot(w, x) + b))
        mistakes.append(margin <= 0)
        changed = bool(pair) and due(margin)
        if not pair:
            pair[label], b = x, float(label)
        elif changed:
            pair[label] = x
            w = step(pair[1] - pair[-1])
            b = -float(np.dot(w, pair[1]) + np.dot(w, pair[-1])) / 2
        history.append((w, b))
        updated.append(changed)
    seen = pair.get(1), pair.get(-1)
    return PairTrace(w, b, history, np.array(updated, dtype=bool), np.array(mistakes), seen)


def pair_theta(z: Array, theta: Array, p: float) -> Array:
    """Ishibashi, Hatano & Takeda, (3): theta' = f(w') = alpha z + beta theta with theta = f(v).

    By (4), (13) and (14) read with theta for v and without the factor alpha; in (12) alpha is
    2 / |z|_p^2. ValueError if no w' exists: z is 0, or opposite to theta.
    """
    if not np.any(z):
        raise ValueError("the same point has both labels")
    length, v = norm(theta, p), link(theta, p)
    alone: Array = 2 * z / norm(z, p) ** 2
    if np.dot(link(alone, p), theta) >= length**2:
        return alone
    if p == 2:
        V, vz, zz = np.dot(v, v), np.dot(v, z), np.dot(z, z)
        D = V * zz - vz * vz
        if D <= 0:
            raise ValueError("the pair is opposite to the hyperplane")
        result: Array = V * (2 - vz) / D * z + (V * zz - 2 * vz) / D * theta
        return result
    return _minimise_dual(z, theta, p)


def _minimise_dual(z: Array, theta: Array, p: float) -> Array:
    """The minimiser of G(alpha, beta) = |alpha z + beta theta|_p^2 / 2 - 2 alpha - beta |v|_q^2.

    Scaled, and in the basis theta / |theta|_p and the part of z that v does not see, both of
    p-norm 1: the gradient there is (w.e1 - 1, w.e2 - c), and v is at (1, 0).
    """
    length = norm(theta, p)
    first = theta / length
    seen = np.dot(link(first, p), z)
    second = z - seen * first
    size = norm(second, p)
    if size <= 1e-14 * norm(z, p):
        raise ValueError("the pair is opposite to the hyperplane")
    basis = np.array([first, second / size])
    target = np.array([1.0, (2 / length - seen) / size])

    def value(c: Array) -> tuple[float, Array]:
        return norm(c @ basis, p) ** 2 / 2 - np.dot(c, target), slope(c)

    def slope(c: Array) -> Array:
        result: Array = basis @ link(c @ basis, p) - target
        return result

    rough = minimize(value, [1.0, 0.0], jac=True, method="BFGS", options={"gtol": 1e-10}).x
    fine = root(slope, rough, method="hybr", options={"xtol": 1e-15}).x
    best: Array = min(rough, fine, key=lambda c: np.max(np.abs(slope(c))))
    if not np.max(np.abs(slope(best))) <= 1e-12 * np.max(target):
        raise RuntimeError("the dual of the update was not solved")
    return length * best @ basis


def pumma(X: Array, y: Array, *, delta: float, p: float = 2.0) -> PairTrace:
    """Ishibashi, Hatano & Takeda, PUMMA(delta, p), Figure 1, with (16) for b."""
    theta = np.zeros(X.shape[1])

    def due(margin: float) -> bool:
        return margin < 1 - delta or margin <= 0

    def step(z: Array) -> Array:
        nonlocal theta
        theta = pair_theta(z, theta, p)
        return link(theta, p)

    return _pair_run(X, y, due, step)


def pair_amira(X: Array, y: Array, *, epsilon: float, p: float = 2.0) -> PairTrace:
    """Zhao & Huang, Algorithm 1, by the reduction of Ishibashi, Hatano & Takeda, section 3.2."""
    theta = np.zeros(X.shape[1])

    def due(margin: float) -> bool:
        return margin <= 1 - epsilon and margin < 1

    def step(z: Array) -> Array:
        nonlocal theta
        if not np.any(z):
            raise ValueError("the same point has both labels")
        half = z / 2
        if p == 2:
            theta = theta + (1 - np.dot(theta, half)) / np.dot(half, half) * half
        else:
            theta = theta + amira_step(half, theta, p) * half
        return link(theta, p)

    return _pair_run(X, y, due, step)


# Exact solutions.


def max_pnorm_margin(X: Array, y: Array, p: float, intercept: bool) -> tuple[float, Array, float]:
    """The largest p-norm margin, and its w and b at functional margin 1; nan if none.

    By duality it is the least |sum_i a_i z_i|_p over a >= 0 of mass 1, with an intercept of mass
    1/2 in either class (both must be present). RuntimeError if the gap between the two is > 1e-5.
    """
    scale = np.max(np.abs(X))
    Z = y[:, None] * X / scale
    groups = [np.flatnonzero(y > 0), np.flatnonzero(y < 0)] if intercept else [np.arange(len(y))]
    system = np.hstack([Z, y[:, None]]) if intercept else Z
    found = linprog(
        np.zeros(system.shape[1]), A_ub=-system, b_ub=-np.ones(len(y)), bounds=(None, None)
    )
    if found.status == 2:
        return np.nan, np.full(X.shape[1], np.nan), np.nan

    a = np.zeros(len(y))
    chosen = np.array([g[0] for g in groups])
    a[chosen] = 1 / len(groups)
    idle = 0
    while True:
        h = a @ Z
        w = link(h, p)
        worst = [g[np.argmin(Z[g] @ w)] for g in groups]
        reached = np.mean(Z[worst] @ w)
        gap = 1 - reached / np.dot(w, h)
        grown = np.union1d(chosen, worst)
        idle = idle + 1 if len(grown) == len(chosen) else 0
        if gap < 1e-9 or idle == 3:
            break
        chosen = grown
        a[chosen] = _least_norm(Z[chosen], a[chosen], [np.isin(chosen, g) for g in groups], p)
    if not gap <= 1e-5:
        raise RuntimeError(f"the gap between primal and dual is {gap}")

    w = w / (reached * scale)
    b = -(np.min(X[y > 0] @ w) + np.max(X[y < 0] @ w)) / 2 if intercept else 0.0
    return 1 / norm(w, p / (p - 1)), w, float(b)


def _least_norm(Z: Array, a: Array, groups: list[NDArray[np.bool_]], p: float) -> Array:
    """The a >= 0 of least |a Z|_p, of equal masses in the groups and of mass 1, by SLSQP from a."""
    Z = Z / norm(a @ Z, p)
    masses = np.array(groups, dtype=float)

    def value(c: Array) -> tuple[float, Array]:
        return norm(c @ Z, p) ** 2 / 2, Z @ link(c @ Z, p)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # steps clipped to the bounds
        c: Array = minimize(
            value,
            a,
            jac=True,
            method="SLSQP",
            bounds=[(0, None)] * len(a),
            constraints={
                "type": "eq",
                "fun": lambda c: masses @ c - 1 / len(groups),
                "jac": lambda c: masses,
            },
            options={"ftol": 1e-16, "maxiter": 1000},
        ).x
    c = np.maximum(c, 0)
    for group in groups:
        c[group] /= np.sum(c[group]) * len(groups)
    return c


# The bisection on the directional margin.


def _cycle(Z: Array, a: Array, beta: float, b: float, most: int) -> tuple[Array, bool, int]:
    """Epochs of a += z where a.z <= beta |a| + b, until one is clean or most rows were checked."""
    checks = 0
    while True:
        clean = True
        for z in Z:
            if checks == most:
                return a, False, checks
            checks += 1
            if np.dot(a, z) <= beta * np.sqrt(np.dot(a, a)) + b:
                a, clean = a + z, False
        if clean:
            return a, True, checks


def bisection(X: Array, y: Array, *, precision: float, max_checks: int, two_stage: bool) -> Search:
    """Tsampouka & Shawe-Taylor, section 3, the first or the second (two_stage) implementation.

    A round is (2.30) with f = 1 and, in the second one where half of the checks did not do, the
    Perceptron of that margin for the other half. It ends with step < precision; no row may be 0.
    """
    Z = y[:, None] * X
    beta = step = min(norm(z, 2) for z in Z) / 2
    best, margin = np.zeros(X.shape[1]), 0.0
    rounds = []
    half = max_checks // 2 if two_stage else max_checks
    while True:
        if two_stage and beta < margin:
            success, found, checks = True, margin, 0
        else:
            a, success, checks = _cycle(Z, best, beta, 0.0, half)
            found = beta if success else 0.0
            if two_stage and not success:
                b = beta * norm(a, 2)
                a, ended, more = _cycle(Z, a, 0.0, b, max_checks - half)
                checks += more
                found = b / norm(a, 2) if ended else 0.0
            if found > margin:
                best, margin = a, found
        rounds.append(Round(beta, success, found, checks))
        step /= 2
        if step < precision:
            return Search(best, margin, rounds)
        beta += step if success else -step
