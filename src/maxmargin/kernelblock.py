"""A block of rows in a kernel's space, small enough for its Gram matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.core.loop import Notes, present
from maxmargin.core.rows import Tail
from maxmargin.kernels import Points
from maxmargin.spaces.gram import Averages, Gram, UnitRows
from maxmargin.spaces.linear import LinearSpace
from maxmargin.spaces.pair import NOBODY


class Block:
    """Rows that can be learnt from in any order.

    Parameters
    ----------
    model : KernelModel
    ids : array of int
        Names of the rows, in any order.
    points : Points
        The rows.
    products, diagonal : arrays
        Kernel values between the rows, and of each row with itself as the space sees it.
    outputs, weights : arrays of shape (problems, rows)
        ``w.phi(x)`` and the coefficients of the rows, both over the scale; learning changes them.
    """

    def __init__(
        self,
        model: Any,
        ids: np.ndarray,
        points: Points,
        products: np.ndarray,
        diagonal: np.ndarray,
        outputs: np.ndarray,
        weights: np.ndarray,
    ) -> None:
        self.model, self.ids, self.weights = model, ids, weights
        self.entered_with = weights.copy()
        problems, size = weights.shape
        self.average = np.zeros((problems if model.average else 0, size))
        products = products.view()
        products.flags.writeable = False
        rounding = model.kernel.rounding(points)
        self.geometry = Gram(
            2.0, products, diagonal, model.shift, rounding, outputs, np.ones(problems)
        )
        linear = LinearSpace(self.geometry, size, weights, model.scalars, Averages(self.average))
        self.numbers = places(model.members, ids)
        self.space = model.space_over(linear, self.numbers)
        self.rows = UnitRows(size, Tail(model.tail.offset, 0.0))

    def learn(self, targets: Any, order: np.ndarray, rule: Any, notes: Notes) -> None:
        """Present the rows at the places ``order``; see `core.loop.learn`."""
        present(
            self.rows,
            targets,
            order.astype(np.int32, copy=False),
            rule,
            self.space,
            self.model.tally,
            notes,
            self.model.loop,
        )
        kept = self.numbers >= 0
        self.model.members[kept] = self.ids[self.numbers[kept]]

    def outputs(self) -> np.ndarray:
        return self.geometry.outputs

    def take_folded(self) -> np.ndarray:
        """Factors by which coefficients outside the block must be multiplied; asked for once."""
        factors = self.geometry.folded[:, None].copy()
        self.entered_with *= factors
        self.geometry.folded[:] = 1.0
        return factors

    def gains(self) -> np.ndarray:
        """What has been added to the coefficients since the block was entered."""
        return self.weights - self.entered_with


def places(members: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Where ``members`` are among ``ids``; whoever is not there is NOBODY."""
    if members.size == 0:
        return members.copy()
    found = members[:, :, None] == ids
    return np.where(found.any(axis=2) & (members >= 0), found.argmax(axis=2), NOBODY)
