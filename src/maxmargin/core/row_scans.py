"""Scans of all rows that do not learn."""

from __future__ import annotations

import numpy as np

from maxmargin.core.loop import LARGEST_XX, SMALLEST_XX
from maxmargin.core.numba_backend import Compiled

GROUP = 16
EPSILON = float(np.finfo(np.float64).eps)


@Compiled
def all_outputs(rows, weights, found):  # type: ignore[no-untyped-def]
    """Put ``w.x`` of each row and problem into ``found``."""
    for i in range(rows.size()):
        rows.prefetch_behind(i)
        for c in range(found.shape[1]):
            found[i, c] = rows.dot(i, weights, c)


@Compiled
def lowest_outputs(rows, targets, weights, bias, rounding, lowest):  # type: ignore[no-untyped-def]
    """Write the smallest ``y * (w.x + b)`` of all rows, for each problem, to ``lowest``.

    It is rounded down, given the possible ``rounding`` error of ``w.x`` over ``|x|``.
    """
    for c in range(targets.problems()):
        lowest[c] = np.inf
    for i in range(rows.size()):
        rows.prefetch_behind(i)
        length = np.sqrt(rows.square(i))
        for c in range(targets.problems()):
            f = targets.sign(i, c) * (rows.dot(i, weights, c) + bias[c])
            lowest[c] = min(lowest[c], f - rounding[c] * length - EPSILON * abs(bias[c]))


@Compiled
def lowest_lead(rows, targets, weights, rounding):  # type: ignore[no-untyped-def]
    """The smallest lead of a row's own class over a rival, rounded down."""
    lowest = np.inf
    for i in range(rows.size()):
        y, lost = targets.class_of(i), rounding * np.sqrt(rows.square(i))
        own = rows.dot(i, weights, y)
        for c in range(weights.shape[0]):
            if c != y:
                lowest = min(lowest, own - rows.dot(i, weights, c) - lost)
    return lowest


@Compiled
def largest_square(rows, geometry):  # type: ignore[no-untyped-def]
    """The largest squared norm of a row."""
    largest = 0.0
    for i in range(rows.size()):
        largest = max(largest, geometry.square_of(rows, i))
    return largest


@Compiled
def are_canonical(columns, starts, width):  # type: ignore[no-untyped-def]
    """True if all CSR indices are in range, and sorted without duplicates in each row.

    Columns are compared with the previous ones, `GROUP` rows at a time; only at the start of a row
    may they be lower.
    """
    rows = starts.size - 1
    for begin in range(0, rows, GROUP):
        end = min(begin + GROUP, rows)
        first, last, bad = starts[begin], starts[end], 0
        for i in range(begin, end):
            bad += starts[i + 1] < starts[i]
        if bad or first < 0 or last > columns.size:
            return False
        lower, between = 0, 0
        for at in range(first + 1, last):
            lower += columns[at] <= columns[at - 1]
        for i in range(begin, end):
            start, stop = starts[i], starts[i + 1]
            if start < stop:
                bad += columns[start] < 0 or columns[stop - 1] >= width
                between += start > first and columns[start] <= columns[start - 1]
        if bad or lower != between:
            return False
    return True


@Compiled
def first_malformed(columns, starts, width):  # type: ignore[no-untyped-def]
    """The first CSR row with an index out of range, or -1, and whether all rows are canonical."""
    canonical = True
    for i in range(starts.size - 1):
        start, stop = starts[i], starts[i + 1]
        if start < 0 or stop < start or stop > columns.size:
            return i, False
        outside, disorder, before = 0, 0, -1
        for at in range(start, stop):
            column = columns[at]
            outside += column < 0 or column >= width
            disorder += column <= before
            before = column
        if outside:
            return i, False
        canonical = canonical and disorder == 0
    return -1, canonical


@Compiled
def first_unusable(rows):  # type: ignore[no-untyped-def]
    """The first row that no learner can use, or -1, and the largest ``x.x``.

    A row is unusable if it has NaN or infinity, or a nonzero squared norm outside the range in
    which nothing over- or underflows.
    """
    largest = 0.0
    for i in range(rows.size()):
        xx = rows.square(i)
        if not SMALLEST_XX <= xx <= LARGEST_XX:
            for k in range(rows.own_entries(i)):
                _, x = rows.entry(i, k)
                if x != 0.0:
                    return i, largest
        largest = max(largest, xx)
    return -1, largest
