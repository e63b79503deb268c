"""The plane of a row or a pair's half difference, z, and of theta, in which the next theta lies.

The unit vectors are ``z' = z / |z|_p`` and ``t' = theta / |theta|_p``, and a point of the plane is
``a z' + b t'``. Outside the support of z all that matters of theta is one sum, so an evaluation
costs what z costs. Where p-th powers of a point leave the range of float64, it is divided by its
largest coordinate first.

PUMMA's point has a dual g with ``g.z' = demand`` and ``g.t' = 1``, and is the minimum of the convex
function ``N(a, b)**2 / 2 - demand * a - b``: Newton's method finds it, or bisection. AMIRA's has
``b = 1`` and ``g.z' = demand``, one equation in one unknown.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Array, Follows, Saved
from maxmargin.core.numba_backend import bridge, with_methods_of
from maxmargin.spaces.linear_space import LinearSpace
from maxmargin.spaces.problem_scalars import ROUNDING, Scalars

# Newton's method stops at the first accuracy of both demands, and must reach the second.
SOLVED = 1e-14
ACCEPTABLE = 1e-11
MOST_NEWTON_STEPS = 40
MOST_BISECTIONS = 200
# Coordinates whose p-th powers are within exp(+-LARGEST_LOG) are raised as they are.
LARGEST_LOG = 460.0
# Second derivatives are infinite where a coordinate is 0 and p < 2: it counts as this one there.
SMALLEST_COORDINATE = 1e-150


class Plane(NamedTuple):
    """The function ``N(a, b) = |a z' + b t'|_p`` and its derivatives.

    Attributes
    ----------
    z, t : the two vectors on the support of z, in the first ``support`` entries
    support : number of these entries
    outside : sum of ``|t'_j|**p`` over all other coordinates
    p : the exponent
    curvature : raises to p - 2
    buffer : where powers are computed
    """

    z: np.ndarray
    t: np.ndarray
    support: int
    outside: float
    p: float
    curvature: Any
    buffer: Any

    def slope(self, a, b):
        """``(N**2, g.z', g.t')``: the squared norm and the gradient of half of it.

        g is the dual of the point, the weights that go with it.
        """
        square, g_z, g_t, _, _, _ = self.bend(a, b)
        return square, g_z, g_t

    def bend(self, a, b):
        """The same, and the second derivatives ``zz, zt, tt`` of ``N**2 / 2``."""
        unit = self.largest_coordinate(a, b)
        if unit <= 0.0:
            return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        if self.p * abs(math.log(unit)) <= LARGEST_LOG:
            unit = 1.0
        total, dz, dt, zz, zt, tt = self.power_sums(a / unit, b / unit)
        norm = math.pow(total, 1.0 / self.p)
        weight = norm * norm / total  # N**(2 - p)
        dz *= weight
        dt *= weight
        bent, lifted = (self.p - 1.0) * weight, (2.0 - self.p) / (norm * norm)
        # N and its gradient are homogeneous, so they scale with the point.
        return (
            (unit * norm) * (unit * norm),
            unit * dz,
            unit * dt,
            bent * zz + lifted * dz * dz,
            bent * zt + lifted * dz * dt,
            bent * tt + lifted * dt * dt,
        )

    def power_sums(self, a, b):
        """``N**p``, and its first and second derivatives up to constant factors."""
        for k in range(self.support):
            self.buffer.base[k] = max(abs(a * self.z[k] + b * self.t[k]), SMALLEST_COORDINATE)
        self.curvature.raise_all(self.buffer, self.support)
        total = dz = dt = zz = zt = tt = 0.0
        for k in range(self.support):
            z, t, curved = self.z[k], self.t[k], self.buffer.raised[k]
            point = a * z + b * t
            dual = curved * point
            total += dual * point
            dz += dual * z
            dt += dual * t
            zz += curved * z * z
            zt += curved * z * t
            tt += curved * t * t
        if self.outside > 0.0:
            curved = self.curvature.power_of(max(abs(b), SMALLEST_COORDINATE))
            total += curved * b * b * self.outside
            dt += curved * b * self.outside
            tt += curved * self.outside
        return total, dz, dt, zz, zt, tt

    def largest_coordinate(self, a, b):
        """The largest coordinate of a point; outside the support of z, an upper bound on it."""
        largest = abs(b) if self.outside > 0.0 else 0.0
        for k in range(self.support):
            largest = max(largest, abs(a * self.z[k] + b * self.t[k]))
        return largest

    def newton(self, demand, margin):
        """``(a, b)``, and whether they are accurate.

        Damped Newton steps from theta, on which z has that margin, moved a little along z.
        """
        a, b = 0.5 * (1.0 - margin) * demand, 1.0
        square, g_z, g_t, zz, zt, tt = self.bend(a, b)
        error = max(abs(g_z / demand - 1.0), abs(g_t - 1.0))
        for _ in range(MOST_NEWTON_STEPS):
            determinant = zz * tt - zt * zt
            if error <= SOLVED or not determinant > 0.0:
                break
            z_excess, t_excess = g_z - demand, g_t - 1.0
            a_step = (zt * t_excess - tt * z_excess) / determinant
            b_step = (zt * z_excess - zz * t_excess) / determinant
            value = 0.5 * square - demand * a - b
            descent = z_excess * a_step + t_excess * b_step
            length = 1.0
            while length > 1e-10:
                trial_a, trial_b = a + length * a_step, b + length * b_step
                square, g_z, g_t, zz, zt, tt = self.bend(trial_a, trial_b)
                new_error = max(abs(g_z / demand - 1.0), abs(g_t - 1.0))
                new_value = 0.5 * square - demand * trial_a - trial_b
                # Near the minimum the values no longer differ, but the errors do.
                if new_value <= value + 1e-4 * length * descent or new_error < error:
                    break
                length *= 0.5
            if new_error >= error and error <= ACCEPTABLE:
                break
            a, b, error = trial_a, trial_b, new_error
        return a, b, error <= ACCEPTABLE and a > 0.0 and b >= 0.0

    def rise(self, demand, margin):
        """The a of the point ``a z' + t'`` whose dual g has ``g.z' = demand``.

        ``g.z'`` grows with a, from ``margin * demand`` at theta, where margin < 1. Newton's method
        between bounds on the root, which halves them where it leaves them or is slow:
        ``g.z' >= a - 3`` because ``a g.z' = N**2 - g.t' >= N (N - 1)`` and ``N >= a - 1``, and for
        p >= 2 smoothness gives ``g.z' <= (margin * demand) + (p - 1) a``.
        """
        low, high = demand * (1.0 - margin) / (self.p - 1.0), demand + 3.0
        a, change = low, high - low
        for _ in range(MOST_BISECTIONS):
            square, g_z, _, zz, _, _ = self.bend(a, 1.0)
            excess = g_z - demand
            if abs(excess) <= SOLVED * demand + 2.0 * self.p * ROUNDING * math.sqrt(square):
                break
            if excess < 0.0:
                low = a
            else:
                high = a
            before, change = change, (-excess / zz if zz > 0.0 else math.inf)
            if not (low < a + change < high and abs(change) <= 0.5 * abs(before)):
                change = 0.5 * (low + high) - a
            if a + change == a:
                break
            a += change
        return a

    def bisection(self, demand):
        """Always safe: only b / a is unknown, and one equation has a single root in it."""
        low, high = 0.0, 1.0
        for _ in range(MOST_BISECTIONS):
            _, g_z, g_t = self.slope(1.0, high)
            if demand * g_t > g_z:
                break
            low, high = high, 2.0 * high
        for _ in range(MOST_BISECTIONS):
            middle = 0.5 * (low + high)
            if middle <= low or middle >= high:
                break
            _, g_z, g_t = self.slope(1.0, middle)
            if demand * g_t > g_z:
                high = middle
            else:
                low = middle
        _, g_z, _ = self.slope(1.0, high)
        a = demand / g_z
        return a, a * high


bridge(
    *("slope", "bend", "power_sums", "largest_coordinate", "newton", "rise", "bisection"),
    inline=False,
)


@with_methods_of(LinearSpace)
class PlaneSpace(NamedTuple):
    """A `LinearSpace` in p-norms for rules whose step is found in the plane of y * x and theta.

    Where there is no intercept, y * x takes the place of a pair's half difference. Its fields are
    those of a `LinearSpace`; it is not derived from it, because skops takes only classes that are
    NamedTuples themselves.
    """

    geometry: Annotated[Any, Saved()]
    width: Annotated[int, Follows("coordinates")]
    weights: Annotated[np.ndarray, Array("problems", "coordinates")]
    scalars: Annotated[Scalars, Saved()]
    witness: Annotated[Any, Saved()]

    def aim(self, rows, i, c, y, f, xx):
        return y * f, self.geometry.gather_row(rows, i, c, y, self.weights)

    def decide(self, rule, trial, c):
        return self.geometry.decide(rule, trial, c)
