"""The optimum of the hinge loss: a proved lower bound, and how certificates state it.

The objective is ``P(w, b) = |w|^2 / 2 + sum_i u_i max(0, 1 - y_i (w.x_i + b))``, where
``u_i = s_i / (2 lambda)``. Take any coefficients ``0 <= a_i <= u_i``, with ``sum_i a_i y_i = 0`` if
there is an intercept, and ``v = sum_i a_i y_i x_i``. Since ``u max(0, z) >= a z``,

    P(w, b)  >=  |w|^2 / 2 + sum_i a_i (1 - y_i (w.x_i + b))
             =   sum_i a_i + |w|^2 / 2 - w.v  >=  sum_i a_i - |v|^2 / 2

for all w and b, so the last number, the *dual value*, is at most the optimum. Coefficients times a
factor up to 1 satisfy the same conditions, and so do those of either class times a factor of its
own: where the masses of the classes differ, the larger one is scaled down to the smaller one.

A certificate holds ``1 / (2 P)`` for the value reached, and ``1 / (2 D)`` for the dual value. Where
no row has a loss, these are squares of geometric margins. With the squared hinge loss
``1 / sqrt(2 P)`` is the margin of rows with coordinates of their own: so a ratio here is to be
compared with the square of a ratio there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.certificates.bounds import RELATIVE_SLACK
from maxmargin.spaces.problem_scalars import ROUNDING


def dual_value(mass: float, square: float) -> float:
    """``t mass - t^2 square / 2`` at its best t from 0 to 1; ``mass`` is not negative."""
    if not mass < square:
        return mass - 0.5 * square
    return 0.5 * mass * (mass / square)


def balanced(masses: np.ndarray, intercept: bool) -> np.ndarray:
    """The factors for the coefficients of the positive and of the negative rows."""
    if not intercept:
        return np.ones(2)
    if not min(masses) > 0.0:
        return np.zeros(2)
    return float(min(masses)) / np.asarray(masses)


def dual_value_of_sums(sums: np.ndarray, masses: np.ndarray, intercept: bool) -> float:
    """The dual value but for rounding, given ``sum a x`` and ``sum a`` of either class."""
    own, rest = balanced(masses, intercept)
    v = own * sums[0] - rest * sums[1]
    return dual_value(float(own * masses[0] + rest * masses[1]), float(v @ v))


def proved_dual_value(
    sums: np.ndarray, masses: np.ndarray, *, intercept: bool, updates: float, radius: float
) -> float:
    """At most the optimum: the dual value, rounded down.

    The sums were rounded by so many updates, of rows of at most that norm: each by a fraction of
    all that they hold. So ``v`` is longer by at most ``lost * radius``, which includes what the
    masses of both classes may still differ by; coefficients that are above their limits by rounding
    are scaled down by more than that.
    """
    own, rest = balanced(masses, intercept)
    v = own * sums[0] - rest * sums[1]
    lost = 16.0 * ROUNDING * (updates + 16.0) * float(np.sum(masses))
    with np.errstate(over="ignore", invalid="ignore"):
        length = (np.linalg.norm(v) + lost * radius) * (1.0 + RELATIVE_SLACK)
        mass = max(float(own * masses[0] + rest * masses[1]) - lost, 0.0)
        value = dual_value((1.0 - RELATIVE_SLACK) * mass, float(length) ** 2)
    return max(value, 0.0) if np.isfinite(value) else 0.0


def highest_value(
    square: float, losses: float, total_weight: float, error: float, rows: int, penalty: float
) -> float:
    """At least ``|w|^2 / 2 + 1 / (2 lambda) sum_i s_i z_i``, given ``|w|^2`` and ``sum_i s_i z_i``.

    Each z has been rounded by no more than ``error``; ``total_weight`` is the sum of the s.
    """
    rounded_up = 1.0 + ROUNDING * (rows + 64.0)
    lost = losses * rounded_up + error * total_weight
    return (0.5 * square * rounded_up + lost / (2.0 * penalty)) * (1.0 + 8.0 * ROUNDING)


def as_margin(value: float) -> float:
    """``1 / (2 value)``: a value of the objective, or a bound on it, as certificates hold it."""
    return 0.5 / value if value > 0.0 else np.inf


# --------------------------------------------------------------------------- in a kernel's space
class DualSums(NamedTuple):
    """The sums ``u`` of positive and ``w`` of negative rows times their coefficients.

    own, rest : the masses of both, sums of their coefficients
    along, back : the products ``v.u`` and ``-v.w`` with ``v = u - w``
    hidden_own, hidden_rest : squares in private coordinates, 0 with hinge losses and hard margins
    left_out : the mass of coefficients that are in the products by rounding only
    """

    own: float
    rest: float
    along: float
    back: float
    hidden_own: float
    hidden_rest: float
    left_out: float


def dual_point(
    sums: DualSums, longest: float, rounding: float, intercept: bool
) -> tuple[float, float]:
    """The mass of a dual point, at most, and its squared length, at least.

    The sum of the given products is ``v.v``. Where ``own > rest`` the point is ``v - t u`` with
    ``t = 1 - rest / own``, and ``|t u|`` is at most ``own - rest`` times the largest length, whose
    square is ``longest``; the same holds for ``rest > own``. Kernel values, and sums of them, are
    rounded by at most ``rounding`` times this.
    """
    a, b = sums.own, sums.rest
    p, q = balanced(np.array([a, b]), intercept)
    square = sums.along + sums.back
    square -= 2.0 * ((1.0 - p) * sums.along + (1.0 - q) * sums.back)
    square += longest * ((1.0 - p) * a + (1.0 - q) * b) ** 2
    square = max(square, 0.0) + rounding * longest * (a + b) * (a + b + 2.0 * sums.left_out)
    square += (p * p * sums.hidden_own + q * q * sums.hidden_rest) * (1.0 + 1e-12)
    return float(p * a + q * b), float(square)
