"""The maximum soft margin, exactly, by Newton's method; one or more problems at a time.

    P(w, b) = |w|^2 / 2 + 1 / (2 lambda) sum_i s_i max(0, g_i - y_i (w.x_i + b))^2

with what rows count, s_i, and goals g_i = 1. P is piecewise quadratic: given which rows are active
(below their goals), a Newton step solves a linear system, and once these no longer change, it ends
at the minimum. The coefficients ``a_i = s_i max(0, ...) / lambda`` are a point of the dual, which
proves how near it is: see `certificates.bounds`.

With up to `MOST_DIRECT` features the Hessian is kept, and rows that become active, or no longer
are, change it; the first steps are made with a sample of the rows. With more features, but few
rows, the products of rows with each other take its place. With many of both nothing of that size is
made: steps are found by conjugate gradients, after some passes of dual coordinate ascent.

The hard margin is the limit of lambda = 0. Goals ``g_i = 1 + lambda a_i``, with the coefficients
from the last round, make it the solution for lambda > 0 too (the method of multipliers: Hestenes
1969, Powell 1969), so lambda need not become so small that the numbers fail.

The hinge loss, ``1 / (2 lambda) sum_i s_i max(0, 1 - y_i (w.x_i + b))``, is solved in the same
rounds. Its coefficients are at most ``s_i / (2 lambda)``. So with mu in the place of lambda, from
round to round a smaller one, losses grow quadratically with the slack up to ``mu / (2 lambda)`` and
linearly from there on, and goals are ``1 + mu a_i / s_i``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrs

from maxmargin.certificates import geometric_margins, hinge_bounds
from maxmargin.certificates.bounds import rounding_of_products
from maxmargin.certificates.evidence import Evidence, mixture_length
from maxmargin.certificates.scalar_bounds import soft_margin, soft_margin_of_square
from maxmargin.core import newton_passes
from maxmargin.models.blas_threads import one_thread
from maxmargin.models.hessian import (
    BLOCK,
    ConjugateGradients,
    Gathering,
    cholesky,
    enough_residual,
    gathered,
    is_gathered,
    newton_step,
    system_of,
)
from maxmargin.models.leave_one_out import (
    gathered_remainders,
    remainders_of_products,
    scattered_remainders,
)
from maxmargin.spaces.problem_scalars import ROUNDING

# With more features than that no matrix of their products is made.
MOST_DIRECT = 1500
# With so many rows at most, and so many multiplications, one of products of rows is.
MOST_ROWS, MOST_PRODUCTS = 1500, 2**32
# Each sample of rows has so many times as many as the one before, ...
SAMPLE = 8
# ... the first one at least so many rows, and so many for each feature.
LEAST_SAMPLE, LEAST_PER_FEATURE = 1000, 4
# Samples are done with at this ratio of margin to bound.
SAMPLE_RATIO, SAMPLE_STEPS = 0.5, 10
# Passes of dual ascent, at most; in between, the ratio must grow by this factor as they double.
FIRST_PASSES, MOST_PASSES, PROGRESS = 4, 32, 1.5
# So many steps without gain mean that rounding leaves none; less is no gain, relative to P.
PATIENCE, GAIN = 3, 1e-14
# Rounds of the hard margin: how much lambda falls, and at most how many steps each takes.
FALL, ROUNDS, STEPS_PER_ROUND = 0.1, 24, 20
# Rounds of the hinge loss: the first mu over lambda, how much mu falls, the limit at which it falls
# no more, at most how many rounds there are, and how many steps each takes.
FIRST_MU, HINGE_FALL, LEAST_LIMIT, HINGE_ROUNDS, HINGE_STEPS = 2.0, 1.0 / 3.0, 1e-6, 60, 30
# A round is over when a step gains less than that share of the value.
LEAST_GAIN = 1e-11
# Of fewer numbers than these the minimum itself is found: it takes no longer.
SMALL = 2**16
# No bound on a hard margin means anything below that fraction of the largest norm.
NOTHING = 1e-10
# Matrices up to this size are multiplied and factorised by one thread. Threads of BLAS wait for
# each other: beside other work on the same cores two of them took 3 to 1000 times as long as one.
ONE_THREAD = 512
# Slacks of more rows and problems are not kept at a time, nor are more elements of Hessians.
MOST_KEPT = 2**24


class HostPasses:
    """Passes over rows of this machine."""

    signed_outputs, positive = newton_passes.signed_outputs, newton_passes.positive
    pulls, best_step, move = newton_passes.pulls, newton_passes.best_step, newton_passes.move

    def empty(self, shape: Any, dtype: Any = np.float64) -> np.ndarray:
        return np.empty(shape, dtype)

    def losses(
        self, slack: np.ndarray, goals: Any, sample_weight: np.ndarray, numbers: np.ndarray
    ) -> float:
        """``sum_i s_i max(0, 1 - y_i (w.x_i + b))``, given slacks of these goals."""
        return float(sample_weight[numbers] @ np.maximum(slack - (goals - 1.0), 0.0))

    def lowest(self, outputs: np.ndarray) -> float:
        return float(outputs.min())

    def spread(self, task: Task, numbers: np.ndarray) -> float:
        """The sum of the variances of the features in these rows."""
        ones, origin = np.ones(task.sample_weight.size), np.zeros(task.width + 1)
        return float(gathered(task.rows, numbers, ones, origin).var(axis=0).sum())

    def curvatures(self, state: Newton) -> Any:
        """What solves the systems of steps."""
        direct, few = state.sizes()
        return (Hessians if direct else Grams if few else Gradients)(state)


HOST = HostPasses()


class Task(NamedTuple):
    """What is to be solved.

    rows : with a last coordinate of 1 if there is an intercept, else of 0
    targets : the signs of the rows in each problem
    sample_weight : what each row counts; those that count nothing are left out
    penalty : lambda; 0 is the hard margin
    width : the number of features
    filled : how many features of a row are stored, on average
    intercept : is there one?
    radius : the largest norm of a row, without that coordinate
    tol : wanted is a margin of 1 - tol of the best possible one
    max_iter : steps at most
    hinge : is the loss the hinge loss, and not its square?
    passes : what passes over the rows, which may be on a device
    """

    rows: Any
    targets: Any
    sample_weight: np.ndarray
    penalty: float
    width: int
    filled: float
    intercept: bool
    radius: float
    tol: float
    max_iter: int
    hinge: bool = False
    passes: Any = HOST

    @property
    def is_small(self) -> bool:
        """Is one thread of BLAS as good as more?"""
        return min(self.width, self.sample_weight.size) <= ONE_THREAD

    def parts(self, problems: int) -> list[slice]:
        """Which of so many problems are solved together."""
        kept = (self.width + 1) ** 2 if self.width <= MOST_DIRECT else self.width
        size = max(1, MOST_KEPT // max(self.sample_weight.size, kept))
        return [slice(k, min(k + size, problems)) for k in range(0, problems, size)]

    def newton(self, part: slice) -> Newton:
        """The steps for these problems."""
        return Newton(self, part.start, part.stop - part.start)

    def positive(self, numbers: np.ndarray, part: slice) -> np.ndarray:
        """Are these rows positive ones? One line for each of the problems."""
        lines = np.arange(part.stop - part.start)
        out = np.empty((lines.size, numbers.size), dtype=bool)
        newton_passes.positive(numbers, self.targets, part.start, lines, out)
        return out

    def spread(self, numbers: np.ndarray) -> float:
        """The mean squared distance of rows from their mean; of wide rows, their mean square."""
        if self.width <= MOST_DIRECT:
            found = self.passes.spread(self, numbers)
        else:
            squares = np.empty(self.sample_weight.size)
            newton_passes.squares(self.rows, numbers, squares)
            found = float(squares[numbers].mean()) - self.intercept
        return max(found, 1e-14 * self.radius**2, 1e-300)


class Solution(NamedTuple):
    """Weights with the intercept last, margins, what proves the bounds, and how it went.

    With the hinge loss there is no evidence, but the bounds themselves. They may be there too where
    those that follow from the evidence are weaker.
    """

    weights: np.ndarray
    margins: np.ndarray
    evidence: list[Evidence]
    n_iter: int
    reached: np.ndarray
    bounds: np.ndarray | None = None

    @classmethod
    def joined(cls, parts: Sequence[Solution]) -> Solution:
        """The solution of all problems, given those of some each."""
        return cls(
            np.concatenate([part.weights for part in parts]),
            np.concatenate([part.margins for part in parts]),
            [evidence for part in parts for evidence in part.evidence],
            max(part.n_iter for part in parts),
            np.concatenate([part.reached for part in parts]),
            None
            if parts[0].bounds is None
            else np.concatenate([part.bounds for part in parts if part.bounds is not None]),
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


def solve(task: Task, problems: int, advance: Callable[..., None]) -> Solution:
    """The hyperplanes of so many problems."""
    with one_thread() if task.is_small else nullcontext():
        return Solution.joined([task.newton(part).run(advance) for part in task.parts(problems)])


def evidence_of_slacks(
    sums: np.ndarray,
    totals: np.ndarray,
    *,
    intercept: bool,
    private: float,
    hidden: float,
    updates: int,
    radius: float,
) -> Evidence:
    """The dual point of a problem: the rows at their slacks, over lambda.

    ``sums`` and ``totals`` are the lines of the problem, see `core.newton_passes.pulls`, the sums
    without the intercept; ``hidden`` is the squared private coordinate of a slack of 1, and
    ``updates`` those besides one for each active row.
    """
    own, rest = totals
    return Evidence(
        p=2.0,
        intercept=intercept,
        private=private,
        split=intercept,
        vectors=np.stack([sums[0] - sums[1], sums[0]]),
        masses=(float(own[0]), float(rest[0])),
        hidden=(hidden * float(own[1]), hidden * float(rest[1])),
        updates=int(own[2] + rest[2]) + updates,
        radius=radius,
    )


def exact_product(some: np.ndarray, others: np.ndarray) -> float:
    """``some @ others``, rounded once; NaN if an element is not finite."""
    if not (np.isfinite(some).all() and np.isfinite(others).all()):
        return np.nan
    pairs = zip(map(Fraction, some.tolist()), map(Fraction, others.tolist()), strict=True)
    return float(sum(one * other for one, other in pairs))


class Newton:
    """The steps for some of the problems, which share their passes over the rows.

    Attributes
    ----------
    first : the first of the problems, which are numbered from 0 on here
    weights : one line for each, the intercept last
    open : the problems that are not solved yet
    numbers, slack : the rows of the present sample, and their slacks
    goals : what outputs should reach, one number or one for each slack
    signs : which rows are positive, once hard margins are looked at, else None
    penalty : lambda, or mu, for the present sample
    limit : slacks from which losses grow linearly
    units : the penalty when the sums of each problem were made
    bounds : on the margins, once they are solved
    is_weighed : are the sums those of the present slacks?
    travel : how far weights and intercept have come in all, which bounds the rounding of slacks
    """

    def __init__(self, task: Task, first: int, problems: int) -> None:
        self.task, self.first, self.passes = task, first, task.passes
        self.ours: Any = np.arange(problems)
        self.open: Any = self.ours
        kind = np.int32 if task.sample_weight.size < 2**31 else np.int64
        self.everything = np.flatnonzero(task.sample_weight > 0.0).astype(kind)
        size = task.width + 1
        self.weights = np.zeros((problems, size))
        self.travel = np.zeros((problems, 2))
        self.ratio = np.zeros(problems)
        self.sums, self.totals = np.zeros((2 * problems, size)), np.zeros((2 * problems, 3))
        self.steps, self.is_weighed = 0, False
        self.is_hard, self.is_hinge = task.penalty == 0.0, task.hinge and task.penalty > 0.0
        self.limit, self.units = np.inf, np.ones(problems)
        self.is_small = task.sample_weight.size * size <= SMALL and task.width <= MOST_DIRECT
        self.goals: Any = 1.0
        self.signs: Any = None
        self.curvature: Any = None
        self.longest_own = self._longest_own()
        self.share, self.penalty = 1.0, task.penalty

    def run(self, advance: Callable[..., None]) -> Solution:
        self.start()
        return self.finish(advance)

    def start(self, weights: np.ndarray | None = None) -> None:
        """Come near with samples of the rows, or by dual ascent; or start from these weights."""
        task, direct, few = self.task, *self.sizes()
        self.full_penalty = task.penalty or 0.01 * self._spread()
        if self.is_hinge:
            self.full_penalty = FIRST_MU * task.penalty
            if self.everything.size <= task.width:
                # Few rows can be separated, and most end far below the limit. With a small mu they
                # come there one by one.
                some = self.everything[:: max(1, self.everything.size // BLOCK)][:BLOCK]
                gathers = is_gathered(task.filled, task.width)
                spread = self.passes.spread(task, some) if gathers else task.spread(some)
                self.full_penalty = max(self.full_penalty, 0.01 * spread)
            self.limit = 0.5 * self.full_penalty / task.penalty
        if weights is not None:
            self.weights[:] = weights
        elif direct:
            for numbers in self._samples():
                self._begin(numbers, self.passes.curvatures(self))
                self._descend(SAMPLE_STEPS, SAMPLE_RATIO, lambda *_: None)
        self._begin(self.everything, None)
        if not (direct or few or self.is_hard or self.is_hinge or weights is not None):
            self._ascend()
        self.curvature = self.passes.curvatures(self)
        self.curvature.begin()

    def sizes(self) -> tuple[bool, bool]:
        """Are there few enough features for a Hessian, and few enough rows for their products?"""
        task, count = self.task, self.everything.size
        few = count <= MOST_ROWS and count**2 * task.filled <= MOST_PRODUCTS
        return task.width <= MOST_DIRECT or self.passes is not HOST, few

    @property
    def has_factors(self) -> bool:
        """Are systems solved by factors, which `left_out` needs?"""
        return any(self.sizes())

    def finish(self, advance: Callable[..., None]) -> Solution:
        """Steps with all rows."""
        if self.is_hard or self.is_hinge:
            self._multiply(advance)
        else:
            self._descend(self.task.max_iter, 1.0 - self.task.tol, advance)
        return self._solution()

    def go_on_with(self, penalty: float) -> None:
        """Another lambda, from where `finish` ended; slacks, sums and Hessians stay."""
        self.task = self.task._replace(penalty=penalty)
        self.penalty = self.full_penalty = penalty
        self.longest_own = self._longest_own()
        self.open, self.steps, self.is_weighed = self.ours, 0, True

    def left_out(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """``y f(x)`` of rows at these places by weights that are found without them.

        One line for each problem; NaN where rounding leaves no system to solve. Weights are those
        at the end of the next Newton step, the minimum unless a row changes its state. The second
        array has losses by the weights found with all rows: of all rows, and of those at these
        places. See `leave_one_out`.
        """
        task, width = self.task, self.task.width
        steps, losses = np.zeros_like(self.weights), np.empty((self.ours.size, 2))
        for c in self.ours:
            gradient = self._gradient(c)
            step = steps[c] = self.curvature.direction(c, gradient)
            pull = self.sums[2 * c] - self.sums[2 * c + 1]
            curved = -gradient - self.penalty * np.append(step[:width], 0.0)
            losses[c, 0] = self.totals[2 * c : 2 * c + 2, 1].sum() + step @ (curved - 2.0 * pull)
        slack, change = self.slack[:, places], np.empty((self.ours.size, places.size))
        self.passes.signed_outputs(
            *(task.rows, self.numbers[places], task.targets, self.first, self.ours),
            *(steps, change),
        )
        weights = task.sample_weight[self.numbers[places]]
        for c in self.ours:
            active = np.flatnonzero(slack[c] > 0.0)
            slack[c] -= change[c]
            losses[c, 1] = slack[c, active] ** 2 @ weights[active]
            slack[c, active] /= self.curvature.remainders(c, places[active])
        return 1.0 - slack, losses

    def mistakes(self) -> np.ndarray:
        """In how many problems each row is on the wrong side."""
        return np.asarray((self.slack >= 1.0).sum(axis=0))

    def signed_outputs(self, numbers: np.ndarray) -> np.ndarray:
        """``y f(x)`` of these rows, which need not be among those that count."""
        task, out = self.task, np.empty((self.ours.size, numbers.size))
        self.passes.signed_outputs(
            *(task.rows, numbers, task.targets, self.first, self.ours), *(self.weights, out)
        )
        return out

    def _longest_own(self) -> float:
        """The largest coordinate of its own that a row has."""
        given = self.task.sample_weight
        least = np.min(given, where=given > 0.0, initial=np.inf)
        return 0.0 if self.is_hard else float(np.sqrt(self.task.penalty / least))

    def _samples(self) -> list[np.ndarray]:
        """Growing samples of the rows, each in the next, the same for the same rows."""
        rows, least = self.everything, max(LEAST_SAMPLE, LEAST_PER_FEATURE * self.task.width)
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

    def _spread(self) -> float:
        """The mean squared distance of some rows from their mean."""
        step = max(1, self.everything.size // BLOCK)
        some = self.everything[::step][:BLOCK]
        if self.task.width > MOST_DIRECT:
            return max(self.task.radius**2, 1e-300)
        return self.task.spread(some)

    # --------------------------------------------------------------------------- where the rows are
    def _begin(self, numbers: np.ndarray, curvature: Any) -> None:
        """Go on with these rows; lambda is for all rows, so less for fewer."""
        self.open = self.ours
        self.numbers, self.share = numbers, numbers.size / self.everything.size
        self.penalty = self.full_penalty * self.share
        shape = self.weights.shape[0], numbers.size
        self.slack, self.change = self.passes.empty(shape), self.passes.empty(shape)
        self.entered, self.left = np.empty((2, numbers.size), np.int64)
        self._look_anew()
        self.curvature = curvature
        if curvature is not None:
            curvature.begin()

    def _look_anew(self) -> None:
        task = self.task
        self.passes.signed_outputs(
            *(task.rows, self.numbers, task.targets, self.first, self.open),
            *(self.weights, self.slack),
        )
        for c in self.open.tolist():
            goals = self.goals if np.ndim(self.goals) == 0 else self.goals[c]
            self.slack[c] = goals - self.slack[c]
        self.travel[self.open] = 0.0
        for c in self.open:
            self._travelled(c, self.weights[c])

    def _weigh(self) -> None:
        """The sums behind gradients and certificates, and the ratios, for the open problems."""
        task, sides = self.task, np.concatenate([2 * self.open, 2 * self.open + 1])
        if not self.is_weighed:
            self.sums[sides], self.totals[sides] = 0.0, 0.0
            self.passes.pulls(
                *(task.rows, self.numbers, task.targets, self.first, self.open),
                *(task.sample_weight, self.slack, self.limit, self.sums, self.totals),
            )
        self.is_weighed = False
        self.units[self.open] = self.penalty
        for c in self.open:
            self.ratio[c] = self._ratio(c)

    # -------------------------------------------------------------------------------------- a round
    def _descend(self, most: int, wanted: float, advance: Callable[..., None]) -> None:
        """Steps until the ratio of each problem is as ``wanted``, or nothing is left to gain."""
        lowest, idle = np.full(self.weights.shape[0], np.inf), np.zeros(self.weights.shape[0], int)
        final = self.share == 1.0
        exact, moved = final and self.is_small, True
        for done in range(most + 1):
            self._weigh()
            now = self._values()
            idle[self.open] = np.where(
                now < (1.0 - GAIN) * lowest[self.open], 0, idle[self.open] + 1
            )
            lowest[self.open] = np.minimum(lowest[self.open], now)
            gaps = 1.0 - self.ratio[self.open]
            unsolved = (gaps > (1e-13 if exact else 1.0 - wanted)) & (idle[self.open] < PATIENCE)
            self.open = self.open[unsolved]
            if self.open.size == 0 or done == most or not moved:
                return
            moved = self._step() or not exact
            self.steps += final
            if final:
                advance(1, note=f"{100 * self.ratio[self.ours].min():.2f} % certified")

    def _values(self) -> np.ndarray:
        """2 lambda P, for the open problems."""
        features = self.weights[self.open, : self.task.width]
        losses = self.totals[2 * self.open, 1] + self.totals[2 * self.open + 1, 1]
        return self.penalty * (features**2).sum(axis=1) + losses

    def _step(self) -> bool:
        """One step of each open problem; did any slack change its sign, or the step its length?"""
        task, width, moved = self.task, self.task.width, False
        steps = np.zeros_like(self.weights)
        for c in self.open:
            steps[c] = self.curvature.direction(c, self._gradient(c))
        self.passes.signed_outputs(
            *(task.rows, self.numbers, task.targets, self.first, self.open),
            *(steps, self.change),
        )
        for c in self.open:
            w, step = self.weights[c, :width], steps[c, :width]
            slack, change = self.slack[c], self.change[c]
            t = self.passes.best_step(
                *(slack, change, task.sample_weight, self.numbers, self.limit),
                *(self.penalty, float(w @ step), float(step @ step)),
            )
            self.weights[c] += t * steps[c]
            self._travelled(c, t * steps[c])
            self._travelled(c, self.weights[c])
            ins, outs = self.passes.move(slack, change, t, self.limit, self.entered, self.left)
            self.curvature.changed(c, self.entered[:ins], self.left[:outs])
            moved |= bool(ins or outs or abs(t - 1.0) > 1e-6)
        return moved

    def _gradient(self, c: int) -> np.ndarray:
        pull = self.sums[2 * c] - self.sums[2 * c + 1]
        gradient = self.penalty * self.weights[c] - pull
        gradient[-1] = -pull[-1]
        return gradient

    def _travelled(self, c: int, by: np.ndarray) -> None:
        self.travel[c] += np.linalg.norm(by[:-1]), abs(by[-1])

    def _ratio(self, c: int) -> float:
        """The margin of problem c over its bound, here and now, but for rounding."""
        width, totals = self.task.width, self.totals[2 * c : 2 * c + 2]
        w, sums = self.weights[c, :width], self.sums[2 * c : 2 * c + 2, :width]
        if self.is_hinge:
            unit = self.units[c]
            dual = hinge_bounds.dual_value_of_sums(
                sums / unit, totals[:, 0] / unit, self.task.intercept
            )
            value = 0.5 * float(w @ w) + self._losses(c) / (2.0 * self.task.penalty * self.share)
            return max(dual / value, 0.0) if value > 0.0 else 0.0
        hidden = (0.0 if self.signs is not None else self.penalty) * totals[:, 1]
        bound = mixture_length(sums, totals[:, 0], hidden, self.task.intercept)
        if bound == np.inf:
            return 0.0
        if self.signs is not None:
            norm, lowest = np.linalg.norm(w), self._lowest(c)
            reached = lowest.mean() if self.task.intercept else lowest.min()
            return float(reached / norm / bound) if norm > 0.0 and bound > 0.0 else 0.0
        return float(1.0 / np.sqrt(w @ w + totals[:, 1].sum() / self.penalty) / bound)

    def between(self, c: int) -> np.ndarray:
        """The places of rows that are part of the Hessian."""
        return np.flatnonzero((self.slack[c] > 0.0) & (self.slack[c] < self.limit))

    def _losses(self, c: int) -> float:
        goals = self.goals if np.ndim(self.goals) == 0 else self.goals[c]
        return self.passes.losses(self.slack[c], goals, self.task.sample_weight, self.numbers)

    # -------------------------------------------------------------------------------- many features
    def _ascend(self) -> None:
        """Passes of dual coordinate ascent, as long as they get on well."""
        task, order = self.task, self.everything.copy()
        coefs, before = np.zeros((self.weights.shape[0], task.sample_weight.size)), 0.0
        random, passes, goal = np.random.default_rng(0), 0, FIRST_PASSES
        xx = np.empty(task.sample_weight.size)
        newton_passes.squares(task.rows, order, xx)
        while passes < MOST_PASSES:
            for _ in range(passes, goal):
                random.shuffle(order)
                newton_passes.ascend(
                    *(task.rows, order, task.targets, self.first, self.ours),
                    *(task.sample_weight, self.penalty, xx, coefs, self.weights),
                )
            passes, goal = goal, 2 * goal
            self._look_anew()
            self._weigh()
            lowest = float(self.ratio[self.ours].min())
            if lowest >= 1.0 - task.tol or lowest < PROGRESS * before:
                return
            before = lowest

    # ------------------------------------------------------------------ hard margins and hinge loss
    def _lowest(self, c: int) -> np.ndarray:
        """The lowest outputs of the positive and of the negative rows."""
        own, outputs = self.signs[c], self.goals[c] - self.slack[c]
        return np.array([self.passes.lowest(outputs[side]) for side in (own, ~own)])

    def _multiply(self, advance: Callable[..., None]) -> None:
        """Rounds with a falling penalty, and goals that make up for it."""
        task = self.task
        if self.is_hard:
            self.signs = self.passes.empty(self.slack.shape, bool)
            self.passes.positive(self.numbers, task.targets, self.first, self.ours, self.signs)
        self.goals = self.passes.empty(self.slack.shape)
        self.goals[...] = 1.0
        waiting = self.ours
        for _ in range(HINGE_ROUNDS if self.is_hinge else ROUNDS):
            self._round(advance)
            self.open = waiting = np.array(
                [c for c in waiting if self.ratio[c] < 1.0 - task.tol and not self._is_nothing(c)],
                dtype=self.ours.dtype,
            )
            if waiting.size == 0 or self.steps >= task.max_iter:
                break
            self._raise_goals()

    def _round(self, advance: Callable[..., None]) -> None:
        """Steps until nothing changes with this penalty."""
        moved, most = True, HINGE_STEPS if self.is_hinge else STEPS_PER_ROUND
        lowest = np.full(self.weights.shape[0], np.inf)
        for done in range(most + 1):
            self._weigh()
            unsolved = self.ratio[self.open] < 1.0 - self.task.tol
            if self.is_hinge:
                now = self._values()
                unsolved &= now < (1.0 - LEAST_GAIN) * lowest[self.open]
                lowest[self.open] = now
            self.open = self.open[unsolved]
            over = done == most or self.steps >= self.task.max_iter
            if self.open.size == 0 or over or not moved:
                return
            moved = self._step()
            self.steps += 1
            advance(1, note=f"{100 * self.ratio[self.ours].min():.2f} % certified")

    def _raise_goals(self) -> None:
        """The next round: coefficients stay what they are, as the penalty falls."""
        limit, penalty = self.limit, self.penalty
        fall = FALL if self.is_hard else HINGE_FALL if self.limit > LEAST_LIMIT else 1.0
        self.penalty, self.limit = penalty * fall, limit * fall
        for c in self.open.tolist():
            slack, goals = self.slack[c], self.goals[c]
            was = (slack > 0.0) & (slack < limit)
            raised = 1.0 + self.penalty * (slack.clip(0.0, limit) / penalty)
            slack[...] = raised - (goals - slack)
            self.goals[c] = raised
            self.curvature.restated(c, was, (slack > 0.0) & (slack < self.limit))

    def _is_nothing(self, c: int) -> bool:
        """Is it proved that no hyperplane separates the rows?"""
        return self.is_hard and self._evidence(c).bound() <= NOTHING * self.task.radius

    # ------------------------------------------------------------------------------------- the end
    def _solution(self) -> Solution:
        task, width = self.task, self.task.width
        if self.is_hinge:
            return self._hinge_solution()
        evidence = [self._evidence(c) for c in self.ours]
        margins = self._hard_margins() if self.is_hard else self._soft_margins()
        bounds = self.bounds = np.array([sums.bound() for sums in evidence])
        with np.errstate(divide="ignore", invalid="ignore"):
            reached = (margins > 0.0) & (margins >= (1.0 - task.tol) * bounds)
        self.weights[:, width] *= task.intercept
        if self.is_hard or reached.all() or self._center() is None:
            return Solution(self.weights, margins, evidence, self.steps, reached)
        for c in np.flatnonzero(~reached).tolist():
            margin, bound = self._measured_about(c)
            margins[c], bounds[c] = max(margin, margins[c]), min(bound, bounds[c])
        reached = (margins > 0.0) & (margins >= (1.0 - task.tol) * bounds)
        return Solution(self.weights, margins, evidence, self.steps, reached, bounds)

    def _center(self) -> np.ndarray | None:
        """What Hessians, or products of rows, measure rows from, if they do."""
        kept = self.curvature if isinstance(self.curvature, Hessians | Grams) else None
        return kept.center if kept is not None and kept.centers else None

    def _measured_about(self, c: int) -> tuple[float, float]:
        """The soft margin, at least, and the bound, by rows about the center."""
        task, w, mine = self.task, self.weights[c, : self.task.width], self._about(c)
        margin = soft_margin_of_square(
            square=float(w @ w),
            losses=mine.losses,
            total_weight=float(task.sample_weight.sum()),
            error=mine.error(w),
            rows=self.everything.size + w.size,
            penalty=self.penalty,
        )
        behind = self._evidence(c)._replace(
            vectors=np.stack([mine.sums[0] - mine.sums[1], mine.sums[0]]),
            updates=int(mine.updates) + 1,
            radius=float(np.hypot(mine.radius, self.longest_own)),
        )
        return margin, behind.bound()

    def _hinge_solution(self) -> Solution:
        """On fresh outputs; of rows about their center, if the Hessians have one."""
        task, width = self.task, self.task.width
        self.weights[:, width] *= task.intercept
        if self._center() is not None:
            found = [self._about(c) for c in self.ours.tolist()]
        else:
            self.open, self.goals = self.ours, 1.0
            self._look_anew()
            found = [self._as_it_is(c) for c in self.ours.tolist()]
        total, margins, bounds = float(task.sample_weight.sum()), *np.empty((2, self.ours.size))
        for c, mine in enumerate(found):
            w, unit = self.weights[c, :width], self.units[c]
            value = hinge_bounds.highest_value(
                square=float(w @ w),
                losses=mine.losses,
                total_weight=total,
                error=mine.error(w),
                rows=self.everything.size + width,
                penalty=task.penalty,
            )
            proved = hinge_bounds.proved_dual_value(
                mine.sums / unit,
                self.totals[2 * c : 2 * c + 2, 0] / unit,
                intercept=task.intercept,
                updates=mine.updates,
                radius=mine.radius,
            )
            margins[c], bounds[c] = hinge_bounds.as_margin(value), hinge_bounds.as_margin(proved)
        reached = margins >= (1.0 - task.tol) * bounds
        return Solution(self.weights, margins, [], self.steps, reached, bounds)

    def _as_it_is(self, c: int) -> Measured:
        """By slacks that are fresh, and sums of rows as they are."""
        both, width = slice(2 * c, 2 * c + 2), self.task.width
        updates = float(self.totals[both, 2].sum())
        bias = abs(float(self.weights[c, width]))
        return Measured(self._losses(c), self.sums[both, :width], self.task.radius, bias, updates)

    def _about(self, c: int) -> Measured:
        """By rows about the center, so that a large offset of all rows costs no digits.

        With an intercept, sums of rows whose coefficients have the same mass in either class do
        not depend on the center. The output there is added up exactly.
        """
        task, width, weights, center = self.task, self.task.width, self.weights[c], self._center()
        assert center is not None
        counts = task.sample_weight[self.numbers]
        limit = self.units[c] / (2.0 * task.penalty) if self.is_hinge else np.inf
        masses = counts * self.slack[c].clip(0.0, limit)
        (own,) = task.positive(self.numbers, slice(self.first + c, self.first + c + 1))
        sides = np.stack([np.where(own, masses, 0.0), np.where(own, 0.0, masses)])
        bias = exact_product(np.append(center[:width], 1.0), weights)
        ones, sums = np.ones(task.sample_weight.size), np.zeros((2, width))
        losses, square = 0.0, 0.0
        for start in range(0, own.size, BLOCK):
            part = slice(start, start + BLOCK)
            block = gathered(task.rows, self.numbers[part], ones, center)[:, :width]
            outputs = np.where(own[part], 1.0, -1.0) * (block @ weights[:width] + bias)
            lacking = np.maximum(1.0 - outputs, 0.0)
            losses += float(counts[part] @ (lacking if self.is_hinge else lacking * lacking))
            sums += sides[:, part] @ block
            square = max(square, float(np.einsum("ij,ij->i", block, block).max()))
        updates = BLOCK + own.size / BLOCK
        return Measured(losses, sums, float(np.sqrt(square)), abs(bias), updates)

    def _soft_margins(self) -> np.ndarray:
        task = self.task
        errors = (task.width + 16.0) * (self.travel @ [task.radius, 1.0])
        total_weight = float(task.sample_weight.sum())
        return np.array(
            [
                soft_margin(
                    weights=self.weights[c, : task.width],
                    losses=float(self.totals[2 * c : 2 * c + 2, 1].sum()),
                    total_weight=total_weight,
                    error=float(errors[c]),
                    rows=self.everything.size,
                    penalty=self.penalty,
                )
                for c in self.ours
            ]
        )

    def _hard_margins(self) -> np.ndarray:
        """With the intercept half-way between both classes, on fresh outputs."""
        task, width = self.task, self.task.width
        if task.intercept:
            for c in self.ours:
                own, rest = self._lowest(c)
                self.weights[c, width] += 0.5 * (rest - own)
        outputs = self.passes.empty(self.slack.shape)
        self.passes.signed_outputs(
            *(task.rows, self.numbers, task.targets, self.first, self.ours),
            *(self.weights, outputs),
        )
        weights = self.weights.copy()
        lost = 4.0 * ROUNDING * np.abs(weights[:, width])
        weights[:, width] = 0.0
        lost += rounding_of_products(weights) * task.radius
        lowest = np.array([self.passes.lowest(outputs[c]) for c in self.ours.tolist()])
        return geometric_margins(lowest - lost, weights, width)

    def _evidence(self, c: int) -> Evidence:
        return evidence_of_slacks(
            self.sums[2 * c : 2 * c + 2, : self.task.width],
            self.totals[2 * c : 2 * c + 2],
            intercept=self.task.intercept,
            private=float(np.sqrt(self.task.penalty)),
            hidden=0.0 if self.is_hard else self.penalty,
            updates=16,
            radius=float(np.hypot(self.task.radius, self.longest_own)),
        )


# --------------------------------------------------------------------------------------- directions
class Hessians:
    """``sum of s x x'`` over the active rows of each problem, kept; upper triangles.

    Rows that fill much of their width are gathered in blocks, less a point among them, so that a
    large offset of all rows costs no digits.
    """

    def __init__(self, state: Newton) -> None:
        self.state, task = state, state.task
        size = task.width + 1
        self.matrices = np.zeros((state.weights.shape[0], size, size))
        self.gathers = is_gathered(task.filled, task.width)
        self.center = np.zeros(size)
        self.centers = self.gathers and task.intercept
        self.buffers = np.empty(size, np.uint64), np.empty(size)
        self.gathering = Gathering(self.center)
        self.removed = np.zeros(state.weights.shape[0], int)  # rows, since all were added up

    def begin(self) -> None:
        state = self.state
        if self.centers:
            step = max(1, state.numbers.size // BLOCK)
            some = state.numbers[::step][:BLOCK]
            ones = np.ones(state.task.sample_weight.size)
            block = gathered(state.task.rows, some, ones, self.center)
            self.center[:-1] = block[:, :-1].mean(axis=0)
        for c in state.open:
            self._add_up(c)

    def _add_up(self, c: int) -> None:
        self.matrices[c], self.removed[c] = 0.0, 0
        self._add(c, self.state.between(c), 1.0)

    def changed(self, c: int, entered: np.ndarray, left: np.ndarray) -> None:
        """Rows came and went. What is left of many that went is mostly their rounding."""
        self.removed[c] += left.size
        if self.removed[c] > self.state.between(c).size:
            self._add_up(c)
            return
        self._add(c, entered, 1.0)
        self._add(c, left, -1.0)

    def restated(self, c: int, was: np.ndarray, now: np.ndarray) -> None:
        """Which rows are in the Hessian has changed."""
        self.changed(c, np.flatnonzero(now & ~was), np.flatnonzero(was & ~now))

    def _add(self, c: int, places: np.ndarray, sign: float) -> None:
        state, chosen = self.state, self.state.numbers[places]
        rows, sample_weight = state.task.rows, state.task.sample_weight
        if not self.gathers:
            newton_passes.scatter(
                rows, chosen, sample_weight, sign, *self.buffers, self.matrices[c]
            )
        else:
            self.gathering.add(self.matrices[c], rows, chosen, sample_weight, sign)

    def direction(self, c: int, gradient: np.ndarray) -> np.ndarray:
        """The Newton step; down the gradient where rounding leaves no system to solve."""
        task, penalty, factor = self.state.task, self.state.penalty, self._factor(c)
        return newton_step(self.matrices[c], factor, gradient, self.center, penalty, task.intercept)

    def remainders(self, c: int, places: np.ndarray) -> np.ndarray:
        """``1 - h`` of active rows, see `leave_one_out`."""
        task, chosen, factor = self.state.task, self.state.numbers[places], self._factor(c)
        if factor is None:
            return np.full(places.size, np.nan)
        if not self.gathers:
            return scattered_remainders(factor, task.rows, chosen, task.sample_weight)
        return gathered_remainders(factor, task.rows, chosen, task.sample_weight, self.center)

    def _factor(self, c: int) -> np.ndarray | None:
        factor = cholesky(system_of(self.matrices[c], self.state.penalty))
        if factor is None and self.removed[c]:
            self._add_up(c)
            factor = cholesky(system_of(self.matrices[c], self.state.penalty))
        return factor


class Grams:
    """The products of all rows with each other, where they are few.

    Given the active rows, the minimum is at ``w = sum of beta_i x_i`` with
    ``(K + diag(lambda / s)) beta + b = y goal`` and, for the sake of b, ``sum of beta_i = 0``. Rows
    beyond the limit have ``beta = y s limit / lambda``. With an intercept, K may be the products of
    rows about any point, where the output is then b: dense rows are measured from their mean.
    """

    def __init__(self, state: Newton) -> None:
        self.state = state

    def begin(self) -> None:
        state, task, size = self.state, self.state.task, self.state.numbers.size
        self.center = np.zeros(task.width + 1)
        self.centers = is_gathered(task.filled, task.width) and task.intercept
        if self.centers:
            ones = np.ones(task.sample_weight.size)
            block = gathered(task.rows, state.numbers, ones, self.center)[:, :-1]
            self.center[:-1] = block.mean(axis=0)
            block -= self.center[:-1]
            self.gram = block @ block.T
        else:
            self.gram, line = np.empty((size, size)), np.empty((1, task.width + 1))
            newton_passes.products(task.rows, state.numbers, task.width, line, self.gram)
        self.signs = np.zeros(state.slack.shape, dtype=bool)
        newton_passes.positive(
            state.numbers, state.task.targets, state.first, state.ours, self.signs
        )

    def changed(self, c: int, entered: np.ndarray, left: np.ndarray) -> None:
        """Nothing follows the active rows."""

    def restated(self, c: int, was: np.ndarray, now: np.ndarray) -> None:
        """Nothing follows the active rows."""

    def direction(self, c: int, gradient: np.ndarray) -> np.ndarray:
        state, task = self.state, self.state.task
        active, beyond = state.between(c), np.flatnonzero(state.slack[c] >= state.limit)
        there = np.zeros((1, task.width + 1))
        fixed = np.where(self.signs[c, beyond], 1.0, -1.0)
        fixed *= task.sample_weight[state.numbers[beyond]] * (state.limit / state.penalty)
        newton_passes.combine(task.rows, state.numbers[beyond], fixed, there)
        if active.size:
            goals = np.broadcast_to(state.goals, state.slack.shape)[c, active]
            aims = np.where(self.signs[c, active], goals, -goals)
            aims -= self.gram[np.ix_(active, beyond)] @ fixed
            sides = np.stack([aims, np.ones(active.size)])
            factor, bias = cholesky(self._system(active)), 0.0
            if factor is None:
                return -gradient / (state.penalty + self.gram.trace())
            wanted, ones = dpotrs(factor, sides.T, lower=1)[0].T
            if task.intercept:
                bias = float((wanted.sum() + fixed.sum()) / ones.sum())
            newton_passes.combine(task.rows, state.numbers[active], wanted - bias * ones, there)
            there[0, task.width] = bias - self.center[:-1] @ there[0, :-1]
        step = there[0] - state.weights[c]
        if not (task.intercept and active.size):
            step[task.width] = 0.0
        return step

    def remainders(self, c: int, places: np.ndarray) -> np.ndarray:
        """``1 - h`` of active rows, see `leave_one_out`."""
        state = self.state
        active = np.flatnonzero(state.slack[c] > 0.0)
        if (factor := cholesky(self._system(active))) is None:
            return np.full(places.size, np.nan)
        own = state.penalty / state.task.sample_weight[state.numbers[active]]
        all_active = remainders_of_products(factor, own, state.task.intercept)
        return all_active[np.searchsorted(active, places)]

    def _system(self, active: np.ndarray) -> np.ndarray:
        state, system, ends = self.state, self.gram[np.ix_(active, active)], np.arange(active.size)
        system[ends, ends] += state.penalty / state.task.sample_weight[state.numbers[active]]
        return system


class Gradients:
    """Conjugate gradients over the active rows, scaled by the diagonal of the Hessian."""

    def __init__(self, state: Newton) -> None:
        self.state = state

    def begin(self) -> None:
        """Nothing is kept."""

    def changed(self, c: int, entered: np.ndarray, left: np.ndarray) -> None:
        """Nothing is kept."""

    def restated(self, c: int, was: np.ndarray, now: np.ndarray) -> None:
        """Nothing is kept."""

    def direction(self, c: int, gradient: np.ndarray) -> np.ndarray:
        state, task = self.state, self.state.task
        active, penalty, width = state.numbers[state.between(c)], state.penalty, task.width
        diagonal = np.zeros((1, width + 1))
        newton_passes.diagonal(task.rows, active, task.sample_weight, diagonal)
        enough = enough_residual(task.tol, penalty, state.weights[c])
        search = ConjugateGradients(gradient, diagonal[0], penalty, enough)
        while not search.is_over():
            out = np.zeros((1, width + 1))
            newton_passes.along(task.rows, active, task.sample_weight, search.line[None], out)
            search.follow(out[0])
        return search.step
