"""The policy that, on a full budget, projects new rows onto the span of the stored ones.

The kernel values between stored rows have a Cholesky factor, ``G = L L'``, whose lines are
coordinates of the rows in an orthonormal basis. The projection of another row has the coordinates
``inv(L) k``, if k are its kernel values with stored rows. When a row takes a slot, its remainder
becomes another direction of the basis: inv(L) gets a line, and later rows another coordinate. Lines
never change afterwards, so nothing drifts on long streams.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from maxmargin.core.numba_backend import bridge


class Project(NamedTuple):
    """Keep the part of a row in the span of the stored rows.

    Attributes
    ----------
    threshold : rows within this squared distance of the span are always projected
    rounding : squared distances up to this fraction of ``x.x`` count as 0
    careful : rows with a positive margin are always projected, and only if their loss is large
        enough for the distance (Projectron++)
    inverse : inv(L), of shape (problems * slots, slots)
    coords : of the rows of the block, of shape (problems * block, slots)
    shadows : products of the projections of the block's rows, of shape (problems * block, block)
    turned : the change of ``w`` since the start of the block, in coordinates over the scale
    slack : the total length, over the scale, that projections have cut off
    joins, distance, limit : of the current row: whether it takes a slot, its squared distance from
        the span, and its longest step
    """

    threshold: float
    rounding: float
    careful: bool
    inverse: np.ndarray
    coords: np.ndarray
    shadows: np.ndarray
    turned: np.ndarray
    slack: np.ndarray
    joins: np.ndarray
    distance: np.ndarray
    limit: np.ndarray

    def usable_square(self, space, i, c, margin, xx):
        inside = self.shadows[c * space.outputs.shape[1] + i, i]
        distance = xx - inside
        if distance <= self.rounding * xx:
            distance, inside = 0.0, xx
        taken, careful = space.slots.taken[c], self.careful and margin > 0.0
        far = distance > self.threshold and taken < self.inverse.shape[1]
        self.joins[c] = taken == 0 or (far and not careful)
        self.distance[c], self.limit[c] = distance, np.inf
        if self.joins[c]:
            return xx
        if careful:
            loss = 1.0 - margin
            if distance > 0.0:
                loss = loss - distance / self.threshold if self.threshold > 0.0 else 0.0
            if loss <= 0.0:
                return 0.0
            self.limit[c] = 2.0 * loss / inside
        return inside

    def limited(self, c, step):
        return min(step, self.limit[c])

    def scale(self, c, factor):
        self.slack[c] *= factor
        for p in range(self.turned.shape[1]):
            self.turned[c, p] *= factor

    def admit(self, space, i, c, y, step, margin):
        record = space.scalars.table[c]
        amount = y * step / record.scale
        if y > 0.0:
            record.positive += step / record.scale
        else:
            record.negative += step / record.scale
        if self.joins[c]:
            p = space.slots.taken[c]
            space.lead_outputs(i, c, amount)
            space.take_slot(i, c, p, amount)
            space.slots.taken[c] += 1
            self.add_direction(space, i, c, p)
        else:
            cut = self.distance[c] + self.rounding * space.diagonal[i]
            self.slack[c] += step / record.scale * math.sqrt(cut)
            block = space.outputs.shape[1]
            for p in range(space.slots.taken[c]):
                self.turned[c, p] += amount * self.coords[c * block + i, p]
            for k in range(i + 1, block):
                space.outputs[c, k] += amount * self.shadows[c * block + i, k]
        return False

    def add_direction(self, space, i, c, p):
        """Extend the basis by the remainder of row i."""
        block, slots = space.outputs.shape[1], self.inverse.shape[1]
        first, line = c * block, c * slots + p
        length = math.sqrt(self.distance[c] if p > 0 else space.diagonal[i])
        for q in range(p):
            part = self.coords[first + i, q] / length
            for r in range(q + 1):
                self.inverse[line, r] -= part * self.inverse[c * slots + q, r]
        self.inverse[line, p] = 1.0 / length
        for k in range(i + 1, block):
            product = float(space.products[i, k]) + space.shift
            self.coords[first + k, p] = (product - self.shadows[first + i, k]) / length
        for k in range(i + 1, block):
            coordinate = self.coords[first + k, p]
            for j in range(i + 1, block):
                self.shadows[first + k, j] += coordinate * self.coords[first + j, p]


bridge("add_direction", inline=False)
