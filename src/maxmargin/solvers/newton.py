"""The maximum soft margin, exactly, by Newton's method; one or more problems at a time.

    P(w, b) = |w|^2 / 2 + 1 / (2 lambda) sum_i s_i max(0, g_i - y_i f(x_i))^2

with what rows count, s_i, and goals g_i = 1. P is piecewise quadratic: given which rows are active
(below their goals), a Newton step solves a linear system, and once these no longer change, it ends
at the minimum. The coefficients ``a_i = s_i max(0, ...) / lambda`` are a point of the dual, which
proves how near it is: see `certificates.bounds`.

The driver knows neither rows nor weights. An `Oracle` holds the point, with its outputs, and
measures the objective and the certificate there; a `Curvature` finds directions. The first steps
are made with samples of the rows.

The hard margin is the limit of lambda = 0. Goals ``g_i = 1 + lambda a_i``, with the coefficients
from the last round, make it the solution for lambda > 0 too (the method of multipliers: Hestenes
1969, Powell 1969), so lambda need not become so small that the numbers fail.

The hinge loss, ``1 / (2 lambda) sum_i s_i max(0, 1 - y_i f(x_i))``, is solved in the same rounds.
Its coefficients are at most ``s_i / (2 lambda)``. So with mu in the place of lambda, from round to
round a smaller one, losses grow quadratically with the slack up to ``mu / (2 lambda)`` and linearly
from there on, and goals are ``1 + mu a_i / s_i``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, Protocol

import numpy as np

from maxmargin.certificates.directed_rounding import percent_down
from maxmargin.certificates.evidence import Evidence
from maxmargin.solvers.blas_threads import one_thread

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
# Where a certificate has no more digits than that, rounding leaves no ratio nearer to 1.
NEAREST = 1e-13

Advance = Callable[..., None]


def silent(*_: Any, **__: Any) -> None:
    """Reports no progress."""


class Task(NamedTuple):
    """What is asked for.

    penalty : lambda; 0 is the hard margin
    tol : wanted is a margin of 1 - tol of the best possible one
    max_iter : steps with all rows at most
    hinge : is the loss the hinge loss, and not its square? A hard margin has neither.
    """

    penalty: float
    tol: float
    max_iter: int
    hinge: bool = False

    @property
    def is_hard(self) -> bool:
        return self.penalty == 0.0

    @property
    def is_hinge(self) -> bool:
        return self.hinge and not self.is_hard


class Stage(NamedTuple):
    """The objective of some steps.

    task : what is asked for in the end
    penalty : lambda, or mu; it is for all rows, so less for fewer
    limit : slacks from which losses grow linearly
    share : of the rows that are looked at
    """

    task: Task
    penalty: float
    limit: float = np.inf
    share: float = 1.0

    @property
    def hinge_penalty(self) -> float:
        """The lambda of the hinge loss for these rows."""
        return self.task.penalty * self.share

    def fallen(self) -> Stage:
        """The stage of the next round."""
        fall = HINGE_FALL if self.limit > LEAST_LIMIT else 1.0
        fall = FALL if self.task.is_hard else fall
        return self._replace(penalty=self.penalty * fall, limit=self.limit * fall)


class Solution(NamedTuple):
    """The minima of all problems.

    weights : of features, or of rows in a kernel's space, with the intercept last
    margins, bounds : margins reached, and proved bounds on the best ones
    evidence : the sums behind bounds, if they can be added up over machines
    """

    weights: np.ndarray
    margins: np.ndarray
    bounds: np.ndarray
    evidence: list[Evidence]
    n_iter: int
    reached: np.ndarray

    @classmethod
    def joined(cls, parts: Sequence[Solution]) -> Solution:
        """The solution of all problems, given those of some each."""
        weights, margins, bounds, evidence, steps, reached = zip(*parts, strict=True)
        every = np.concatenate
        proved = [each for one in evidence for each in one]
        return cls(
            every(weights), every(margins), every(bounds), proved, max(steps), every(reached)
        )


def are_reached(margins: np.ndarray, bounds: np.ndarray, tol: float) -> np.ndarray:
    """Which margins are proved to be as large as is asked for."""
    with np.errstate(invalid="ignore"):
        return (margins > 0.0) & (bounds < np.inf) & (margins >= (1.0 - tol) * bounds)


class Curvature(Protocol):
    """Finds Newton steps from the point of an oracle, by the rows that are active there."""

    def directions(self, stage: Stage, which: np.ndarray) -> Any:
        """The steps of some of the problems, as `Oracle.move` takes them."""


class Oracle(Protocol):
    """Holds a point of each of some problems, and what is known of their rows there.

    An oracle without samples, or rounds, inherits those methods.

    problems : their number
    is_small : is the minimum itself as cheap as a point near it?
    sample_steps, sample_ratio : samples end after so many steps, or at this ratio of margin and
        bound
    """

    problems: int
    is_small: bool
    sample_steps: int
    sample_ratio: float

    def samples(self, task: Task) -> Sequence[np.ndarray]:
        """Growing samples of the rows."""
        return ()

    def first_penalty(self, task: Task, known: bool) -> float:
        """The first lambda, or mu, for all rows; ``known`` is true after a sample."""
        return task.penalty

    def put(self, weights: np.ndarray) -> None:
        """Go to these weights, as a `Solution` has them."""

    def begin(self, other: Any) -> None:
        """Begin near the point of another oracle of these problems, if that helps."""
        return

    def restrict(self, sample: np.ndarray | None) -> float:
        """Look at these rows, or at all; returns their share."""
        return 1.0

    def curvature(self, stage: Stage) -> Curvature:
        """What finds steps for the rows that are looked at."""

    def measured(self, stage: Stage, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values of the objective, and ratios of margin to bound, of some of the problems."""

    def move(self, stage: Stage, which: np.ndarray, directions: Any) -> bool:
        """Go along directions as far as is best; did rows change their states?"""

    def raise_goals(self, stage: Stage, after: Stage, which: np.ndarray) -> None:
        """The next round: coefficients stay what they are, as the penalty falls."""
        raise AssertionError("this oracle has no rounds")

    def is_hopeless(self, stage: Stage, c: int) -> bool:
        """Is it proved that no hyperplane separates the rows?"""
        return False

    def refine(self, stage: Stage) -> bool:
        """Compute more precisely from here on, if that is possible."""
        return False

    def solution(self, stage: Stage, steps: int) -> Solution:
        """The point, with its certificates."""


