"""Several classes together, with one weight vector each.

    P(W, b) = sum_c |w_c|^2 / 2 + 1 / (4 lambda) sum_i s_i sum_c max(0, g_ic - (f_y - f_c)(x_i))^2

over the rivals c of the class y of row i, with outputs ``f_c(x) = w_c.x + b_c`` and goals of 1. A
pair of a row and a rival is *active* if its slack is positive. With ``mu = 2 lambda`` this is a
squared hinge loss of all pairs, and `newton.newton` minimises it as a single problem. Its dual has
the coefficients ``a_ic = s_i max(0, slack_ic) / mu``: see "Several classes together" in
`docs/theory.md`, also for why the factor is 4 and not 2.

The oracle knows slacks only; a space, of weights of features or of coefficients of rows, knows what
outputs, lengths and sums of rows are. All arrays have one line for each class.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificates.bounds import soft_margin
from maxmargin.certificates.joint_bounds import joint_bound, joint_rounding
from maxmargin.solvers import newton_passes
from maxmargin.solvers.joint_spaces import ClassSpace, KernelClasses, LinearClasses
from maxmargin.solvers.kernel_oracle import KernelRows
from maxmargin.solvers.linear_oracle import LinearRows
from maxmargin.solvers.newton import (
    NOTHING,
    SMALL,
    Curvature,
    Oracle,
    Solution,
    Stage,
    Task,
    are_reached,
)
from maxmargin.solvers.newton_passes import Objective
from maxmargin.spaces.problem_scalars import ROUNDING

# The slack of a row for its own class: it is never active.
OWN = -1.0
# Intercepts are balanced when what is left is that small, relative to all coefficients; at most so
# many steps are made at a time.
BALANCED, MOST_BALANCING = 1e-9, 10


class JointRows(NamedTuple):
    """The rows of a fit, and their classes: 0, 1, ..."""

    rows: LinearRows | KernelRows
    labels: np.ndarray
    classes: int

    @property
    def sample_weight(self) -> np.ndarray:
        return self.rows.sample_weight

    @property
    def is_small(self) -> bool:
        """Is one thread of BLAS as good as more?"""
        return self.rows.is_small

    def weighed(self, sample_weight: np.ndarray) -> JointRows:
        """The same rows with other weights."""
        return self._replace(rows=self.rows.weighed(sample_weight))

    def sampled(self, most: int) -> JointRows:
        """Of more rows in a kernel's space, a sample."""
        rows = self.rows.sampled(most)
        if isinstance(rows, LinearRows) or rows is self.rows:
            return self
        return self._replace(rows=rows, labels=rows.signs.argmax(axis=1))

    def parts(self, problems: int) -> list[slice]:
        """All classes are solved together."""
        return [slice(0, problems)]

    def oracle(self, task: Task, part: slice) -> JointOracle:
        """The oracle of all classes."""
        if isinstance(self.rows, KernelRows):
            return JointOracle(self, KernelClasses(self.rows, self.classes))
        return JointOracle(self, LinearClasses(self.rows, self.classes))

    def positive(self, numbers: np.ndarray, part: slice) -> np.ndarray:
        """Are these rows of these classes? One line for each class."""
        return np.asarray(self.labels[numbers] == np.arange(self.classes)[part, None])

    def spread(self, numbers: np.ndarray) -> float:
        """The mean squared distance of these rows from their mean."""
        return self.rows.spread(numbers)


