"""A model in a kernel's space: supporting rows, and their coefficients.

Rows are learnt from in blocks. What the weights say about a block's rows is computed by one matrix
product; then the compiled loop runs through the block strictly in order, and after each step
corrects the outputs of the block's other rows by its own Gram matrix. So the result is that of one
row at a time, at the speed of matrix products.

In `fit` the outputs for all training rows are kept, see `kerneltraining`. Memory: the supporting
rows; in `fit` two numbers per row and problem; a block's Gram matrix, at most `cache_size`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin.certificates import hull_mixture
from maxmargin.core.loop import NO_NOTES, Notes, join_tallies, learn, new_tally
from maxmargin.core.rows import Tail
from maxmargin.expansions import CHUNK, outputs_of, squares_of
from maxmargin.kernelblock import Block
from maxmargin.kernels import Kernel, Points, Precomputed, finite_diagonal
from maxmargin.kerneltraining import BLOCK, Training
from maxmargin.spaces.linear import LinearSpace, new_scalars
from maxmargin.spaces.witness import RELATIVE_SLACK


class KernelModel:
    """Weight vectors ``w = sum_k a_k phi(x_k)`` of one or more problems.

    Parameters
    ----------
    problems, width : int
        Number of weight vectors and of features.
    tail : Tail
        The square of its offset is added to all kernel values, and that of its private coordinate
        to those of a row with itself.
    kernel : Kernel or Precomputed
    cache_size : float
        Largest Gram matrix to keep, in MB.
    average : bool
        Predict by the mean of the weights over all trials?
    smallest : float
        Supports whose coefficients are all smaller are dropped.
    """

    p = 2.0
    loop = staticmethod(learn)

    def __init__(
        self,
        problems: int,
        width: int,
        tail: Tail,
        kernel: Kernel | Precomputed,
        cache_size: float,
        average: bool = False,
        smallest: float = 0.0,
    ) -> None:
        self.tail, self.kernel, self.average, self.smallest = tail, kernel, average, smallest
        self.shift, self.ridge = tail.offset**2, tail.private**2
        self.cache_bytes = 1e6 * cache_size
        self._width = width
        self.tally = new_tally()
        self.scalars = new_scalars(problems)
        self.scalars.next_mark = np.iinfo(np.int64).max  # no snapshots: coefficients tell all
        # Rows that steps go along beside the present one, by their ids (see `PairKernelModel`).
        self.members = np.empty((0, 2), dtype=np.int64)
        self.next_mark = 1
        self.training: Training | None = None
        self._bounds: np.ndarray | None = None
        self._begin_without_supports()

    def _begin_without_supports(self) -> None:
        problems = self.problems()
        self.supports: Points | None = None
        self.numbers = np.empty(0, dtype=np.int64)
        self.labels = np.empty(0, dtype=np.int32)
        self.diagonal = np.empty(0)
        self.coefs = np.empty((problems, 0))
        self.marks = np.empty((2, problems, 0))  # coefficients at the last two snapshots
        self.averages = np.empty((problems if self.average else 0, 0))

    def space_over(self, linear: LinearSpace, numbers: np.ndarray) -> Any:
        """The space that the loop runs on, given the places of the members."""
        return linear

    # ------------------------------------------------------------------------------------ learning
    def problems(self) -> int:
        return self.scalars.size

    def verdicts(self) -> int:
        """Number of margins and bounds."""
        return self.problems()

    def width(self) -> int:
        return self._width

    def rows(self, X: Any) -> Points:
        return self.kernel.points(X)

    def begin_fit(self, rows: Points) -> None:
        """From here on all rows are among these; those that are supports already stay so."""
        self.training = Training(self, rows)
        if self.numbers.size:
            self.training.resume()

    def largest_margin(self, radius: float) -> float:
        """No margin can be larger."""
        assert self.training is not None
        return float(np.sqrt(max(self.training.diagonal.max() - self.shift, 0.0)))

    def end(self) -> None:
        """Keep the supporting rows, and let go of the others."""
        if self.training is None:
            return
        self.training.leave()
        if isinstance(self.kernel, Precomputed):
            self.bounds()  # as long as the matrix is there
        training, self.training = self.training, None
        self.kernel.forget()
        used = training.coefs.any(axis=0) | training.averages.any(axis=0)
        kept = self.members >= 0
        self.numbers = np.union1d(np.flatnonzero(used), self.members[kept])
        self.members[kept] = np.searchsorted(self.numbers, self.members[kept])
        self.supports = training.points.take(self.numbers).bare()
        self.labels = training.labels[self.numbers]
        self.diagonal = training.diagonal[self.numbers]
        self.coefs = training.coefs[:, self.numbers]
        self.marks = training.marks[:, :, self.numbers]
        self.averages = training.averages[:, self.numbers]
        self._drop_small()

    def begin_again(self) -> None:
        """Go on with a fit; what was proved about other rows means nothing."""
        self.scalars.bound = np.inf

    def grow(self, width: int, which: Sequence[int], numbers: np.ndarray) -> None:
        """Be a model for ``width`` features, in which problem c continues problem ``which[c]``.

        ``numbers`` are the new numbers of the classes. All rows from here on must be new ones.
        """
        assert isinstance(self.kernel, Kernel)
        self._width, self.kernel = width, self.kernel.with_width(width)
        self.scalars = self.scalars[which].copy().view(np.recarray)
        self._bounds = None
        self._grow_supports(width, which, numbers)

    def _grow_supports(self, width: int, which: Sequence[int], numbers: np.ndarray) -> None:
        if self.supports is not None:
            self.supports = self.supports.with_width(width)
        self.labels = numbers[self.labels].astype(self.labels.dtype)
        self.coefs, self.marks = self.coefs[which], self.marks[:, which]
        if self.average:
            self.averages = self.averages[which]

    def begin_stream(self) -> None:
        """All rows from here on are new ones."""
        if isinstance(self.kernel, Precomputed):
            raise ValueError("partial_fit cannot use kernel='precomputed': pass rows and a kernel.")

    def present(
        self, rows: Points, targets: Any, order: np.ndarray, rule: Any, notes: Notes = NO_NOTES
    ) -> None:
        """Let ``rule`` learn from the rows ``order``, in that order; see `core.loop.learn`."""
        self._bounds = None
        if self.training is not None:
            self.training.present(targets, order, rule, notes)
            if self._snapshot_is_due():
                self.training.take_snapshot()
            return
        before = self._copied_arrays() if order.size > BLOCK else {}
        rows = self._exact_enough(rows)
        try:
            for start in range(0, order.size, BLOCK):
                places = slice(start, start + BLOCK)
                here = notes._replace(journal=notes.journal[places])
                self._present_new(rows, targets, order[places], rule, here)
        except Exception:
            # Within a block, everything that can fail comes before the first change.
            vars(self).update(before)
            raise
        if self._snapshot_is_due():
            self.marks = np.stack([self.marks[1], self.coefs])

    def _exact_enough(self, rows: Points) -> Points:
        """The same rows; a stream may come to such for which float32 would not do."""
        before, self.kernel = self.kernel, self.kernel.exact_enough_for(rows)
        if self.kernel is before:
            return rows
        self._measure_supports()
        return self.kernel.points(rows.X)

    def _measure_supports(self) -> None:
        if self.supports is not None:
            self.supports = self.kernel.points(self.supports.X)

    def _snapshot_is_due(self) -> bool:
        """Whenever the number of updates has doubled, as in `spaces.linear`."""
        if self.updates() < self.next_mark:
            return False
        self.next_mark = 2 * self.updates()
        return True

    def _copied_arrays(self) -> dict[str, Any]:
        """The state; supporting rows are replaced, never changed."""
        return {
            name: value.copy() if isinstance(value, np.ndarray) else value
            for name, value in vars(self).items()
        }

    def _present_new(
        self, rows: Points, targets: Any, order: np.ndarray, rule: Any, notes: Notes
    ) -> None:
        """Learn from rows that have not been seen before, and keep those that brought an update."""
        learning = order >= 0
        order = np.where(learning, order, -1 - order)
        new, labels = rows.take(order), targets.labels[order]
        supports = self.supports if self.supports is not None else new.take(slice(0))
        slots = np.unique(self.members[self.members >= 0])
        points = supports.take(slots).followed_by(new)
        squares = finite_diagonal(self.kernel, points) + self.shift
        outputs = self._sums(self.coefs, supports, points)
        weights = np.zeros((self.problems(), points.size()))
        weights[:, : slots.size] = self.coefs[:, slots]
        first = self.numbers.size  # the slot of the first new row, if it is kept
        ids = np.concatenate([slots, first + np.arange(new.size())])
        products = self.kernel.between(points, points)
        block = Block(self, ids, points, products, squares + self.ridge, outputs, weights)
        trials = int(self.tally.trials[0])
        labels = np.concatenate([np.zeros(slots.size, labels.dtype), labels])
        labels.flags.writeable = False
        order = np.arange(slots.size, ids.size)
        order = np.where(learning, order, -1 - order)
        block.learn(targets._replace(labels=labels), order, rule, notes)

        factors = block.take_folded()
        self.coefs *= factors
        self.marks *= factors
        self.coefs[:, slots] = weights[:, : slots.size]
        self.averages[:, slots] += block.average[:, : slots.size]
        counts = weights.any(axis=0) | block.average.any(axis=0) | np.isin(ids, self.members)
        used = slots.size + np.flatnonzero(counts[slots.size :])
        later = self.members >= first
        self.members[later] = first + np.searchsorted(ids[used], self.members[later])
        number = np.cumsum(learning) - 1
        self.numbers = np.append(self.numbers, trials + number[used - slots.size])
        self.supports = supports.followed_by(points.take(used))
        self.labels = np.append(self.labels, labels[used])
        self.diagonal = np.append(self.diagonal, block.geometry.diagonal[used])
        self.coefs = np.concatenate([self.coefs, weights[:, used]], axis=1)
        self.marks = np.pad(self.marks, ((0, 0), (0, 0), (0, used.size)))
        self.averages = np.concatenate([self.averages, block.average[:, used]], axis=1)
        self._drop_small()

    def _drop_small(self) -> None:
        """Forget supports that count no more, or hardly."""
        assert self.supports is not None
        counts = (self.coefs != 0.0) & (np.abs(self.coefs * self.scales()) >= self.smallest)
        kept = counts.any(axis=0) | self.averages.any(axis=0)
        known = self.members >= 0
        kept[self.members[known]] = True
        if kept.all():
            return
        self.members[known] = np.searchsorted(np.flatnonzero(kept), self.members[known])
        self.numbers, self.labels = self.numbers[kept], self.labels[kept]
        self.diagonal, self.supports = self.diagonal[kept], self.supports.take(np.flatnonzero(kept))
        self.coefs, self.marks = self.coefs[:, kept], self.marks[:, :, kept]
        self.averages = self.averages[:, kept]

    def sum_up(self, coefs: np.ndarray, outputs: np.ndarray) -> None:
        """Compute the squared norms anew, given the outputs of all supports."""
        with np.errstate(over="ignore", invalid="ignore"):  # of weights that diverged
            self.scalars.norm2 = self.scalars.scale**2 * (coefs * outputs).sum(axis=1)
        self.scalars.slop = 0.0

    # ------------------------------------------------------------------------------ what was learnt
    def scales(self) -> np.ndarray:
        return self.scalars.scale[:, None]

    def weights(self) -> np.ndarray:
        """Coefficients to predict by, of the supports."""
        return self._averaged(self.coefs, self.averages)

    def _averaged(self, coefs: np.ndarray, averages: np.ndarray) -> np.ndarray:
        weights = coefs * self.scales()
        if self.average and self.tally.trials[0]:
            weights -= averages / self.tally.trials[0]
        return weights

    def intercepts(self) -> np.ndarray:
        return self.shift * self.weights().sum(axis=1) + self.free_intercepts()

    def free_intercepts(self) -> np.ndarray:
        """Intercepts that are not part of the kernel."""
        return np.zeros(self.problems())

    def support_rows(self) -> Any:
        """The supporting rows; none with a precomputed kernel."""
        if self.supports is None or isinstance(self.kernel, Precomputed):
            return np.empty((0, 0))
        return self.supports.X

    def outputs(self, X: Any) -> np.ndarray:
        """``w.phi(x) + b`` for each row and problem."""
        assert self.supports is not None
        outputs = np.empty((X.shape[0], self.problems()))
        for start in range(0, X.shape[0], CHUNK):
            part = slice(start, start + CHUNK)
            points = self.kernel.new_points(X[part])
            outputs[part] = self._sums(self.weights(), self.supports, points).T
        return outputs + self.free_intercepts()

    def _sums(self, weights: np.ndarray, supports: Points, points: Points) -> np.ndarray:
        return outputs_of(self.kernel, weights, supports, points, self.shift)

    def margins(self, rows: Points, targets: Any) -> np.ndarray:
        """The geometric margin on the training rows, for each problem."""
        assert self.training is not None
        self.training.labels = targets.labels
        weights, outputs = self._over_training_rows()
        lengths = np.sqrt(self._squared_lengths(weights, outputs))
        leads = self._leads(outputs + self.free_intercepts()[:, None], targets.labels)
        return np.divide(leads, lengths, out=np.zeros_like(leads), where=lengths > 0.0)

    def _over_training_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights and outputs to predict by, of all training rows."""
        training = self.training
        assert training is not None
        training.finish()
        if not self.average:
            return training.coefs * self.scales(), training.outputs * self.scales()
        weights = self._averaged(training.coefs, training.averages)
        used = np.flatnonzero(weights.any(axis=0))
        outputs = self._sums(weights[:, used], training.points.take(used), training.points)
        return weights, outputs + self.ridge * weights

    def _squared_lengths(self, weights: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Without the coordinate of the intercept."""
        squares = (weights * outputs).sum(axis=1) - self.shift * weights.sum(axis=1) ** 2
        return np.maximum(squares, 0.0)

    def _leads(self, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The smallest margin of a row, for each problem."""
        return np.where(self._is_own(labels), outputs, -outputs).min(axis=1)

    def _is_own(self, labels: np.ndarray) -> np.ndarray:
        """Which rows are positive ones, for each problem."""
        classes = np.arange(self.problems()) if self.problems() > 1 else np.ones(1)
        return labels == classes[:, None]

    def bounds(self) -> np.ndarray:
        """Upper bounds on the best margin of the rows seen, for each problem."""
        if self._bounds is None:
            proved = self._proved_bounds()
            self._bounds = np.minimum(self.scalars.bound[: proved.size], proved)
        return self._bounds

    def _proved_bounds(self) -> np.ndarray:
        """Bounds from all coefficients, and from those of at least the last half of the updates."""
        coefs, marks, points, diagonal, labels = self._used()
        return np.minimum(
            self._bounds_from(coefs, points, diagonal, labels),
            self._bounds_from(coefs - marks, points, diagonal, labels),
        )

    def _bounds_from(
        self, coefs: np.ndarray, points: Points, diagonal: np.ndarray, labels: np.ndarray
    ) -> np.ndarray:
        """See `spaces.witness`: the split bound with an intercept, the plain one without.

        Only coefficients with the sign of their rows count, so they may come from anywhere.
        """
        mixture, proved = hull_mixture(coefs, self._is_own(labels), self._has_intercept())
        squares = self._quadratic(mixture, points, diagonal)
        return np.where(proved, np.sqrt(squares) * (1.0 + RELATIVE_SLACK), np.inf)

    def _has_intercept(self) -> bool:
        return self.shift > 0.0

    def _used(self) -> tuple[np.ndarray, np.ndarray, Points, np.ndarray, np.ndarray]:
        """Coefficients now and at a snapshot, rows, squared norms and labels of the supports."""
        if self.training is None:
            assert self.supports is not None
            squares = self.diagonal - self.shift
            return self.coefs, self.marks[0], self.supports, squares, self.labels
        training = self.training
        training.take_over_coefficients()
        used = np.flatnonzero(training.coefs.any(axis=0))
        return (
            training.coefs[:, used],
            training.marks[0][:, used],
            training.points.take(used),
            training.diagonal[used] - self.shift,
            training.labels[used],
        )

    def _quadratic(self, weights: np.ndarray, points: Points, diagonal: np.ndarray) -> np.ndarray:
        return squares_of(self.kernel, weights, points, diagonal, self.ridge)

    # --------------------------------------------------------------- the margin with the intercept
    def lengths(self) -> np.ndarray:
        """``|w|`` for each problem, the intercept's share of the kernel included."""
        return np.sqrt(self.scalars.norm2)

    def directional_margin(self, rows: Points, targets: Any) -> float:
        """The margin of a single problem, relative to the length of all weights."""
        weights, outputs = self._over_training_rows()
        length = np.sqrt((weights * outputs).sum())
        return float(self._leads(outputs, targets.labels)[0] / length)

    def directional_bound(self) -> float:
        """``|w| / sum of the coefficients`` of a single problem."""
        mine = self.scalars[0]
        return float(np.sqrt(mine.norm2) / (mine.scale * (mine.positive + mine.negative)))

    def single(self) -> KernelModel:
        """A model of one problem like this one, at w = 0, for the same training rows."""
        assert self.training is not None
        model = KernelModel(1, self._width, self.tail, self.kernel, self.cache_bytes / 1e6)
        model.begin_fit(self.training.points)
        return model

    def limit(self, bound: float) -> None:
        """Take note of a proved bound on the margin of a single problem."""
        self.scalars.bound[0] = bound

    def join(self, singles: list[Any]) -> None:
        """Become one model of all the problems of ``singles``."""
        assert self.training is not None
        for single in singles:
            single.training.finish()
        self.scalars = np.concatenate([single.scalars for single in singles]).view(np.recarray)
        self.training.coefs = np.concatenate([single.training.coefs for single in singles])
        self.training.outputs = np.concatenate([single.training.outputs for single in singles])
        join_tallies(self.tally, singles)

    def coefficients(self) -> np.ndarray:
        raise AttributeError("coef_ is only there with kernel='linear'; see dual_coef_.")

    def updates(self) -> int:
        return int(self.scalars.updates.sum())

    def is_finite(self) -> bool:
        return bool(np.isfinite(self.scalars.norm2).all())

    def private_coordinates(self) -> int:
        return 0
