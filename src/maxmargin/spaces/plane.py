"""The plane of a pair's half difference z and of theta, in which PUMMA's next theta lies.

Everything is measured in units of ``|z|_p`` and ``|theta|_p``, so that no power over- or
underflows: the vectors are ``z' = z / |z|`` and ``t' = theta / |theta|``, and a point of the plane
is ``a z' + b t'``. Outside the support of z all that matters of theta is one sum, so an evaluation
costs what z costs.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.bridge import bridge
from maxmargin.core.sharing import with_methods_of
from maxmargin.spaces.linear import LinearSpace
from maxmargin.spaces.scalars import Scalars


class Plane(NamedTuple):
    """The function ``N(a, b) = |a z' + b t'|_p`` and its derivatives.

    Attributes
    ----------
    z, t : the two vectors on the support of z, in the first ``support`` entries
    support : number of these entries
    outside : sum of ``|t'_j|**p`` over all other coordinates
    p : the exponent
    curvature : raises to p - 2
    room : where powers are computed
    """

    z: np.ndarray
    t: np.ndarray
    support: int
    outside: float
    p: float
    curvature: Any
    room: Any

    def slope(self, a, b):
        """``(N**2, g.z', g.t')``: the squared norm and the gradient of half of it.

        g is the dual of the point, the weights that go with it.
        """
        square, g_z, g_t, _, _, _ = self.bend(a, b)
        return square, g_z, g_t

    def bend(self, a, b):
        """The same, and the second derivatives ``zz, zt, tt`` of ``N**2 / 2``."""
        for k in range(self.support):
            self.room.base[k] = abs(a * self.z[k] + b * self.t[k])
        self.curvature.raise_all(self.room, self.support)
        total = dz = dt = zz = zt = tt = 0.0
        for k in range(self.support):
            z, t, curved = self.z[k], self.t[k], self.room.raised[k]
            point = a * z + b * t
            dual = curved * point
            total += dual * point
            dz += dual * z
            dt += dual * t
            zz += curved * z * z
            zt += curved * z * t
            tt += curved * t * t
        if self.outside > 0.0:
            curved = self.curvature.power_of(abs(b))
            total += curved * b * b * self.outside
            dt += curved * b * self.outside
            tt += curved * self.outside
        if total <= 0.0:
            return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        norm = math.pow(total, 1.0 / self.p)
        weight = norm * norm / total  # N**(2 - p)
        dz *= weight
        dt *= weight
        bent, lifted = (self.p - 1.0) * weight, (2.0 - self.p) / (norm * norm)
        return (
            norm * norm,
            dz,
            dt,
            bent * zz + lifted * dz * dz,
            bent * zt + lifted * dz * dt,
            bent * tt + lifted * dt * dt,
        )


bridge("slope", "bend", inline=False)


@with_methods_of(LinearSpace)
class PlaneSpace(NamedTuple):
    """A `LinearSpace` of p > 2 for rules whose step is found in the plane of y * x and theta.

    Where there is no intercept, y * x takes the place of a pair's half difference.
    """

    geometry: Any
    width: int
    weights: np.ndarray
    scalars: Scalars
    witness: Any

    def aim(self, rows, i, c, y, f, xx):
        return y * f, self.geometry.gather_row(rows, i, c, y, self.weights)

    def decide(self, rule, trial, c):
        return self.geometry.decide(rule, trial, c)
