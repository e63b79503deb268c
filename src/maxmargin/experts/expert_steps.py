"""The steps of experts, by their families.

An expert moves along ``step * y * Sigma x``, and the diagonal precision matrix ``1 / Sigma`` grows
by ``gain * x_j**2`` for each column j.
"""

from __future__ import annotations

import math

from maxmargin.core.numba_backend import helper

# Passive-aggressive (PA-I) with the cap C, and AROW with the regularization r: as the rules of
# `PassiveAggressive` and `AROW`.
PASSIVE_AGGRESSIVE, AROW = 0, 1
# The implicit step of the logistic loss over r, whose curvature adds to the precision. With
# ``q = sigmoid(-v)`` for the margin v after the step, its length is q / r: a step of Newton's
# method, with the loss of the row itself as it is.
LOGISTIC = 2
# Implicit steps of the hinge loss and of the logistic loss with a rate; the squares of the
# gradients add to the precision, as in AdaGrad.
ADAPTIVE_HINGE, ADAPTIVE_LOGISTIC = 3, 4

# A projection lands on margin 1 up to rounding; what is left must not count as a loss.
SMALLEST_LOSS = 1e-12
# The last round of Newton's method changes a margin by no more, and has twice as many digits.
PRECISION = 1e-6
# Newton's method takes three to five rounds; each doubles the number of correct digits.
ROUNDS = 60
# Beyond it the logistic loss is 0 in double precision, and the exponential soon overflows.
LARGEST_MARGIN = 700.0


@helper
def expert_step(family, number, margin, length, weight):  # type: ignore[no-untyped-def]
    """The step of an expert along ``y Sigma x``, and its gain.

    ``number`` is the C, r or rate of the expert, ``margin`` is y f(x), ``length`` is x' Sigma x,
    and ``weight`` the sample weight.
    """
    if family == PASSIVE_AGGRESSIVE:
        loss = 1.0 - margin
        if loss > SMALLEST_LOSS:
            return min(number * weight, loss / length), 0.0
    elif family == AROW:
        if margin < 1.0:
            return (1.0 - margin) / (length + number / weight), weight / number
    elif family == LOGISTIC:
        if margin < LARGEST_MARGIN:
            most = weight / number
            wrong = wrong_after_step(margin, most * length, PRECISION)
            return most * wrong, most * wrong * (1.0 - wrong)
    elif family == ADAPTIVE_HINGE:
        if margin < 1.0:
            step = min(number * weight, (1.0 - margin) / length)
            slope = step / number
            return step, slope * slope
    elif margin < LARGEST_MARGIN:
        slope = weight * wrong_after_step(margin, number * weight * length, PRECISION)
        return number * slope, slope * slope
    return 0.0, 0.0


@helper
def wrong_after_step(margin, length, precision):  # type: ignore[no-untyped-def]
    """The probability of the wrong label after the step, ``sigmoid(-v)`` for the new margin v.

    The step minimises the loss ``log(1 + exp(-v))`` plus ``(v - margin)**2 / (2 length)``, so that
    ``v = margin + length * sigmoid(-v)``. The last round of Newton's method that finds v changes it
    by at most ``precision``, in units of ``1 + |v|``.
    """
    low = margin
    high = min(margin + length, max(margin, 0.0) + math.log1p(length) + 1.0)
    v = margin
    for _ in range(ROUNDS):
        wrong = 1.0 / (1.0 + math.exp(min(v, LARGEST_MARGIN)))
        beyond = v - margin - length * wrong
        if beyond > 0.0:
            high = v
        else:
            low = v
        then = v - beyond / (1.0 + length * wrong * (1.0 - wrong))
        if not low <= then <= high:
            then = 0.5 * (low + high)
        moved, v = abs(then - v), then
        if moved <= precision * (1.0 + abs(v)):
            break
    return 1.0 / (1.0 + math.exp(min(v, LARGEST_MARGIN)))
