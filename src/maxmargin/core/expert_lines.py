"""Steps of many experts at once: their numbers for one column lie side by side.

Here is what each step means, expert by expert. The full backend has the same in LLVM's vector
instructions.
"""

from __future__ import annotations

import math

from maxmargin.core.numba_backend import primitive


@primitive
def add_line(lines, c, j, amount, totals):  # type: ignore[no-untyped-def]
    """``totals += amount * lines[c, j]``."""
    for e in range(lines.shape[2]):
        totals[e] += lines[c, j, e] * amount


@primitive
def push_confident(weights, variances, c, j, stop, x, steps, gains):  # type: ignore[no-untyped-def]
    """Let the experts before ``stop`` step along ``Sigma x``, and add ``g x**2`` to precisions."""
    for e in range(stop):
        variance = variances[c, j, e]
        along = variance * x
        weights[c, j, e] += steps[e] * along
        variances[c, j, e] = variance / (1.0 + gains[e] * (x * along))


@primitive
def push_rooted(weights, variances, c, j, first, x, peak, steps, gains):  # type: ignore[no-untyped-def]
    """The same for those from ``first`` on, whose variances are roots in units of the peak."""
    for e in range(first, weights.shape[2]):
        variance = variances[c, j, e]
        along = variance * x
        weights[c, j, e] += steps[e] * along
        root = peak * along
        variances[c, j, e] = variance / math.sqrt(1.0 + gains[e] * (root * root))
