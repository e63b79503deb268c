"""The maximum soft margin by rounds of Newton's method over shards.

The method and the certificate are those of `models.newton_solver`. A round asks at the end of a
step of each problem for the sums of gradient and certificate, the Hessian, and the costs and slopes
of steps of other lengths. So a good step costs one round, and any other one is repeated with the
estimated best length. The first point is the exact solution for a sample of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from maxmargin.certificates.evidence import Evidence
from maxmargin.certificates.scalar_bounds import soft_margin
from maxmargin.core import newton_passes as passes
from maxmargin.core.rows import Tail
from maxmargin.distributed.shards import Rows
from maxmargin.distributed.survey import Job, Overview
from maxmargin.models.blas_threads import one_thread
from maxmargin.models.hessian import (
    ConjugateGradients,
    Gathering,
    cholesky,
    enough_residual,
    is_gathered,
    newton_step,
    system_of,
)
from maxmargin.models.linear_model import as_rows
from maxmargin.models.newton_solver import (
    GAIN,
    MOST_DIRECT,
    MOST_KEPT,
    PATIENCE,
    Solution,
    Task,
    evidence_of_slacks,
    solve,
)
from maxmargin.training import inputs

# Lengths of a step at which its cost is computed, and positions between two known lengths.
SHORTER = np.array([0.5, 0.25, 0.1, 0.03, 0.01, 1.0])
BETWEEN = np.array([1.0, 2.0, 3.0, 4.0, 5.0]) / 6.0
# A full step is taken if it gains at least this share of the best gain; another length, if at most
# this share of the slope remains there. And the number of lengths that are tried.
GOOD, MOST_TRIED = 0.5, 12
# A round that gains less than this share of the tolerance has no effect.
LEAST_GAIN = 1e-3
# The number of values that are processed together, so that they stay in the cache.
NUMBERS_AT_ONCE = 2**18


# --------------------------------------------------------------------------------------- questions
class Sums(NamedTuple):
    """The answer of shards, which are added."""

    # Active rows times their slacks: line 2c has the positive rows of problem c, line 2c + 1 the
    # negative ones; see `core.newton_passes.pulls`.
    pulls: np.ndarray
    totals: np.ndarray  # of slacks, their squares, and active rows, in the same lines
    # Costs of steps of other lengths and half their derivatives, for each problem; see
    # `core.newton_passes.along_steps`.
    along: np.ndarray
    curvature: np.ndarray  # upper triangles or diagonals of the Hessians of open problems


class PointQuestion(NamedTuple):
    """The question about a point of each open problem."""

    classes: int  # the number of classes
    first: int  # the first problem of this run
    open: np.ndarray  # the open problems, numbered from the first on
    points: np.ndarray  # weights, the intercept last
    steps: np.ndarray  # that led to the points
    lengths: np.ndarray  # other lengths of the steps, for each problem
    center: np.ndarray  # of the rows of Hessians
    gathers: bool  # are rows dense enough to be gathered?
    intercept: bool

    def answer(self, shard: Any) -> Sums:
        problems, size = self.points.shape
        direct, count = size - 1 <= MOST_DIRECT, self.open.size
        sums = Sums(
            np.zeros((2 * problems, size)),
            np.zeros((2 * problems, 3)),
            np.zeros((*self.lengths.shape, 3)),
            np.zeros((count, size, size) if direct else (count, size)),
        )
        for part in shard.rows():
            self._add(part, sums)
        if not direct:
            return sums
        upper = np.triu_indices(size)
        return sums._replace(curvature=np.stack([each[upper] for each in sums.curvature]))

    def _add(self, part: Rows, sums: Sums) -> None:
        rows = as_rows(part.X, Tail(float(self.intercept), 0.0))
        targets, size = inputs.as_targets(part.codes, self.classes), self.points.shape[1]
        at_once = max(1024, NUMBERS_AT_ONCE // size)
        buffers = np.empty(size, np.uint64), np.empty(size)
        gathering = Gathering(self.center)
        moving = self.open[self.steps[self.open].any(axis=1)]
        for start in range(0, part.sample_weight.size, at_once):
            numbers = np.arange(start, min(start + at_once, part.sample_weight.size))
            slack, change = np.empty((2, self.points.shape[0], numbers.size))
            where = (rows, numbers, targets, self.first)
            passes.signed_outputs(*where, self.open, self.points, slack)
            slack[self.open] = 1.0 - slack[self.open]
            passes.pulls(
                *(*where, self.open, part.sample_weight, slack, np.inf), sums.pulls, sums.totals
            )
            if moving.size:
                passes.signed_outputs(*where, moving, self.steps, change)
                passes.along_steps(
                    slack, change, part.sample_weight, numbers, moving, self.lengths, sums.along
                )
            for n, c in enumerate(self.open):
                active, curvature = numbers[slack[c] > 0.0], sums.curvature[n]
                if curvature.ndim == 1:
                    passes.diagonal(rows, active, part.sample_weight, curvature[None])
                elif self.gathers:
                    gathering.add(curvature, rows, active, part.sample_weight, 1.0)
                else:
                    passes.scatter(rows, active, part.sample_weight, 1.0, *buffers, curvature)

    def merged(self, answers: Sequence[Sums]) -> Sums:
        return Sums(*(_added(parts) for parts in zip(*answers, strict=True)))


class Product(NamedTuple):
    """The question about the product of the Hessian and a line, for conjugate gradients."""

    classes: int
    first: int
    open: np.ndarray
    points: np.ndarray
    lines: np.ndarray
    intercept: bool

    def answer(self, shard: Any) -> np.ndarray:
        out = np.zeros_like(self.lines)
        for part in shard.rows():
            rows = as_rows(part.X, Tail(float(self.intercept), 0.0))
            targets = inputs.as_targets(part.codes, self.classes)
            numbers = np.arange(part.sample_weight.size)
            outputs = np.empty((self.points.shape[0], numbers.size))
            passes.signed_outputs(
                *(rows, numbers, targets, self.first, self.open), self.points, outputs
            )
            for c in self.open:
                active, line = numbers[outputs[c] < 1.0], self.lines[c : c + 1]
                passes.along(rows, active, part.sample_weight, line, out[c : c + 1])
        return out

    def merged(self, answers: Sequence[np.ndarray]) -> np.ndarray:
        return _added(answers)


def _added(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The sum of arrays, in their order."""
    total = arrays[0].copy()
    for each in arrays[1:]:
        total += each
    return total


