"""Linear models whose soft margin minds weights of rows; see `WeightedTail`."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.core.rows import WeightedTail
from maxmargin.spaces.pair_space import NOBODY


def weighted_tail(model: Any, worth: np.ndarray) -> WeightedTail:
    """The coordinates behind the features of rows with these weights."""
    if model.p != 2.0:
        raise ValueError(
            "Weights act by the soft margin where there is one, and with p > 2 they cannot: use "
            "soft_margin=0, or p=2."
        )
    if model.spec.has_pairs() and not model.private_coordinates():
        raise ValueError(
            "Weights act by the soft margin where there is one, and pairs of a stream cannot tell "
            "them apart: use fit, soft_margin=0, or another learner."
        )
    return WeightedTail(model.tail.offset, model.tail.private, worth)


def apart_from_rows(model: Any, apart: Any) -> Any:
    """``apart`` is a model without private coordinates: let it know what the other one does."""
    proved = model.bounds()
    apart.linear.scalars.table.bound[: proved.size] = proved
    if model.spec.has_pairs():  # the coordinate of another row may be longer than those of members
        apart.pair.numbers[:] = NOBODY
        for array in (apart.pair.members, apart.pair.squares, apart.pair.private):
            array[:] = 0.0
    return apart
