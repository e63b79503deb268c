"""Margins of hyperplanes and the sums that prove bounds on them, from the slacks of all rows."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificates import geometric_margins, hinge_bounds
from maxmargin.certificates.bounds import rounding_of_products
from maxmargin.certificates.evidence import Evidence
from maxmargin.certificates.scalar_bounds import soft_margin_of_square
from maxmargin.solvers.hessian import BLOCK, gathered
from maxmargin.solvers.newton import Solution, Stage, are_reached
from maxmargin.spaces.problem_scalars import ROUNDING


class Sides(NamedTuple):
    """The dual point of a problem: the rows at their slacks, over lambda.

    sums, totals : of positive and of negative rows, see `newton_passes.pulls`; without intercept
    intercept : is there one?
    penalty : lambda; 0 is the hard margin
    hidden : the squared private coordinate of a slack of 1
    updates : how often sums were rounded, besides once for each active row
    radius : the largest norm of a row, with its coordinate of its own
    """

    sums: np.ndarray
    totals: np.ndarray
    intercept: bool
    penalty: float
    hidden: float
    updates: int
    radius: float

    def evidence(self) -> Evidence:
        own, rest = self.totals
        return Evidence(
            p=2.0,
            intercept=self.intercept,
            private=float(np.sqrt(self.penalty)),
            split=self.intercept,
            vectors=np.stack([self.sums[0] - self.sums[1], self.sums[0]]),
            masses=(float(own[0]), float(rest[0])),
            hidden=(self.hidden * float(own[1]), self.hidden * float(rest[1])),
            updates=int(own[2] + rest[2]) + self.updates,
            radius=self.radius,
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


def certified(oracle: Any, stage: Stage, steps: int) -> Solution:
    """The solution at the point of a `LinearOracle`."""
    task, weights = stage.task, oracle.weights
    weights[:, -1] *= oracle.data.intercept
    if task.is_hinge:
        margins, bounds = _hinge(oracle, stage)
        reached = are_reached(margins, bounds, task.tol)
        return Solution(weights, margins, bounds, [], steps, reached)
    evidence = [evidence_of(oracle, stage, c) for c in range(oracle.problems)]
    bounds = np.array([sums.bound() for sums in evidence])
    margins = _hard_margins(oracle) if task.is_hard else _soft_margins(oracle, stage)
    reached = are_reached(margins, bounds, task.tol)
    if not task.is_hard and oracle.center is not None:
        for c in np.flatnonzero(~reached).tolist():
            margin, bound = _measured_about(oracle, stage, c)
            margins[c], bounds[c] = max(margin, margins[c]), min(bound, bounds[c])
        reached = are_reached(margins, bounds, task.tol)
    return Solution(weights, margins, bounds, evidence, steps, reached)


def evidence_of(oracle: Any, stage: Stage, c: int) -> Evidence:
    return _sides(oracle, stage, c).evidence()


def _sides(oracle: Any, stage: Stage, c: int) -> Sides:
    (sums, totals), data, penalty = oracle.sides(c), oracle.data, stage.task.penalty
    given = data.sample_weight
    least = np.min(given, where=given > 0.0, initial=np.inf)
    radius = float(np.hypot(data.radius, np.sqrt(penalty / least)))
    return Sides(sums, totals, data.intercept, penalty, penalty, 16, radius)


def _soft(oracle: Any, stage: Stage, c: int, losses: float, error: float) -> float:
    """The soft margin of a problem, at least, given its losses and the rounding of outputs."""
    w = oracle.weights[c, :-1]
    total = float(oracle.data.sample_weight.sum())
    rows = oracle.everything.size + w.size
    return soft_margin_of_square(float(w @ w), losses, total, error, rows, stage.penalty)


def _soft_margins(oracle: Any, stage: Stage) -> np.ndarray:
    errors = ROUNDING * (oracle.data.width + 16.0) * (oracle.travel @ [oracle.data.radius, 1.0])
    return np.array(
        [
            _soft(oracle, stage, c, float(oracle.sides(c)[1][:, 1].sum()), float(errors[c]))
            for c in range(oracle.problems)
        ]
    )


def _measured_about(oracle: Any, stage: Stage, c: int) -> tuple[float, float]:
    """The soft margin, at least, and the bound, by rows about the center."""
    mine, sides = _about_center(oracle, stage, c), _sides(oracle, stage, c)
    radius = np.sqrt(mine.radius**2 + sides.radius**2 - oracle.data.radius**2)
    margin = _soft(oracle, stage, c, mine.losses, mine.error(oracle.weights[c, :-1]))
    updates = int(mine.updates) + 1 - int(sides.totals[:, 2].sum())
    behind = sides._replace(sums=mine.sums, updates=updates, radius=float(radius))
    return margin, behind.evidence().bound()


def _hinge(oracle: Any, stage: Stage) -> tuple[np.ndarray, np.ndarray]:
    """On fresh outputs; of rows about their center, if the curvature has one."""
    task, data = stage.task, oracle.data
    if oracle.center is not None:
        found = [_about_center(oracle, stage, c) for c in range(oracle.problems)]
    else:
        oracle.goals = 1.0
        sums = [oracle.sides(c) for c in range(oracle.problems)]
        oracle.look_anew(oracle.all)
        found = []
        for c, (of_rows, totals) in enumerate(sums):
            bias, updates = abs(float(oracle.weights[c, -1])), float(totals[:, 2].sum())
            found.append(Measured(oracle.losses(c), of_rows, data.radius, bias, updates))
    total, margins, bounds = float(data.sample_weight.sum()), *np.empty((2, oracle.problems))
    for c, mine in enumerate(found):
        w, unit = oracle.weights[c, :-1], oracle.units[c]
        value = hinge_bounds.highest_value(
            square=float(w @ w),
            losses=mine.losses,
            total_weight=total,
            error=mine.error(w),
            rows=oracle.everything.size + w.size,
            penalty=task.penalty,
        )
        proved = hinge_bounds.proved_dual_value(
            mine.sums / unit,
            oracle.sides(c)[1][:, 0] / unit,
            intercept=data.intercept,
            updates=mine.updates,
            radius=mine.radius,
        )
        margins[c], bounds[c] = hinge_bounds.as_margin(value), hinge_bounds.as_margin(proved)
    return margins, bounds


def _about_center(oracle: Any, stage: Stage, c: int) -> Measured:
    """By rows about the center, so that a large offset of all rows costs no digits.

    With an intercept, sums of rows whose coefficients have the same mass in either class do not
    depend on the center. The output there is added up exactly.
    """
    data, weights, center, numbers = oracle.data, oracle.weights[c], oracle.center, oracle.numbers
    width, is_hinge = data.width, stage.task.is_hinge
    counts = data.sample_weight[numbers]
    limit = oracle.units[c] / (2.0 * stage.task.penalty) if is_hinge else np.inf
    masses = counts * oracle.slack[c].clip(0.0, limit)
    own = np.empty((oracle.problems, numbers.size), bool)
    oracle.passes.positive(numbers, oracle.all[c : c + 1], own)
    sides = np.stack([np.where(own[c], masses, 0.0), np.where(own[c], 0.0, masses)])
    bias = exact_product(np.append(center[:width], 1.0), weights)
    ones, sums = np.ones(data.sample_weight.size), np.zeros((2, width))
    losses, square = 0.0, 0.0
    for start in range(0, numbers.size, BLOCK):
        part = slice(start, start + BLOCK)
        block = gathered(oracle.passes.rows, numbers[part], ones, center)[:, :width]
        outputs = np.where(own[c, part], 1.0, -1.0) * (block @ weights[:width] + bias)
        lacking = np.maximum(1.0 - outputs, 0.0)
        losses += float(counts[part] @ (lacking if is_hinge else lacking * lacking))
        sums += sides[:, part] @ block
        square = max(square, float(np.einsum("ij,ij->i", block, block).max()))
    updates = BLOCK + numbers.size / BLOCK
    return Measured(losses, sums, float(np.sqrt(square)), abs(bias), updates)


def _hard_margins(oracle: Any) -> np.ndarray:
    """With the intercept half-way between both classes, on fresh outputs."""
    data, weights = oracle.data, oracle.weights
    if data.intercept:
        for c in range(oracle.problems):
            own, rest = oracle.lowest(c)
            weights[c, -1] += 0.5 * (rest - own)
    outputs = oracle.passes.empty(oracle.slack.shape)
    oracle.passes.signed_outputs(oracle.numbers, oracle.all, weights, outputs)
    plain = weights.copy()
    lost = 4.0 * ROUNDING * np.abs(plain[:, -1])
    plain[:, -1] = 0.0
    lost += rounding_of_products(plain) * data.radius
    lowest = np.array([oracle.passes.lowest(line) for line in outputs])
    return geometric_margins(lowest - lost, plain, data.width)