# ------------------------------------------------------------------------------------------ rounds
class Progress(NamedTuple):
    """The number of rounds, the least certified ratio, and the number of rows."""

    rounds: int
    ratio: float
    rows: int


Report = Callable[[Progress], None]


def sample_task(overview: Overview, learner: BaseEstimator) -> Task:
    """The sample as a task of its own."""
    X, y, weight = overview.sample
    columns, width = overview.columns, overview.columns.features.count
    codes = inputs.class_codes(y, columns.classes)
    return Task(
        rows=as_rows(X, Tail(float(learner.fit_intercept), 0.0)),
        targets=inputs.as_targets(codes, columns.classes.size),
        sample_weight=weight,
        penalty=float(learner.soft_margin),
        width=width,
        filled=overview.filled,
        intercept=bool(learner.fit_intercept),
        radius=overview.radius,
        tol=float(learner.tol),
        max_iter=int(learner.max_iter),
    )


class Best:
    """The best certified weights of each problem so far."""

    def __init__(self, problems: int, width: int) -> None:
        self.weights = np.zeros((problems, width + 1))
        self.margins, self.ratios = np.zeros(problems), np.full(problems, -1.0)
        self.bounds = np.full(problems, np.inf)
        self.evidence: list[Any] = [None] * problems

    def offer(self, c: int, weights: np.ndarray, margin: float, evidence: Evidence) -> None:
        """Keep what is better: a larger ratio or, if both are 0, a smaller bound."""
        bound = evidence.bound()
        ratio = margin / bound if 0.0 < bound < np.inf and margin > 0.0 else 0.0
        if (ratio, -bound) > (self.ratios[c], -self.bounds[c]):
            self.weights[c], self.margins[c] = weights, margin
            self.ratios[c], self.bounds[c], self.evidence[c] = ratio, bound, evidence

    def solution(self, rounds: int, tol: float) -> Solution:
        reached = (self.margins > 0.0) & (self.margins >= (1.0 - tol) * self.bounds)
        return Solution(self.weights, self.margins, self.evidence, rounds, reached)


