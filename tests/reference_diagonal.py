"""Plain NumPy references of the learners in the diagonal geometry.

Rows are presented once, in the order given, with labels -1 and 1. A learner keeps its weights and
one or two numbers for each column. With ``scaled`` it first lets ``s_j``, the largest absolute
value of column j so far, take in the row, and measures everything by it; otherwise ``s_j`` is 1.
"""

from collections.abc import Callable, Iterator
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Array = NDArray[np.float64]


class Trace(NamedTuple):
    """What a learner did: the last three have one entry per trial."""

    w: Array
    precision: Array
    outputs: Array
    updated: NDArray[np.bool_]


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
    outputs, updated = [], []
    for t, (x, sign) in enumerate(zip(X, y, strict=True)):
        outputs.append(w @ x)
        before, s = s**2 + seen, grown(s, x, scaled)
        w = over(w * before, s**2 + seen)
        variance = over(np.ones(n), s**2 + seen)
        a, g = step(sign * (w @ x), float(x @ (variance * x)), t)
        updated.append(a > 0)
        if a > 0:
            w = w + a * sign * variance * x
            seen = seen + g * x**2
    return Trace(w, s**2 + seen, np.array(outputs), np.array(updated, dtype=bool))


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


def gradients(
    X: Array, y: Array, loss: str, sample_weight: Array | None
) -> Iterator[tuple[int, Array, Callable[[Array], Array]]]:
    """Each trial's number and row, and what gives the gradient for weights."""
    slope = slopes(loss)
    for t, (x, sign) in enumerate(zip(X, y, strict=True)):
        size = weight_of(sample_weight, t)
        yield t, x, lambda w, x=x, z=sign * x, size=size: -size * slope(w @ z) * z


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
    outputs, updated = [], []
    for _, x, gradient in gradients(X, y, loss, sample_weight):
        outputs.append(w @ x)
        before, s = s, grown(s, x, scaled)
        w = over(w * before, s)
        g = gradient(w)
        squares = squares + g**2
        w = w - rate * over(g, s * np.sqrt(squares))
        updated.append(g.any())
    return Trace(w, squares, np.array(outputs), np.array(updated, dtype=bool))


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
    outputs, updated = [], []

    def weights() -> Array:
        size = (beta + np.sqrt(n)) / alpha + l2
        return np.where(np.abs(z) <= l1, 0.0, -(z - np.sign(z) * l1) / size)

    for t, (x, sign) in enumerate(zip(X, y, strict=True)):
        outputs.append(over(weights(), s) @ x)
        before, s = s, grown(s, x, scaled)
        ratio = over(before, s) if scaled else np.ones(width)
        z, n = z * ratio, n * ratio**2
        own, w = over(x, s), weights()
        g = -weight_of(sample_weight, t) * slopes("logistic")(sign * (w @ own)) * sign * own
        sigma = (np.sqrt(n + g**2) - np.sqrt(n)) / alpha
        z, n = z + g - sigma * w, n + g**2
        updated.append(g.any())
    return Trace(over(weights(), s), n, np.array(outputs), np.array(updated, dtype=bool))
