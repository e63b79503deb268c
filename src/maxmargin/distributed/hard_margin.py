"""The hard margin by exchange of rows.

The coordinator computes the largest margin of the rows that it has, which bounds that of all rows.
Each shard sends the worst of its rows below that margin, until there are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from maxmargin.certificates import geometric_margins
from maxmargin.certificates.bounds import rounding_of_products
from maxmargin.distributed.distributed_newton import (
    Asked,
    Best,
    Report,
    RoundProgress,
    data_of,
    task_of,
)
from maxmargin.distributed.survey import Job, stacked
from maxmargin.models.blas_threads import one_thread
from maxmargin.solvers.newton import NOTHING, Solution, silent, solve
from maxmargin.spaces.problem_scalars import ROUNDING
from maxmargin.training import inputs

# The approximate number of rows of a class and a problem that all shards send in a round, at least
# and per feature; and the least number that a shard sends.
LEAST_SENT, SENT_PER_FEATURE, LEAST_OF_SHARD = 500, 4, 2
# The factor on the tolerance for known rows, so that none of them is sent again.
CLOSER = 0.25


class Objections(NamedTuple):
    """The rows that violate some hyperplanes."""

    lowest: np.ndarray  # outputs of positive and negative rows, for each problem
    X: Any  # the worst rows
    codes: np.ndarray | None


class Proposal(NamedTuple):
    """The question which rows violate hyperplanes."""

    problems: Asked
    weights: np.ndarray  # for each problem, the intercept last
    goals: np.ndarray  # outputs that are sufficient
    most: int  # the number of rows that a shard sends of each class and problem

    def answer(self, shard: Any) -> Objections:
        found = [self._answer(part) for part in shard.rows()]
        if not found:
            return Objections(np.full((self.goals.size, 2), np.inf), None, None)
        return self.merged(found)

    def _answer(self, part: Any) -> Objections:
        passes, problems = self.problems.passes(part), self.problems.which
        numbers = np.arange(part.sample_weight.size)
        outputs = np.empty((problems.size, numbers.size))
        passes.signed_outputs(numbers, problems, self.weights, outputs)
        positive = np.empty(outputs.shape, bool)
        passes.positive(numbers, problems, positive)
        lowest, sent = np.full((problems.size, 2), np.inf), list[np.ndarray]()
        for c in problems:
            for side, own in enumerate((positive[c], ~positive[c])):
                mine = numbers[own]
                lowest[c, side] = outputs[c, mine].min(initial=np.inf)
                low = mine[outputs[c, mine] < self.goals[c]]
                sent.append(low[np.argsort(outputs[c, low], kind="stable")[: self.most]])
        which = np.unique(np.concatenate(sent))
        return Objections(lowest, part.X[which], part.codes[which])

    def merged(self, answers: Sequence[Objections]) -> Objections:
        lowest = np.min([each.lowest for each in answers], axis=0)
        sending = [each for each in answers if each.codes is not None and each.codes.size]
        if not sending:
            return Objections(lowest, None, None)
        codes = np.concatenate([each.codes for each in sending])  # type: ignore[misc]
        return Objections(lowest, stacked([each.X for each in sending]), codes)


def _measured(
    problems: Asked, weights: np.ndarray, lowest: np.ndarray, radius: float
) -> tuple[np.ndarray, np.ndarray]:
    """Weights with the intercept half-way between the classes, and the margins of all rows."""
    weights, shift = weights.copy(), np.zeros(lowest.shape[0])
    lost = 4.0 * ROUNDING * np.abs(weights[:, -1])
    if problems.intercept:
        shift = 0.5 * (lowest[:, 1] - lowest[:, 0])
    weights[:, -1] += shift
    lost += 4.0 * ROUNDING * (np.abs(weights[:, -1]) + np.abs(shift))
    plain = weights.copy()
    plain[:, -1] = 0.0
    lost += rounding_of_products(plain) * radius
    reached = np.minimum(lowest[:, 0] + shift, lowest[:, 1] - shift)
    return weights, geometric_margins(reached - lost, plain, plain.shape[1] - 1)


def separated(job: Job, problems: int, most: int, report: Report) -> Solution:
    """The hyperplanes after at most ``most`` rounds."""
    learner, overview, found = job.learner, job.overview, job.overview.found
    columns, width = overview.columns, overview.columns.features.count
    asked = Asked(columns.classes.size, 0, np.arange(problems), bool(learner.fit_intercept))
    X, codes = overview.sample.X, inputs.class_codes(overview.sample.y, columns.classes)
    wanted = max(LEAST_SENT, SENT_PER_FEATURE * (width + 1))
    sent = max(LEAST_OF_SHARD, -(-wanted // len(job.shards)))
    best, rounds, task = Best(problems, width), 0, task_of(learner)
    while rounds < most:
        data = data_of(overview, learner, X, codes, np.ones(codes.shape[0]))
        with one_thread():
            known = solve(data, task._replace(tol=CLOSER * task.tol), problems, silent)
        goals = (1.0 - task.tol) * known.bounds * np.linalg.norm(known.weights[:, :-1], axis=1)
        objections = job.ask(Proposal(asked, known.weights, goals, sent))
        rounds += 1
        weights, margins = _measured(asked, known.weights, objections.lowest, found.radius)
        for c in range(problems):
            best.offer(c, weights[c], margins[c], known.evidence[c])
        report(RoundProgress(rounds, float(best.ratios.min()), found.rows))
        hopeless = known.bounds <= NOTHING * found.radius
        if ((best.ratios >= 1.0 - task.tol) | hopeless).all() or objections.codes is None:
            break
        X, codes = stacked([X, objections.X]), np.concatenate([codes, objections.codes])
    return best.solution(rounds, task.tol)
