"""The implicit step of the logistic loss, as a function of two numbers."""

from __future__ import annotations

import math

from maxmargin.core.numba_backend import helper

# The step is computed to so many digits; Newton's method takes four rounds or five.
ROUNDS, PRECISION = 60, 1e-12
# Beyond it the logistic loss is 0 in double precision, and the exponential soon no number.
LARGEST_MARGIN = 700.0


@helper
def wrong_after_step(margin, length):  # type: ignore[no-untyped-def]
    """The chance of the other label after the step: ``sigmoid(-v)`` for the margin v then.

    The step minimises the loss ``log(1 + exp(-v))`` plus ``(v - margin)**2 / (2 length)``, so that
    ``v = margin + length * sigmoid(-v)``.
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
        if moved <= PRECISION * (1.0 + abs(v)):
            break
    return 1.0 / (1.0 + math.exp(min(v, LARGEST_MARGIN)))
