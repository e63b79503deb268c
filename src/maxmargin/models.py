"""What a learner knows, and how it is shown rows: a space, its counts, and the rows' tail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.extmath import safe_sparse_dot

from maxmargin import examples
from maxmargin.certificates import geometric_margins
from maxmargin.core.loop import (
    NO_NOTES,
    Notes,
    join_tallies,
    learn,
    learn_jointly,
    lowest_lead,
    lowest_outputs,
    new_tally,
    present,
)
from maxmargin.core.rows import Tail
from maxmargin.spaces.euclid import ROUNDING
from maxmargin.spaces.growth import grown_linear, grown_pair
from maxmargin.spaces.joint import (
    JointWitness,
    joint_bound,
    new_joint_space,
    without_private_blocks,
)
from maxmargin.spaces.linear import (
    bounds,
    forget_bounds,
    new_linear_space,
    without_private_coordinates,
)
from maxmargin.spaces.pair import ELSEWHERE, new_pair_space, without_private_members
from maxmargin.spaces.pnorm import exponent_for


class LinearModel:
    """Weights whose intercept, if any, is the weight of one more coordinate.

    Parameters
    ----------
    problems, width : int
        Number of weight vectors and of features.
    private : int
        Number of rows with a private coordinate that is recorded (0: none).
    tail : Tail
        The coordinates of each row behind its features.
    p : float or "log"
        The norm in which rows are measured.
    average : bool
        Keep the mean of the weights over all trials, and predict by it?
    """

    loop = staticmethod(learn)

    def __init__(
        self,
        problems: int,
        width: int,
        private: int,
        tail: Tail,
        p: float | str = 2.0,
        average: bool = False,
    ) -> None:
        self.p = exponent_for(p, width)
        self.tail = tail
        self.average = average
        self.tally = new_tally()
        self.linear = new_linear_space(
            problems, width, p=self.p, private=private, split=tail.offset > 0.0, average=average
        )

    @property
    def space(self) -> Any:
        return self.linear

    def rows(self, X: Any) -> examples.Rows:
        """The rows of ``X``, as the space sees them."""
        return examples.as_rows(X, self.tail)

    def problems(self) -> int:
        return self.linear.weights.shape[0]

    def verdicts(self) -> int:
        """Number of margins and bounds."""
        return self.problems()

    def width(self) -> int:
        """Number of features."""
        return self.linear.width

    def begin(self) -> None:
        """Rows are numbered anew from here on."""

    def begin_fit(self, rows: Any) -> None:
        """From here on all rows are among these."""

    def largest_margin(self, radius: float) -> float:
        """No margin can be larger, if both classes have rows within ``radius`` of the origin."""
        return float(np.hypot(radius, self.tail.private))

    def begin_again(self) -> None:
        """Go on with other rows, for which bounds from earlier ones mean nothing."""
        forget_bounds(self.linear)
        self.begin()

    def begin_stream(self) -> None:
        """All rows from here on are new ones."""
        if self.p != 2.0 and self.tail.private > 0.0:
            raise ValueError(
                f"partial_fit cannot keep a soft margin with p={self.p}; use fit, or p=2."
            )
        if self.private_coordinates():
            self._drop_private_coordinates()
        self.begin()

    def _drop_private_coordinates(self) -> None:
        self.linear = without_private_coordinates(self.linear)

    def present(
        self, rows: Any, targets: Any, order: np.ndarray, rule: Any, notes: Notes = NO_NOTES
    ) -> None:
        """Let ``rule`` learn from the rows ``order``, in that order; see `core.loop.learn`."""
        present(rows, targets, order, rule, self.space, self.tally, notes, self.loop)

    def end(self) -> None:
        """The passes of a fit are over: let go of all that only they needed."""

    def grow(self, width: int, which: Sequence[int], numbers: np.ndarray) -> None:
        """Be a model for ``width`` features, in which problem c continues problem ``which[c]``.

        ``numbers`` are the new numbers of the classes. All rows from here on must be new ones.
        """
        self.linear = grown_linear(self.linear, width, which)

    # ------------------------------------------------------------------------------ what was learnt
    def weights(self) -> np.ndarray:
        """Weights to predict by: of the features, the intercept's coordinate, the private ones."""
        dual = self.linear.geometry.dual(self.linear.weights)
        weights = dual * self.linear.scalars.scale[:, None]
        if self.average and self.tally.trials[0]:
            weights -= self.linear.witness.average / self.tally.trials[0]
        return weights

    def coefficients(self) -> np.ndarray:
        return self.weights()[:, : self.linear.width]

    def intercepts(self) -> np.ndarray:
        return self.tail.offset * self.weights()[:, self.linear.width]

    def free_intercepts(self) -> np.ndarray:
        """Intercepts that are not the weight of a coordinate."""
        return np.zeros(self.linear.scalars.size)

    def margins(self, rows: Any, targets: Any) -> np.ndarray:
        """The geometric margin on the rows, for each problem."""
        weights = self.weights()
        lowest = np.empty(weights.shape[0])
        lowest_outputs(rows, targets, weights, self.free_intercepts(), lowest)
        return geometric_margins(lowest, weights, self.linear.width, self.p)

    def bounds(self) -> np.ndarray:
        """Upper bounds on the best margin of the rows seen, for each problem."""
        lowest = np.empty(self.linear.scalars.size)
        bounds(self.space, self.tally.rr[0], self.tail.offset, lowest)
        return lowest

    def outputs(self, X: Any) -> np.ndarray:
        """``w.x + b`` for each row and problem."""
        return safe_sparse_dot(X, self.coefficients().T, dense_output=True) + self.intercepts()

    # --------------------------------------------------------------- the margin with the intercept
    def lengths(self) -> np.ndarray:
        """``|w|`` for each problem, the coordinate of the intercept included."""
        return np.sqrt(self.linear.scalars.norm2)

    def directional_margin(self, rows: Any, targets: Any) -> float:
        """The margin of a single problem, relative to the length of all weights."""
        weights, lowest = self.weights(), np.empty(1)
        lowest_outputs(rows, targets, weights, self.free_intercepts(), lowest)
        return float(lowest[0] / np.linalg.norm(weights))

    def directional_bound(self) -> float:
        """``|w| / sum of the coefficients``: of all, and of those since the last snapshot."""
        scalars, witness = self.linear.scalars[0], self.linear.witness
        mass = scalars.positive + scalars.negative
        recent = mass - scalars.mark_positive - scalars.mark_negative
        bound = np.linalg.norm(self.linear.weights[0]) / mass
        if recent > 0.0 and witness.mark.shape[0]:
            bound = min(bound, np.linalg.norm(self.linear.weights[0] - witness.mark[0]) / recent)
        return float(bound)

    def single(self) -> LinearModel:
        """A model of one problem like this one, at w = 0."""
        return LinearModel(1, self.width(), self.private_coordinates(), self.tail)

    def limit(self, bound: float) -> None:
        """Take note of a proved bound on the margin of a single problem."""
        self.linear.scalars.bound[0] = bound

    def join(self, singles: list[Any]) -> None:
        """Become one model of all the problems of ``singles``."""
        parts = [single.linear for single in singles]
        witness = self.linear.witness._replace(
            share=np.concatenate([part.witness.share for part in parts]),
            mark=np.concatenate([part.witness.mark for part in parts]),
            mark_share=np.concatenate([part.witness.mark_share for part in parts]),
        )
        self.linear = self.linear._replace(
            weights=np.concatenate([part.weights for part in parts]),
            scalars=np.concatenate([part.scalars for part in parts]).view(np.recarray),
            witness=witness,
        )
        join_tallies(self.tally, singles)

    def updates(self) -> int:
        return int(self.linear.scalars.updates.sum())

    def is_finite(self) -> bool:
        return bool(np.isfinite(self.linear.scalars.norm2).all())

    def private_coordinates(self) -> int:
        return self.linear.weights.shape[1] - self.linear.width - 1


