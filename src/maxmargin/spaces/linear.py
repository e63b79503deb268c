"""The plain Euclidean space: one weight vector per problem, under a lazy scale."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.bridge import Compiled, bridge
from maxmargin.spaces.euclid import Euclid
from maxmargin.spaces.pnorm import new_pnorm
from maxmargin.spaces.witness import LAWFUL, SINCE_MARK, Witness

# Above this many weights the vectors behind the certificate are not kept: the imbalance bound,
# which needs none, serves instead.
MOST_WITNESSED_WEIGHTS = 2**24

SCALARS = np.dtype(
    [
        ("scale", "f8"),  # w = scale * weights
        ("norm2", "f8"),  # w.w
        ("slop", "f8"),  # bound on the rounding error in norm2
        ("updates", "i8"),
        ("next_mark", "i8"),  # number of updates at which the next snapshot is due
        (
            "positive",
            "f8",
        ),  # mass of the positive and of the negative coefficients, divided by scale
        ("negative", "f8"),
        ("hidden_positive", "f8"),  # sums of squares in private coordinates that are not recorded,
        ("hidden_negative", "f8"),  # divided by scale**2
        ("mark_positive", "f8"),  # the same four at the last snapshot
        ("mark_negative", "f8"),
        ("mark_hidden_positive", "f8"),
        ("mark_hidden_negative", "f8"),
        ("bound", "f8"),  # the smallest upper bound so far
        ("lawful", "f8"),  # LAWFUL, SINCE_MARK or 0
    ],
    align=True,
)


class LinearSpace(NamedTuple):
    """Weights of one or more problems: ``w = scale * weights[c]``.

    Attributes
    ----------
    geometry : `Euclid`, `PNorm` (the weights are theta, and w is their dual) or `Gram` (the weights
        are coefficients of rows)
    width : number of features
    weights : array of shape (problems, features + 1 + private coordinates)
    scalars : record array of shape (problems,), see `SCALARS`
    witness : `Witness` or `Averages`
    """

    geometry: Any
    width: int
    weights: np.ndarray
    scalars: np.recarray
    witness: Any

    def problems(self):
        return self.scalars.size

    def updates(self, c):
        return self.scalars[c].updates

    def norm2(self, c):
        """``w.w``."""
        return self.scalars[c].norm2

    def look(self, rows, i, c):
        """``w.x``."""
        return self.scalars[c].scale * self.geometry.product(rows, i, self.weights, c)

    def square_of(self, rows, i):
        """The squared norm of row ``i``."""
        return self.geometry.square_of(rows, i)

    def square_bound(self, rows, i):
        """At least the squared norm of row ``i``; see `Euclid`."""
        return self.geometry.square_bound(rows, i)

    def aim(self, rows, i, c, y, f, xx):
        """The margin and the squared length of the vector that a step goes along: y * x itself."""
        return y * f, xx

    def decide(self, rule, seen, c):
        """The step of the rule."""
        return rule.step(seen)

    def move(self, rows, i, c, y, shrink, step, margin, xx, trial):
        """``w <- shrink * w + step * y * x``, given ``margin = y * w.x`` before and ``xx = x.x``.

        Like `rescale`, says whether `tend` should be called before the next trial.
        """
        due = shrink != 1.0 and self.rescale(c, shrink)
        mine = self.scalars[c]
        scaled_step = step / mine.scale
        self.geometry.push(rows, i, self.weights, c, y * scaled_step)
        self.witness.follow(rows, i, c, y, step, scaled_step, trial)
        hidden = rows.tail.hidden_square(i, self.weights, self.width)
        if hidden > 0.0:
            hidden *= scaled_step * scaled_step
        if y > 0.0:
            mine.positive += scaled_step
            mine.hidden_positive += hidden
        else:
            mine.negative += scaled_step
            mine.hidden_negative += hidden
        return self.book(c, step, shrink * margin, xx) or due

    def book(self, c, step, margin, xx):
        """Keep the scalars true after a step of length ``step`` along a vector.

        ``margin`` is the product of that vector with ``w`` as it was before the step, ``xx`` its
        squared length.
        """
        mine = self.scalars[c]
        if step < 0.0:
            mine.lawful = 0.0
        cross, square = 2.0 * step * margin, step * step * xx
        hidden = mine.hidden_positive + mine.hidden_negative
        mine.norm2, mine.slop = self.geometry.next_norm2(
            self.weights, c, mine.scale, mine.norm2, mine.slop, cross, square, hidden
        )
        mine.updates += 1
        return mine.updates == mine.next_mark

    def rescale(self, c, factor):
        """``w <- factor * w``, in constant time."""
        mine = self.scalars[c]
        if factor == 0.0:
            self.scale_vectors(c, 0.0)
            return False
        if factor < 0.0:
            mine.lawful = 0.0
        mine.scale *= factor
        mine.norm2 *= factor * factor
        mine.slop *= factor * factor
        return not self.geometry.holds(mine.scale)

    def scale_vectors(self, c, factor):
        """Set the lazy scale to 1 and multiply the vectors by ``factor`` (0 forgets everything)."""
        mine = self.scalars[c]
        for j in range(self.weights.shape[1]):
            self.weights[c, j] *= factor
        self.witness.scale(c, factor)
        mine.positive *= factor
        mine.negative *= factor
        mine.hidden_positive *= factor * factor
        mine.hidden_negative *= factor * factor
        mine.mark_positive *= factor
        mine.mark_negative *= factor
        mine.mark_hidden_positive *= factor * factor
        mine.mark_hidden_negative *= factor * factor
        self.geometry.fold(c, factor)
        mine.scale = 1.0
        mine.slop = 0.0
        hidden = mine.hidden_positive + mine.hidden_negative
        known = mine.norm2 if factor != 0.0 else 0.0
        mine.norm2 = self.geometry.sum_norm2(self.weights, c, 1.0, hidden, known)

    def tend(self, c, rr, offset):
        """Fold the scale where it is about to run out; take a snapshot when one is due."""
        mine = self.scalars[c]
        if not self.geometry.holds(mine.scale):
            self.scale_vectors(c, mine.scale)
        if mine.updates >= mine.next_mark:
            mine.bound = self.bound(c, rr, offset)
            mine.mark_positive = mine.positive
            mine.mark_negative = mine.negative
            mine.mark_hidden_positive = mine.hidden_positive
            mine.mark_hidden_negative = mine.hidden_negative
            self.witness.snapshot(self.weights, c)
            mine.next_mark = 2 * mine.updates  # doubling: the cost vanishes in the mean

    def bound(self, c, rr, offset):
        """Upper bound on the best geometric margin of the rows seen, in the user's own space.

        ``rr`` is the largest ``x.x`` of the rows, which includes ``offset`` squared.
        """
        return self.witness.upper_bound(self, c, rr, offset)


bridge("updates", "norm2", "look", "aim", "move", "book", "rescale", "scale_vectors")
bridge("tend", "bound", inline=False)


def new_linear_space(
    problems: int,
    width: int,
    *,
    p: float = 2.0,
    private: int = 0,
    split: bool = False,
    average: bool = False,
) -> LinearSpace:
    """A space at w = 0 for rows of ``width`` features, ``private`` of them with own coordinates."""
    size = width + 1 + private

    def vectors(kept: bool) -> np.ndarray:
        return aligned_zeros(problems if kept else 0, size)

    scalars = new_scalars(problems)
    witnessed = problems * size <= MOST_WITNESSED_WEIGHTS
    witness = Witness(
        share=vectors(witnessed and split),
        mark=vectors(witnessed),
        mark_share=vectors(witnessed and split),
        average=vectors(average),
        split=split,
    )
    geometry = Euclid(2.0, width) if p == 2.0 else new_pnorm(p, problems, size)
    return LinearSpace(geometry, width, vectors(True), scalars, witness)


def new_scalars(problems: int) -> np.recarray:
    """Scalars at w = 0."""
    scalars = np.zeros(problems, SCALARS).view(np.recarray)
    scalars.scale = 1.0
    scalars.lawful = LAWFUL
    scalars.bound = np.inf
    scalars.next_mark = 1
    return scalars


def aligned_zeros(rows: int, columns: int) -> np.ndarray:
    """Zeros that start at a cache line, so that vector loads do not straddle two."""
    room = np.zeros(rows * columns + 8)
    first = -room.ctypes.data % 64 // 8
    return room[first : first + rows * columns].reshape(rows, columns)


def forget_bounds(space: LinearSpace) -> None:
    """Count only coefficients to come: the rows behind the old ones are gone."""
    for c in range(space.problems()):
        space.witness.snapshot(space.weights, c)
    _mark_scalars(space.scalars)
    space.scalars.bound = np.inf
    space.scalars.lawful = np.minimum(space.scalars.lawful, SINCE_MARK)


def _mark_scalars(scalars: np.recarray) -> None:
    for name in ("positive", "negative", "hidden_positive", "hidden_negative"):
        scalars[f"mark_{name}"] = scalars[name]


def without_private_coordinates(space: LinearSpace) -> LinearSpace:
    """The same weights, ready for rows that are all new: what was private is summed up."""
    private = space.weights[:, space.width + 1 :]
    space.scalars.hidden_positive += (np.maximum(private, 0.0) ** 2).sum(axis=1)
    space.scalars.hidden_negative += (np.minimum(private, 0.0) ** 2).sum(axis=1)
    kept = slice(0, space.width + 1)

    def cut(array: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(array[:, kept])

    witness = space.witness._replace(
        share=cut(space.witness.share),
        mark=cut(space.weights[: space.witness.mark.shape[0]]),
        mark_share=cut(space.witness.share),
        average=cut(space.witness.average),
    )
    # A sum of squares cannot be split at the last snapshot any more: take a new one.
    _mark_scalars(space.scalars)
    return space._replace(weights=cut(space.weights), witness=witness)


@Compiled
def bounds(space, rr, offset, lowest):  # type: ignore[no-untyped-def]
    """Put `LinearSpace.bound` of each problem into ``lowest``."""
    for c in range(lowest.size):
        lowest[c] = space.bound(c, rr, offset)