class JointOracle(Oracle):
    """A point of all classes.

    Attributes
    ----------
    everything : the rows that count
    numbers, labels, counts : the rows of the present sample, their classes and what they count
    weights : one line for each class, the intercept last
    outputs, slack : of these rows
    pull, imbalance, mass, losses : sums of active pairs, times mu; see `_add_up`
    balances : are steps inexact, so that intercepts are moved alone, for the sake of the bound?
    """

    problems, sample_steps, sample_ratio = 1, 10, 0.5

    def __init__(self, data: JointRows, space: ClassSpace) -> None:
        self.data, self.space, self.classes = data, space, data.classes
        given = data.sample_weight
        kind = np.int32 if given.size < 2**31 else np.int64
        self.everything = np.flatnonzero(given > 0.0).astype(kind)
        self.weights = np.zeros((self.classes, space.size))
        self.goals: Any = 1.0
        self.balances = False
        self.is_small = given.size * self.classes * space.size <= SMALL
        # The heaviest row of each class has the shortest coordinate of its own.
        heaviest = np.zeros(self.classes)
        np.maximum.at(heaviest, data.labels[self.everything], given[self.everything])
        self.lightest = float(heaviest[heaviest > 0.0].min(initial=np.inf))

    @property
    def intercept(self) -> bool:
        return self.data.rows.intercept

    @property
    def has_factors(self) -> bool:
        """Are systems solved by factors, which `left_out` needs?"""
        return self.space.has_factors

    def curvature(self, stage: Stage) -> Curvature:
        return self.space.curvature(self, stage)

    def samples(self, task: Task) -> list[np.ndarray]:
        return self.space.samples(self.everything)

    def first_penalty(self, task: Task, known: bool) -> float:
        """``mu``."""
        if task.is_hard:
            some = self.everything[:: max(1, self.everything.size // 512)][:512]
            return 0.01 * self.data.spread(some)
        return 2.0 * task.penalty

    # --------------------------------------------------------------------------- where the rows are
    def put(self, weights: np.ndarray) -> None:
        self.weights[:] = weights

    def begin(self, other: JointOracle) -> None:
        self.put(self.space.kept(other.weights))

    def go_to(self, weights: np.ndarray) -> None:
        """`put`, while rows are looked at."""
        self.put(weights)
        self._look_anew()

    def restrict(self, sample: np.ndarray | None) -> float:
        self.numbers = self.everything if sample is None else sample
        self.labels, self.places = self.data.labels[self.numbers], np.arange(self.numbers.size)
        self.counts = self.data.sample_weight[self.numbers]
        self.pairs = np.tile(self.numbers, self.classes)
        self.space.restrict(self.numbers)
        self._look_anew()
        return self.numbers.size / self.everything.size

    def _look_anew(self) -> None:
        self.outputs = self.space.outputs(self.weights)
        self.slack = self.goals - self.leads(self.outputs)
        self._settle()

    def _settle(self) -> None:
        self.slack[self.labels, self.places] = OWN
        self.is_stale = True

    def leads(self, outputs: np.ndarray) -> np.ndarray:
        """How far the own class of each row is ahead of the others."""
        return np.asarray(outputs[self.labels, self.places] - outputs)

    def between(self, stage: Stage) -> np.ndarray:
        """Which pairs are part of the Hessian."""
        return (self.slack > 0.0) & (self.slack < stage.limit)  # type: ignore[no-any-return]

    def coefs(self, masses: np.ndarray) -> np.ndarray:
        """Coefficients of rows, by those of pairs: positive for own classes."""
        found = -masses
        found[self.labels, self.places] = masses.sum(axis=0)
        return found

    def _add_up(self, stage: Stage) -> None:
        """Sum the active pairs times their slacks, which are their coefficients times mu."""
        within = self.slack.clip(0.0, stage.limit)
        masses = self.counts * within
        self.losses = float(np.vdot(masses, 2.0 * self.slack - within))
        self.pull = self.space.combined(self.coefs(masses))
        # Beside large intercepts nothing would be left of outputs.
        self.imbalance, self.pull[:, -1] = self.pull[:, -1] * self.intercept, 0.0
        self.mass, self.active = float(masses.sum()), int(np.count_nonzero(masses))
        self.length = self.space.square(self.pull)
        self.is_stale = False

    # --------------------------------------------------------------------------------------- a step
    def measured(self, stage: Stage, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.is_stale:
            self._add_up(stage)
        square = self.space.square(self.weights, self.outputs)
        bound, margin = self._bound(stage), 0.0
        if stage.task.is_hard and stage.share == 1.0:
            margin = self._lowest() / np.sqrt(square) if square > 0.0 else 0.0
        elif (whole := square + self.losses / stage.penalty) > 0.0:
            margin = 1.0 / np.sqrt(whole)
        ratio = margin / bound if 0.0 < bound < np.inf else 0.0
        return np.array([stage.penalty * square + self.losses]), np.array([ratio])

    def _bound(self, stage: Stage, rounds: bool = False) -> float:
        """On the best margin, by the dual point of the present slacks."""
        hidden = 0.0 if stage.task.is_hard and stage.share == 1.0 else stage.penalty
        radius = float(np.hypot(self.space.radius, np.sqrt(0.5 * hidden / self.lightest)))
        squares = self.length + hidden * self.losses
        squares += rounds * self.space.square_error(self.pull)
        bound = joint_bound(squares, self.imbalance, self.mass, radius, self.intercept)
        return bound + rounds * joint_rounding(self.active, self.mass, self.mass, radius)

    def _lowest(self) -> float:
        leads = self.leads(self.outputs)
        leads[self.labels, self.places] = np.inf
        return float(leads.min())

    def gradient(self, stage: Stage) -> np.ndarray:
        """Of ``mu P``."""
        if self.is_stale:
            self._add_up(stage)
        gradient = stage.penalty * self.weights - self.pull
        gradient[:, -1] = -self.imbalance
        return gradient

    def move(self, stage: Stage, which: np.ndarray, directions: np.ndarray) -> bool:
        outputs, slack = self.space.outputs(directions), self.slack.reshape(-1)
        change = self.leads(outputs).reshape(-1)
        slope = self.space.product(self.weights, directions, outputs)
        curvature = self.space.product(directions, directions, outputs)
        along = Objective(stage.penalty, slope, curvature, stage.limit)
        t = newton_passes.best_step(slack, change, self.data.sample_weight, self.pairs, along)
        self.weights += t * directions
        self.outputs += t * outputs
        changed = newton_passes.move(slack, change, t, stage.limit)
        self.is_stale = True
        if self.balances:
            self._balance(stage)
        return bool(changed or abs(t - 1.0) > 1e-6)

    def _balance(self, stage: Stage) -> None:
        """Move the intercepts to where they are best; no outputs of weights are computed for it."""
        slack = self.slack.reshape(-1)
        for _ in range(MOST_BALANCING * self.intercept):
            masses = self.counts * self.slack.clip(0.0, stage.limit)
            excess = self.coefs(masses).sum(axis=1)
            if np.abs(excess).max() <= BALANCED * masses.sum():
                return
            now = self.counts * self.between(stage)
            laplacian = np.zeros(2 * (self.classes,))
            for c, line in enumerate(now):
                sums = np.bincount(self.labels, line, minlength=self.classes)
                laplacian[c] -= sums
                laplacian[:, c] -= sums
                laplacian.flat[:: self.classes + 1] += sums
                laplacian[c, c] += sums.sum()
            step = np.linalg.lstsq(laplacian, excess)[0]
            change = (step[self.labels] - step[:, None]).reshape(-1)
            along = Objective(0.0, 0.0, 0.0, stage.limit)
            given = self.data.sample_weight, self.pairs, along
            t = newton_passes.best_step(slack, change, *given)
            newton_passes.move(slack, change, t, stage.limit)
            self.weights[:, -1] += t * step
            self.outputs += t * step[:, None]

    # --------------------------------------------------------------------------------- hard margins
    def raise_goals(self, stage: Stage, after: Stage, which: np.ndarray) -> None:
        raised = 1.0 + after.penalty * (self.slack.clip(0.0, stage.limit) / stage.penalty)
        self.slack += raised - self.goals
        self.goals = raised
        self._settle()

    def is_hopeless(self, stage: Stage, c: int) -> bool:
        return stage.task.is_hard and self._bound(stage, True) <= NOTHING * self.space.radius

    # ------------------------------------------------------------------------------------- the end
    def solution(self, stage: Stage, steps: int) -> Solution:
        if self.is_stale:
            self._add_up(stage)
        bound = self._bound(stage, rounds=True)
        # A number that is added to all intercepts changes nothing.
        self.weights[:, -1] -= self.weights[:, -1].mean()
        self.weights[:, -1] *= self.intercept
        self.outputs = self.space.outputs(self.weights)
        square = self.space.square(self.weights, self.outputs)
        square += self.space.square_error(self.weights)
        error, rows = self.space.error(self.weights), self.pairs.size + self.space.size
        if stage.task.is_hard:
            length = np.sqrt(square * (1.0 + ROUNDING * (self.weights.size + 16.0)))
            margin = float((self._lowest() - error) / length) if length > 0.0 else 0.0
        else:
            slack = np.maximum(1.0 - self.leads(self.outputs), 0.0)
            slack[self.labels, self.places] = 0.0
            losses = float(np.vdot(self.counts * slack, slack))
            total = (self.classes - 1.0) * float(self.counts.sum())
            margin = soft_margin(square, losses, total, error, rows, stage.penalty)
        margins, bounds = np.array([margin]), np.array([bound])
        reached = are_reached(margins, bounds, stage.task.tol)
        return Solution(self.weights, margins, bounds, [], steps, reached)

    # ------------------------------------------------------------------------------- leave-one-out
    def left_out(
        self, curvature: Any, stage: Stage, places: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """As `linear_oracle.LinearOracle.left_out`: ``f_c(x)``, negative for rivals."""
        steps = curvature.directions(stage, np.zeros(1, int))
        outputs = self.outputs + self.space.outputs(steps)
        slack = 1.0 - self.leads(outputs)
        active = self.between(stage)
        pulls = self.counts * np.where(active, slack, 0.0)
        losses = (pulls * slack).sum(axis=0)
        coefs = self.coefs(pulls)[:, places]
        found = outputs[:, places]
        found -= curvature.held_by(stage, places, active[:, places], coefs)
        found = np.where(self.positive(places), found, -found)
        return found, np.array([[losses.sum(), losses[places].sum()]])

    def positive(self, places: np.ndarray) -> np.ndarray:
        return self.data.positive(self.numbers[places], slice(None))

    def signed_outputs(self, numbers: np.ndarray) -> np.ndarray:
        """``f_c(x)``, negative for rivals, of rows that need not be among those that count."""
        self.space.restrict(numbers)
        found = self.space.outputs(self.weights)
        self.space.restrict(self.numbers)
        return np.where(self.data.positive(numbers, slice(None)), found, -found)
