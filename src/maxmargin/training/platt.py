"""Platt's sigmoids, fitted at once to scores of rows that these were not learned from.

For each problem ``P(y = +1) = sigmoid(offset + slope score)`` minimises the log loss with Platt's
targets, ``(N+ + 1) / (N+ + 2)`` for the positive rows and ``1 / (N- + 2)`` for the others, where N
are sums of sample weights. The loss is convex: Newton's method finds its minimum, each step halved
until the loss falls (Lin, Lin and Weng, "A note on Platt's probabilistic outputs", 2007). A slope
below 0 becomes 0, for scores that say nothing.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, log_expit

from maxmargin.training.calibration import Maps, new_maps

STEPS, HALVINGS, PRECISION = 100, 40, 1e-10


def fitted_maps(scores: np.ndarray, positive: np.ndarray, weights: np.ndarray) -> Maps:
    """The maps of all problems, one line of ``scores`` and of ``positive`` for each."""
    maps = new_maps(scores.shape[0])
    maps.rows[0] = scores.shape[1]
    for c, (line, own) in enumerate(zip(scores, positive, strict=True)):
        scale = maps.scales[c] = np.average(np.abs(line), weights=weights)
        sizes = line / scale if scale > 0.0 else np.zeros_like(line)
        maps.theta[c, 0], maps.theta[c, 2] = sigmoid_for(sizes, own, weights)
    return maps


def sigmoid_for(
    scores: np.ndarray, positive: np.ndarray, weights: np.ndarray
) -> tuple[float, float]:
    """Offset and slope of Platt's sigmoid."""
    own, rest = weights[positive].sum(), weights[~positive].sum()
    targets = np.where(positive, (own + 1.0) / (own + 2.0), 1.0 / (rest + 2.0))
    offset, slope = _least(scores, targets, weights, np.log((own + 1.0) / (rest + 1.0)))
    if slope >= 0.0:
        return offset, slope
    mean = np.average(targets, weights=weights)
    return float(np.log(mean / (1.0 - mean))), 0.0


def _least(
    scores: np.ndarray, targets: np.ndarray, weights: np.ndarray, offset: float
) -> tuple[float, float]:
    rows, theta = np.stack([np.ones_like(scores), scores]), np.array([offset, 0.0])
    value = _log_loss(theta @ rows, targets, weights)
    for _ in range(STEPS):
        chances = expit(theta @ rows)
        gradient = rows @ (weights * (chances - targets))
        curvature = (rows * (weights * chances * (1.0 - chances))) @ rows.T
        curvature[[0, 1], [0, 1]] += 1e-12 * (curvature.trace() + weights.sum())
        step = -np.linalg.solve(curvature, gradient)
        if -gradient @ step <= PRECISION * (value + PRECISION):
            break
        for _ in range(HALVINGS):
            then = _log_loss((theta + step) @ rows, targets, weights)
            if then < value:
                break
            step *= 0.5
        else:
            break  # rounding leaves nothing to gain
        theta, value = theta + step, then
    return float(theta[0]), float(theta[1])


def _log_loss(odds: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> float:
    return float(-weights @ (targets * log_expit(odds) + (1.0 - targets) * log_expit(-odds)))
