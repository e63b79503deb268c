"""Experts that learn side by side, and a vote or a mixture of them whose weights are shared."""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Array, blank
from maxmargin.core.numba_backend import Compiled, bridge, helper, overload
from maxmargin.core.rule import rule

# The most leaders that are recorded: one for each trial at first, then half as often whenever the
# array is full.
MOST_LEADERS = 2048
# Probabilities of experts are between 1e-6 and 1 - 1e-6: no expert loses more by one row.
LARGEST_ODDS = math.log(1e6 - 1.0)
# Sigmoids begin with this slope, and learn at this rate. Chosen on half of the data sets of
# `benchmarks.arena`, as the experts of `AutoMargin`.
FIRST_SLOPE, SIGMOID_RATE, LEAST_SQUARE = 2.0, 0.2, 1e-8
# The sum of squares that their coefficients of the surprise begin with, so that the first rows do
# not mislead them.
FIRST_FOLLOW_SQUARE = 1.0
# No expert loses more by one row: if all did, nothing would be left to share.
SMALLEST_PART = 1e-200

CLOCK = np.dtype([("stride", "i8"), ("written", "i8")], align=True)


def alike(rule, table, k):  # type: ignore[no-untyped-def]
    """A rule of the same class, with the numbers in line ``k``."""
    return type(rule)(*table[k])


@overload(alike)
def _alike_overload(rule, table, k):  # type: ignore[no-untyped-def]
    """Compiled code can make no tuple of a line, since its type does not say how long it is."""
    kind = rule.instance_class
    numbers = ", ".join(f"table[k, {j}]" for j in range(len(kind._fields)))
    return eval(f"lambda rule, table, k: kind({numbers})", {"kind": kind, "__name__": __name__})


