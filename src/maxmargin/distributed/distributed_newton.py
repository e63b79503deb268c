"""The maximum soft margin of rows in shards, by the same Newton steps as on one machine.

The oracle asks at the end of a step of each problem for the sums of gradient and certificate, the
Hessian, and the costs and slopes of shorter steps. So a good step costs one round; any other one
costs a second, at its best length. The first point is the exact solution for a sample of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificates.bounds import soft_margin
from maxmargin.certificates.evidence import Evidence
from maxmargin.core.rows import Tail
from maxmargin.distributed.shards import Rows
from maxmargin.distributed.survey import Job, Overview, SampledRows
from maxmargin.models.linear_model import as_rows
from maxmargin.solvers import newton_passes as passes
from maxmargin.solvers.blas_threads import one_thread
from maxmargin.solvers.hessian import (
    ConjugateGradients,
    Gathering,
    cholesky,
    enough_residual,
    is_gathered,
    newton_step,
    row_buffers,
    system_of,
)
from maxmargin.solvers.linear_oracle import (
    MOST_DIRECT,
    MOST_KEPT,
    HostPasses,
    LinearRows,
    soft_evidence,
)
from maxmargin.solvers.newton import (
    Oracle,
    Solution,
    Stage,
    Task,
    are_reached,
    newton,
    silent,
    solve,
)
from maxmargin.solvers.newton_passes import Chosen
from maxmargin.solvers.regularization_path import (
    MOST_LEFT_OUT,
    Posed,
    RegularizationPath,
    automatic_path,
    chosen_places,
)
from maxmargin.spaces.problem_scalars import ROUNDING
from maxmargin.training import inputs

# Shares of a step at which its cost is computed; the last one is the whole step.
LENGTHS = np.append(0.0, 4.0 ** np.arange(-10, 1))
# A whole step is taken if it gains at least this share of the best gain.
GOOD = 0.5
# The number of values that are processed together, so that they stay in the cache.
NUMBERS_AT_ONCE = 2**18


# --------------------------------------------------------------------------------------- questions
class Asked(NamedTuple):
    """The problems that questions are about.

    classes : the number of classes
    first : the first problem; all others are numbered from there on
    which : those that are asked about
    intercept : is there one?
    """

    classes: int
    first: int
    which: np.ndarray
    intercept: bool

    def passes(self, part: Rows) -> HostPasses:
        rows = as_rows(part.X, Tail(float(self.intercept), 0.0))
        targets = inputs.as_targets(part.codes, self.classes)
        return HostPasses(rows, targets, part.sample_weight, self.first)

    def blocks(self, shard: Any, points: np.ndarray) -> Iterator[tuple[Chosen, np.ndarray]]:
        """Rows that are processed together, and their slacks at these points."""
        at_once = max(1024, NUMBERS_AT_ONCE // points.shape[1])
        for rows in shard.rows():
            part, count = self.passes(rows), rows.sample_weight.size
            for start in range(0, count, at_once):
                chosen = part.chosen(np.arange(start, min(start + at_once, count)))
                yield chosen, 1.0 - _outputs(chosen, self.which, points)


def _outputs(chosen: Chosen, which: np.ndarray, weights: np.ndarray) -> np.ndarray:
    out = np.zeros((weights.shape[0], chosen.numbers.size))
    passes.signed_outputs(chosen, which, weights, out)
    return out


def added(answers: Sequence[Any]) -> Any:
    """The sum of arrays, or of each of several arrays, in their order."""
    if isinstance(answers[0], tuple):
        return type(answers[0])(*(added(parts) for parts in zip(*answers, strict=True)))
    total = answers[0].copy()
    for each in answers[1:]:
        total += each
    return total


class Sums(NamedTuple):
    """The answer of shards, which are added."""

    # Active rows times their slacks: line 2c has the positive rows of problem c, line 2c + 1 the
    # negative ones; see `newton_passes.pulls`.
    pulls: np.ndarray
    totals: np.ndarray  # of slacks, their squares, and active rows, in the same lines
    along: np.ndarray  # costs along steps and half their derivatives: `newton_passes.along_steps`
    curvature: np.ndarray  # upper triangles or diagonals of the Hessians of the problems


class PointQuestion(NamedTuple):
    """The question about the end of a step of each problem."""

    problems: Asked
    points: np.ndarray  # weights at the end, the intercept last
    steps: np.ndarray  # that led there
    center: np.ndarray  # of the rows of Hessians
    gathers: bool  # are rows dense enough to be gathered?

    def merged(self, answers: Sequence[Any]) -> Any:
        return added(answers)

    def answer(self, shard: Any) -> Sums:
        (count, size), which = self.points.shape, self.problems.which
        is_direct = size - 1 <= MOST_DIRECT
        sums = Sums(
            np.zeros((2 * count, size)),
            np.zeros((2 * count, 3)),
            np.zeros((count, LENGTHS.size, 2)),
            np.zeros((which.size, size, size) if is_direct else (which.size, size)),
        )
        buffers, gathering = row_buffers(size), Gathering(self.center)
        moving = which[self.steps[which].any(axis=1)]
        for chosen, slack in self.problems.blocks(shard, self.points):
            rows, weights = chosen.rows, chosen.sample_weight
            passes.pulls(chosen, which, slack, np.inf, sums.pulls, sums.totals)
            if moving.size:
                change = _outputs(chosen, moving, self.steps)
                slack[moving] += change[moving]
                passes.along_steps(slack, change, chosen, moving, LENGTHS, sums.along)
                slack[moving] -= change[moving]
            for n, c in enumerate(which):
                active, curvature = chosen.numbers[slack[c] > 0.0], sums.curvature[n]
                if curvature.ndim == 1:
                    passes.diagonal(rows, active, weights, curvature[None])
                elif self.gathers:
                    gathering.add(curvature, rows, active, weights, 1.0)
                else:
                    passes.scatter(rows, active, weights, 1.0, buffers, curvature)
        if not is_direct:
            return sums
        upper = np.triu_indices(size)
        return sums._replace(curvature=np.stack([each[upper] for each in sums.curvature]))


class Product(NamedTuple):
    """The question about the product of the Hessian and a line, for conjugate gradients."""

    problems: Asked
    points: np.ndarray
    lines: np.ndarray

    def merged(self, answers: Sequence[Any]) -> Any:
        return added(answers)

    def answer(self, shard: Any) -> np.ndarray:
        out = np.zeros_like(self.lines)
        for chosen, slack in self.problems.blocks(shard, self.points):
            for c in self.problems.which:
                active, here = chosen.numbers[slack[c] > 0.0], slice(c, c + 1)
                given = chosen.rows, active, chosen.sample_weight
                passes.along(*given, self.lines[here], out[here])
        return out


# ------------------------------------------------------------------------------------------ rounds
class RoundProgress(NamedTuple):
    """The number of rounds, the least certified ratio, and the number of rows."""

    rounds: int
    ratio: float
    rows: int


Report = Callable[[RoundProgress], None]


def sample_of(overview: Overview, intercept: bool) -> LinearRows:
    """The sample of the rows, to be solved on this machine."""
    (X, y, weight), classes = overview.sample, overview.columns.classes
    targets = inputs.as_targets(inputs.class_codes(y, classes), classes.size)
    return LinearRows(
        passes=HostPasses(as_rows(X, Tail(float(intercept), 0.0)), targets, weight),
        sample_weight=weight,
        width=overview.columns.features.count,
        filled=overview.filled,
        intercept=intercept,
        radius=overview.found.radius,
    )


def path_of_sample(learner: Any, overview: Overview, problems: int) -> RegularizationPath:
    """The path that chooses lambda, on some of the sample with the weights of their rows.

    These are not multiplied as if they stood for all rows, since the best lambda hardly depends on
    the number of rows.
    """
    intercept, X, y, weight = bool(learner.fit_intercept), *overview.sample
    some = chosen_places(weight.size, MOST_LEFT_OUT)
    weight = weight[some] * (weight.size / overview.found.rows)
    weight[np.isclose(weight, 1.0, rtol=0.01)] = 1.0  # shards need not have equally many rows
    sample = SampledRows(X[some], y[some], weight)
    data = sample_of(overview._replace(sample=sample), intercept)
    positive = data.positive(np.arange(weight.size), slice(0, problems))
    if (positive.all(axis=1) | ~positive.any(axis=1)).all():
        raise ValueError(
            f"soft_margin='auto' needs rows of both classes, but {weight.size} rows drawn at "
            "random have only one: give soft_margin a number."
        )
    posed = Posed(
        data=data,
        task=Task(1.0, float(learner.tol), int(learner.max_iter)),
        number=problems,
        one_class=problems > 1 and not overview.columns.multilabel,
    )
    with one_thread:
        return automatic_path(posed, silent, learner.loo)


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
        reached = are_reached(self.margins, self.bounds, tol)
        return Solution(self.weights, self.margins, self.bounds, self.evidence, rounds, reached)


def best_length(values: np.ndarray, slopes: np.ndarray) -> float:
    """The length of a step with the least cost, given costs and their slopes at `LENGTHS`.

    Slopes grow. Where they change sign, the secant gives the root.
    """
    if values[0] - values[-1] >= GOOD * (values[0] - values.min()):
        return 1.0
    low = np.count_nonzero(slopes < 0.0) - 1
    if low < 0 or low == LENGTHS.size - 1:
        return float(LENGTHS[low + (low < 0)])
    (a, b), (below, above) = LENGTHS[low : low + 2], slopes[low : low + 2]
    return float(a + (b - a) * below / (below - above))


class ShardOracle(Oracle):
    """A point of some of the problems, whose rows are in shards; see `solvers.newton.Oracle`.

    Attributes
    ----------
    weights : the points
    pulls, totals, curvatures, values : at the points, but for those of stale problems
    rounds : how often shards were asked about points, at most `max_iter` times
    """

    is_small, sample_steps, sample_ratio = False, 0, 0.0

    def __init__(self, job: Job, part: slice, report: Report) -> None:
        learner, overview = job.learner, job.overview
        self.job, self.overview, self.report = job, overview, report
        self.problems, self.first = part.stop - part.start, part.start
        self.intercept, self.width = bool(learner.fit_intercept), overview.columns.features.count
        self.penalty, self.rounds = float(learner.soft_margin), 0
        self.most = int(learner.max_iter)
        self.weights = np.zeros((self.problems, self.width + 1))
        self.pulls = np.zeros((2 * self.problems, self.width + 1))
        self.totals, self.values = np.zeros((2 * self.problems, 3)), np.zeros(self.problems)
        self.curvatures: list[Any] = [None] * self.problems
        self.stale = np.ones(self.problems, bool)
        self.best = Best(self.problems, self.width)
        self.gathers = is_gathered(overview.filled, self.width)
        self.center = np.zeros(self.width + 1)
        if self.gathers and self.intercept:
            self.center[:-1] = np.asarray(overview.sample.X.mean(axis=0)).ravel()

    def about(self, which: np.ndarray) -> Asked:
        """What questions about these problems begin with."""
        classes = self.overview.columns.classes.size
        return Asked(classes, self.first, which, self.intercept)

    def curvature(self, stage: Stage) -> ShardOracle:
        return self

    def put(self, weights: np.ndarray) -> None:
        self.weights[:] = weights
        self.weights[:, -1] *= self.intercept

    def measured(self, stage: Stage, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        stale = which[self.stale[which]]
        if stale.size and self.rounds < self.most:
            self._take(stale, self._ask(stale, np.zeros_like(self.weights)), stale)
        return self.values[which], self.best.ratios[which].clip(min=0.0)

    def _ask(self, which: np.ndarray, steps: np.ndarray) -> Sums:
        """About the ends of steps, which are offered as solutions."""
        points = self.weights + steps
        question = PointQuestion(self.about(which), points, steps, self.center, self.gathers)
        sums: Sums = self.job.ask(question)
        self.rounds += 1
        for c in which.tolist():
            given = points[c], sums.totals[2 * c : 2 * c + 2]
            sides = sums.pulls[2 * c : 2 * c + 2, :-1], given[1]
            self.best.offer(c, points[c], self._margin(*given), self._evidence(*sides))
        ratio = float(self.best.ratios.min())
        self.report(RoundProgress(self.rounds, ratio, self.overview.found.rows))
        return sums

    def _take(self, which: np.ndarray, sums: Sums, asked: np.ndarray) -> None:
        """Know these sums of the present points."""
        lines = np.concatenate([2 * which, 2 * which + 1])
        self.pulls[lines], self.totals[lines] = sums.pulls[lines], sums.totals[lines]
        for c in which.tolist():
            self.curvatures[c] = sums.curvature[np.searchsorted(asked, c)]
        w = self.weights[which, :-1]
        losses = self.totals[2 * which, 1] + self.totals[2 * which + 1, 1]
        self.values[which] = self.penalty * (w * w).sum(axis=1) + losses
        self.stale[which] = False

    def gradient(self, c: int) -> np.ndarray:
        pull = self.pulls[2 * c] - self.pulls[2 * c + 1]
        gradient = self.penalty * self.weights[c] - pull
        gradient[-1] = -pull[-1]
        return gradient

    def move(self, stage: Stage, which: np.ndarray, directions: np.ndarray) -> bool:
        if self.rounds >= self.most:
            return False
        sums = self._ask(which, directions)
        values, slopes = self._costs(directions, sums.along)
        lengths = np.array(list(map(best_length, values, slopes)))
        whole = lengths[which] == 1.0
        self.weights[which] += lengths[which, None] * directions[which]
        self.stale[which] = ~whole
        self._take(which[whole], sums, which)
        return True

    def _costs(self, steps: np.ndarray, losses: np.ndarray) -> np.ndarray:
        """2 lambda P at `LENGTHS` of steps, and half its derivative."""
        w, step = self.weights[:, :-1], steps[:, :-1]
        ww, wd, dd = ((a * b).sum(axis=1)[:, None] for a, b in ((w, w), (w, step), (step, step)))
        squares = np.stack([ww + LENGTHS * (2.0 * wd + LENGTHS * dd), wd + LENGTHS * dd])
        return self.penalty * squares + np.moveaxis(losses, -1, 0)

    def solution(self, stage: Stage, steps: int) -> Solution:
        return self.best.solution(self.rounds, stage.task.tol)

    # ----------------------------------------------------------------------------------- directions
    def directions(self, stage: Stage, which: np.ndarray) -> np.ndarray:
        """Newton steps by the Hessians of shards, or by conjugate gradients."""
        if self.width > MOST_DIRECT:
            return self._by_gradients(stage, which)
        steps, matrix = np.zeros_like(self.weights), np.zeros((self.width + 1, self.width + 1))
        for c in which.tolist():
            matrix[np.triu_indices(self.width + 1)] = self.curvatures[c]
            with one_thread:
                factor = cholesky(system_of(matrix, stage.penalty))
                given = matrix, factor, self.gradient(c), self.center, stage.penalty
                steps[c] = newton_step(*given, self.intercept)
        return steps

    def _by_gradients(self, stage: Stage, which: np.ndarray) -> np.ndarray:
        """By conjugate gradients, each of whose steps is a question."""
        searches = {}
        for c in which.tolist():
            enough = enough_residual(stage.task.tol, stage.penalty, self.weights[c])
            given = self.gradient(c), self.curvatures[c], stage.penalty, enough
            searches[c] = ConjugateGradients(*given)
        steps, lines = np.zeros_like(self.weights), np.zeros_like(self.weights)
        while going := [c for c, search in searches.items() if not search.is_over()]:
            for c in going:
                lines[c] = searches[c].line
            products = self.job.ask(Product(self.about(np.array(going)), self.weights, lines))
            for c in going:
                searches[c].follow(products[c])
        for c, search in searches.items():
            steps[c] = search.step
            steps[c, -1] *= self.intercept
        return steps

    # --------------------------------------------------------------------------------- certificates
    def _margin(self, point: np.ndarray, totals: np.ndarray) -> float:
        overview = self.overview
        w, radius = point[:-1], overview.found.radius
        length = float(np.linalg.norm(w) * radius + abs(point[-1]))
        return soft_margin(
            square=float(w @ w),
            losses=float(totals[:, 1].sum()),
            total_weight=overview.found.total_weight,
            error=ROUNDING * ((self.width + 16.0) * length),
            rows=overview.found.rows + self.width,
            penalty=self.penalty,
        )

    def _evidence(self, pulls: np.ndarray, totals: np.ndarray) -> Evidence:
        radius = np.hypot(
            self.overview.found.radius, np.sqrt(self.penalty / self.overview.found.least)
        )
        updates, penalty = 16 + 2 * len(self.job.shards), self.penalty
        return soft_evidence((pulls, totals), self.intercept, penalty, updates, float(radius))


def solved(job: Job, problems: int, report: Report) -> Solution:
    """The hyperplanes after at most `max_iter` rounds."""
    learner = job.learner
    task = Task(float(learner.soft_margin), float(learner.tol), int(learner.max_iter))
    with one_thread:
        sample = sample_of(job.overview, bool(learner.fit_intercept))
        start = solve(sample, task, problems, silent).weights
    size, found = start.shape[1], []
    kept = size * (size + 1) // 2 if size - 1 <= MOST_DIRECT else size
    at_once = max(1, MOST_KEPT // kept)
    for first in range(0, problems, at_once):
        part = slice(first, min(first + at_once, problems))
        oracle = ShardOracle(job, part, report)
        oracle.put(start[part])
        found.append(newton(oracle, task._replace(max_iter=task.max_iter - 1)))
    return Solution.joined(found)
