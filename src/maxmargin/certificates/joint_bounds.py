"""Bounds for classes that are learned together, also where margins differ by pair of classes.

With costs, a lead of ``C[y, z]`` is wanted of class y over a rival z. The margin is then the least
lead over its cost. For every V of length 1 with intercepts b and margin gamma, and
``W = sum of a_iz (x_i in block y_i, -x_i in z)`` with ``a >= 0``,

    gamma sum of a_iz C[y_i, z] <= sum of a_iz (v_y.x_i + b_y - v_z.x_i - b_z) <= |W| + b.s

as in `joint_bound`: its bound holds with the coefficients' costs in place of their mass,
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

from maxmargin.certificates.bounds import RELATIVE_SLACK, SLACK_PER_RADIUS
from maxmargin.spaces.problem_scalars import ROUNDING


def joint_mixture(coefs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Coefficients that `joint_bound` may count.

    Those of rivals count where they are negative, and those of own classes follow.
    """
    rows = np.arange(labels.size)
    mixture = np.minimum(coefs, 0.0)
    mixture[labels, rows] = 0.0
    mixture[labels, rows] = -mixture.sum(axis=0)
    return mixture


def joint_bound(
    squares: float, imbalance: np.ndarray, mass: float, radius: float, intercept: bool
) -> float:
    """Upper bound on the best joint margin, from ``W = sum of a_iz (x_i in block y_i, -x_i in z)``.

    For every V of length 1 with intercepts b and margin gamma,

        gamma sum(a) <= sum of a_iz (v_y.x_i + b_y - v_z.x_i - b_z) = V.W + b.s <= |W| + b.s

    with the imbalance ``s_c``, the coefficients with class c as own less those with it as rival.
    All rows have norm at most R, and a class that has a row has it on its own side of every rival:
    so no two intercepts differ by more than ``sqrt(2) R``, and ``b.s <= R |s|_1 / sqrt(2)``. (A
    class without rows can keep within that distance at no cost, if two others have some.) Where all
    coefficients are of one class, intercepts alone may separate any rows: nothing is proved.
    """
    if mass <= 0.0 or (intercept and imbalance.max() >= mass * (1.0 - RELATIVE_SLACK)):
        return np.inf
    excess = radius * np.abs(imbalance).sum() / np.sqrt(2.0) if intercept else 0.0
    lowest = (np.sqrt(max(squares, 0.0)) + excess) / mass
    return float(lowest * (1.0 + RELATIVE_SLACK) + SLACK_PER_RADIUS * radius)


def joint_rounding(updates: int, positive: float, mass: float, radius: float) -> float:
    """What rounding may have taken from a joint bound: a fraction of all mass with each update."""
    lost = 16.0 * ROUNDING * (updates + 1.0) * positive
    return radius * lost / mass if mass > 0.0 else 0.0


def mixture_bound(
    mixture: np.ndarray,
    labels: np.ndarray,
    squares: float,
    radius: float,
    costs: np.ndarray,
    intercept: bool,
) -> float:
    """The bound from a `joint_mixture` of rows with these labels, whose sum has this square."""
    lifts = mixture[labels, np.arange(labels.size)]
    radius *= spread(costs, np.unique(labels[lifts > 0.0]).size)
    mass = lifts.sum()
    bound = joint_bound(squares, mixture.sum(axis=1), mass, radius, intercept)
    if costs.size:
        bound = bound_in_costs(bound, mass, -(mixture * costs[labels].T).sum())
    return bound


def joint_leads(outputs: np.ndarray, labels: np.ndarray, costs: np.ndarray) -> float:
    """The least lead of a row's own class over its rivals, over its cost; outputs by class."""
    rows = np.arange(labels.size)
    leads = outputs[labels, rows] - outputs
    leads[labels, rows] = np.inf
    if costs.size:
        leads /= costs[labels].T
    return float(leads.min())


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