def solve(data: Any, task: Task, problems: int, advance: Advance) -> Solution:
    """The hyperplanes of so many problems of `LinearRows` or `KernelRows`."""
    with one_thread if data.is_small else nullcontext():
        parts = data.parts(problems)
        return Solution.joined([newton(data.oracle(task, part), task, advance) for part in parts])


def newton(oracle: Oracle, task: Task, advance: Advance = silent) -> Solution:
    """The minima of the problems of an oracle."""
    return finish(oracle, *approach(oracle, task), advance)


def approach(
    oracle: Oracle, task: Task, weights: np.ndarray | None = None
) -> tuple[Curvature, Stage]:
    """Come near with samples of the rows, or start from these weights; then look at all rows."""
    known = weights is not None
    if weights is not None:
        oracle.put(weights)
    for sample in () if known else oracle.samples(task):
        stage = _first_stage(oracle, task, sample, known)
        rule = Stopping(oracle.sample_steps, oracle.sample_ratio)
        progress = _Progress(oracle.problems, silent)
        _descend(oracle, oracle.curvature(stage), stage, progress, rule)
        known = True
    stage = _first_stage(oracle, task, None, known)
    return oracle.curvature(stage), stage


def _first_stage(oracle: Oracle, task: Task, sample: np.ndarray | None, known: bool) -> Stage:
    penalty = oracle.first_penalty(task, known)
    limit = 0.5 * penalty / task.penalty if task.is_hinge else np.inf
    share = oracle.restrict(sample)
    return Stage(task, penalty * share, limit, share)


