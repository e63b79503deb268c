"""Rows as they are, whose weights are those of their features."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificates import geometric_margins, hinge_bounds
from maxmargin.certificates.bounds import rounding_of_products, soft_margin
from maxmargin.certificates.evidence import Evidence, mixture_length
from maxmargin.core.rows import SparseRows
from maxmargin.solvers import newton_passes
from maxmargin.solvers.certified_leave_one_out import InverseProducts
from maxmargin.solvers.hessian import BLOCK, gathered, is_gathered
from maxmargin.solvers.linear_curvature import Gradients, Grams, Hessians
from maxmargin.solvers.newton import (
    FIRST_MU,
    NOTHING,
    SMALL,
    Curvature,
    Oracle,
    Solution,
    Stage,
    Task,
    are_reached,
)
from maxmargin.solvers.newton_passes import Chosen, Objective
from maxmargin.spaces.problem_scalars import ROUNDING

# With more features than that no matrix of their products is made.
MOST_DIRECT = 1500
# With so many rows at most, and so many multiplications, a matrix of their products is made.
MOST_ROWS, MOST_PRODUCTS = 1500, 2**32
# Each sample of rows has so many times as many as the one before, ...
SAMPLE = 8
# ... the first one at least so many rows, and so many for each feature.
LEAST_SAMPLE, LEAST_PER_FEATURE = 1000, 4
# Matrices up to this size are multiplied and factorised by one thread. Threads of BLAS wait for
# each other: beside other work on the same cores two of them took 3 to 1000 times as long as one.
ONE_THREAD = 512
# Slacks of more rows and problems are not kept at a time, nor are more elements of Hessians.
MOST_KEPT = 2**24
# Of so many columns or more, those without entries are left out if they are the larger part.
LEAST_SCATTERED = 1000


def with_entries(rows: SparseRows) -> tuple[SparseRows, np.ndarray | None]:
    """The rows in the columns that have entries, and which these are, if they are few.

    Values are not copied, but there is another array of column numbers.
    """
    if rows.width < LEAST_SCATTERED:
        return rows, None
    used = np.zeros(rows.width, bool)
    used[rows.columns] = True
    columns = np.flatnonzero(used)
    if 2 * columns.size > rows.width:
        return rows, None
    places = np.empty(rows.width, rows.columns.dtype)
    places[columns] = np.arange(columns.size)
    renumbered = places[rows.columns]
    renumbered.setflags(write=False)
    return rows._replace(columns=renumbered, width=columns.size), columns


class HostPasses(NamedTuple):
    """Passes over rows of this machine, for the problems from ``first`` on."""

    rows: Any
    targets: Any
    sample_weight: np.ndarray
    first: int = 0

    def chosen(self, numbers: np.ndarray) -> Chosen:
        return Chosen(numbers, *self)

    def empty(self, shape: Any, dtype: Any = np.float64) -> Any:
        return np.empty(shape, dtype)

    def signed_outputs(self, numbers: Any, lines: Any, weights: np.ndarray, out: Any) -> None:
        newton_passes.signed_outputs(self.chosen(numbers), lines, weights, out)

    def positive(self, numbers: Any, lines: Any, out: Any) -> None:
        newton_passes.positive(self.chosen(numbers), lines, out)

    def pulls(
        self, numbers: Any, lines: Any, slack: Any, limit: float, out: tuple[np.ndarray, np.ndarray]
    ) -> None:
        newton_passes.pulls(self.chosen(numbers), lines, slack, limit, *out)

    def best_step(self, numbers: Any, slack: Any, change: Any, along: Objective) -> float:
        return float(newton_passes.best_step(slack, change, self.sample_weight, numbers, along))

    def move(self, slack: Any, change: Any, t: float, limit: float) -> int:
        return int(newton_passes.move(slack, change, t, limit))

    def losses(self, numbers: Any, slack: Any, goals: Any) -> float:
        """``sum_i s_i max(0, 1 - y_i (w.x_i + b))``, given slacks of these goals."""
        return float(self.sample_weight[numbers] @ np.maximum(slack - (goals - 1.0), 0.0))

    def lowest(self, outputs: Any) -> float:
        return float(outputs.min())

    def spread(self, numbers: np.ndarray, width: int) -> float:
        """The sum of the variances of the features in these rows."""
        ones, origin = np.ones(self.sample_weight.size), np.zeros(width + 1)
        block, shares = gathered(self.rows, numbers, ones, origin), self.sample_weight[numbers]
        shares = shares / shares.sum()
        return float(shares @ ((block - shares @ block) ** 2).sum(axis=1))


class LinearRows(NamedTuple):
    """The rows of a fit.

    passes : over the rows; these have a last coordinate of 1 if there is an intercept, else of 0
    sample_weight : what each row counts; those that count nothing are left out
    width : the number of features
    filled : how many features of a row are stored, on average
    intercept : is there one?
    radius : the largest norm of a row, without that coordinate
    columns : where the features are among all columns, if others have no entries
    """

    passes: Any
    sample_weight: np.ndarray
    width: int
    filled: float
    intercept: bool
    radius: float
    columns: np.ndarray | None = None

    @property
    def is_small(self) -> bool:
        """Is one thread of BLAS as good as more?"""
        return min(self.width, self.sample_weight.size) <= ONE_THREAD

    @property
    def is_here(self) -> bool:
        """Are the rows on this machine, and not on a device?"""
        return isinstance(self.passes, HostPasses)

    def weighed(self, sample_weight: np.ndarray) -> LinearRows:
        """The same rows with other weights."""
        passes = self.passes._replace(sample_weight=sample_weight)
        return self._replace(passes=passes, sample_weight=sample_weight)

    def sampled(self, most: int) -> LinearRows:
        """All rows, since weights of features are found fast."""
        return self

    def parts(self, problems: int) -> list[slice]:
        """Which of so many problems are solved together."""
        kept = (self.width + 1) ** 2 if self.width <= MOST_DIRECT else self.width
        size = max(1, MOST_KEPT // max(self.sample_weight.size, kept))
        return [slice(k, min(k + size, problems)) for k in range(0, problems, size)]

    def oracle(self, task: Task, part: slice) -> LinearOracle:
        """The oracle of these problems."""
        passes = self.passes._replace(first=part.start)
        return LinearOracle(self._replace(passes=passes), part.stop - part.start)

    def positive(self, numbers: np.ndarray, part: slice) -> np.ndarray:
        """Are these rows positive ones? One line for each of the problems."""
        lines = np.arange(part.stop - part.start)
        out = np.empty((lines.size, numbers.size), dtype=bool)
        self.passes._replace(first=part.start).positive(numbers, lines, out)
        return out

    def spread(self, numbers: np.ndarray) -> float:
        """The mean squared distance of rows from their mean; of wide rows, their mean square."""
        if self.width <= MOST_DIRECT:
            found = self.passes.spread(numbers, self.width)
        else:
            squares = np.empty(self.sample_weight.size)
            newton_passes.squares(self.passes.rows, numbers, squares)
            found = np.average(squares[numbers], weights=self.sample_weight[numbers])
            found = float(found) - self.intercept
        return max(found, 1e-14 * self.radius**2, 1e-300)


def growing_samples(rows: np.ndarray, width: int) -> list[np.ndarray]:
    """Growing samples of the rows, each in the next, the same for the same rows."""
    least = max(LEAST_SAMPLE, LEAST_PER_FEATURE * width)
    if rows.size < SAMPLE * least:
        return []
    drawn = np.frombuffer(np.random.default_rng(0).bytes(2 * rows.size), np.uint16)
    samples: list[np.ndarray] = []
    for level in (1, 2, 3):
        chosen = np.flatnonzero(drawn < 2**16 // SAMPLE**level)
        rows, drawn = rows[chosen], drawn[chosen]
        if rows.size >= least:
            samples.insert(0, rows)
    return samples


def soft_evidence(
    sides: tuple[np.ndarray, np.ndarray],
    intercept: bool,
    penalty: float,
    updates: int,
    radius: float,
) -> Evidence:
    """What a dual point proves: the rows at their slacks, over lambda.

    Parameters
    ----------
    sides : sums and totals of positive and of negative rows, see `newton_passes.pulls`
    penalty : lambda, 0 for the hard margin
    updates : how often sums were rounded, besides once for each active row
    radius : the largest norm of a row, with its private coordinate
    """
    sums, (own, rest) = sides
    return Evidence(
        p=2.0,
        intercept=intercept,
        private=float(np.sqrt(penalty)),
        split=intercept,
        vectors=np.stack([sums[0] - sums[1], sums[0]]),
        masses=(float(own[0]), float(rest[0])),
        hidden=(penalty * float(own[1]), penalty * float(rest[1])),
        updates=int(own[2] + rest[2]) + updates,
        radius=radius,
    )


class Measured(NamedTuple):
    """What the certificate of a problem rests on, but for rounding.

    losses : ``sum_i s_i max(0, 1 - y_i (w.x_i + b))``, or of the squares
    sums : of rows times their coefficients, times the penalty, of either class
    radius : the largest norm of a row, from where rows are measured
    bias : the absolute value of the output there
    updates : how often each sum was rounded, at most
    """

    losses: float
    sums: np.ndarray
    radius: float
    bias: float
    updates: float

    def error(self, w: np.ndarray) -> float:
        """How much an output of these weights may be rounded."""
        extent = float(np.linalg.norm(w)) * self.radius + self.bias
        return ROUNDING * ((w.size + 16.0) * extent + 4.0)


def exact_product(some: np.ndarray, others: np.ndarray) -> float:
    """``some @ others``, rounded once; NaN if an element is not finite."""
    if not (np.isfinite(some).all() and np.isfinite(others).all()):
        return np.nan
    pairs = zip(map(Fraction, some.tolist()), map(Fraction, others.tolist()), strict=True)
    return float(sum(one * other for one, other in pairs))


class LinearOracle(Oracle):
    """A point of some problems, which share their passes over the rows.

    Attributes
    ----------
    everything : the rows that count
    weights : one line for each problem, the intercept last
    numbers, slack : the rows of the present sample, and their slacks
    signs : which of them are positive, once the lowest outputs are looked at
    goals : what outputs should reach, one number or one for each slack
    sums, totals : the active rows times their slacks, see `newton_passes.pulls`
    coefs : a point of the dual, of all rows, on which sums rest in place of slacks
    stale : problems whose sums are not those of the present slacks
    units : the penalty when the sums of each problem were made
    travel : how far weights and intercept have come in all, which bounds the rounding of slacks
    """

    sample_steps, sample_ratio = 10, 0.5

    def __init__(self, data: LinearRows, problems: int) -> None:
        self.data, self.passes, self.problems = data, data.passes, problems
        self.all: Any = np.arange(problems)
        kind = np.int32 if data.sample_weight.size < 2**31 else np.int64
        self.everything = np.flatnonzero(data.sample_weight > 0.0).astype(kind)
        size = data.width + 1
        self.weights, self.travel = np.zeros((problems, size)), np.zeros((problems, 2))
        self.sums, self.totals = np.zeros((2 * problems, size)), np.zeros((2 * problems, 3))
        self.stale, self.units = np.ones(problems, bool), np.ones(problems)
        self.goals: Any = 1.0
        self.is_small = data.sample_weight.size * size <= SMALL and data.width <= MOST_DIRECT
        self.center: np.ndarray | None = None
        self.coefs: np.ndarray | None = None

    # --------------------------------------------------------------------------- kinds of problems
    @property
    def is_direct(self) -> bool:
        """Are there few enough features for a Hessian?"""
        return self.data.width <= MOST_DIRECT or not self.data.is_here

    @property
    def is_few(self) -> bool:
        """Are there few enough rows for their products?"""
        count = self.everything.size
        return count <= MOST_ROWS and count**2 * self.data.filled <= MOST_PRODUCTS

    @property
    def has_factors(self) -> bool:
        """Are systems solved by factors, which `left_out` needs?"""
        return self.is_direct or self.is_few

    def curvature(self, stage: Stage) -> Curvature:
        if not self.data.is_here:
            return self.passes.curvature(self)  # type: ignore[no-any-return]
        return (Hessians if self.is_direct else Grams if self.is_few else Gradients)(self, stage)

    def samples(self, task: Task) -> list[np.ndarray]:
        """Growing samples of the rows."""
        return growing_samples(self.everything, self.data.width) if self.is_direct else []

    def first_penalty(self, task: Task, known: bool) -> float:
        some = self.everything[:: max(1, self.everything.size // BLOCK)][:BLOCK]
        data = self.data
        if task.is_hard:
            is_wide = data.width > MOST_DIRECT
            return 0.01 * (max(data.radius**2, 1e-300) if is_wide else data.spread(some))
        if not task.is_hinge:
            return task.penalty
        penalty = FIRST_MU * task.penalty
        if self.everything.size <= data.width:
            # Few rows can be separated, and most end far below the limit. With a small mu they
            # come there one by one.
            gathers = is_gathered(data.filled, data.width)
            of_features = self.passes.spread(some, data.width) if gathers else data.spread(some)
            penalty = max(penalty, 0.01 * of_features)
        return penalty

    # --------------------------------------------------------------------------- where the rows are
    def put(self, weights: np.ndarray) -> None:
        self.weights[:] = weights

    def begin(self, other: LinearOracle) -> None:
        """Begin with the coefficients of another oracle of these rows, where there is no factor."""
        if self.has_factors:
            return
        weights, numbers = self.data.sample_weight, other.numbers
        if other.coefs is not None:
            self.coefs = np.where(weights > 0.0, other.coefs, 0.0)
        else:
            self.coefs = np.zeros((self.problems, weights.size))
            scale = weights[numbers] / other.units[:, None]
            self.coefs[:, numbers] = np.maximum(other.slack, 0.0) * scale
        self.weights[:, -1] = other.weights[:, -1]

    def restrict(self, sample: np.ndarray | None) -> float:
        self.numbers = self.everything if sample is None else sample
        shape = self.problems, self.numbers.size
        self.slack, self.change = self.passes.empty(shape), self.passes.empty(shape)
        self.signs: Any = None
        self.look_anew(self.all)
        return self.numbers.size / self.everything.size

    def look_anew(self, which: np.ndarray) -> None:
        """Compute the slacks of these problems from their weights."""
        self.passes.signed_outputs(self.numbers, which, self.weights, self.slack)
        self.travel[which], self.stale[which] = 0.0, True
        for c in which.tolist():
            self.slack[c] = self.goals_of(c) - self.slack[c]
            self._travelled(c, self.weights[c])

    def weigh(self, stage: Stage, which: np.ndarray) -> None:
        """Go to the weights that follow from the coefficients; the intercept stays."""
        self._add_up(stage, which)
        pulls = self.sums[2 * which] - self.sums[2 * which + 1]
        self.weights[which, :-1] = pulls[:, :-1] / stage.penalty
        self.look_anew(which)
        self.stale[which] = False

    def goals_of(self, c: int) -> Any:
        return self.goals if np.ndim(self.goals) == 0 else self.goals[c]

    def between(self, stage: Stage, c: int) -> np.ndarray:
        """Which rows are part of the Hessian."""
        return (self.slack[c] > 0.0) & (self.slack[c] < stage.limit)  # type: ignore[no-any-return]

    def sides(self, c: int) -> tuple[np.ndarray, np.ndarray]:
        """The sums of features and totals of a problem, of positive and of negative rows."""
        lines = slice(2 * c, 2 * c + 2)
        return self.sums[lines, : self.data.width], self.totals[lines]

    # --------------------------------------------------------------------------------------- a step
    def measured(self, stage: Stage, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if (stale := which[self.stale[which]]).size:
            self._add_up(stage, stale)
        features = self.weights[which, : self.data.width]
        losses = [self.squares(c) for c in which.tolist()]
        values = stage.penalty * (features**2).sum(axis=1) + losses
        return values, np.array([self._ratio(stage, c) for c in which.tolist()])

    def _add_up(self, stage: Stage, which: np.ndarray) -> None:
        """The sums of active rows, or of those that have coefficients."""
        lines = np.concatenate([2 * which, 2 * which + 1])
        self.sums[lines], self.totals[lines], self.stale[which] = 0.0, 0.0, False
        self.units[which], out = stage.penalty, (self.sums, self.totals)
        if self.coefs is None:
            self.passes.pulls(self.numbers, which, self.slack, stage.limit, out)
        else:
            scale = stage.penalty / self.data.sample_weight[self.numbers]
            self.change[which] = self.coefs[np.ix_(which, self.numbers)] * scale
            self.passes.pulls(self.numbers, which, self.change, np.inf, out)

    def _ratio(self, stage: Stage, c: int) -> float:
        """The margin of problem c over its bound, here and now, but for rounding."""
        (sums, totals), w = self.sides(c), self.weights[c, : self.data.width]
        intercept, task = self.data.intercept, stage.task
        if task.is_hinge:
            unit = self.units[c]
            dual = hinge_bounds.dual_value_of_sums(sums / unit, totals[:, 0] / unit, intercept)
            value = 0.5 * float(w @ w) + self.losses(c) / (2.0 * stage.hinge_penalty)
            return max(dual / value, 0.0) if value > 0.0 else 0.0
        at_goals = task.is_hard and stage.share == 1.0
        hidden = (0.0 if at_goals else stage.penalty) * totals[:, 1]
        bound = mixture_length(sums, totals[:, 0], hidden, intercept)
        if bound == np.inf:
            return 0.0
        if at_goals:
            norm, lowest = np.linalg.norm(w), self.lowest(c)
            reached = lowest.mean() if intercept else lowest.min()
            return float(reached / norm / bound) if norm > 0.0 and bound > 0.0 else 0.0
        return float(1.0 / np.sqrt(w @ w + self.squares(c) / stage.penalty) / bound)

    def move(self, stage: Stage, which: np.ndarray, directions: np.ndarray) -> bool:
        moved, self.coefs = False, None
        self.passes.signed_outputs(self.numbers, which, directions, self.change)
        for c in which.tolist():
            w, step = self.weights[c, :-1], directions[c, :-1]
            along = Objective(stage.penalty, float(w @ step), float(step @ step), stage.limit)
            t = self.passes.best_step(self.numbers, self.slack[c], self.change[c], along)
            self.weights[c] += t * directions[c]
            self._travelled(c, t * directions[c])
            self._travelled(c, self.weights[c])
            changed = self.passes.move(self.slack[c], self.change[c], t, stage.limit)
            moved |= bool(changed or abs(t - 1.0) > 1e-6)
        self.stale[which] = True
        return moved

    def gradient(self, stage: Stage, c: int) -> np.ndarray:
        pull = self.sums[2 * c] - self.sums[2 * c + 1]
        gradient = stage.penalty * self.weights[c] - pull
        gradient[-1] = -pull[-1]
        return gradient

    def _travelled(self, c: int, by: np.ndarray) -> None:
        self.travel[c] += np.linalg.norm(by[:-1]), abs(by[-1])

    def losses(self, c: int) -> float:
        """``sum_i s_i max(0, 1 - y_i (w.x_i + b))``."""
        return float(self.passes.losses(self.numbers, self.slack[c], self.goals_of(c)))

    def squares(self, c: int) -> float:
        """The sum of squared losses, or what takes their place in a round."""
        if self.coefs is None:
            return float(self.totals[2 * c : 2 * c + 2, 1].sum())
        lacking = np.maximum(self.slack[c], 0.0)
        return float(self.data.sample_weight[self.numbers] @ (lacking * lacking))

    # ------------------------------------------------------------------ hard margins and hinge loss
    def lowest(self, c: int) -> np.ndarray:
        """The lowest outputs of the positive and of the negative rows."""
        if self.signs is None:
            self.signs = self.passes.empty(self.slack.shape, bool)
            self.passes.positive(self.numbers, self.all, self.signs)
        own, outputs = self.signs[c], self.goals_of(c) - self.slack[c]
        return np.array([self.passes.lowest(outputs[side]) for side in (own, ~own)])

    def raise_goals(self, stage: Stage, after: Stage, which: np.ndarray) -> None:
        if np.ndim(self.goals) == 0:
            self.goals = self.passes.empty(self.slack.shape)
            self.goals[...] = 1.0
        for c in which.tolist():
            slack, goals = self.slack[c], self.goals[c]
            raised = 1.0 + after.penalty * (slack.clip(0.0, stage.limit) / stage.penalty)
            slack[...] = raised - (goals - slack)
            goals[...] = raised
        self.stale[which] = True

    def is_hopeless(self, stage: Stage, c: int) -> bool:
        return stage.task.is_hard and self.evidence(stage, c).bound() <= NOTHING * self.data.radius

    # ------------------------------------------------------------------------------------- the end
    def solution(self, stage: Stage, steps: int) -> Solution:
        task, evidence = stage.task, list[Evidence]()
        self.weights[:, -1] *= self.data.intercept
        if task.is_hinge:
            margins, bounds = self._hinge(stage)
        else:
            evidence = [self.evidence(stage, c) for c in range(self.problems)]
            bounds = np.array([sums.bound() for sums in evidence])
            margins = self._hard_margins() if task.is_hard else self._soft_margins(stage)
            if not task.is_hard and self.center is not None:
                for c in np.flatnonzero(~are_reached(margins, bounds, task.tol)).tolist():
                    margin, bound = self._soft_about_center(stage, c)
                    margins[c], bounds[c] = max(margin, margins[c]), min(bound, bounds[c])
        reached = are_reached(margins, bounds, task.tol)
        return Solution(self.weights, margins, bounds, evidence, steps, reached)

    def evidence(self, stage: Stage, c: int, about: Measured | None = None) -> Evidence:
        """The sums of a problem; those of rows about their center, if they are given."""
        given, penalty = self.data.sample_weight, stage.task.penalty
        private = np.sqrt(penalty / np.min(given, where=given > 0.0, initial=np.inf))
        (sums, totals), updates, radius = self.sides(c), 16, self.data.radius
        if about is not None:
            updates = int(about.updates) + 1 - int(totals[:, 2].sum())
            sums, radius = about.sums, about.radius
        reach = float(np.hypot(radius, private))
        return soft_evidence((sums, totals), self.data.intercept, penalty, updates, reach)

    def _soft(self, stage: Stage, c: int, losses: float, error: float) -> float:
        """The soft margin of a problem, at least, given its losses and the rounding of outputs."""
        w, total = self.weights[c, :-1], float(self.data.sample_weight.sum())
        rows = self.everything.size + w.size
        return soft_margin(float(w @ w), losses, total, error, rows, stage.penalty)

    def _soft_margins(self, stage: Stage) -> np.ndarray:
        errors = ROUNDING * (self.data.width + 16.0) * (self.travel @ [self.data.radius, 1.0])
        every = range(self.problems)
        return np.array([self._soft(stage, c, self.squares(c), errors[c]) for c in every])

    def _soft_about_center(self, stage: Stage, c: int) -> tuple[float, float]:
        """The soft margin, at least, and the bound, by rows about the center."""
        mine = self._about_center(stage, c)
        margin = self._soft(stage, c, mine.losses, mine.error(self.weights[c, :-1]))
        return margin, self.evidence(stage, c, mine).bound()

    def _hinge(self, stage: Stage) -> tuple[np.ndarray, np.ndarray]:
        """Margins and bounds on fresh outputs; of rows about their center, if there is one."""
        data = self.data
        if self.center is not None:
            found = [self._about_center(stage, c) for c in range(self.problems)]
        else:
            self.goals = 1.0
            sides = [self.sides(c) for c in range(self.problems)]
            self.look_anew(self.all)
            found = []
            for c, (sums, totals) in enumerate(sides):
                bias, updates = abs(float(self.weights[c, -1])), float(totals[:, 2].sum())
                found.append(Measured(self.losses(c), sums, data.radius, bias, updates))
        total, margins, bounds = float(data.sample_weight.sum()), *np.empty((2, self.problems))
        for c, mine in enumerate(found):
            w, unit = self.weights[c, :-1], self.units[c]
            value = hinge_bounds.highest_value(
                square=float(w @ w),
                losses=mine.losses,
                total_weight=total,
                error=mine.error(w),
                rows=self.everything.size + w.size,
                penalty=stage.task.penalty,
            )
            proved = hinge_bounds.proved_dual_value(
                mine.sums / unit,
                self.sides(c)[1][:, 0] / unit,
                intercept=data.intercept,
                updates=mine.updates,
                radius=mine.radius,
            )
            margins[c], bounds[c] = hinge_bounds.as_margin(value), hinge_bounds.as_margin(proved)
        return margins, bounds

    def _about_center(self, stage: Stage, c: int) -> Measured:
        """By rows about the center, so that a large offset of all rows costs no digits.

        With an intercept, sums of rows whose coefficients have the same mass in either class do not
        depend on the center. The output there is added up exactly.
        """
        data, weights, center, numbers = self.data, self.weights[c], self.center, self.numbers
        assert center is not None
        width, is_hinge = data.width, stage.task.is_hinge
        counts = data.sample_weight[numbers]
        limit = self.units[c] / (2.0 * stage.task.penalty) if is_hinge else np.inf
        masses = counts * self.slack[c].clip(0.0, limit)
        own = np.empty((self.problems, numbers.size), bool)
        self.passes.positive(numbers, self.all[c : c + 1], own)
        sides = np.stack([np.where(own[c], masses, 0.0), np.where(own[c], 0.0, masses)])
        bias = exact_product(np.append(center[:width], 1.0), weights)
        ones, sums = np.ones(data.sample_weight.size), np.zeros((2, width))
        losses, square = 0.0, 0.0
        for start in range(0, numbers.size, BLOCK):
            part = slice(start, start + BLOCK)
            block = gathered(self.passes.rows, numbers[part], ones, center)[:, :width]
            outputs = np.where(own[c, part], 1.0, -1.0) * (block @ weights[:width] + bias)
            lacking = np.maximum(1.0 - outputs, 0.0)
            losses += float(counts[part] @ (lacking if is_hinge else lacking * lacking))
            sums += sides[:, part] @ block
            square = max(square, float(np.einsum("ij,ij->i", block, block).max()))
        updates = BLOCK + numbers.size / BLOCK
        return Measured(losses, sums, float(np.sqrt(square)), abs(bias), updates)

    def _hard_margins(self) -> np.ndarray:
        """With the intercept half-way between both classes, on fresh outputs."""
        data, weights = self.data, self.weights
        if data.intercept:
            for c in range(self.problems):
                own, rest = self.lowest(c)
                weights[c, -1] += 0.5 * (rest - own)
        outputs = self.passes.empty(self.slack.shape)
        self.passes.signed_outputs(self.numbers, self.all, weights, outputs)
        plain = weights.copy()
        lost = 4.0 * ROUNDING * np.abs(plain[:, -1])
        plain[:, -1] = 0.0
        lost += rounding_of_products(plain) * data.radius
        lowest = np.array([self.passes.lowest(line) for line in outputs])
        return geometric_margins(lowest - lost, plain, data.width)

    # ------------------------------------------------------------------------------- leave-one-out
    def left_out(
        self, curvature: Any, stage: Stage, places: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """``y f(x)`` of rows at these places by weights that are found without them.

        One line for each problem; NaN where rounding leaves no system to solve. Weights are those
        at the end of the next Newton step, the minimum unless a row changes its state. The second
        array has losses by the weights found with all rows: of all rows, and of those at these
        places.
        """
        self.measured(stage, self.all)
        width, losses = self.data.width, np.empty((self.problems, 2))
        steps = curvature.directions(stage, self.all)
        for c in self.all.tolist():
            pull = self.sums[2 * c] - self.sums[2 * c + 1]
            curved = -self.gradient(stage, c) - stage.penalty * np.append(steps[c, :width], 0.0)
            of_all = self.totals[2 * c : 2 * c + 2, 1].sum()
            losses[c, 0] = of_all + steps[c] @ (curved - 2.0 * pull)
        slack, change = self.slack[:, places], np.empty((self.problems, places.size))
        self.passes.signed_outputs(self.numbers[places], self.all, steps, change)
        weights = self.data.sample_weight[self.numbers[places]]
        for c in self.all.tolist():
            active = np.flatnonzero(slack[c] > 0.0)
            slack[c] -= change[c]
            losses[c, 1] = slack[c, active] ** 2 @ weights[active]
            slack[c, active] /= curvature.remainders(stage, c, places[active])
        return 1.0 - slack, losses

    def inverse_products(
        self, curvature: Any, stage: Stage, c: int
    ) -> tuple[np.ndarray, InverseProducts]:
        """Which rows are active in a problem, and ``x_i' A^-1 x_j`` with their Hessian A."""
        return self.slack[c] > 0.0, curvature.inverse_products(stage, c)

    def mistakes(self) -> np.ndarray:
        """In how many problems each row is on the wrong side."""
        return np.asarray((self.slack >= 1.0).sum(axis=0))

    def signed_outputs(self, numbers: np.ndarray) -> np.ndarray:
        """``y f(x)`` of these rows, which need not be among those that count."""
        out = np.empty((self.problems, numbers.size))
        self.passes.signed_outputs(numbers, self.all, self.weights, out)
        return out
