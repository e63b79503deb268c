"""Dual points in a kernel's space, from a few numbers of each class."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.certificates import hinge_bounds


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
    p, q = hinge_bounds.balanced(np.array([a, b]), intercept)
    square = sums.along + sums.back
    square -= 2.0 * ((1.0 - p) * sums.along + (1.0 - q) * sums.back)
    square += longest * ((1.0 - p) * a + (1.0 - q) * b) ** 2
    square = max(square, 0.0) + rounding * longest * (a + b) * (a + b + 2.0 * sums.left_out)
    square += (p * p * sums.hidden_own + q * q * sums.hidden_rest) * (1.0 + 1e-12)
    return float(p * a + q * b), float(square)
