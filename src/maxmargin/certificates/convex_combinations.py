"""Bounds from weights that are known as coefficients of rows, as those of kernels are."""

from __future__ import annotations

import numpy as np

from maxmargin.certificates.bounds import RELATIVE_SLACK
from maxmargin.spaces.problem_scalars import Scalars

# How far margins in a kernel's space may be above a bound by rounding, relative to it.
MARGIN_ROUNDING = 1e-6


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


def measured(leads: np.ndarray, lengths: np.ndarray, scalars: Scalars) -> np.ndarray:
    """Margins from the lowest outputs and the lengths of the weights.

    A length that is NaN, from a negative square, shows that the kernel does not satisfy Mercer's
    condition. Then there is no margin, and no bound is proved either.
    """
    no_kernel = np.isnan(lengths)
    if no_kernel.any():
        scalars.table.bound = np.nan
    margins = np.divide(leads, lengths, out=np.zeros_like(leads), where=lengths > 0.0)
    return np.where(no_kernel, np.nan, margins)


def presuming_mercer(bounds: np.ndarray, margins: np.ndarray, ceiling: float) -> np.ndarray:
    """The bounds where nothing contradicts Mercer's condition, on which all of them rest.

    It is contradicted by a bound that is NaN, as a negative square makes it, and by a margin that
    is above its bound or above the largest norm of a row. Then no bound is proved, for any problem.
    """
    highest = np.fmin(bounds, ceiling) * (1.0 + MARGIN_ROUNDING)
    if np.isnan(bounds).any() or (margins > highest).any():
        return np.full_like(bounds, np.inf)
    return np.fmax(np.where(bounds < np.inf, bounds, ceiling), margins)
