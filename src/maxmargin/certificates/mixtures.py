"""Bounds from weights that are known as coefficients of rows, as those of kernels are."""

from __future__ import annotations

import numpy as np

from maxmargin.certificates.bounds import RELATIVE_SLACK


def hull_mixture(
    coefs: np.ndarray, own: np.ndarray, intercept: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of rows whose sum is as long as the best margin at least, for each problem.

    ``own`` says which rows are positive ones. Only coefficients with the sign of their rows count,
    so they may come from anywhere; with an intercept both classes get mass 1/2, without one all
    rows together mass 1. The second array says where there are such coefficients; elsewhere the
    first one is 0.
    """
    positive = np.where(own, np.maximum(coefs, 0.0), 0.0)
    negative = np.where(own, 0.0, np.maximum(-coefs, 0.0))
    masses = positive.sum(axis=1), negative.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        if intercept:
            proved = np.minimum(*masses) > 0.0
            mixture = 0.5 * (positive / masses[0][:, None] - negative / masses[1][:, None])
        else:
            proved = masses[0] + masses[1] > 0.0
            mixture = (positive - negative) / (masses[0] + masses[1])[:, None]
    mixture[~proved] = 0.0
    return mixture, proved


def mixture_bounds(squares: np.ndarray, proved: np.ndarray) -> np.ndarray:
    """The bounds from the squared lengths of such mixtures."""
    return np.where(proved, np.sqrt(squares) * (1.0 + RELATIVE_SLACK), np.inf)
