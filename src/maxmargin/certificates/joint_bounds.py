"""Bounds for classes that are learned together."""

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
    intercept: bool,
) -> float:
    """The bound from a `joint_mixture` of rows with these labels, whose sum has this square."""
    mass = mixture[labels, np.arange(labels.size)].sum()
    return joint_bound(squares, mixture.sum(axis=1), mass, radius, intercept)


def joint_leads(outputs: np.ndarray, labels: np.ndarray) -> float:
    """The least lead of a row's own class over its rivals; outputs by class."""
    rows = np.arange(labels.size)
    leads = outputs[labels, rows] - outputs
    leads[labels, rows] = np.inf
    return float(leads.min())
