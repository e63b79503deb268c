"""An expert with a full matrix Sigma, for columns that act together.

It is an extended Kalman filter for logistic regression on standardized columns, clipped at
`MOST_DEVIATIONS`. Sigma begins as the identity. With ``s = w.z`` and ``v = z' Sigma z``, the step
of the rule LOGISTIC with r = 1 (`experts.expert_steps`) ends at the score q with::

    q = s + v (y - sigmoid(q)),    w <- w + (y - sigmoid(q)) Sigma z      for a label y of 1 or 0
    Sigma <- Sigma - h / (1 + h v) Sigma z (Sigma z)',    h = sigmoid(q) (1 - sigmoid(q))

so that Sigma, the inverse of the Hessian matrix along the way, is the uncertainty of w. Its output
``s / sqrt(1 + pi v / 8)`` is nearer to 0 where v is large: the sigmoid of it is about the mean of
``sigmoid(u.z)`` over u from the normal distribution with mean w and covariance Sigma (D. MacKay,
"The evidence framework applied to classification networks", 1992).

A row takes time and memory that grow with the square of the columns. So the expert leaves the
mixture after the first row with a value beyond the first ``limit`` columns, and the others take
over its weight in proportion to theirs.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Array, Buffer, Follows
from maxmargin.core.numba_backend import bridge
from maxmargin.experts.expert_lines import add_line

# The kind of this expert, the first of all.
FULL_MATRIX = "full matrix"
# A column that hardly varied until now would otherwise have so small a variance after one row that
# it could not be learned any more.
MOST_DEVIATIONS = 10.0
# In each step this part of the diagonal of Sigma is added to it, so that Sigma stays positive
# definite: rounding changes an entry (j, k) by no more than 2**-51 sqrt(Sigma_jj Sigma_kk), and so
# the variance in any direction by less than the diagonal gains, if there are 64 columns.
GROWTH = 2.0**-45

Slots = Annotated[np.ndarray, Buffer("slots")]


class FullMatrix(NamedTuple):
    """The weights and the matrix of the expert; slot 0 is the intercept's, j + 1 that of column j.

    Attributes
    ----------
    limit : number of columns from which on there is no such expert
    width : number of features
    left : 1 if the expert is not in the mixture
    weights, variances : w and Sigma of each problem; 0 for columns that never had a value
    values, along : z and Sigma z, see `read_slots` and `predict_full`
    measures : s and v
    """

    limit: int
    width: Annotated[int, Follows("coordinates")]
    left: Annotated[np.ndarray, Array(1, dtype=np.int64, below=2)]
    weights: Annotated[np.ndarray, Array("problems", "slots", finite=True)]
    variances: Annotated[
        np.ndarray, Array("problems", "slots", "slots", omit_zeros=True, finite=True)
    ]
    values: Slots
    along: Slots
    measures: Annotated[np.ndarray, Buffer(2)]

    def read_slots(self, row):
        """Read the standardized features of a row."""
        for s in range(self.values.size):
            self.values[s] = 0.0
        for n in range(row.length[0]):
            slot = 0 if row.columns[n] == self.width else row.columns[n] + 1
            if slot < self.values.size:
                z = row.values[n]
                self.values[slot] = max(-MOST_DEVIATIONS, min(MOST_DEVIATIONS, z))

    def predict_full(self, c):
        """The output for the row, from s and v, which are put into ``measures``."""
        score = variance = 0.0
        for s in range(self.values.size):
            self.along[s] = 0.0
        for s in range(self.values.size):
            z = self.values[s]
            if z != 0.0:
                score += self.weights[c, s] * z
                if self.variances[c, s, s] == 0.0:
                    self.along[s] += z  # a new column
                else:
                    add_line(self.variances, c, s, z, self.along, 0)
        for s in range(self.values.size):
            variance += self.values[s] * self.along[s]
        self.measures[0], self.measures[1] = score, variance
        return score / math.sqrt(1.0 + math.pi / 8.0 * variance)

    def push_full(self, c, step, gain):
        """Step along ``Sigma z``, and add the gain times ``z z'`` to the inverse of Sigma."""
        root = math.sqrt(gain / (1.0 + gain * self.measures[1]))
        for s in range(self.along.size):
            if self.values[s] != 0.0 and self.variances[c, s, s] == 0.0:
                self.variances[c, s, s] = 1.0
            self.weights[c, s] += step * self.along[s]
            self.along[s] *= root
        for s in range(self.along.size):
            amount, more = self.along[s], GROWTH * self.variances[c, s, s]
            if amount != 0.0:
                for k in range(self.along.size):
                    self.variances[c, s, k] -= amount * self.along[k]
            self.variances[c, s, s] += more

    def outgrown(self, rows, i):
        """Does row ``i`` have a value beyond the first columns?"""
        if self.left[0] == 0 and self.width > self.limit:
            for k in range(rows.own_entries(i)):
                j, x = rows.own_entry(i, k)
                if j >= self.limit and x != 0.0:
                    return True
        return False

    def leave(self):
        """Forget what was learned."""
        self.left[0] = 1
        self.weights[...] = 0.0
        self.variances[...] = 0.0


bridge("read_slots", "predict_full", "push_full", "outgrown", "leave", inline=False)


def slots_for(width: int, limit: int) -> int:
    """The intercept's slot and those of columns."""
    return 1 + min(width, limit)


def invalid_variances(full: FullMatrix) -> str:
    """Why matrices are invalid; empty if they are valid."""
    diagonals = np.diagonal(full.variances, axis1=1, axis2=2)
    if (diagonals < 0.0).any() or not np.array_equal(
        full.variances, np.swapaxes(full.variances, 1, 2)
    ):
        return "a matrix of variances is not symmetric and positive"
    return ""
