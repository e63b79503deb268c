"""Many passes over the same rows in a kernel's space.

The outputs ``w.phi(x)`` of all training rows are kept. After a block, the rows whose coefficients
have changed wait until there are some hundred of them, and are then multiplied with all rows at
once. Until then, a block that is entered asks for its own products with those that wait.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from maxmargin.core.loop import Notes
from maxmargin.expansions import CHUNK
from maxmargin.kernelblock import Block
from maxmargin.kernels import Points, finite_diagonal
from maxmargin.spaces.gram import add_weighted

# Rows that are learnt from in one go where the Gram matrix of all that are due is too large.
BLOCK = 256
# Changed rows are multiplied with all training rows when there are so many of them.
MOST_WAITING = 512


class Training:
    """The rows of a fit, with their coefficients and outputs.

    Attributes
    ----------
    coefs, averages, outputs : arrays of shape (problems, rows)
        Coefficients, sums behind the averages, and outputs; all but the averages over the scale.
    marks : array of shape (2, problems, rows)
        The coefficients at the last two snapshots.
    """

    def __init__(self, model: Any, points: Points) -> None:
        self.model, self.points = model, model.kernel.kept(points, model.cache_bytes)
        size, problems = points.size(), model.problems()
        self.diagonal = finite_diagonal(model.kernel, points) + model.shift + model.ridge
        self.labels = np.zeros(size, dtype=np.int32)
        self.coefs = np.zeros((problems, size))
        self.marks = np.zeros((2, problems, size))
        self.averages = np.zeros((problems if model.average else 0, size))
        self.outputs = np.zeros((problems, size))
        self.waiting = np.empty(0, dtype=np.int64)
        self.gains = np.empty((problems, 0))
        self.largest_block = model.kernel.most_rows(model.cache_bytes)
        self.block: Block | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Training:
        """A training of its own over the same rows, which nobody changes."""
        self.leave()
        twin = copy.copy(self)
        twin.model = copy.deepcopy(self.model, memo)
        for name in ("coefs", "marks", "averages", "outputs", "waiting", "gains"):
            setattr(twin, name, getattr(self, name).copy())
        return twin

    def resume(self) -> None:
        """Go on from the supports that the model has, which must be among the rows."""
        model = self.model
        known = model.numbers[-1] < self.points.size()
        if not known or not self.points.take(model.numbers).same_as(model.supports):
            raise ValueError("warm_start with a kernel needs the rows of the last fit.")
        self.coefs[:, model.numbers] = model.coefs
        self.marks[:, :, model.numbers] = model.marks
        self.averages[:, model.numbers] = model.averages
        self.waiting, self.gains = model.numbers, model.coefs
        kept = model.members >= 0
        model.members[kept] = model.numbers[model.members[kept]]
        self.settle()

    def present(self, targets: Any, order: np.ndarray, rule: Any, notes: Notes) -> None:
        size, self.labels = self.points.size(), targets.labels
        due = np.arange(size) if size <= self.largest_block else np.unique(order)
        if size <= self.largest_block or due.size <= min(self.largest_block, size // 2):
            if self.block is None or not np.isin(due, self.block.ids, assume_unique=True).all():
                self.leave()
                self.block = self.enter(due)
            self._learn(self.block, targets, order, rule, notes)
            return
        self.leave()
        for start in range(0, order.size, BLOCK):
            part = order[start : start + BLOCK]
            self.block = self.enter(np.unique(part))
            self._learn(self.block, targets, part, rule, notes)
            self.leave()

    def _learn(
        self, block: Block, targets: Any, order: np.ndarray, rule: Any, notes: Notes
    ) -> None:
        labels = targets.labels[block.ids]
        labels.flags.writeable = False
        here = np.searchsorted(block.ids, order)
        stamp = notes.stamp
        touched = np.zeros(block.ids.size if stamp else 0, dtype=np.int32)
        block.learn(targets._replace(labels=labels), here, rule, notes._replace(touched=touched))
        notes.touched[block.ids[np.flatnonzero(touched)]] = stamp

    def enter(self, ids: np.ndarray) -> Block:
        """The block of the rows ``ids``, and of those that the model needs beside them."""
        members = self.model.members
        ids = np.union1d(ids, members[members >= 0])
        kernel, rows = self.model.kernel, self.points.take(ids)
        outputs = self.outputs[:, ids]
        if self.waiting.size:
            values = kernel.between(self.points.take(self.waiting), rows)
            outputs += self._effect(values, ids)
        products = kernel.between(rows, rows)
        return Block(
            self.model, ids, rows, products, self.diagonal[ids], outputs, self.coefs[:, ids].copy()
        )

    def take_over_coefficients(self) -> None:
        """Bring the coefficients up to date, without leaving the block."""
        if self.block is not None:
            factors = self.block.take_folded()
            for array in (self.coefs, self.marks, self.outputs, self.gains):
                array *= factors
            self.coefs[:, self.block.ids] = self.block.weights

    def take_snapshot(self) -> None:
        self.take_over_coefficients()
        self.marks = np.stack([self.marks[1], self.coefs])

    def leave(self) -> None:
        """Take over what has been learnt in the block, if there is one."""
        self.take_over_coefficients()
        block, self.block = self.block, None
        if block is None:
            return
        self.averages[:, block.ids] += block.average
        if block.ids.size == self.points.size():
            self.outputs = block.outputs()
            return
        gains = block.gains()
        changed = gains.any(axis=0)
        self.waiting = np.append(self.waiting, block.ids[changed])
        self.gains = np.concatenate([self.gains, gains[:, changed]], axis=1)
        if self.waiting.size >= MOST_WAITING:
            self.settle()

    def settle(self) -> None:
        """Let the changed rows act on all others."""
        if self.waiting.size == 0:
            return
        changed, size = self.points.take(self.waiting), self.points.size()
        outputs = self.outputs.copy()  # all or nothing, if a kernel fails or Ctrl-C comes
        for start in range(0, size, CHUNK):
            part = np.arange(start, min(start + CHUNK, size))
            some = self.points.take(slice(start, part[-1] + 1))
            outputs[:, part] += self._effect(self.model.kernel.between(changed, some), part)
        self.outputs, self.waiting, self.gains = outputs, self.waiting[:0], self.gains[:, :0]

    def _effect(self, values: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """What the waiting rows add to the outputs of ``ids``, sorted, given the kernel values."""
        effect = np.zeros((self.gains.shape[0], ids.size))
        add_weighted(self.gains, values, self.model.shift, effect)
        # With itself a row has an exact product, which includes the soft margin.
        places = np.minimum(np.searchsorted(ids, self.waiting), ids.size - 1)
        at = np.flatnonzero(ids[places] == self.waiting)
        own = self.diagonal[self.waiting[at]] - self.model.shift - values[at, places[at]]
        np.add.at(effect.T, places[at], (self.gains[:, at] * own).T)
        return effect

    def finish(self) -> None:
        """Outputs and norms of all rows, as they are now."""
        self.leave()
        self.settle()
        self.model.sum_up(self.coefs, self.outputs)