def finish(oracle: Oracle, curvature: Curvature, stage: Stage, advance: Advance) -> Solution:
    """Steps with all rows, as many as `approach` has left to do."""
    task, progress = stage.task, _Progress(oracle.problems, advance)
    if task.is_hard or task.is_hinge:
        stage = _rounds(oracle, curvature, stage, progress)
    else:
        while True:
            rule = Stopping(task.max_iter - progress.steps, 1.0 - task.tol, exact=oracle.is_small)
            _descend(oracle, curvature, stage, progress, rule)
            reached = progress.ratios.min() >= 1.0 - task.tol
            if reached or progress.steps >= task.max_iter or not oracle.refine(stage):
                break
    return oracle.solution(stage, progress.steps)


class Stopping(NamedTuple):
    """When steps end.

    most : after so many
    ratio : at this one, of each problem ...
    exact : ... and once no row changes its state, or rounding leaves nothing to gain
    gain, patience : after so many steps that gain no more than this, relative to the value
    settles : once no row changes its state
    """

    most: int
    ratio: float
    exact: bool = False
    gain: float = GAIN
    patience: int = PATIENCE
    settles: bool = False


class _Progress:
    """The ratios of all problems, which are not solved yet, and steps with all rows."""

    def __init__(self, problems: int, advance: Advance) -> None:
        self.ratios, self.steps, self.advance = np.zeros(problems), 0, advance
        self.open: Any = np.arange(problems)

    def count(self, stage: Stage) -> None:
        if stage.share == 1.0:
            self.steps += 1
            self.advance(1, note=f"{percent_down(self.ratios.min(), 1.0)} % certified")


def _descend(
    oracle: Oracle, curvature: Curvature, stage: Stage, progress: _Progress, rule: Stopping
) -> None:
    """Steps of the problems whose ratios are too small."""
    ratios, which, moved = progress.ratios, progress.open, True
    lowest, idle = np.full(ratios.size, np.inf), np.zeros(ratios.size, int)
    for done in range(rule.most + 1):
        values, ratios[which] = oracle.measured(stage, which)
        gains = values < (1.0 - rule.gain) * lowest[which]
        idle[which] = np.where(gains, 0, idle[which] + 1)
        lowest[which] = np.minimum(lowest[which], values)
        wanted = 1.0 - NEAREST if rule.exact and moved else rule.ratio
        which = which[(ratios[which] < wanted) & (idle[which] < rule.patience)]
        if which.size == 0 or done == rule.most or (rule.settles and not moved):
            return
        moved = oracle.move(stage, which, curvature.directions(stage, which))
        progress.count(stage)


def _rounds(oracle: Oracle, curvature: Curvature, stage: Stage, progress: _Progress) -> Stage:
    """Rounds with a falling penalty, and goals that make up for it; returns the last stage."""
    task = stage.task
    most, steps = (HINGE_ROUNDS, HINGE_STEPS) if task.is_hinge else (ROUNDS, STEPS_PER_ROUND)
    for _ in range(most):
        left = min(steps, task.max_iter - progress.steps)
        rule = Stopping(left, 1.0 - task.tol, False, LEAST_GAIN, 1, True)
        _descend(oracle, curvature, stage, progress, rule)
        unsolved = progress.open[progress.ratios[progress.open] < rule.ratio]
        hopeless = [oracle.is_hopeless(stage, c) for c in unsolved.tolist()]
        progress.open = unsolved[~np.array(hopeless, bool)]
        if progress.open.size == 0 or progress.steps >= task.max_iter:
            break
        before, stage = stage, stage.fallen()
        oracle.raise_goals(before, stage, progress.open)
    return stage
