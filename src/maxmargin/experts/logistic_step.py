"""The implicit step of the logistic loss, as a function of two numbers."""

from __future__ import annotations

import math

from maxmargin.core.numba_backend import helper

# Newton's method takes three to five rounds; each doubles the number of correct digits.
ROUNDS = 60
# Beyond it the logistic loss is 0 in double precision, and the exponential soon overflows.
LARGEST_MARGIN = 700.0


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
