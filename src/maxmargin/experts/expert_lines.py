"""Predictions and steps of many experts at once: their numbers for one column are adjacent.

The three primitives are the meaning of each step, expert by expert. The full backend implements
them with LLVM's vector instructions. The experts of ``lines[c, j]`` are those from ``first`` on in
the vectors ``totals``, ``steps`` and ``gains``.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Buffer
from maxmargin.core.numba_backend import bridge, helper, primitive

Entries = Annotated[np.ndarray, Buffer("coordinates")]


class RowEntries(NamedTuple):
    """A row as a list of ``length`` columns with their values, the intercept last.

    ``units`` are the peaks of the columns, see `push_rooted`.
    """

    length: Annotated[np.ndarray, Buffer(1, dtype=np.int64)]
    columns: Annotated[np.ndarray, Buffer("coordinates", dtype=np.int64)]
    values: Entries
    units: Entries

    def add_entry(self, j, x, unit):
        n = self.length[0]
        self.columns[n], self.values[n], self.units[n] = j, x, unit
        self.length[0] = n + 1


bridge("add_entry")


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


@helper
def predict_row(experts, c, row, outputs, first):  # type: ignore[no-untyped-def]
    """Put the output of each expert of problem ``c`` into ``outputs``."""
    weights = experts.weights
    for e in range(weights.shape[2]):
        outputs[first + e] = 0.0
    for n in range(row.length[0]):
        add_line(weights, c, row.columns[n], row.values[n], outputs, first)


@helper
def measure_row(experts, c, row, lengths, first):  # type: ignore[no-untyped-def]
    """Put ``x' Sigma x`` of each expert into ``lengths``."""
    variances = experts.variances
    for e in range(variances.shape[2]):
        lengths[first + e] = 0.0
    for n in range(row.length[0]):
        x = row.values[n]
        add_line(variances, c, row.columns[n], x * x, lengths, first)


@helper
def push_row(experts, c, row, steps, gains, first):  # type: ignore[no-untyped-def]
    """Let the experts step along ``Sigma x``, and Sigma follow the gains."""
    weights, variances, confident = experts.weights, experts.variances, experts.confident
    for n in range(row.length[0]):
        j, x = row.columns[n], row.values[n]
        if x != 0.0:
            push_confident(weights, variances, c, j, confident, x, steps, gains, first)
            push_rooted(weights, variances, c, j, confident, x, row.units[n], steps, gains, first)