class Rounds:
    """The rounds for some of the problems."""

    def __init__(self, job: Job, start: np.ndarray, first: int) -> None:
        self.job, self.learner, self.overview = job, job.learner, job.overview
        learner, overview = job.learner, job.overview
        self.first, self.penalty = first, float(learner.soft_margin)
        self.intercept, self.width = bool(learner.fit_intercept), start.shape[1] - 1
        # The point of each problem, and the step that is tried.
        self.weights, self.steps = start.copy(), np.zeros_like(start)
        self.weights[:, -1] *= self.intercept
        # 2 lambda P at the point, and half its derivative along the step.
        self.values, self.slopes = np.full(start.shape[0], np.inf), np.zeros(start.shape[0])
        # Lengths at which the cost of the step is computed, and where it decreases and increases.
        self.lengths = np.tile(SHORTER, (start.shape[0], 1))
        self.brackets = np.tile([0.0, np.inf], (start.shape[0], 1))
        # How often the length of the step was changed, and rounds without a gain.
        self.tried, self.idle = np.zeros((2, start.shape[0]), int)
        self.open: Any = np.arange(start.shape[0])
        self.best = Best(start.shape[0], self.width)
        self.gathers = is_gathered(overview.filled, self.width)
        self.center = np.zeros(self.width + 1)
        if self.gathers and self.intercept:
            self.center[:-1] = np.asarray(overview.sample.X.mean(axis=0)).ravel()
        self.rounds = 0

    def run(self, most: int, report: Report) -> None:
        learner = self.learner
        while self.open.size and self.rounds < most:
            points = self.weights + self.steps
            sums = self.job.ask(
                PointQuestion(
                    classes=self.overview.columns.classes.size,
                    first=self.first,
                    open=self.open,
                    points=points,
                    steps=self.steps,
                    lengths=self.lengths,
                    center=self.center,
                    gathers=self.gathers,
                    intercept=self.intercept,
                )
            )
            self.rounds += 1
            for c in self.open:
                margin, evidence = self._margin(c, points[c], sums), self._evidence(c, sums)
                self.best.offer(c, points[c], margin, evidence)
            report(Progress(self.rounds, float(self.best.ratios.min()), self.overview.rows))
            asked = self.open
            moved = {int(c): self._moved(c, points[c], sums) for c in asked}
            unsolved = self.best.ratios[asked] < 1.0 - learner.tol
            self.open = asked[unsolved & (self.idle[asked] < PATIENCE)]
            self._find_steps([c for c in self.open if moved[int(c)]], asked, sums)

    # --------------------------------------------------------------------------------- certificates
    def _margin(self, c: int, point: np.ndarray, sums: Sums) -> float:
        overview = self.overview
        length = np.linalg.norm(point[:-1]) * overview.radius + abs(point[-1])
        return soft_margin(
            weights=point[:-1],
            losses=float(sums.totals[2 * c : 2 * c + 2, 1].sum()),
            total_weight=overview.total_weight,
            error=(self.width + 16.0) * float(length),
            rows=overview.rows,
            penalty=self.penalty,
        )

    def _evidence(self, c: int, sums: Sums) -> Evidence:
        longest_own = np.sqrt(self.penalty / self.overview.least)
        return evidence_of_slacks(
            sums.pulls[2 * c : 2 * c + 2, :-1],
            sums.totals[2 * c : 2 * c + 2],
            intercept=self.intercept,
            private=float(np.sqrt(self.penalty)),
            hidden=self.penalty,
            updates=16 + 2 * len(self.job.shards),
            radius=float(np.hypot(self.overview.radius, longest_own)),
        )

    # ------------------------------------------------------------------------------------ the steps
    def _moved(self, c: int, point: np.ndarray, sums: Sums) -> bool:
        """Accept the step if it is good, else change it; returns whether it was accepted."""
        if not self.steps[c].any():
            losses = float(sums.totals[2 * c : 2 * c + 2, 1].sum())
            self.weights[c] = point
            self.values[c] = self.penalty * float(point[:-1] @ point[:-1]) + losses
            return True
        values, slopes, curvatures = self._along(c, sums)
        before, whole, best = self.values[c], values[-1], int(np.argmin(values))
        gain = max(GAIN, LEAST_GAIN * float(self.learner.tol))
        self.idle[c] = 0 if values[best] < (1.0 - gain) * before else self.idle[c] + 1
        if self.tried[c]:
            is_good = whole < before and abs(slopes[-1]) <= GOOD * abs(self.slopes[c])
        else:
            is_good = before - whole >= GOOD * (before - values[best])
        if is_good:
            self.weights[c], self.values[c] = point, whole
            return True
        if self.tried[c] < MOST_TRIED and self._narrow(c, slopes, curvatures):
            return False
        if values[best] < before:
            self.weights[c] += self.lengths[c, best] * self.steps[c]
            self.values[c] = values[best]
        self.steps[c] = 0.0  # and ask again there
        return False

    def _along(self, c: int, sums: Sums) -> np.ndarray:
        """2 lambda P at the lengths of the step, and half its derivatives."""
        (w, step), t = (each[c, :-1] for each in (self.weights, self.steps)), self.lengths[c]
        ww, wd, dd = float(w @ w), float(w @ step), float(step @ step)
        lengths = np.stack([ww + t * (2.0 * wd + t * dd), wd + t * dd, np.full_like(t, dd)])
        return self.penalty * lengths + sums.along[c].T

    def _narrow(self, c: int, slopes: np.ndarray, curvatures: np.ndarray) -> bool:
        """Try the step at the length of least cost; returns False if there is none.

        The derivative is piecewise linear and increasing: a Newton step from one of the lengths
        around its zero, if it stays between them, else bisection.
        """
        lengths, (low, high), guesses = self.lengths[c], self.brackets[c], []
        with np.errstate(divide="ignore", invalid="ignore"):
            roots = lengths - slopes / curvatures
        falls, rises = np.flatnonzero(slopes < 0.0), np.flatnonzero(slopes >= 0.0)
        if rises.size and lengths[k := rises[np.argmin(lengths[rises])]] < high:
            high = lengths[k]
            guesses.append(roots[k])
        if falls.size and lengths[k := falls[np.argmax(lengths[falls])]] > low:
            low = lengths[k]
            guesses.append(roots[k])
        if not (guesses and low < high < np.inf):
            return False
        guess = next((each for each in guesses if low < each < high), 0.5 * (low + high))
        self.steps[c] *= guess
        self.slopes[c] *= guess
        self.lengths[c] = np.append(low + BETWEEN * (high - low), guess) / guess
        self.brackets[c] = low / guess, high / guess
        self.tried[c] += 1
        return True

    def _find_steps(self, which: list[int], asked: np.ndarray, sums: Sums) -> None:
        solve_for = self._search if self.width > MOST_DIRECT else self._solve
        solve_for(which, asked, sums)
        self.lengths[which], self.brackets[which], self.tried[which] = SHORTER, (0.0, np.inf), 0
        for c in which:
            self.slopes[c] = self._gradient(c, sums) @ self.steps[c]

    def _solve(self, which: list[int], asked: np.ndarray, sums: Sums) -> None:
        size = self.width + 1
        for c in which:
            (n,) = np.flatnonzero(asked == c)
            matrix = np.zeros((size, size))
            matrix[np.triu_indices(size)] = sums.curvature[n]
            with one_thread():
                factor = cholesky(system_of(matrix, self.penalty))
                self.steps[c] = newton_step(
                    *(matrix, factor, self._gradient(c, sums)),
                    *(self.center, self.penalty, self.intercept),
                )

    def _gradient(self, c: int, sums: Sums) -> np.ndarray:
        own, rest = sums.pulls[2 * c : 2 * c + 2]
        gradient = self.penalty * self.weights[c] - (own - rest)
        gradient[-1] = rest[-1] - own[-1]
        return gradient

    def _search(self, which: list[int], asked: np.ndarray, sums: Sums) -> None:
        """Conjugate gradients; each of their steps is a round."""
        penalty, searches = self.penalty, {}
        for c in which:
            (n,) = np.flatnonzero(asked == c)
            enough = enough_residual(float(self.learner.tol), penalty, self.weights[c])
            searches[c] = ConjugateGradients(
                self._gradient(c, sums), sums.curvature[n], penalty, enough
            )
        lines = np.zeros_like(self.weights)
        while going := [c for c, search in searches.items() if not search.is_over()]:
            for c in going:
                lines[c] = searches[c].line
            classes = self.overview.columns.classes.size
            where = classes, self.first, np.array(going), self.weights
            products = self.job.ask(Product(*where, lines, self.intercept))
            for c in going:
                searches[c].follow(products[c])
        for c, search in searches.items():
            self.steps[c] = search.step
            self.steps[c, -1] *= self.intercept


def solved(
    job: Job, problems: int, most: int, report: Report
) -> tuple[Solution, BaseException | None]:
    """The hyperplanes after at most ``most`` rounds, and Ctrl-C if it has stopped them."""
    task = sample_task(job.overview, job.learner)
    with one_thread():
        start = solve(task, problems, lambda *_, **__: None).weights
    size = task.width + 1
    kept = size * (size + 1) // 2 if task.width <= MOST_DIRECT else size
    at_once = max(1, MOST_KEPT // kept)
    firsts = range(0, problems, at_once)
    parts = [Rounds(job, start[first : first + at_once], first) for first in firsts]
    interrupted: BaseException | None = None
    try:
        for part in parts:
            part.run(most, report)
    except KeyboardInterrupt as signal:
        interrupted = signal
    if any(part.best.ratios.min() < 0.0 for part in parts):  # not one round for each
        assert interrupted is not None
        raise interrupted
    tol = float(job.learner.tol)
    return Solution.joined([part.best.solution(part.rounds, tol) for part in parts]), interrupted
