"""Bounds where margins differ by pair of classes: ``C[y, z]`` is wanted of class y over a rival z.

The margin is then the least lead over its cost. For every V of length 1 with intercepts b and
margin gamma, and ``W = sum of a_iz (x_i in block y_i, -x_i in z)`` with ``a >= 0``,

    gamma sum of a_iz C[y_i, z] <= sum of a_iz (v_y.x_i + b_y - v_z.x_i - b_z) <= |W| + b.s

as in `bounds.joint_bound`: its bound holds with the coefficients' costs in place of their mass,
if b.s is bounded as well. Classes that have rows have intercepts within ``sqrt(2) R`` of each
other, whatever the costs. Let K >= 2 classes have rows, and v and b of these have mean 0, which
changes no lead and makes no length larger. For a row x of class y, the mean of its leads over the
others that have rows gives ``v_y.x + b_y >= gamma c_min (K - 1) / K``. So a class z without rows
keeps gamma, at no cost, by ``v_z = 0`` and ``b_z = gamma (c_min (K - 1) / K - c_max)``. The others
have ``b <= sqrt(2) R (K - 1) / K``, and ``gamma <= sqrt(2) R / c_min``: so no two intercepts differ
by more than ``sqrt(2) R c_max / c_min``.
"""

from __future__ import annotations

import numpy as np


def of_rivals(costs: np.ndarray) -> np.ndarray:
    """All costs but those of a class over itself, which mean nothing; 1 if there are none."""
    return costs[~np.eye(len(costs), dtype=bool)] if costs.size else np.ones(1)


def spread(costs: np.ndarray, classes_with_rows: int) -> float:
    """So much farther intercepts may be from each other than without costs."""
    if classes_with_rows == len(costs):
        return 1.0
    return float(of_rivals(costs).max() / of_rivals(costs).min())


def bound_in_costs(bound: float, mass: float, costs: float) -> float:
    """The bound for coefficients with these costs, from the one for their mass."""
    return bound * (mass / costs) if costs > 0.0 else np.inf
