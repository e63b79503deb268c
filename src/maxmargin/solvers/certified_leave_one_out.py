"""How far outputs without a row can be from their formula, proved for each row.

Let F be half of ``lambda |w|^2 + sum of s_j max(0, 1 - m_j)^2``, A its Hessian at the minimum,
``l_j = x_j' A^-1 x_j``, and ``h = s_i l_i`` for an active row i. If no other row changes its state,
the margin of row i by the minimum without it is ``1 - z / (1 - h)`` with its slack z, and the point
theta where that is so moves every margin by at most ``c sqrt(l_j)``, ``c = s_i z sqrt(l_i) / (1 -
h)``. Only rows with ``d_j = c sqrt(l_j) - |slack_j| > 0`` can change their state there. They leave
a gradient, which in the norm of the inverse Hessian without row i is at most

    G = sum of s_j d_j q_j,    q_j = sqrt(l_j / (1 - h)).

Rows that are active everywhere within a radius r of theta leave a Hessian of at least ``1 - rho``
times that without row i. Here rho is the sum of ``s_j q_j^2`` over active rows j with ``|slack_j|
<= c sqrt(l_j) + r q_j``. If ``r (1 - rho) >= G``, the minimum is within r of theta, and the margin
of row i within ``r sqrt(l_i / (1 - h))`` of the formula. ``G = 0`` proves the formula for row i.
"""

from __future__ import annotations

import numpy as np

# Steps of r <- G / (1 - rho(r)), which ends as soon as no further row is within the radius.
MOST_STEPS = 50
# Relative errors of the sums, which are of at most as many terms as there are rows.
ROUNDING = 1e-15


def deviations(
    slack: np.ndarray, active: np.ndarray, leverages: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """How far the margin of each row without it can be from the formula; infinite if unproved.

    Parameters
    ----------
    slack : ``1 - m_j`` by the minimum for the rows that are ``active``
    leverages : ``x_j' A^-1 x_j`` of all rows, with the Hessian A of the active rows
    weights : sample weights, all positive
    """
    roots, masses = np.sqrt(leverages), weights * leverages
    own = np.where(active, masses, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        shrink = np.sqrt(np.maximum(1.0 - own, 0.0))
        moves = np.where(active, weights * slack * roots / shrink**2, 0.0)
        # A row in the other state than assumed adds to the gradient at once.
        wrong = (slack > 0.0) != active
        distances = np.where(wrong, 0.0, np.abs(slack) / roots)
    residual = float((weights * np.abs(slack) * roots)[wrong].sum())
    order = np.argsort(distances)
    ends = distances[order]
    finite = np.where(np.isfinite(ends), ends, 0.0)  # a row of zeros never changes its state
    mass, moment, held = (
        np.concatenate([[0.0], np.cumsum(each[order])]) for each in (masses, masses, own)
    )
    moment[1:] = np.cumsum(masses[order] * finite)
    # Rows that can change their state at theta, row i itself apart.
    changing = np.searchsorted(ends, moves, side="left")
    has_own = distances < moves
    crossing = moves * mass[changing] - moment[changing]
    crossing -= np.where(has_own, masses * (moves - np.where(has_own, distances, 0.0)), 0.0)
    crossing += ROUNDING * slack.size * moves * mass[changing]
    crossing[changing == has_own] = 0.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        gradient = (crossing + residual) / shrink
        radius = gradient.copy()
        for _ in range(MOST_STEPS):
            within = np.searchsorted(ends, moves + radius / shrink, side="right")
            share = held[within] - np.where(distances <= moves + radius / shrink, own, 0.0)
            share = share * (1.0 + ROUNDING * slack.size) / shrink**2
            wider = np.where(share < 1.0, gradient / (1.0 - share), np.inf)
            wider[gradient == 0.0] = 0.0
            if np.array_equal(wider, radius):
                break
            radius = np.maximum(radius, wider)
        else:
            radius[wider > radius] = np.inf
        found: np.ndarray = radius * roots / shrink
    found[np.isnan(found)] = np.inf
    return found
