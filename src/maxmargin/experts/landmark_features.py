"""Features of a row by its likeness to landmarks, which are rows kept from the stream.

With the Gaussian kernel k and the matrix K of its values between the landmarks, which is ``L L'``
for a lower triangular L, the features of a row x are ``L**-1 k(x)``. Inner products of features are
those of the kernel, projected onto the landmarks. So a hundred landmarks replace many random
frequencies where there are many columns. The first features stay as they are when there is one more
landmark. A row becomes one while there is room for it, if the squared distance between its image in
the kernel's space and the span of the others is above `NOVELTY` (Y. Engel, S. Mannor and R. Meir,
"The kernel recursive least-squares algorithm", 2004).

Each width has landmarks of its own.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Array, Buffer
from maxmargin.core.numba_backend import bridge
from maxmargin.experts.expert_lines import add_line

# In terms of the median distance; of 0.25, 0.5, 0.7, 1 and 1.5, and of novelties between 0.01 and
# 0.3, on USPS, half of MNIST, outdoor, bananas, phishing, segments and drifting streams.
NEAR_LANDMARKS = (0.5, 1.0)
NOVELTY = 0.1
SETS = len(NEAR_LANDMARKS)
# Of each width: a factor takes memory for all pairs of landmarks.
MOST_LANDMARKS = 512


class Landmarks(NamedTuple):
    """The landmarks of all widths; those of a width follow each other.

    Attributes
    ----------
    units : by column, what makes its values multiples of the median distance; 0 for those that have
        no part
    points : the landmarks in these units, column by column
    squares : their squared norms
    counts : how many there are, of each width
    heights, factors : the diagonal of L, and its columns below
    products, own : the products of a row with all landmarks, and its squared norm
    """

    units: Annotated[np.ndarray, Array(1, "coordinates", at_least=0.0, finite=True)]
    points: Annotated[np.ndarray, Array(1, "coordinates", f"landmarks * {SETS}", finite=True)]
    squares: Annotated[np.ndarray, Array(f"landmarks * {SETS}", at_least=0.0, finite=True)]
    counts: Annotated[np.ndarray, Array(SETS, dtype=np.int64, below="landmarks + 1")]
    heights: Annotated[
        np.ndarray, Array(SETS, "landmarks", fill=1.0, at_least=math.sqrt(NOVELTY), finite=True)
    ]
    factors: Annotated[np.ndarray, Array(SETS, "landmarks", "landmarks", finite=True)]
    products: Annotated[np.ndarray, Buffer(f"landmarks * {SETS}")]
    own: Annotated[np.ndarray, Buffer(1)]

    def begin_landmarks(self):
        """Begin to read a row."""
        self.own[0] = 0.0
        for k in range(self.products.size):
            self.products[k] = 0.0

    def read_value(self, j, x):
        z = x * self.units[0, j]
        if z != 0.0:
            self.own[0] += z * z
            add_line(self.points, 0, j, z, self.products, 0)

    def compare(self, features, first):
        """Put the features of the row that was read into the lines from ``first`` on."""
        size = self.heights.shape[1]
        for w in range(self.counts.size):
            bend = -0.5 / (NEAR_LANDMARKS[w] * NEAR_LANDMARKS[w])
            for k in range(self.counts[w]):
                at = size * w + k
                square = self.own[0] + self.squares[at] - 2.0 * self.products[at]
                self.products[at] = math.exp(bend * max(0.0, square))
            for k in range(features.shape[1]):
                features[first + w, k] = 0.0
            for k in range(self.counts[w]):
                feature = self.products[size * w + k] / self.heights[w, k]
                features[first + w, k] = feature
                add_line(self.factors, w, k, -feature, self.products, size * w)

    def add_landmarks(self, rows, i, features, first):
        """Let row ``i``, which has these features, become a landmark, if it is new."""
        for w in range(self.counts.size):
            new, height = self.counts[w], 1.0
            for k in range(new):
                height -= features[first + w, k] * features[first + w, k]
            if height > NOVELTY and new < self.heights.shape[1]:
                at = self.heights.shape[1] * w + new
                self.heights[w, new] = math.sqrt(height)
                for k in range(new):
                    self.factors[w, k, new] = features[first + w, k]
                for n in range(rows.own_entries(i)):
                    j, x = rows.own_entry(i, n)
                    z = x * self.units[0, j]
                    self.points[0, j, at] = z
                    self.squares[at] += z * z
                self.counts[w] += 1


bridge("begin_landmarks", "compare", "add_landmarks", inline=False)
bridge("read_value")
