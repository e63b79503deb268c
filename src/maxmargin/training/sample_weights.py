"""Sample weights and class weights."""

from __future__ import annotations

from collections.abc import Hashable
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.streams.source import LARGEST_WEIGHT, SMALLEST_WEIGHT
from maxmargin.training.inputs import listed
from maxmargin.training.protocol import ClassWeight
from maxmargin.training.state import Matrix


def check_weights(sample_weight: ArrayLike | None, rows: int) -> np.ndarray:
    """Validated sample weights as a new float64 array; ones by default."""
    if sample_weight is None:
        return np.ones(rows)
    is_masked = isinstance(sample_weight, np.ma.MaskedArray)
    if is_masked or np.asarray(sample_weight).dtype.kind not in "biuf":
        raise ValueError("sample_weight must be numbers.")
    weights = np.array(sample_weight, dtype=np.float64)
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
    odd = np.flatnonzero(
        (weights > 0.0) & ~((weights >= SMALLEST_WEIGHT) & (weights <= LARGEST_WEIGHT))
    )
    if odd.size:
        raise ValueError(
            f"sample_weight must be 0 or between {SMALLEST_WEIGHT:g} and {LARGEST_WEIGHT:g}, got "
            f"{weights[odd[0]]} (row {odd[0]})."
        )
    return weights


def counted(
    X: Matrix,
    y: np.ndarray,
    sample_weight: ArrayLike | None,
    class_weight: ClassWeight = None,
    kernel: object = "linear",
) -> tuple[Matrix, np.ndarray, np.ndarray, np.ndarray | None]:
    """Rows, labels and weights of a fit without rows of weight 0, and class totals.

    Rows are copied only if some have weight 0. Totals are None without class weights.
    """
    weights = check_weights(sample_weight, y.shape[0])
    check_any(int(np.count_nonzero(weights)))
    if not weights.all():
        if kernel == "precomputed":
            raise ValueError("With kernel='precomputed' no sample weight can be zero.")
        rows = np.flatnonzero(weights)
        X, y, weights = X[rows], y[rows], weights[rows]
    if class_weight is None:
        return X, y, weights, None
    classes, codes = np.unique(y, return_inverse=True)
    totals = np.append(np.bincount(codes, weights), weights.sum())
    weights = weights * weights_of_classes(class_weight, classes, codes, weights)[codes]
    check_products(weights)
    return X, y, weights, totals


def check_products(weights: np.ndarray) -> None:
    """Raise if a product of sample weight and class weight is out of range."""
    if not ((weights >= SMALLEST_WEIGHT) & (weights <= LARGEST_WEIGHT)).all():
        raise ValueError(
            "sample_weight times class_weight must be between "
            f"{SMALLEST_WEIGHT:g} and {LARGEST_WEIGHT:g}."
        )


def unused_class_weight(name: str) -> ValueError:
    """The error for ``class_weight`` if weights do not change what is learned."""
    return ValueError(
        f"class_weight= has no effect on {name} without a soft margin: every row must meet the "
        "margin in full, whatever its weight. Pass soft_margin=1.0 or so, or use "
        "PassiveAggressive with a C, such as C=0.1."
    )


def check_any(counting: int) -> None:
    """Raise if no row of a fit has a positive weight."""
    if not counting:
        raise ValueError("All sample weights are zero: there is nothing to learn from.")


def weights_of_classes(
    class_weight: ClassWeight, classes: np.ndarray, codes: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """The weight of each class code, given all rows of a fit; "balanced" equalises the totals."""
    return weights_by_totals(class_weight, classes, np.bincount(codes, weights, classes.size))


def weights_by_totals(
    class_weight: ClassWeight, classes: np.ndarray, totals: np.ndarray
) -> np.ndarray:
    """`weights_of_classes`, given the total weight of each class."""
    if isinstance(class_weight, str):
        return totals.sum() / (classes.size * totals)
    return weights_by_label(class_weight, classes)


def weights_by_label(
    class_weight: dict[Hashable, float] | None, classes: np.ndarray, *, others: bool = False
) -> np.ndarray:
    """The weight of each class code, by default 1.

    An unknown label is an error if some class has no weight (it may be misspelt), unless
    ``others`` allows labels that have not occurred yet.
    """
    given, labels = class_weight or {}, classes.tolist()
    strange = [label for label in given if label not in labels]
    if strange and not others and any(label not in given for label in labels):
        raise ValueError(f"class_weight has {strange[0]!r}, which is not among {listed(classes)}.")
    found = [given.get(label, 1.0) for label in labels]
    for label, weight in zip(labels, found, strict=True):
        if not (isinstance(weight, Real) and SMALLEST_WEIGHT <= float(weight) <= LARGEST_WEIGHT):
            raise ValueError(
                f"class_weight must be between {SMALLEST_WEIGHT:g} and {LARGEST_WEIGHT:g}, "
                f"got {weight!r} for the class {label!r}."
            )
    return np.array(found, dtype=np.float64)


def only_counted(order: np.ndarray, weights: np.ndarray, *, look: bool) -> np.ndarray:
    """The order without rows of weight 0; with ``look`` these are scored but not learned.

    Their weights, which are then unused, are set to 1 in place.
    """
    if weights.all():
        return order
    counts = (order < 0) | (weights[order] > 0.0)
    weights[weights == 0.0] = 1.0
    return np.where(counts, order, -1 - order) if look else order[counts]
