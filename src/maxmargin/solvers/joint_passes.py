"""Passes over rows for several classes at a time, whose arrays have one line for each class."""

from __future__ import annotations

from maxmargin.core.numba_backend import Compiled


@Compiled
def outputs(rows, numbers, weights, out):  # type: ignore[no-untyped-def]
    """``out[c, n] = w_c.x + b_c`` for the n-th row."""
    for n in range(numbers.size):
        rows.prefetch(numbers, n)
        for c in range(weights.shape[0]):
            out[c, n] = rows.dot(numbers[n], weights, c)


@Compiled
def combine(rows, numbers, coefs, out):  # type: ignore[no-untyped-def]
    """Add the rows times their coefficients to the line of each class."""
    for n in range(numbers.size):
        rows.prefetch(numbers, n)
        for c in range(coefs.shape[0]):
            if coefs[c, n] != 0.0:
                rows.add(numbers[n], out, c, coefs[c, n])


@Compiled
def combine_squares(rows, numbers, coefs, out):  # type: ignore[no-untyped-def]
    """`combine` with the squares of all features."""
    for n in range(numbers.size):
        rows.prefetch(numbers, n)
        for k in range(rows.entries(numbers[n], out)):
            column, value = rows.entry(numbers[n], k)
            for c in range(coefs.shape[0]):
                out[c, column] += coefs[c, n] * value * value
