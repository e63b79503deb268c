"""The plane of a pair's half difference z and of theta, in which PUMMA's next theta lies.

The unit vectors are ``z' = z / |z|_p`` and ``t' = theta / |theta|_p``, and a point of the plane is
``a z' + b t'``. Outside the support of z all that matters of theta is one sum, so an evaluation
costs what z costs. Where p-th powers of a point leave the range of float64, it is divided by its
largest coordinate first.

The point whose dual g has ``g.z' = demand`` and ``g.t' = 1`` is the minimum of the convex function
``N(a, b)**2 / 2 - demand * a - b``: Newton's method finds it, or bisection.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Array, Follows, Saved
from maxmargin.core.numba_backend import bridge, with_methods_of
from maxmargin.spaces.linear_space import LinearSpace
from maxmargin.spaces.problem_scalars import Scalars

# Newton's method stops at the first accuracy of both demands, and must reach the second.
SOLVED = 1e-14
ACCEPTABLE = 1e-11
MOST_NEWTON_STEPS = 40
MOST_BISECTIONS = 200
# Coordinates whose p-th powers are within exp(+-LARGEST_LOG) are raised as they are.
LARGEST_LOG = 460.0


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
            self.buffer.base[k] = abs(a * self.z[k] + b * self.t[k])
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
            curved = self.curvature.power_of(abs(b))
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
        """``(a, b)``, the evaluations that it took to find them, and whether it did.

        Damped Newton steps from theta, on which z has that margin, moved a little along z.
        """
        a, b = 0.5 * (1.0 - margin) * demand, 1.0
        square, g_z, g_t, zz, zt, tt = self.bend(a, b)
        evaluations = 1
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
                evaluations += 1
                new_error = max(abs(g_z / demand - 1.0), abs(g_t - 1.0))
                new_value = 0.5 * square - demand * trial_a - trial_b
                # Near the minimum the values no longer differ, but the errors do.
                if new_value <= value + 1e-4 * length * descent or new_error < error:
                    break
                length *= 0.5
            if new_error >= error and error <= ACCEPTABLE:
                break
            a, b, error = trial_a, trial_b, new_error
        return a, b, evaluations, error <= ACCEPTABLE and a > 0.0 and b >= 0.0

    def bisection(self, demand):
        """Always safe: only b / a is unknown, and one equation has a single root in it."""
        low, high, evaluations = 0.0, 1.0, 0
        for _ in range(MOST_BISECTIONS):
            _, g_z, g_t = self.slope(1.0, high)
            evaluations += 1
            if demand * g_t > g_z:
                break
            low, high = high, 2.0 * high
        for _ in range(MOST_BISECTIONS):
            middle = 0.5 * (low + high)
            if middle <= low or middle >= high:
                break
            _, g_z, g_t = self.slope(1.0, middle)
            evaluations += 1
            if demand * g_t > g_z:
                high = middle
            else:
                low = middle
        _, g_z, _ = self.slope(1.0, high)
        a = demand / g_z
        return a, a * high, evaluations + 1


bridge("slope", "bend", "power_sums", "largest_coordinate", "newton", "bisection", inline=False)


@with_methods_of(LinearSpace)
class PlaneSpace(NamedTuple):
    """A `LinearSpace` of p > 2 for rules whose step is found in the plane of y * x and theta.

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