class PairModel(LinearModel):
    """Weights with a free intercept, learnt from pairs of examples."""

    def __init__(
        self, problems: int, width: int, private: int, tail: Tail, p: float | str = 2.0
    ) -> None:
        super().__init__(problems, width, private, tail._replace(offset=0.0), p)
        self.pair = new_pair_space(self.linear)

    @property
    def space(self) -> Any:
        return self.pair

    def begin(self) -> None:
        numbers = self.pair.numbers
        numbers[numbers >= 0] = ELSEWHERE

    def _drop_private_coordinates(self) -> None:
        super()._drop_private_coordinates()
        self.pair = without_private_members(self.pair, self.linear)

    def grow(self, width: int, which: Sequence[int], numbers: np.ndarray) -> None:
        super().grow(width, which, numbers)
        self.pair = grown_pair(self.pair, self.linear, which)

    def intercepts(self) -> np.ndarray:
        return self.pair.bias.copy()

    def free_intercepts(self) -> np.ndarray:
        return self.pair.bias


class JointModel(LinearModel):
    """Weights of several classes that are learnt together.

    Parameters
    ----------
    most : int or None
        How many rivals of a row's own class a step takes into account; None if the rule itself
        steps along the highest one.
    """

    loop = staticmethod(learn_jointly)

    def __init__(
        self,
        problems: int,
        width: int,
        private: int,
        tail: Tail,
        most: int | None,
        average: bool = False,
    ) -> None:
        super().__init__(problems, width, private, tail, average=average)
        mark = np.zeros_like(self.linear.weights)
        self.linear = self.linear._replace(witness=JointWitness(self.linear.witness.average, mark))
        self.joint = new_joint_space(self.linear, most)

    @property
    def space(self) -> Any:
        return self.joint

    def verdicts(self) -> int:
        return 1

    def largest_margin(self, radius: float) -> float:
        return np.sqrt(2.0) * super().largest_margin(radius)

    def begin_again(self) -> None:
        self.linear.scalars.lawful[0] = 0.0  # old coefficients are here to stay
        self.begin()

    def _drop_private_coordinates(self) -> None:
        self.linear = without_private_blocks(self.linear)
        self.joint = self.joint._replace(linear=self.linear)

    def grow(self, width: int, which: Sequence[int], numbers: np.ndarray) -> None:
        super().grow(width, which, numbers)
        self.joint = self.joint._replace(linear=self.linear)

    def weights(self) -> np.ndarray:
        weights = self.linear.weights * self.linear.scalars.scale[0]
        if self.average and self.tally.trials[0]:
            weights -= self.linear.witness.average / self.tally.trials[0]
        return weights

    def margins(self, rows: Any, targets: Any) -> np.ndarray:
        """The lead of each row's own class over its rivals, at least, over the length of W."""
        weights = self.weights()
        length = np.linalg.norm(np.delete(weights, self.width(), axis=1))
        lead = lowest_lead(rows, targets, weights)
        return np.array([lead / length if length > 0.0 else 0.0])

    def bounds(self) -> np.ndarray:
        mine = self.linear.scalars[0]
        if mine.lawful == 0.0:
            return np.array([np.inf])
        weights, hidden = self.linear.weights, mine.hidden_positive
        ever = self._bound_from(weights, hidden, mine.positive)
        since = self._bound_from(
            weights - self.linear.witness.mark,
            hidden - mine.mark_hidden_positive,
            mine.positive - mine.mark_positive,
        )
        return np.array([min(ever, since)])

    def _bound_from(self, weights: np.ndarray, hidden: float, mass: float) -> float:
        width, offset = self.width(), self.tail.offset
        squares = (np.delete(weights, width, axis=1) ** 2).sum() + hidden
        imbalance = weights[:, width] / offset if offset > 0.0 else np.zeros(1)
        radius = np.sqrt(max(self.tally.rr[0] - offset**2, 0.0))
        bound = joint_bound(squares, imbalance, mass, radius, offset > 0.0)
        # Each update may have rounded the sums by a fraction of all that they hold.
        mine = self.linear.scalars[0]
        lost = 16.0 * ROUNDING * (mine.updates + 1.0) * mine.positive
        return bound + radius * lost / mass if mass > 0.0 else bound

    def updates(self) -> int:
        return int(self.linear.scalars.updates[0])
