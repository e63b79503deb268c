"""Linear models without the private coordinates of earlier rows, for streams of new rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.spaces.linear_space import LinearSpace
from maxmargin.spaces.pair_space import FOREIGN, POSITIVE, PairSpace

# Larger weights are copied only for batches of at least as many values.
MOST_COPIED_WEIGHTS = 2**16


def sum_up_private_weights(space: LinearSpace, apart: LinearSpace) -> None:
    """Add the squares of private weights to the sums of ``apart``, which has none.

    A sum of squares cannot be split at the last snapshot, so a new snapshot is taken.
    """
    private, table = space.weights[:, space.width + 1 :], apart.scalars.table
    table.hidden_positive += (np.maximum(private, 0.0) ** 2).sum(axis=1)
    table.hidden_negative += (np.minimum(private, 0.0) ** 2).sum(axis=1)
    for name in ("positive", "negative", "hidden_positive", "hidden_negative"):
        table[f"mark_{name}"] = table[name]
    witness = apart.witness
    witness.mark[:] = apart.weights[: witness.mark.shape[0]]
    witness.mark_share[:] = witness.share


def sum_up_private_members(space: PairSpace, apart: PairSpace) -> None:
    """Copy the private weights of the members of pairs to ``apart``.

    After a warm start, the private weight of a row may be that of a row of the other class. Steps
    along it then decrease the sum of squares, which no longer bounds the steps.
    """
    for c, side in np.argwhere(space.numbers >= 0):
        weight = space.linear.weights[c, space.linear.width + 1 + space.numbers[c, side]]
        apart.private[c, side] = weight
        if weight < 0.0 if side == POSITIVE else weight > 0.0:
            apart.numbers[c, side] = FOREIGN


def sum_up_private_blocks(space: LinearSpace, apart: LinearSpace) -> None:
    """`sum_up_private_weights` for classes that are learned jointly."""
    table = apart.scalars.table
    table.hidden_positive[0] += (space.weights[:, space.width + 1 :] ** 2).sum()
    table.mark_positive[0], table.mark_negative[0] = table.positive[0], table.negative[0]
    table.mark_hidden_positive[0] = table.hidden_positive[0]
    apart.witness.mark[:] = apart.weights


def streaming(model: Any, rows: int, alone: bool) -> Any:
    """The model that learns the next rows of a stream: ``model``, or a copy if that is cheap."""
    if model.p != 2.0 and model.tail.private > 0.0:
        raise ValueError(
            f"partial_fit cannot keep a soft margin with p={model.p}; use fit, or p=2."
        )
    if model.private_coordinates():
        model = model._without_private_coordinates()
    else:
        is_small = model.linear.weights.size <= max(MOST_COPIED_WEIGHTS, rows * model.width())
        beside = (rows > 1 and is_small) or model.keeps_row_numbers()
        model = model.copy() if beside and not alone else model
    model.begin_rows()
    return model
