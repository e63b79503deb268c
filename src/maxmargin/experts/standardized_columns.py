"""Standardized columns, and experts on them.

What says much about a row is often a small difference between large values: of prices, years, or
positions. So each value is taken relative to a center, in units of a deviation from it. After n
rows::

    d_j = x_j - center_j
    z_j = d_j sqrt(n / (spread_j + d_j**2))

where the center is the mean of the column and ``spread_j`` is (n + 1) / n times the sum of the
squares of its deviations. So z_j is x_j less the mean, in units of the standard deviation, where
both include x_j itself, and at most sqrt(n), however far away a row is from those before it.

Only columns that are not 0 in most rows are centered, which leaves sparse rows sparse: the rows
have at least a quarter as many values, on average, as there are centered columns. All others are in
units of the root mean square of their values, that is of the k values other than 0 so far and the
current one, with the sum of the squares of those before in place of the spread::

    z_j = x_j sqrt((k + 1) / (spread_j + x_j**2))

Without an intercept no column is centered.

The experts are of two kinds, in terms of the matrices Sigma of `experts.scaled_columns` and with
the features z in place of the row: STANDARDIZED with ``1 / (1 + G_j)``, and STANDARDIZED_ROOTED,
which come last, with ``1 / sqrt(DELTA + G_j)``.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Array, Follows
from maxmargin.core.numba_backend import bridge

STANDARDIZED, STANDARDIZED_ROOTED = "standardized", "standardized, rooted"
DELTA = 0.1
# So that the square of a tiny difference is no denominator of 0.
SMALLEST_SQUARE = 1e-300
# A column is centered once it is not 0 in a half of the rows, until it is 0 in three quarters.
ENTERS_AT, LEAVES_AT = 2, 4

OfExperts = Annotated[np.ndarray, Array("problems", "coordinates", "standardized", finite=True)]
OfColumns = Annotated[np.ndarray, Array(1, "coordinates", finite=True)]
NotNegative = Annotated[np.ndarray, Array(1, "coordinates", at_least=0.0, finite=True)]


class StandardizedColumns(NamedTuple):
    """Statistics of columns, and the weights and variances of experts on standardized ones.

    Statistics are of all rows learned from, and the same for all problems.

    Attributes
    ----------
    confident : how many experts are not `STANDARDIZED_ROOTED`
    width : number of features
    weights, variances : w and the diagonal of Sigma; 0 for columns that never had a value
    rows_seen : n
    counts, means, squares : of the values of a column other than 0: how many there are, their mean,
        and the sum of their squared differences from it
    centered : 1 for columns that are
    listed : these columns, ``listed_count`` of them
    """

    confident: int
    width: Annotated[int, Follows("coordinates")]
    weights: OfExperts
    variances: Annotated[
        np.ndarray, Array("problems", "coordinates", "standardized", at_least=0.0, finite=True)
    ]
    rows_seen: Annotated[np.ndarray, Array(1, dtype=np.int64)]
    counts: NotNegative
    means: OfColumns
    squares: NotNegative
    centered: NotNegative
    listed: Annotated[np.ndarray, Array(1, "coordinates", dtype=np.int64, below="coordinates")]
    listed_count: Annotated[np.ndarray, Array(1, dtype=np.int64, below="coordinates")]

    def standardize(self, rows, i, row, values):
        """Put the features of row ``i`` into ``row``; ``values`` are all 0 before and after."""
        row.length[0], seen = 0, float(self.rows_seen[0])
        for k in range(rows.own_entries(i)):
            j, x = rows.own_entry(i, k)
            if self.centered[0, j] > 0.0:
                values[j] = x
            elif x != 0.0:
                count, mean = self.counts[0, j], self.means[0, j]
                square = self.squares[0, j] + mean * mean * count + x * x
                root = math.sqrt((count + 1.0) / max(square, SMALLEST_SQUARE))
                row.add_entry(j, x * root, 1.0)
        correction = 1.0 + 1.0 / max(seen, 1.0)
        for n in range(self.listed_count[0]):
            j = self.listed[0, n]
            count, mean = self.counts[0, j], self.means[0, j]
            part = count / seen  # exactly 1 where nothing is 0, so that constant columns are 0
            spread = self.squares[0, j] + mean * mean * count * (1.0 - part)
            difference = values[j] - mean * part
            square = spread * correction + difference * difference
            values[j] = 0.0
            root = math.sqrt(seen / max(square, SMALLEST_SQUARE))
            row.add_entry(j, difference * root, 1.0)
        row.add_entry(self.width, rows.tail.offset, 1.0)

    def begin_columns(self, c, row):
        """Set the variances of columns that have a value for the first time."""
        for n in range(row.length[0]):
            j = row.columns[n]
            if row.values[n] != 0.0 and self.variances[c, j, 0] == 0.0:
                for e in range(self.weights.shape[2]):
                    is_rooted = e >= self.confident
                    self.variances[c, j, e] = 1.0 / math.sqrt(DELTA) if is_rooted else 1.0

    def learn_statistics(self, rows, i):
        """Let the statistics follow row ``i``."""
        self.rows_seen[0] += 1
        seen = float(self.rows_seen[0])
        for k in range(rows.own_entries(i)):
            j, x = rows.own_entry(i, k)
            if x != 0.0:
                self.counts[0, j] += 1.0
                difference = x - self.means[0, j]
                self.means[0, j] += difference / self.counts[0, j]
                self.squares[0, j] += difference * (x - self.means[0, j])
                is_frequent = ENTERS_AT * self.counts[0, j] >= seen
                if is_frequent and self.centered[0, j] == 0.0 and rows.tail.offset > 0.0:
                    self.center(j)
        n = 0
        while n < self.listed_count[0]:
            j = self.listed[0, n]
            if LEAVES_AT * self.counts[0, j] < seen:
                self.listed_count[0] -= 1
                self.listed[0, n] = self.listed[0, self.listed_count[0]]
                self.centered[0, j] = 0.0
            else:
                n += 1

    def center(self, j):
        """Center a column from now on."""
        self.listed[0, self.listed_count[0]] = j
        self.listed_count[0] += 1
        self.centered[0, j] = 1.0


bridge("standardize", "begin_columns", "center")
bridge("learn_statistics", inline=False)


def invalid_list(columns: StandardizedColumns) -> str:
    """Why the list of centered columns is invalid; empty if it is valid.

    Loops rely on it: a row has one feature for each column at most.
    """
    listed = np.sort(columns.listed[0, : columns.listed_count[0]])
    fits = np.array_equal(listed, np.flatnonzero(columns.centered[0]))
    fits = fits and not (listed >= columns.width).any()
    return "" if fits else "the list of centered columns does not fit together"