class Bank(NamedTuple):
    """Rules of one class, each for ``each`` problems that follow each other.

    Attributes
    ----------
    kind : any rule of that class
    table : the numbers of each rule
    each : int
    """

    kind: Any
    table: np.ndarray
    each: int

    def of(self, c):
        return alike(self.kind, self.table, c // self.each)

    def needs_norm(self):
        return self.kind.needs_norm()

    def answer(self, k, trial):
        """The step of the k-th rule, and what it adds to the precision; 0 and 0 of no update."""
        own = alike(self.kind, self.table, k)
        return own.step_and_gain(trial) if own.active(trial) else (0.0, 0.0)


def answer_of(banks, e, trial):  # type: ignore[no-untyped-def]
    """The answer of rule ``e`` among those of all banks, one after another."""
    for bank in banks:
        if e < bank.table.shape[0]:
            return bank.answer(e, trial)
        e -= bank.table.shape[0]
    return 0.0, 0.0


@overload(answer_of)
def _answer_overload(banks, e, trial):  # type: ignore[no-untyped-def]
    """Compiled code can make no loop over banks, since each is of a type of its own."""
    lines, first = ["def answer(banks, e, trial):"], "0"
    for k in range(len(banks)):
        lines.append(f"    if e < {first} + banks[{k}].table.shape[0]:")
        lines.append(f"        return banks[{k}].answer(e - ({first}), trial)")
        first += f" + banks[{k}].table.shape[0]"
    made: dict[str, Any] = {}
    exec("\n".join([*lines, "    return 0.0, 0.0"]), {"__name__": __name__}, made)
    return made["answer"]


@rule
class ExpertRules(NamedTuple):
    """Rules of experts of several classes, in the order of the experts.

    Attributes
    ----------
    banks : tuple of Bank
    """

    banks: tuple[Bank, ...]

    def active(self, trial):
        """Every row is news for some expert."""
        return True

    def answer(self, e, trial):
        return answer_of(self.banks, e, trial)


@helper
def is_due(clock, trials):  # type: ignore[no-untyped-def]
    """Is the leader to be written down after so many trials?"""
    return trials % clock[0].stride == 0


@helper
def write_leader(leaders, clock, leader):  # type: ignore[no-untyped-def]
    """Write it down; when the array is full, forget every other one, and write half as often."""
    leaders[clock[0].written] = leader
    clock[0].written += 1
    if clock[0].written == leaders.size:
        half = leaders.size // 2
        for k in range(half):
            leaders[k] = leaders[2 * k + 1]
        clock[0].written = half
        clock[0].stride *= 2


Leaders = Annotated[np.ndarray, Array(MOST_LEADERS, dtype=np.int32, below="experts")]
Clock = Annotated[np.recarray, Array(1, dtype=CLOCK, fill={"stride": 1})]


class Votes(NamedTuple):
    """Weights and mistakes of the experts.

    Attributes
    ----------
    weights : their weights, which add up to 1
    wrong : their mistakes
    leaders : the expert of the largest weight after every ``stride`` trials
    clock : how many leaders are ``written``, and that ``stride``
    """

    weights: Annotated[np.ndarray, Array("experts", at_least=0.0, finite=True)]
    wrong: Annotated[np.ndarray, Array("experts", dtype=np.int64)]
    leaders: Leaders
    clock: Clock

    def score(self, predicted, n, scores):
        """The scores of all classes for row ``n``: the weight of their voters less that of others.

        A single column is that of class 1.
        """
        for c in range(scores.shape[1]):
            mine = 1 if scores.shape[1] == 1 else c
            scores[n, c] = 0.0
            for e in range(self.weights.size):
                scores[n, c] += self.weights[e] if predicted[n, e] == mine else -self.weights[e]

    def judge(self, predicted, n, label, keep, share):
        """Herbster and Warmuth's fixed-share algorithm, where ``keep`` is ``exp(-rate)``.

        (Of a row of weight s, ``exp(-rate s)``.)

        Experts that were wrong keep that part of their weight, and then each gives the part
        ``share`` of its weight to the others, in equal parts.
        """
        total = 0.0
        for e in range(self.weights.size):
            is_wrong = predicted[n, e] != label
            self.weights[e] *= keep if is_wrong else 1.0
            self.wrong[e] += is_wrong
            total += self.weights[e]
        others = self.weights.size - 1
        part = share / others if others > 0 else 0.0
        scale = (1.0 - part * (others + 1)) / total
        for e in range(self.weights.size):
            self.weights[e] = scale * self.weights[e] + part

    def leader(self):
        """The expert of the largest weight."""
        found = 0
        for e in range(self.weights.size):
            if self.weights[e] > self.weights[found]:
                found = e
        return found


class Mixture(NamedTuple):
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
    leaders : the expert of the largest weight after every ``stride`` trials, of all problems
    clock : how many leaders are ``written``, and that ``stride``
    """

    weights: Annotated[np.ndarray, Array("problems", "experts", at_least=0.0, finite=True)]
    slopes: Annotated[np.ndarray, Array("problems", "experts", at_least=0.0, finite=True)]
    offsets: Annotated[np.ndarray, Array("problems", "experts", finite=True)]
    follows: Annotated[np.ndarray, Array("problems", "experts", finite=True)]
    slope_squares: Annotated[np.ndarray, Array("problems", "experts", at_least=0.0, finite=True)]
    offset_squares: Annotated[np.ndarray, Array("problems", "experts", at_least=0.0, finite=True)]
    follow_squares: Annotated[np.ndarray, Array("problems", "experts", at_least=0.0, finite=True)]
    surprises: Annotated[np.ndarray, Array("problems", finite=True)]
    leaders: Leaders
    clock: Clock

    def chance_of(self, c, e, output, surprise):
        """The probability that expert ``e`` gives the positive class of problem ``c``."""
        odds = self.slopes[c, e] * output + self.offsets[c, e] + self.follows[c, e] * surprise
        return 1.0 / (1.0 + math.exp(-max(-LARGEST_ODDS, min(LARGEST_ODDS, odds))))

    def log_odds_of(self, c, outputs, chances, awake):
        """The log-odds of the mixture; those of experts are put into ``chances``, as chances.

        Experts from ``awake`` on cannot predict yet: they follow the mixture of the others. NaN if
        an output is not finite, which a chance would not show.
        """
        chance = total = nothing = 0.0
        for e in range(awake):
            chances[e] = self.chance_of(c, e, outputs[e], self.surprises[c])
            chance += self.weights[c, e] * chances[e]
            total += self.weights[c, e]
            nothing += 0.0 * outputs[e]
        if awake < outputs.size:
            chance /= total
            for e in range(awake, outputs.size):
                chances[e] = chance
        return math.log(chance / (1.0 - chance)) + nothing

    def judge_label(self, c, y, outputs, chances, weight, trials, awake):
        """Learn that the label is the positive one of problem ``c``, or for ``y < 0`` is not.

        The sigmoids of experts from ``awake`` on do not learn.
        """
        experts, total, chance = outputs.size, 0.0, 0.0
        for e in range(experts):
            chance += self.weights[c, e] * chances[e]
            likelihood = chances[e] if y > 0.0 else 1.0 - chances[e]
            if weight != 1.0:
                likelihood = max(SMALLEST_PART, likelihood**weight)
            self.weights[c, e] *= likelihood
            total += self.weights[c, e]
        share = 1.0 / (trials + 1.0)
        part, scale = share / experts, (1.0 - share) / total
        for e in range(experts):
            self.weights[c, e] = scale * self.weights[c, e] + part
        self.bend_sigmoids(c, y, outputs, chances, 0, awake, self.surprises[c], weight)
        self.surprises[c] = (1.0 if y > 0.0 else 0.0) - chance
        if c == self.weights.shape[0] - 1 and is_due(self.clock, trials):
            write_leader(self.leaders, self.clock, self.leader())

    def bend_sigmoids(self, c, y, outputs, chances, first, stop, surprise, weight):
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

    def leader(self):
        """The expert of the largest weight, in the mean of all problems."""
        found, largest = 0, -1.0
        for e in range(self.weights.shape[1]):
            total = 0.0
            for c in range(self.weights.shape[0]):
                total += self.weights[c, e]
            if total > largest:
                found, largest = e, total
        return found


bridge("score", "judge")
bridge("answer", "chance_of", "log_odds_of", "judge_label", "bend_sigmoids")
bridge("leader", inline=False)


def new_votes(experts: int) -> Votes:
    """All experts weigh the same."""
    return blank(Votes, {"experts": experts}, weights=np.full(experts, 1.0 / experts))


def new_mixture(problems: int, experts: int) -> Mixture:
    """All experts weigh the same."""
    sizes = {"problems": problems, "experts": experts}
    numbers = {"weights": 1.0 / experts, "slopes": FIRST_SLOPE}
    numbers["follow_squares"] = FIRST_FOLLOW_SQUARE
    numbers |= dict.fromkeys(("slope_squares", "offset_squares"), LEAST_SQUARE)
    given = {name: np.full((problems, experts), number) for name, number in numbers.items()}
    return blank(Mixture, sizes, **given)


@helper
def winner(scores, n, columns, classes):  # type: ignore[no-untyped-def]
    """The class of the highest score of row ``n``; of two classes the sign of the second's decides.

    The scores of the ``classes`` that can be predicted come first of ``columns`` columns; a single
    one is that of class 1.
    """
    if classes == 2:
        return 1 if scores[n, min(columns - 1, 1)] >= 0.0 else 0
    best = 0
    for c in range(1, classes):
        if scores[n, c] > scores[n, best]:
            best = c
    return best


@Compiled
def predict_classes(outputs, columns, classes, e, predicted):  # type: ignore[no-untyped-def]
    """Put into ``predicted`` the classes that expert ``e`` predicts for each row.

    Its outputs are in the first ``columns`` columns; see `winner`.
    """
    for n in range(predicted.shape[0]):
        predicted[n, e] = winner(outputs, n, columns, classes)


@Compiled
def score_votes(predicted, votes, scores):  # type: ignore[no-untyped-def]
    """Put into ``scores`` how the experts vote on each row."""
    for n in range(predicted.shape[0]):
        votes.score(predicted, n, scores)


@Compiled
def vote(predicted, order, targets, classes, votes, keep, share, scores, tally):  # type: ignore[no-untyped-def]
    """Let the experts vote on each row, and weigh them by its label, row by row.

    A row i that stands in the order as ``-1 - i`` is only voted on.
    """
    trials, mistakes = tally[0].trials, tally[0].mistakes
    for n in range(order.size):
        votes.score(predicted, n, scores)
        if order[n] >= 0:
            label, weight = targets.labels[order[n]], targets.weight_of(order[n])
            mistakes += winner(scores, n, scores.shape[1], classes) != label
            trials += 1
            kept = max(SMALLEST_PART, keep if weight == 1.0 else keep**weight)
            votes.judge(predicted, n, label, kept, share)
            if is_due(votes.clock, trials):
                write_leader(votes.leaders, votes.clock, votes.leader())
    tally[0].trials, tally[0].mistakes = trials, mistakes
