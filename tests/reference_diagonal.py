"""Plain NumPy references of the learners in the diagonal geometry.

Rows are presented once, in the order given, with labels -1 and 1. A learner keeps its weights and
one or two numbers for each column. With ``scaled`` it first lets ``s_j``, the largest absolute
value of column j so far, take in the row, and measures everything by it; otherwise ``s_j`` is 1.
"""

from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Array = NDArray[np.float64]


class Trace(NamedTuple):
    """What a learner did: the last four have one entry per trial.

    ``outputs`` are those before anything is learned, ``margins`` those with the largest values of
    columns that the row brings, and ``history`` the weights after each trial.
    """

    w: Array
    precision: Array
    outputs: Array
    margins: Array
    updated: NDArray[np.bool_]
    history: Array


def trace_of(w: Array, precision: Array, seen: list[tuple[float, float, bool, Array]]) -> Trace:
    outputs, margins, updated, history = zip(*seen, strict=True)
    return Trace(w, precision, *map(np.array, (outputs, margins, updated, history)))


def grown(s: Array, x: Array, scaled: bool) -> Array:
    return np.maximum(s, np.abs(x)) if scaled else np.ones_like(s)


def over(numerator: Array, denominator: Array) -> Array:
    """0 where a column has never been anything but 0."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def confident(
    X: Array, y: Array, step: Callable[[float, float, float], tuple[float, float]], *, scaled: bool
) -> Trace:
    """``w += a y Sigma x``, then ``Sigma_jj**-1 += g x_j**2``, from ``Sigma_jj**-1 = s_j**2``.

    ``step`` gives a and g from the margin m, the variance v and the number of the trial; a = 0 is
    no update. When s_j grows, ``w_j / Sigma_jj`` stays, as if s_j had been as large from the start.
    """
    n = X.shape[1]
    w, s, seen = np.zeros(n), np.zeros(n), np.zeros(n)
    trials = []
    for t, (x, sign) in enumerate(zip(X, y, strict=True)):
        output = w @ x
        before, s = s**2 + seen, grown(s, x, scaled)
        w = over(w * before, s**2 + seen)
        variance = over(np.ones(n), s**2 + seen)
        margin = sign * (w @ x)
        a, g = step(margin, float(x @ (variance * x)), t)
        if a > 0:
            w = w + a * sign * variance * x
            seen = seen + g * x**2
        trials.append((output, margin, a > 0, w))
    return trace_of(w, s**2 + seen, trials)


def weight_of(sample_weight: Array | None, t: int) -> float:
    return 1.0 if sample_weight is None else float(sample_weight[t])


def arow(
    X: Array, y: Array, *, r: float, scaled: bool, sample_weight: Array | None = None
) -> Trace:
    """Crammer, Kulesza & Dredze (2009), figure 1, with the diagonal of the precision."""

    def step(m: float, v: float, t: int) -> tuple[float, float]:
        own = r / weight_of(sample_weight, t)
        return (max(0.0, 1.0 - m) / (v + own), 1.0 / own) if m < 1 else (0.0, 0.0)

    return confident(X, y, step, scaled=scaled)


def passive_aggressive(X: Array, y: Array, *, C: float, scaled: bool) -> Trace:
    """PA-I by ``|x|**2 = sum x_j**2 / s_j**2``, along ``x_j / s_j**2``."""

    def step(m: float, v: float, t: int) -> tuple[float, float]:
        return (min(C, (1.0 - m) / v) if m < 1 and v > 0 else 0.0, 0.0)

    return confident(X, y, step, scaled=scaled)


def scw(
    X: Array,
    y: Array,
    *,
    C: float,
    eta: float,
    variant: str,
    scaled: bool,
    sample_weight: Array | None = None,
) -> Trace:
    """Wang, Zhao & Hoi (2012), propositions 1 and 2, with the diagonal of the precision."""
    phi = NormalDist().inv_cdf(eta)

    def step(m: float, v: float, t: int) -> tuple[float, float]:
        if v == 0 or phi * np.sqrt(v) - m <= 0:
            return 0.0, 0.0
        cost = C * weight_of(sample_weight, t)
        if variant == "I":
            psi, zeta = 1 + phi**2 / 2, 1 + phi**2
            root = np.sqrt(m**2 * phi**4 / 4 + v * phi**2 * zeta)
            alpha = min(cost, max(0.0, (-m * psi + root) / (v * zeta)))
        else:
            n = v + 1 / (2 * cost)
            gamma = phi * np.sqrt(phi**2 * m**2 * v**2 + 4 * n * v * (n + v * phi**2))
            alpha = -(2 * m * n + phi**2 * m * v) + gamma
            alpha = max(0.0, alpha / (2 * (n**2 + n * v * phi**2)))
        u = 0.25 * (-alpha * v * phi + np.sqrt(alpha**2 * v**2 * phi**2 + 4 * v)) ** 2
        return alpha, alpha * phi / np.sqrt(u)

    return confident(X, y, step, scaled=scaled)


def slopes(loss: str) -> Callable[[float], float]:
    """How steeply the loss falls at a margin."""
    if loss == "hinge":
        return lambda m: 1.0 if m < 1 else 0.0
    return lambda m: float(expit(-m))


def adagrad(
    X: Array,
    y: Array,
    *,
    rate: float,
    loss: str,
    scaled: bool,
    sample_weight: Array | None = None,
) -> Trace:
    """Duchi, Hazan & Singer (2011), the diagonal version with delta = 0, by columns over s_j.

    When s_j grows, w_j shrinks by the same factor, as in Ross, Mineiro & Langford (2013).
    """
    n = X.shape[1]
    w, s, squares = np.zeros(n), np.zeros(n), np.zeros(n)
    trials, slope = [], slopes(loss)
    for t, (x, sign) in enumerate(zip(X, y, strict=True)):
        output = w @ x
        before, s = s, grown(s, x, scaled)
        w = over(w * before, s)
        margin = sign * (w @ x)
        g = -weight_of(sample_weight, t) * slope(margin) * sign * x
        squares = squares + g**2
        w = w - rate * over(g, s * np.sqrt(squares))
        trials.append((output, margin, g.any(), w))
    return trace_of(w, squares, trials)


def ftrl(
    X: Array,
    y: Array,
    *,
    alpha: float,
    beta: float,
    l1: float,
    l2: float,
    scaled: bool,
    sample_weight: Array | None = None,
) -> Trace:
    """McMahan et al. (2013), algorithm 1, on the columns over s_j.

    When s_j grows, gradients of the past shrink with the columns: z_j by the same factor, n_j by
    its square.
    """
    width = X.shape[1]
    s, z, n = np.zeros(width), np.zeros(width), np.zeros(width)
    trials = []

    def weights() -> Array:
        size = (beta + np.sqrt(n)) / alpha + l2
        return np.where(np.abs(z) <= l1, 0.0, -(z - np.sign(z) * l1) / size)

    for t, (x, sign) in enumerate(zip(X, y, strict=True)):
        output = over(weights(), s) @ x
        before, s = s, grown(s, x, scaled)
        ratio = over(before, s) if scaled else np.ones(width)
        z, n = z * ratio, n * ratio**2
        own, w = over(x, s), weights()
        margin = sign * (w @ own)
        g = -weight_of(sample_weight, t) * slopes("logistic")(margin) * sign * own
        sigma = (np.sqrt(n + g**2) - np.sqrt(n)) / alpha
        z, n = z + g - sigma * w, n + g**2
        trials.append((output, margin, g.any(), over(weights(), s)))
    return trace_of(trials[-1][3], n, trials)
