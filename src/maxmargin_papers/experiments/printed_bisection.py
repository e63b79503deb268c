"""The bisections of the paper on directional margins, as printed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from maxmargin import BisectionPerceptron
from maxmargin.algorithms.bisectionperceptron import Round, Search
from maxmargin.algorithms.directionalperceptron import DirectionalRule
from maxmargin.algorithms.perceptron import PerceptronRule
from maxmargin.core.numba_backend import Compiled


@Compiled
def smallest_square(rows):  # type: ignore[no-untyped-def]
    """The smallest squared norm of a row, of all its coordinates."""
    smallest = np.inf
    for i in range(rows.size()):
        smallest = min(smallest, rows.square(i))
    return smallest


@dataclass(eq=False, repr=False, kw_only=True)
class PrintedBisection(BisectionPerceptron):
    """`BisectionPerceptron` with the first bisection of section 3 or, with two stages, the second.

    They start with half the smallest norm of a row, change that by half as much after each round,
    until the change is below `precision` of that norm, and use no certificate.
    """

    @property
    def _search(self) -> type[Search]:
        return PrintedSearch


class PrintedSearch(Search):
    """The bisection for one problem.

    A margin that a round ends with is what the paper takes it for: ``beta``, or ``beta |a_f| /
    |a_s|`` for a second stage that goes on from a_f and ends with a_s.
    """

    def smallest(self) -> float:
        """The smallest norm of a row."""
        model = self.best.model
        squares = model.training.diagonal if model.has_supports else smallest_square(self.rows)
        return math.sqrt(np.min(squares))

    def run(self) -> Search:
        smallest = self.smallest()
        beta = step = 0.5 * smallest
        while smallest > 0.0:  # a row that is 0 has no margin
            self.ask(beta)
            step *= 0.5
            if step < self.settings.precision * smallest:
                break
            beta += step if self.rounds[-1].outcome == "reached" else -step
        self.best.limit(self.bound)
        return self

    def ask(self, beta: float) -> None:
        two_stage = self.settings.two_stage
        if two_stage and beta < self.low:  # which a second stage has reached
            self.rounds.append(Round(beta, self.low, 0, "reached"))
            return
        trial, most = self.best.copy(), self.passes_per_round
        most = max(1, most // 2) if two_stage else most
        passes, bound, outcome = self.learn(trial, DirectionalRule(beta, 1.0, 0.0, 0.0), 0.0, most)
        found = beta if outcome == "reached" else math.nan
        if two_stage and outcome != "reached":
            threshold = beta * trial.length()
            more, later, second = self.learn(trial, PerceptronRule(threshold, 1.0), 0.0, most)
            passes, bound = passes + more, float(np.minimum(bound, later))
            if second == "reached":
                outcome, found = "second stage", threshold / trial.length()
        self.rounds.append(Round(beta, found, passes * self.order.size, outcome))
        self.proved = float(np.minimum(self.proved, bound))
        self.bound = float(np.minimum(self.bound, trial.model.bounds()[0]))  # NaN if one is
        if found > self.low:
            self.best, self.low = trial, found
