"""What rows count: weights of rows, and of classes."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

# Between these nothing over- or underflows when it is squared.
SMALLEST, LARGEST = 1e-50, 1e50


def check_weights(sample_weight: Any, rows: int) -> np.ndarray:
    """What each row counts, as an array of float64; by default 1."""
    if sample_weight is None:
        return np.ones(rows)
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(rows, float(weights))
    if weights.ndim != 1:
        raise ValueError("Sample weights must be 1D array or scalar")
    if weights.size != rows:
        raise ValueError(f"sample_weight.shape == {weights.shape}, expected {(rows,)}!")
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0.0)))
    if bad.size:
        raise ValueError(
            f"sample_weight must be finite and not negative, got {weights[bad[0]]} (row {bad[0]})."
        )
    odd = np.flatnonzero((weights > 0.0) & ~((weights >= SMALLEST) & (weights <= LARGEST)))
    if odd.size:
        raise ValueError(
            f"sample_weight must be 0 or between {SMALLEST:g} and {LARGEST:g}, got "
            f"{weights[odd[0]]} (row {odd[0]})."
        )
    if not weights.any():
        raise ValueError("All sample weights are zero: there is nothing to learn from.")
    return weights


def weights_of_classes(
    class_weight: Any, classes: np.ndarray, codes: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """What rows of each class count, by its code; "balanced" gives all classes the same total."""
    if class_weight is None:
        return np.ones(classes.size)
    if isinstance(class_weight, dict):
        found = [class_weight.get(label, 1.0) for label in classes.tolist()]
        for label, weight in zip(classes.tolist(), found, strict=True):
            if not (isinstance(weight, Real) and SMALLEST <= float(weight) <= LARGEST):
                raise ValueError(
                    f"class_weight must be between {SMALLEST:g} and {LARGEST:g}, got {weight!r} "
                    f"for the class {label!r}."
                )
        return np.array(found, dtype=np.float64)
    totals = np.bincount(codes, weights, classes.size)
    return totals.sum() / (classes.size * totals)
