"""The mixture of the experts' probabilities."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Array, blank
from maxmargin.core.numba_backend import bridge
from maxmargin.experts.votes import SMALLEST_PART

# Probabilities of experts are between 1e-6 and 1 - 1e-6: no expert loses more by one row.
LARGEST_ODDS = math.log(1e6 - 1.0)
# Sigmoids begin with this slope, and learn at this rate. Chosen on half of the data sets of
# `benchmarks.arena`, as the experts of `AutoMargin`.
FIRST_SLOPE, SIGMOID_RATE, LEAST_SQUARE = 2.0, 0.2, 1e-8
# The sum of squares that their coefficients of the surprise begin with, so that the first rows do
# not mislead them.
FIRST_FOLLOW_SQUARE = 1.0


class ExpertMixture(NamedTuple):
    """The mixture of the experts' probabilities, each a sigmoid of the expert's output.

    ::

        p_e = sigmoid(slope_e f_e + offset_e + follow_e surprise)
        p = sum_e w_e p_e
        w_e <- w_e p_e(y), normalised;    w_e <- (1 - 1 / (t + 1)) w_e + 1 / ((t + 1) N)
        surprise <- 1 - p if the label is the positive one, else -p

    The argument of a sigmoid is at most `LARGEST_ODDS`. The sigmoids descend along the gradient of
    their log losses, by AdaGrad. A row of weight s counts for w as s rows of the same probabilities
    would. By the surprise, that of the row learned from last, the experts learn whether labels that
    the mixture did not expect come one after another, which no row shows.

    Attributes
    ----------
    weights : of the experts of each problem, which add up to 1
    slopes, offsets, follows : those of the sigmoids
    slope_squares, offset_squares, follow_squares : sums of the squares of their gradients
    surprises : of each problem; 0 before the first row
    """

    weights: Annotated[np.ndarray, Array("problems", "experts", at_least=0.0, finite=True)]
    slopes: Annotated[np.ndarray, Array("problems", "experts", at_least=0.0, finite=True)]
    offsets: Annotated[np.ndarray, Array("problems", "experts", finite=True)]
    follows: Annotated[np.ndarray, Array("problems", "experts", finite=True)]
    slope_squares: Annotated[np.ndarray, Array("problems", "experts", at_least=0.0, finite=True)]
    offset_squares: Annotated[np.ndarray, Array("problems", "experts", at_least=0.0, finite=True)]
    follow_squares: Annotated[np.ndarray, Array("problems", "experts", at_least=0.0, finite=True)]
    surprises: Annotated[np.ndarray, Array("problems", finite=True)]

    def chance_of(self, c, e, output, surprise):
        """The probability that expert ``e`` gives the positive class of problem ``c``."""
        odds = self.slopes[c, e] * output + self.offsets[c, e] + self.follows[c, e] * surprise
        return 1.0 / (1.0 + math.exp(-max(-LARGEST_ODDS, min(LARGEST_ODDS, odds))))

    def log_odds_of(self, c, outputs, chances, first, awake):
        """The log-odds of the mixture; those of experts are put into ``chances``, as chances.

        Experts before ``first`` have left. Those from ``awake`` on cannot predict yet: they
        follow the mixture of the others. NaN if an output is not finite, which a chance would not
        show.
        """
        chance = total = nothing = 0.0
        for e in range(first, awake):
            chances[e] = self.chance_of(c, e, outputs[e], self.surprises[c])
            chance += self.weights[c, e] * chances[e]
            total += self.weights[c, e]
            nothing += 0.0 * outputs[e]
        if awake < outputs.size:
            chance /= total
            for e in range(awake, outputs.size):
                chances[e] = chance
        return math.log(chance / (1.0 - chance)) + nothing

    def learn_outcome(self, c, y, outputs, chances, weight, trials, first, awake):
        """Learn that the label is the positive one of problem ``c``, or for ``y < 0`` is not.

        Experts before ``first`` have left; the sigmoids of those from ``awake`` on do not learn.
        """
        experts, total, chance, unit = outputs.size, 0.0, 0.0, 1.0
        if weight > 1.0:
            largest = 0.0
            for e in range(first, experts):
                largest = max(largest, chances[e] if y > 0.0 else 1.0 - chances[e])
            if largest**weight < SMALLEST_PART:
                unit = largest  # only ratios of likelihoods count
        for e in range(first, experts):
            chance += self.weights[c, e] * chances[e]
            likelihood = chances[e] if y > 0.0 else 1.0 - chances[e]
            if weight != 1.0:
                likelihood = (likelihood / unit) ** weight
            self.weights[c, e] *= likelihood
            total += self.weights[c, e]
        share = 1.0 / (trials + 1.0)
        part, scale = share / (experts - first), (1.0 - share) / total
        for e in range(first, experts):
            self.weights[c, e] = scale * self.weights[c, e] + part
        self.learn_sigmoids(c, y, outputs, chances, first, awake, self.surprises[c], weight)
        self.surprises[c] = (1.0 if y > 0.0 else 0.0) - chance

    def learn_sigmoids(self, c, y, outputs, chances, first, stop, surprise, weight):
        """Let the sigmoids of the experts from ``first`` to ``stop`` learn from the label.

        Each loop touches few arrays, so that it is compiled to vector instructions.
        """
        label = 1.0 if y > 0.0 else 0.0
        for e in range(first, stop):
            gradient = weight * (chances[e] - label)
            self.offset_squares[c, e] += gradient * gradient
            self.offsets[c, e] -= SIGMOID_RATE * gradient / math.sqrt(self.offset_squares[c, e])
        for e in range(first, stop):
            gradient = weight * (chances[e] - label) * surprise
            self.follow_squares[c, e] += gradient * gradient
            self.follows[c, e] -= SIGMOID_RATE * gradient / math.sqrt(self.follow_squares[c, e])
        for e in range(first, stop):
            gradient = weight * (chances[e] - label) * outputs[e]
            self.slope_squares[c, e] += gradient * gradient
            slope = self.slopes[c, e]
            slope -= SIGMOID_RATE * gradient / math.sqrt(self.slope_squares[c, e])
            self.slopes[c, e] = max(0.0, slope)

    def dismiss_first(self):
        """Let the first expert leave; the others take over its weight."""
        for c in range(self.surprises.size):
            others = 0.0
            for e in range(1, self.weights.shape[1]):
                others += self.weights[c, e]
            self.weights[c, 0] = 0.0
            for e in range(1, self.weights.shape[1]):
                self.weights[c, e] /= others


bridge("dismiss_first", inline=False)
bridge("chance_of", "log_odds_of", "learn_outcome", "learn_sigmoids")


def new_mixture(problems: int, experts: int) -> ExpertMixture:
    """All experts weigh the same."""
    sizes = {"problems": problems, "experts": experts}
    numbers = {"weights": 1.0 / experts, "slopes": FIRST_SLOPE}
    numbers["follow_squares"] = FIRST_FOLLOW_SQUARE
    numbers |= dict.fromkeys(("slope_squares", "offset_squares"), LEAST_SQUARE)
    given = {name: np.full((problems, experts), number) for name, number in numbers.items()}
    return blank(ExpertMixture, sizes, **given)
