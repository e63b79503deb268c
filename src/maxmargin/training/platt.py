"""Probabilities by Platt's sigmoids of scores.

For each problem ``P(y = +1) = sigmoid(offset + slope score / scale)`` minimises the log loss with
Platt's targets, ``(N+ + 1) / (N+ + 2)`` for positive rows and ``1 / (N- + 2)`` for others, where N
are sums of sample weights (Lin, Lin and Weng, "A note on Platt's probabilistic outputs", 2007). A
negative slope, of uninformative scores, becomes 0.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from maxmargin.core.array_fields import Array

# Scores are clipped to this multiple of the scale.
LARGEST = 1e6
PLATT_PRECISION = 1e-10
SMALLEST_SCALE = float(np.nextafter(0.0, 1.0))


class Sigmoids(NamedTuple):
    """Maps from scores to log-odds of the positive class, arrays of shape (problems,).

    ::

        log-odds = offset + slope * s,      s = score / scale, clipped to +-`LARGEST`
    """

    offsets: Annotated[np.ndarray, Array("problems", finite=True)]
    slopes: Annotated[np.ndarray, Array("problems", finite=True, at_least=0.0)]
    scales: Annotated[np.ndarray, Array("problems", finite=True, at_least=SMALLEST_SCALE)]

    def log_odds(self, scores: np.ndarray) -> np.ndarray:
        """Log-odds of the positive class for scores of shape (rows, problems)."""
        with np.errstate(over="ignore"):
            return self.offsets + self.slopes * np.clip(scores / self.scales, -LARGEST, LARGEST)


def log_shares(odds: np.ndarray) -> np.ndarray:
    """Logarithms of normalised one-vs-rest probabilities, for log-odds of shape (rows, classes).

    They do not underflow if all probabilities are tiny.
    """
    logs = log_expit(odds)
    return logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)


def fitted_sigmoids(scores: np.ndarray, positive: np.ndarray, weights: np.ndarray) -> Sigmoids:
    """Fit the sigmoids of all problems; ``scores``, ``positive`` have shape (problems, rows)."""
    found = []
    for line, is_positive in zip(scores, positive, strict=True):
        scale = np.average(np.abs(line), weights=weights)
        scale = scale if scale > 0.0 else 1.0
        found.append((*sigmoid_for(line / scale, is_positive, weights), scale))
    return Sigmoids(*np.array(found).T.copy())


def sigmoid_for(
    scores: np.ndarray, positive: np.ndarray, weights: np.ndarray
) -> tuple[float, float]:
    """Offset and slope of Platt's sigmoid."""
    ones, zeros = weights[positive].sum(), weights[~positive].sum()
    targets = np.where(positive, (ones + 1.0) / (ones + 2.0), 1.0 / (zeros + 2.0))
    shares, rows = weights / weights.sum(), np.stack([np.ones_like(scores), scores])

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        odds = theta @ rows
        value = -shares @ (targets * log_expit(odds) + (1.0 - targets) * log_expit(-odds))
        return float(value), rows @ (shares * (expit(odds) - targets))

    def hessian(theta: np.ndarray) -> np.ndarray:
        chances = expit(theta @ rows)
        curvature: np.ndarray = (rows * (shares * chances * (1.0 - chances))) @ rows.T
        return curvature

    start = [np.log((ones + 1.0) / (zeros + 1.0)), 0.0]
    how = {"jac": True, "hess": hessian, "options": {"gtol": PLATT_PRECISION}}
    offset, slope = map(float, minimize(loss, start, method="trust-exact", **how).x)
    if slope >= 0.0:
        return offset, slope
    mean = np.average(targets, weights=weights)
    return float(np.log(mean / (1.0 - mean))), 0.0
