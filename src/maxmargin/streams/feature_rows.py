"""Rows of features from numbers, categories and words.

Running means and variances follow B. P. Welford, "Note on a method for calculating corrected sums
of squares and products", row by row, so that the boundaries of blocks make no difference.
"""

from __future__ import annotations

import numpy as np

from maxmargin.core.numba_backend import Compiled, helper

NOWHERE = -1  # instead of a column: no entry


@Compiled
def standardise(numbers, counts, means, squares, scaled, learn, whole, inverses, variances):  # type: ignore[no-untyped-def]
    """Replace rows of numbers by ``(x - mean) / deviation``, learning both along the way.

    ``counts``, ``means`` and ``squares`` (the sums of squared deviations) are those of each column
    up to and including the current row; later columns are not numeric and are ignored. Columns that
    are not ``scaled`` stay as they are. Missing values (NaN) are replaced by the mean so far;
    ``whole`` says that there are no missing values.

    Divisions and roots take most of the time: columns with the same count share a division, and
    the others are done for several rows at once. ``inverses`` and ``variances`` are buffers for a
    row, and for several rows of ones.
    """
    step, size, many = 1.0 if learn else 0.0, counts.size, variances.shape[0]
    together, seen = whole and size > 0, counts[0] if size > 0 else 0.0
    for k in range(size):
        together = together and counts[k] == seen
    for first in range(0, numbers.shape[0], many):
        rows = min(many, numbers.shape[0] - first)
        for i in range(rows):
            row, spread = numbers[first + i], variances[i]
            if together:
                seen += step
                inverse = 1.0 / max(seen, 1.0)
                for k in range(size):
                    inverses[k] = inverse
            else:
                for k in range(size):
                    counts[k] += step if row[k] == row[k] else 0.0
                    inverses[k] = 1.0 / max(counts[k], 1.0)
            for k in range(size):
                # Without branches, so that it is vectorized.
                x = row[k] if row[k] == row[k] else means[k]
                before = x - means[k]
                mean = means[k] + step * (before * inverses[k])
                square = squares[k] + step * (before * (x - mean))
                means[k], squares[k] = mean, square
                variance = square * inverses[k]
                row[k] = x - mean if scaled[k] else x
                variance = variance if variance > 0.0 else np.inf
                spread[k] = variance if scaled[k] else 1.0
        block, spreads = numbers[first : first + rows].reshape(-1), variances[:rows].reshape(-1)
        for j in range(block.size):
            block[j] /= np.sqrt(spreads[j])
    if together:
        for k in range(size):
            counts[k] = seen


@Compiled
def are_moderate(numbers, largest):  # type: ignore[no-untyped-def]
    """Whether all of them are numbers, and none is larger."""
    exceptions = 0
    for x in numbers:
        exceptions += not abs(x) <= largest
    return exceptions == 0


@Compiled
def assemble(dense, places, hashed, hashed_values, words, size, out):  # type: ignore[no-untyped-def]
    """One CSR matrix of all features, in ascending order of columns, without zeros.

    Parameters
    ----------
    dense : numbers of the first columns
    places : columns of entries 1, ascending in each row; `NOWHERE` is none
    hashed, hashed_values : columns and values of entries from column ``size`` on, in any order
    words : values, columns and starts of such entries, ascending in each row
    out : values, columns and starts, to be filled; returns how many entries there are
    """
    values, columns, starts = words
    out_values, out_columns, out_starts = out
    filled = 0
    for i in range(dense.shape[0]):
        for k in range(dense.shape[1]):
            if dense[i, k] != 0.0:
                out_values[filled], out_columns[filled] = dense[i, k], k
                filled += 1
        for k in range(places.shape[1]):
            if places[i, k] != NOWHERE:
                out_values[filled], out_columns[filled] = 1.0, places[i, k]
                filled += 1
        _sort_pairs(hashed[i], hashed_values[i])
        first, k, word, last = filled, 0, starts[i], starts[i + 1]
        while k < hashed.shape[1] or word < last:
            if word == last or (k < hashed.shape[1] and hashed[i, k] <= columns[word]):
                column, value = hashed[i, k], hashed_values[i, k]
                k += 1
            else:
                column, value = columns[word], values[word]
                word += 1
            if column == NOWHERE or value == 0.0:
                continue
            if filled > first and out_columns[filled - 1] == size + column:
                out_values[filled - 1] += value
            else:
                out_values[filled], out_columns[filled] = value, size + column
                filled += 1
        out_starts[i + 1] = filled
    return filled


@helper
def _sort_pairs(keys, values):  # type: ignore[no-untyped-def]
    """Insertion sort, which is stable, for few keys."""
    for k in range(1, keys.size):
        key, value, at = keys[k], values[k], k
        while at > 0 and keys[at - 1] > key:
            keys[at], values[at] = keys[at - 1], values[at - 1]
            at -= 1
        keys[at], values[at] = key, value
