"""Kernel learning in blocks of rows, and the rows of a fit.

Rows are learned in blocks, each small enough for its Gram matrix. One matrix product computes the
outputs of the block's rows; then the compiled loop runs through the block in order, and after each
step corrects the outputs of its other rows. The result is that of learning row by row, at the speed
of matrix products.

A fit keeps the outputs ``w.phi(x)`` of all training rows. After a block, these are corrected for
rows with changed coefficients, in batches of some hundred waiting rows. A block that is entered
before computes its own products with the waiting rows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.loop import learn, run_loop
from maxmargin.core.rows import Tail
from maxmargin.core.targets import of_rows
from maxmargin.core.trace import Trace
from maxmargin.kernels.functions import Kernel, finite_diagonal
from maxmargin.kernels.points import Points
from maxmargin.kernels.products import Products
from maxmargin.spaces.gram import Averages, Gram, UnitRows
from maxmargin.spaces.linear_space import LinearSpace
from maxmargin.spaces.pair_space import NOBODY
from maxmargin.spaces.problem_scalars import Scalars


class KernelSpace(NamedTuple):
    """The space of blocks and fits; learning changes scalars, tally, past and members.

    Attributes
    ----------
    products : computes the values of the kernel
    tail : the square of its offset is added to all kernel values, and that of its private
        coordinate to those of a row with itself
    past : see `spaces.certificate_vectors.PAST`; empty without averaging
    members : the ids of the other rows that steps move along, of shape (problems, 2) or (0, 2)
    over : makes the space of the loop from linear coefficients and the places of the members
    """

    kernel: Kernel
    products: Products
    tail: Tail
    scalars: Scalars
    tally: np.recarray
    past: np.recarray
    members: np.ndarray
    over: Callable[[LinearSpace, np.ndarray], Any]
    loop: Any = learn

    def problems(self) -> int:
        return self.scalars.table.size

    def shift(self) -> float:
        """Added to all kernel values."""
        return self.tail.offset**2

    def ridges(self, points: Points) -> Any:
        """Added to the kernel value of each row with itself; a number if it is the same for all."""
        ridge = self.tail.private**2
        return ridge if points.sample_weight is None else ridge / points.sample_weight

    def gram(self, some: Points, others: Points) -> np.ndarray:
        return self.products.gram(self.kernel, some, others)

    def weighted_sums(self, weights: np.ndarray, supports: Points, points: Points) -> np.ndarray:
        return self.products.weighted_sums(self.kernel, weights, supports, points, self.shift())

    def begin_sums(self, weights: np.ndarray, supports: Points, points: Points) -> Any:
        return self.products.begin_sums(self.kernel, weights, supports, points, self.shift())

    def diagonal(self, points: Points) -> np.ndarray:
        """``|phi(x)|**2`` of each row."""
        return finite_diagonal(self.kernel, points) + self.shift() + self.ridges(points)


class RowBlock:
    """Rows that can be learned in any order.

    Parameters
    ----------
    ids : identifiers of the rows
    values : kernel values between the rows
    rounding : their precision, relative to the largest
    diagonal : ``|phi(x)|**2`` of each row
    outputs, weights : ``w.phi(x)`` and coefficients over the scale, of shape (problems, rows);
        learning changes them
    """

    def __init__(
        self,
        space: KernelSpace,
        ids: np.ndarray,
        values: np.ndarray,
        rounding: float,
        diagonal: np.ndarray,
        outputs: np.ndarray,
        weights: np.ndarray,
    ) -> None:
        self.space, self.ids, self.weights = space, ids, weights
        self.entered_with = weights.copy()
        problems, size = weights.shape
        self.average, self.closed = np.zeros((space.past.size, size)), np.zeros(space.past.size)
        scalars = diagonal, space.shift(), rounding
        values = values.view()
        values.flags.writeable = False
        self.geometry = Gram(2.0, values, *scalars, outputs, np.ones(problems))
        averages = Averages(self.average, space.past, self.geometry.folded, self.closed)
        linear = LinearSpace(self.geometry, size, weights, space.scalars, averages)
        self.places = places(space.members, ids)
        self.loop_space = space.over(linear, self.places)

    def learn(self, targets: Any, order: np.ndarray, rule: Any, trace: Trace) -> None:
        """Learn from the rows at the places ``order``; see `core.loop.learn`."""
        rows = UnitRows(self.ids.size, Tail(self.space.tail.offset, 0.0))
        order = order.astype(np.int32, copy=False)
        tally, loop = self.space.tally, self.space.loop
        run_loop(rows, targets, order, rule, self.loop_space, tally, trace, loop)
        kept = self.places >= 0
        self.space.members[kept] = self.ids[self.places[kept]]

    def outputs(self) -> np.ndarray:
        return self.geometry.outputs

    def take_folded(self) -> np.ndarray:
        """Return, and reset, the factors by which coefficients outside the block have to change."""
        factors = self.geometry.folded[:, None].copy()
        self.entered_with *= factors
        self.geometry.folded[:] = 1.0
        return factors

    def take_closed(self, coefs: np.ndarray) -> np.ndarray:
        """Return, and reset, what to subtract from the averages of rows outside the block.

        ``coefs`` are the coefficients of all rows before `take_folded`.
        """
        closed = self.closed[:, None] * coefs[: self.closed.size]
        closed[:, self.ids[self.ids < closed.shape[1]]] = 0.0
        self.closed[:] = 0.0
        return closed

    def gains(self) -> np.ndarray:
        """The change of the coefficients since the block was entered."""
        return self.weights - self.entered_with


def sorted_without_doubles(ids: np.ndarray) -> np.ndarray:
    """`numpy.unique`, but faster if there are no duplicates."""
    ids = np.sort(ids)
    return ids if (ids[1:] > ids[:-1]).all() else np.unique(ids)


def places(members: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """The places of ``members`` in ``ids``; NOBODY for the others."""
    if members.size == 0:
        return members.copy()
    found = members[:, :, None] == ids
    return np.where(found.any(axis=2) & (members >= 0), found.argmax(axis=2), NOBODY)


class KernelFit:
    """The rows of a fit, with coefficients and outputs of shape (problems, rows).

    Coefficients, outputs and ``marks``, the coefficients at the last two snapshots, are over the
    scale. ``labels`` are those of the last call of `learn_from`.
    """

    def __init__(self, space: KernelSpace, points: Points, cache_bytes: float) -> None:
        self.space, self.points = space, space.products.kept(space.kernel, points, cache_bytes)
        size, problems = points.size(), space.problems()
        self.diagonal = space.diagonal(points)
        self.rounding = space.kernel.rounding(self.points)
        self.labels = np.zeros(size, dtype=np.int32)
        self.coefs = np.zeros((problems, size))
        self.marks = np.zeros((2, problems, size))
        self.averages = np.zeros((space.past.size, size))
        self.outputs = space.products.here(np.zeros((problems, size)))
        self.waiting = np.empty(0, dtype=np.int64)
        self.gains = np.empty((problems, 0))
        self.is_whole = size <= space.kernel.most_rows(cache_bytes)
        self.largest_block = space.kernel.most_rows(cache_bytes)
        self.block: RowBlock | None = None

    def over(self, space: KernelSpace) -> KernelFit:
        """An independent fit of the same rows, for the space of another model."""
        self.leave()
        other = copy.copy(self)
        other.space = space
        for name in ("coefs", "marks", "averages", "outputs", "waiting", "gains"):
            setattr(other, name, getattr(self, name).copy())
        return other

    def resume(
        self,
        supports: Points,
        numbers: np.ndarray,
        coefs: np.ndarray,
        marks: np.ndarray,
        averages: np.ndarray,
    ) -> None:
        """Resume from supports, which must be the rows with these numbers."""
        if numbers[-1] >= self.points.size() or not self.points.take(numbers).same_as(supports):
            raise ValueError("warm_start with a kernel needs the rows of the last fit.")
        self.coefs[:, numbers] = coefs
        self.marks[:, :, numbers] = marks
        self.averages[:, numbers] = averages
        self.waiting, self.gains = numbers, coefs
        kept = self.space.members >= 0
        self.space.members[kept] = numbers[self.space.members[kept]]
        self.settle()

    def learn_from(self, targets: Any, order: np.ndarray, rule: Any, trace: Trace) -> None:
        size, self.labels = self.points.size(), targets.labels
        ids = np.arange(size) if self.is_whole else sorted_without_doubles(order)
        if self.is_whole or ids.size <= min(self.largest_block, size // 2):
            if self.block is None or not np.isin(ids, self.block.ids, assume_unique=True).all():
                self.leave()
                self.block = self.enter(ids)
            self._learn(self.block, targets, order, rule, trace)
            return
        self.leave()
        step = self.space.products.block
        for start in range(0, order.size, step):
            part = order[start : start + step]
            self.block = self.enter(sorted_without_doubles(part))
            self._learn(self.block, targets, part, rule, trace)
            self.leave()

    def _learn(
        self, block: RowBlock, targets: Any, order: np.ndarray, rule: Any, trace: Trace
    ) -> None:
        here = np.searchsorted(block.ids, order)
        stamp = trace.stamp
        touched = np.zeros(block.ids.size if stamp else 0, dtype=np.int32)
        block.learn(of_rows(targets, block.ids), here, rule, trace._replace(touched=touched))
        trace.touched[block.ids[np.flatnonzero(touched)]] = stamp

    def enter(self, ids: np.ndarray) -> RowBlock:
        """The block of the rows ``ids`` and the members."""
        members = self.space.members
        if members.size:
            ids = np.union1d(ids, members[members >= 0])
        products = self.space.products
        outputs = self.outputs[:, products.index(ids)]
        if self.waiting.size:
            outputs += self._effect(self.waiting, self.gains, ids)
        # Indexing columns gives an array that is not C-contiguous.
        outputs = np.ascontiguousarray(products.host(outputs))
        coefs = self.coefs[:, ids].copy()
        some = self.points.take(ids)
        values = self.space.gram(some, some)
        return RowBlock(self.space, ids, values, self.rounding, self.diagonal[ids], outputs, coefs)

    def take_over_coefficients(self) -> None:
        """Update the coefficients without leaving the block."""
        if self.block is not None:
            self.averages -= self.block.take_closed(self.coefs)
            factors = self.block.take_folded()
            if (factors != 1.0).any():
                self.outputs *= self.space.products.here(factors)
                for array in (self.coefs, self.marks, self.gains):
                    array *= factors
            self.coefs[:, self.block.ids] = self.block.weights

    def take_snapshot(self) -> None:
        self.take_over_coefficients()
        self.marks = np.stack([self.marks[1], self.coefs])

    def leave(self) -> None:
        """Take over the results of the block, if there is one."""
        self.take_over_coefficients()
        block, self.block = self.block, None
        if block is None:
            return
        self.averages[:, block.ids] += block.average
        if self._is_whole(block):
            self.outputs = self.space.products.here(block.outputs())
            return
        gains = block.gains()
        changed = gains.any(axis=0)
        self.waiting = np.append(self.waiting, block.ids[changed])
        self.gains = np.concatenate([self.gains, gains[:, changed]], axis=1)
        if self.waiting.size >= self.space.products.most_waiting:
            self.settle()

    def _is_whole(self, block: RowBlock) -> bool:
        return block.ids.size == self.points.size()

    def settle(self) -> None:
        """Correct all outputs for the waiting rows."""
        if self.waiting.size == 0:
            return
        outputs = self.outputs.copy()  # atomic, if a kernel fails or Ctrl-C comes
        size, step = self.points.size(), self.space.products.chunk
        for start in range(0, size, step):
            part = slice(start, min(start + step, size))
            ids = np.arange(part.start, part.stop)
            outputs[:, part] += self._effect(self.waiting, self.gains, ids)
        self.outputs, self.waiting, self.gains = outputs, self.waiting[:0], self.gains[:, :0]

    def _effect(self, changed: np.ndarray, gains: np.ndarray, ids: np.ndarray) -> Any:
        """The corrections of the outputs of the sorted rows ``ids`` for changed rows."""
        space, shift = self.space, self.space.shift()
        places = np.minimum(np.searchsorted(ids, changed), ids.size - 1)
        at = np.flatnonzero(ids[places] == changed)
        same = at, places[at]
        given = self.points.take(changed), self.points.take(ids), shift, same
        effect, values = space.products.effects(space.kernel, gains, *given)
        # The product of a row with itself is exact and includes the soft margin.
        correction = self.diagonal[changed[at]] - shift - values
        space.products.add_at(effect, places[at], gains[:, at] * correction)
        return effect

    def finish(self) -> None:
        """Bring the outputs up to date; a block of all rows stays, for its Gram matrix."""
        if self.block is None or not self._is_whole(self.block):
            self.leave()
            self.settle()
            return
        self.take_over_coefficients()
        self.averages += self.block.average
        self.block.average[:] = 0.0
        outputs = self.block.outputs().copy()  # the block changes them later
        self.outputs = self.space.products.here(outputs)
