"""How often rows count: weights of rows, and of classes."""

from __future__ import annotations

from collections.abc import Hashable
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.core.targets import balance
from maxmargin.streams import Option, OptionError
from maxmargin.streams.source import LARGEST_WEIGHT as LARGEST
from maxmargin.streams.source import SMALLEST_WEIGHT as SMALLEST
from maxmargin.training.messages import listed
from maxmargin.training.options import ClassWeight
from maxmargin.training.types import Matrix


def check_weights(sample_weight: ArrayLike | None, rows: int) -> np.ndarray:
    """How often each row counts, as an array of float64 of its own; by default once."""
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
    odd = np.flatnonzero((weights > 0.0) & ~((weights >= SMALLEST) & (weights <= LARGEST)))
    if odd.size:
        raise ValueError(
            f"sample_weight must be 0 or between {SMALLEST:g} and {LARGEST:g}, got "
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
    """Rows, labels and weights of a fit without those of weight 0, which are no rows.

    Only if there are such, the others are copied. Last, if there are weights of classes, the totals
    for `running_weights`.
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
    """Raise if weights of rows and classes together are too large, or too small."""
    if not ((weights >= SMALLEST) & (weights <= LARGEST)).all():
        raise ValueError(
            f"sample_weight times class_weight must be between {SMALLEST:g} and {LARGEST:g}."
        )


def unused_class_weight(name: str) -> OptionError:
    """Why a learner refuses ``class_weight`` if weights do not change what it learns."""
    return OptionError(
        Option("class_weight"),
        f" has no effect on {name} without a soft margin: every row must meet the margin in full, "
        "whatever its weight. Pass ",
        Option("soft_margin", 1.0),
        " or so, or use PassiveAggressive with a C, such as ",
        Option("C", 0.1),
        ".",
    )


def check_any(counting: int) -> None:
    """Raise if none of the rows of a fit counts."""
    if not counting:
        raise ValueError("All sample weights are zero: there is nothing to learn from.")


def weights_of_classes(
    class_weight: ClassWeight, classes: np.ndarray, codes: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """How often rows of each class count, by its code, given all rows of a fit.

    "balanced" gives all classes the same total.
    """
    return weights_by_totals(class_weight, classes, np.bincount(codes, weights, classes.size))


def weights_by_totals(
    class_weight: ClassWeight, classes: np.ndarray, totals: np.ndarray
) -> np.ndarray:
    """The same, given the sums of the weights of the rows of each class."""
    if isinstance(class_weight, str):
        return totals.sum() / (classes.size * totals)
    return told_weights(class_weight, classes)


def told_weights(
    class_weight: dict[Hashable, float] | None, classes: np.ndarray, *, others: bool = False
) -> np.ndarray:
    """How often rows of each class count, by its code, as told; those not told of count once.

    Labels that do not occur are taken for misspelt, if there are classes not told of; unless
    ``others`` may come.
    """
    told, labels = class_weight or {}, classes.tolist()
    strange = [label for label in told if label not in labels]
    if strange and not others and any(label not in told for label in labels):
        raise ValueError(f"class_weight has {strange[0]!r}, which is not among {listed(classes)}.")
    found = [told.get(label, 1.0) for label in labels]
    for label, weight in zip(labels, found, strict=True):
        if not (isinstance(weight, Real) and SMALLEST <= float(weight) <= LARGEST):
            raise ValueError(
                f"class_weight must be between {SMALLEST:g} and {LARGEST:g}, got {weight!r} "
                f"for the class {label!r}."
            )
    return np.array(found, dtype=np.float64)


def only_counted(order: np.ndarray, weights: np.ndarray, *, look: bool) -> np.ndarray:
    """The order in which rows are learned, without those of weight 0, or with a ``look`` at them.

    Their weights, which nobody asks for, are made 1.
    """
    if weights.all():
        return order
    counts = (order < 0) | (weights[order] > 0.0)
    weights[weights == 0.0] = 1.0
    return np.where(counts, order, -1 - order) if look else order[counts]


def running_weights(
    class_weight: str | dict[Hashable, float],
    classes: np.ndarray,
    codes: np.ndarray,
    order: np.ndarray,
    weights: np.ndarray,
    totals: np.ndarray | None,
    *,
    others: bool = False,
) -> tuple[np.ndarray, np.ndarray | None]:
    """How often rows of a stream count, given `totals` so far; and the totals with them.

    "balanced" goes by the classes of the rows up to each, in the order in which they are learned.
    ``others`` says that there may be classes yet to come.
    """
    if not isinstance(class_weight, str):
        weights = weights * told_weights(class_weight, classes, others=others)[codes]
        check_products(weights)
        return weights, totals
    totals = np.zeros(classes.size + 1) if totals is None else totals.copy()
    balance(codes, order, totals, weights)
    return weights, totals
