"""Steps of many experts at once: their numbers for one column are adjacent.

This is the meaning of each step, expert by expert. The full backend implements them with LLVM's
vector instructions. The experts of ``lines[c, j]`` are those from ``first`` on in the vectors
``totals``, ``steps`` and ``gains``.
"""

from __future__ import annotations

import math

from maxmargin.core.numba_backend import primitive


@primitive
def add_line(lines, c, j, amount, totals, first):  # type: ignore[no-untyped-def]
    """``totals += amount * lines[c, j]``."""
    for e in range(lines.shape[2]):
        totals[first + e] += lines[c, j, e] * amount


@primitive
def push_confident(weights, variances, c, j, stop, x, steps, gains, first):  # type: ignore[no-untyped-def]
    """Let the experts before ``stop`` step along ``Sigma x``, and add ``g x**2`` to precisions."""
    for e in range(stop):
        variance = variances[c, j, e]
        along = variance * x
        weights[c, j, e] += steps[first + e] * along
        variances[c, j, e] = variance / (1.0 + gains[first + e] * (x * along))


@primitive
def push_rooted(weights, variances, c, j, start, x, peak, steps, gains, first):  # type: ignore[no-untyped-def]
    """The same for those from ``start`` on, whose variances are roots in units of the peak."""
    for e in range(start, weights.shape[2]):
        variance = variances[c, j, e]
        along = variance * x
        weights[c, j, e] += steps[first + e] * along
        root = peak * along
        variances[c, j, e] = variance / math.sqrt(1.0 + gains[first + e] * (root * root))
