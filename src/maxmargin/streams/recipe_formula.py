"""What a recipe computes of a row, in plain arrays: for those who compute it elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class OneHotColumn(NamedTuple):
    """A column of features for each value of a category, for a missing one and for all others.

    Attributes
    ----------
    name : str
    places : dict of int
        Which feature the value of a row has, those for a missing one included.
    other : int
        The feature of all other values.
    width : int
        How many features there are.
    """

    name: str
    places: dict[str, int]
    other: int
    width: int


class Preparation(NamedTuple):
    """``(x - center) / scale`` of numbers, flags of those that are missing, and one-hot columns.

    The features are in this order: all numbers, all flags, then the columns of each category.

    Attributes
    ----------
    columns : all raw columns, in their order, those that are left out included
    names : those of numbers
    centers, scales : arrays of shape (n_numbers,)
    fills : array of shape (n_numbers,)
        What stands for a number that is missing; NaN if nothing does.
    flagged : numbers among these that have a flag
    categories : sequence of OneHotColumn
    """

    columns: Sequence[str]
    names: Sequence[str]
    centers: np.ndarray
    scales: np.ndarray
    fills: np.ndarray
    flagged: Sequence[int] = ()
    categories: Sequence[OneHotColumn] = ()
