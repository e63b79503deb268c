"""How far outputs without a row can be from their formula, proved for each row.

Let F be half of ``lambda |w|^2 + sum of s_j max(0, 1 - m_j)^2``, A its Hessian at the minimum,
``l_j = x_j' A^-1 x_j``, and ``h = s_i l_i`` for an active row i with the slack z. At the point

    theta = minimum - s_i z / (1 - h) y_i A^-1 x_i

row i has the margin ``1 - z / (1 - h)``. That is the minimum without row i if every other row keeps
its state. Rows that do not, by ``d_j``, leave a gradient there, which in the norm of the inverse
Hessian without row i is at most

    G = sum of s_j d_j q_j,    q_j = sqrt(l_j / (1 - h)).

Rows that are active everywhere within a radius r of theta leave a Hessian of at least ``1 - rho``
times that without row i. Here rho is the sum of ``s_j q_j^2`` over active rows j with ``|slack_j|
<= r q_j`` at theta. If ``r (1 - rho) >= G``, the minimum is within r of theta, and the margin of
row i within ``r sqrt(l_i / (1 - h))`` of the formula. ``G = 0`` proves the formula for row i.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg.lapack import dpotrs, dtrtrs

# Rows that are left out at a time.
BLOCK = 256
# Steps of r <- G / (1 - rho(r)), which end as soon as no further row is within the radius.
MOST_STEPS = 30
# What rounding leaves of a slack of 0.
ROUNDING = 1e-11


class InverseProducts(Protocol):
    """``x_i' A^-1 x_j`` of all rows j."""

    def leverages(self) -> np.ndarray:
        """Those of each row with itself."""

    def lines(self, places: np.ndarray) -> np.ndarray:
        """Those of the active rows at these places with all rows."""


class ProductsOfColumns(NamedTuple):
    """Given ``L^-1 x_j`` as columns, where ``L L' = A``."""

    solved: np.ndarray

    def leverages(self) -> np.ndarray:
        found: np.ndarray = np.einsum("ij,ij->j", self.solved, self.solved)
        return found

    def lines(self, places: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.solved[:, places].T @ self.solved
        return found


class ProductsOfRows(NamedTuple):
    """Given the products of rows, by Cholesky's factor of ``K + diag(lambda / s)`` of active ones.

    Attributes
    ----------
    factor, active, weights : of the active rows
    cross : products of the active rows with all rows
    squares : products of all rows with themselves
    """

    factor: np.ndarray
    active: np.ndarray
    weights: np.ndarray
    cross: np.ndarray
    squares: np.ndarray
    penalty: float
    intercept: bool

    def leverages(self) -> np.ndarray:
        solved = dtrtrs(self.factor, self.cross, lower=1)[0]
        found = self.squares - np.einsum("ij,ij->j", solved, solved)
        if self.intercept:
            ones = self._ones()
            found += (1.0 - ones @ self.cross) ** 2 / ones.sum()
        leverages: np.ndarray = np.maximum(found, 0.0) / self.penalty
        return leverages

    def lines(self, places: np.ndarray) -> np.ndarray:
        chosen = np.searchsorted(self.active, places)
        sides = np.zeros((self.active.size, chosen.size), order="F")
        sides[chosen, np.arange(chosen.size)] = 1.0
        found = dpotrs(self.factor, sides, lower=1)[0].T @ self.cross
        if self.intercept:
            ones = self._ones()
            found += np.outer(ones[chosen], (1.0 - ones @ self.cross) / ones.sum())
        lines: np.ndarray = found / self.weights[chosen, None]
        return lines

    def _ones(self) -> np.ndarray:
        ones: np.ndarray = dpotrs(self.factor, np.ones(self.active.size), lower=1)[0]
        return ones


def deviations(
    margins: np.ndarray,
    active: np.ndarray,
    signs: np.ndarray,
    weights: np.ndarray,
    products: InverseProducts,
) -> np.ndarray:
    """How far the margin of each row without it can be from ``margins``; infinite if unproved.

    Parameters
    ----------
    margins : by the formula
    active : the rows in A, whose minimum the formula begins with
    signs : the labels, 1 or -1
    weights : sample weights, all positive
    """
    leverages = products.leverages()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        rest = np.where(active, 1.0 - weights * leverages, 1.0)
        slack = (1.0 - margins) * rest
        roots = np.sqrt(leverages)
        # A row in the other state than assumed adds to the gradient at once.
        wrong = _in_other_state(slack, active)
        residual = float((weights * np.abs(slack) * roots)[wrong].sum())
        found = np.full(margins.size, residual) * roots if residual else np.zeros(margins.size)
        found[rest <= 0.0] = np.inf
        places = np.flatnonzero(active & (rest > 0.0))
        for start in range(0, places.size, BLOCK):
            some = places[start : start + BLOCK]
            scales = signs[some] * weights[some] * slack[some] / rest[some]
            moved = slack + scales[:, None] * products.lines(some) * signs
            lengths = roots / np.sqrt(rest[some])[:, None]
            itself = np.arange(some.size), some
            changed = _in_other_state(moved, active)
            gradient = weights * lengths * np.where(changed, np.abs(moved), 0.0)
            gradient[itself] = 0.0
            gradients = gradient.sum(axis=1) + residual / np.sqrt(rest[some])
            # A row that is no longer active at theta is missing in the Hessian, too.
            distances = np.where(changed, 0.0, np.abs(moved) / lengths)
            distances[:, ~active] = np.inf
            shares = weights * lengths**2
            distances[itself] = np.inf
            found[some] = _radii(gradients, distances, shares) * lengths[itself]
    found[np.isnan(found)] = np.inf
    return found


def _in_other_state(slack: np.ndarray, active: np.ndarray) -> np.ndarray:
    return np.where(active, slack < -ROUNDING, slack > ROUNDING)


def _radii(gradients: np.ndarray, distances: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The smallest r with ``r (1 - rho(r)) >= G``, for each line; infinite if none is found."""
    radii = gradients.copy()
    for _ in range(MOST_STEPS):
        rho = np.where(distances <= radii[:, None], shares, 0.0).sum(axis=1)
        wider = np.where(rho < 1.0, gradients / (1.0 - rho), np.inf)
        wider[gradients == 0.0] = 0.0
        if not (wider > radii).any():
            return radii
        radii = np.maximum(radii, wider)
    radii[wider > radii] = np.inf
    return radii
