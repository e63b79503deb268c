"""Margins and bounds from a few numbers; those from vectors are in `bounds`, with the proof."""

from __future__ import annotations

import numpy as np

from maxmargin.spaces.problem_scalars import ROUNDING


def soft_margin(
    weights: np.ndarray, losses: float, total_weight: float, error: float, rows: int, penalty: float
) -> float:
    """At least the margin of a hyperplane on rows with coordinates of their own, at their best.

    Row i has ``sqrt(penalty / s_i)`` there. With slacks ``z_i = max(0, 1 - y (w.x + b))`` the
    vector of w and of all ``y sqrt(s_i / penalty) z_i`` gives each row an output of 1 at least, so
    its margin is one over its length. ``losses`` is the sum of ``s_i z_i^2``, where each z has been
    rounded by no more than ``error`` roundings, and ``total_weight`` that of the ``s_i``.
    """
    return soft_margin_of_square(
        float(weights @ weights),
        losses,
        total_weight,
        ROUNDING * error,
        rows + weights.size,
        penalty,
    )


def soft_margin_of_square(
    square: float, losses: float, total_weight: float, error: float, rows: int, penalty: float
) -> float:
    """The same, given ``|w|^2``; each z has been rounded by no more than ``error``."""
    rounded_up = 1.0 + ROUNDING * (rows + 16.0)
    lost = np.sqrt(losses * rounded_up) + error * np.sqrt(total_weight)
    whole = square * rounded_up + lost * lost / penalty
    return float(1.0 / np.sqrt(whole * (1.0 + 8.0 * ROUNDING)))


def projected_bound(
    length: float, slack: float, masses: tuple[float, float], radius: float, intercept: bool
) -> float:
    """The plain or the imbalance bound where steps were projected.

    The full steps have the masses, and their sum is at most ``slack``, all that projections have
    cut off, longer than ``w``, whose length is given.
    """
    mass, excess = masses[0] + masses[1], abs(masses[0] - masses[1])
    if mass <= 0.0 or (intercept and min(masses) <= 0.0):
        return np.inf
    if intercept:
        return (length + slack + radius * excess) / (mass + excess)
    return (length + slack) / mass


def directional_bound(length: float, mass: float) -> float:
    """``|w| / sum of the coefficients``, in the space with the intercept's coordinate."""
    return length / mass
