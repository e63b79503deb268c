"""Plain NumPy references of the online learners, and exact solutions to compare them with.

Rows are presented once, in the order given. Every learner is written on the reflected pattern
z = y x, so that its margin is w.z, and keeps w = sum_i a_i z_i together with its mass sum_i a_i.
A trial is given w, the mass, z, its own number t from 1 and the number k of updates before it.

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
from scipy.optimize import nnls

Array = NDArray[np.float64]


class Trace(NamedTuple):
    """What a learner did: the last four fields have one entry per trial."""

    w: Array
    history: Array
    updated: NDArray[np.bool_]
    mistakes: NDArray[np.bool_]
    mass: Array


After = tuple[Array, float, bool]  # w, mass, updated
Trial = Callable[[Array, float, Array, int, int], After]


def _run(X: Array, y: Array, trial: Trial) -> Trace:
    w, mass, updates = np.zeros(X.shape[1]), 0.0, 0
    history, updated, mistakes, masses = [], [], [], []
    for t, z in enumerate(y[:, None] * X, start=1):
        mistakes.append(np.dot(w, z) <= 0)
        w, mass, changed = trial(w, mass, z, t, updates)
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


def perceptron(X: Array, y: Array, *, margin: float = 0.0, rate: float = 1.0) -> Trace:
    """Rosenblatt (1958); with a margin Tsampouka & Shawe-Taylor, section 2.1 with f = 1."""

    def trial(w: Array, mass: float, z: Array, t: int, k: int) -> After:
        if np.dot(z, z) == 0 or np.dot(w, z) > margin:
            return w, mass, False
        return w + rate * z, mass + rate, True

    return _run(X, y, trial)


def averaged_perceptron(X: Array, y: Array, *, margin: float = 0.0, rate: float = 1.0) -> Trace:
    """Freund & Schapire (1999): the mean of w over all trials so far, w taken after each trial."""
    last = perceptron(X, y, margin=margin, rate=rate)
    trials = np.arange(1, len(X) + 1)
    history = np.cumsum(last.history, axis=0) / trials[:, None]
    mass = np.cumsum(last.mass) / trials
    return last._replace(w=history[-1], history=history, mass=mass)


def relaxation(
    X: Array, y: Array, *, margin: float = 1.0, target: float = 1.1, rate: float = 1.0
) -> Trace:
    """Tsampouka & Shawe-Taylor, equation (2.22)."""

    def trial(w: Array, mass: float, z: Array, t: int, k: int) -> After:
        m, xx = np.dot(w, z), np.dot(z, z)
        if xx == 0 or m > margin or m >= target:
            return w, mass, False
        d = rate * (target - m) / xx
        return w + d * z, mass + d, True

    return _run(X, y, trial)


def passive_aggressive(X: Array, y: Array, *, C: float | None = None, loss: str = "hinge") -> Trace:
    """Crammer et al. (2006): PA, or with C given PA-I ("hinge") or PA-II ("squared_hinge")."""

    def trial(w: Array, mass: float, z: Array, t: int, k: int) -> After:
        suffered, xx = 1 - np.dot(w, z), np.dot(z, z)
        if xx == 0 or suffered <= 0:
            return w, mass, False
        if C is None:
            tau = suffered / xx
        elif loss == "hinge":
            tau = min(C, suffered / xx)
        else:
            tau = suffered / (xx + 1 / (2 * C))
        return w + tau * z, mass + tau, True

    return _run(X, y, trial)


def amira(X: Array, y: Array, *, epsilon: float = 0.1) -> Trace:
    """Zhao & Huang, Algorithm 1."""

    def trial(w: Array, mass: float, z: Array, t: int, k: int) -> After:
        m, xx = np.dot(w, z), np.dot(z, z)
        if xx == 0 or m > 1 - epsilon or m >= 1:
            return w, mass, False
        d = (1 - m) / xx
        return w + d * z, mass + d, True

    return _run(X, y, trial)


def romma(X: Array, y: Array, *, delta: float = 1.0) -> Trace:
    """Li & Long (2002), with delta as in Ishibashi, Hatano & Takeda.

    The new w' is the shortest with w'.z >= 1 and w'.w >= w.w; opposite z and w allow none.
    """

    def trial(w: Array, mass: float, z: Array, t: int, k: int) -> After:
        m, xx, ww = np.dot(w, z), np.dot(z, z), np.dot(w, w)
        due = m <= 0 if delta == 1 else m < 1 - delta
        if xx == 0 or not due:
            return w, mass, False
        if xx * ww <= m:
            return z / xx, 1 / xx, True
        det = xx * ww - m * m
        if det <= 0:
            return w, mass, False
        c, d = (xx * ww - m) / det, ww * (1 - m) / det
        return c * w + d * z, c * mass + d, True

    return _run(X, y, trial)


def alma(
    X: Array, y: Array, *, alpha: float = 0.1, B: float | None = None, C: float | None = None
) -> Trace:
    """Gentile (2001), ALMA_2(alpha; B, C); the mass is of the rows as they were given."""
    B = np.sqrt(8) / alpha if B is None else B
    C = np.sqrt(2) if C is None else C

    def trial(w: Array, mass: float, z: Array, t: int, k: int) -> After:
        norm = np.sqrt(np.dot(z, z))
        if norm == 0 or np.dot(w, z / norm) > (1 - alpha) * B / np.sqrt(k + 1):
            return w, mass, False
        eta = C / np.sqrt(k + 1)
        w = w + eta * z / norm
        shrink = max(1.0, np.sqrt(np.dot(w, w)))
        return w / shrink, (mass + eta / norm) / shrink, True

    return _run(X, y, trial)


def micra(
    X: Array,
    y: Array,
    *,
    beta: float | None,
    eta: float = 1.0,
    epsilon: float = 0.5,
    zeta: float = 0.5,
) -> Trace:
    """Tsampouka & Shawe-Taylor (2007), MICRA^(epsilon, zeta), with R the largest norm seen.

    The first usable pattern is the start and counts as the first update.
    """
    largest = np.maximum.accumulate(np.sqrt([np.dot(x, x) for x in X]))

    def trial(w: Array, mass: float, z: Array, t: int, k: int) -> After:
        R, length = largest[t - 1], np.sqrt(np.dot(w, w))
        if np.dot(z, z) == 0:
            return w, mass, False
        if length == 0:
            return w + z, mass + 1, True
        if np.dot(w, z) / length > (R if beta is None else beta) / k**epsilon:
            return w, mass, False
        d = eta / k**zeta * length / R
        return w + d * z, mass + d, True

    return _run(X, y, trial)


def directional_perceptron(
    X: Array,
    y: Array,
    *,
    beta: float,
    length: str = "free",
    step: str = "constant",
    rate: float = 1.0,
) -> Trace:
    """Tsampouka & Shawe-Taylor, (2.30); length "fixed" is (2.49), step "relaxed" is (2.32).

    The theory needs f > 0: where beta is too large for that, there is no update.
    """

    def trial(w: Array, mass: float, z: Array, t: int, k: int) -> After:
        norm, xx = np.sqrt(np.dot(w, w)), np.dot(z, z)
        m = np.dot(w, z) / norm if norm > 0 else 0.0
        if xx == 0 or (norm > 0 and m > beta):
            return w, mass, False
        f = 1 - beta * m / xx if step == "relaxed" else 1.0
        if f <= 0:
            return w, mass, False
        w, mass = w + rate * f * z, mass + rate * f
        norm = np.sqrt(np.dot(w, w))
        scale = beta / norm if length == "fixed" and norm > 0 else 1.0
        return scale * w, scale * mass, True

    return _run(X, y, trial)


def pegasos(X: Array, y: Array, *, lambda_: float = 1e-4, project: bool = False) -> Trace:
    """Shalev-Shwartz, Singer & Srebro (2007), Pegasos with one example per step."""

    def trial(w: Array, mass: float, z: Array, t: int, k: int) -> After:
        due = bool(np.dot(z, z) > 0 and np.dot(w, z) < 1)
        w, mass = (1 - 1 / t) * w, (1 - 1 / t) * mass
        if due:
            w, mass = w + z / (lambda_ * t), mass + 1 / (lambda_ * t)
        norm = np.sqrt(np.dot(w, w))
        scale = min(1.0, 1 / (np.sqrt(lambda_) * norm)) if project and norm > 0 else 1.0
        return scale * w, scale * mass, due

    return _run(X, y, trial)


def norma(X: Array, y: Array, *, rate: float, decay: float, margin: float) -> Trace:
    """Kivinen, Smola & Williamson, NORMA_2(alpha, lambda, rho), equation (2)."""

    def trial(w: Array, mass: float, z: Array, t: int, k: int) -> After:
        due = bool(np.dot(z, z) > 0 and np.dot(w, z) <= margin)
        w, mass = (1 - rate * decay) * w, (1 - rate * decay) * mass
        return (w + rate * z, mass + rate, True) if due else (w, mass, False)

    return _run(X, y, trial)


def tracking_alma(X: Array, y: Array, *, rate: float, radius: float, margin: float) -> Trace:
    """Kivinen, Smola & Williamson, their simplified ALMA_2(alpha, B, rho)."""

    def trial(w: Array, mass: float, z: Array, t: int, k: int) -> After:
        if np.dot(z, z) == 0 or np.dot(w, z) > margin:
            return w, mass, False
        w, mass = w + rate * z, mass + rate
        shrink = max(1.0, np.sqrt(np.dot(w, w)) / radius)
        return w / shrink, mass / shrink, True

    return _run(X, y, trial)


def _nearest_point(P: Array) -> Array:
    """The point of the convex hull of the rows of P that is nearest to the origin.

    Each round solves the problem on the rows chosen so far (min |P'a|^2 + (sum a - 1)^2 over a >= 0
    has its minimiser along the nearest point) and adds the row furthest on the wrong side.
    """
    chosen = [int(np.argmin(np.sum(P * P, axis=1)))]
    h: Array = P[chosen[0]]
    while (size := np.sqrt(np.dot(h, h))) > 1e-12 * np.max(np.abs(P)):
        worst = int(np.argmin(P @ h))
        if worst in chosen:
            return h
        chosen.append(worst)
        system = np.vstack([P[chosen].T / size, np.ones(len(chosen))])
        a, _ = nnls(system, np.append(np.zeros(P.shape[1]), 1.0))
        h = P[chosen].T @ (a / np.sum(a))
    return np.zeros(P.shape[1])


def max_margin(X: Array, y: Array, intercept: bool) -> tuple[float, Array, float]:
    """The largest geometric 2-norm margin, and its w and b at functional margin 1; nan if none.

    By duality it is the distance of the origin from the hull of the reflected rows or, with an
    intercept, of the half differences (x+ - x-)/2; then both classes must be present.
    """
    positive, negative = X[y > 0], X[y < 0]
    if intercept:
        P = (positive[:, None] - negative).reshape(-1, X.shape[1]) / 2
    else:
        P = y[:, None] * X
    h = _nearest_point(P)
    reached = np.min(P @ h)
    if reached <= 0:
        return np.nan, np.full(X.shape[1], np.nan), np.nan
    w = h / reached
    b = -(np.min(positive @ w) + np.max(negative @ w)) / 2 if intercept else 0.0
    return float(1 / np.sqrt(np.dot(w, w))), w, float(b)


def hull_bound(theta_plus: Array, mass_plus: float, theta_minus: Array, mass_minus: float) -> float:
    """Half the distance of two points of the class hulls: no hyperplane has a larger margin."""
    gap = theta_plus / mass_plus - theta_minus / mass_minus
    return float(np.sqrt(np.dot(gap, gap)) / 2)
