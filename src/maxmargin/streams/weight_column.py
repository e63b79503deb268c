"""Weights of rows: numbers from 0 on."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.streams.source import StreamError

# Between these nothing over- or underflows when it is squared.
SMALLEST, LARGEST = 1e-50, 1e50


def checked(weight: Any, rows: int, where: str) -> np.ndarray:
    """Numbers, one for each row, without a look at them; ``where`` is for messages."""
    weight = np.asanyarray(weight)
    if weight.dtype.kind not in "fiub":
        raise StreamError(f"{where}: expected numbers as weights, found {weight.dtype}.")
    if weight.shape != (rows,):
        raise StreamError(f"{where}: {rows} rows, but weights of shape {weight.shape}.")
    return weight


def sound(weight: np.ndarray, name: str, before: int) -> np.ndarray:
    """As float64, if all are weights: those behind so many rows of the source ``name``."""
    weight = np.asarray(weight, np.float64)
    if (bad := are_bad(weight)).any():
        row = int(np.argmax(bad))
        raise StreamError(f"{name}, row {before + row + 1}: the weight is {trouble(weight[row])}.")
    return weight


def are_bad(weight: np.ndarray) -> np.ndarray:
    """Which are negative, infinite, missing, or of a size that cannot be computed with?"""
    return ~((weight == 0.0) | ((weight >= SMALLEST) & (weight <= LARGEST)))


def trouble(weight: float) -> str:
    """What a number that is no weight is."""
    if np.isnan(weight):
        return "missing"
    if weight < 0.0:
        return "negative"
    return "infinite" if weight == np.inf else f"{weight:g}, beyond {SMALLEST:g} to {LARGEST:g}"
