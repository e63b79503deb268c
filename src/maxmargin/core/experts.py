"""Experts that learn side by side, and a vote among them whose weights are shared."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Array, blank
from maxmargin.core.numba_backend import Compiled, bridge, helper, overload, with_methods_of
from maxmargin.core.targets import Binary, weighted, weights_in, with_weights

# The most leaders that are recorded: one for each trial at first, then half as often whenever the
# array is full.
MOST_LEADERS = 2048
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


@with_methods_of(Binary)
class Experts(NamedTuple):
    """The ``each`` problems of a learner, once for each of several experts."""

    labels: np.ndarray
    each: int
    experts: int

    def problems(self):
        return self.each * self.experts

    def sign(self, i, c):
        positive = 1 if self.each == 1 else c % self.each
        return 1.0 if self.labels[i] == positive else -1.0

    def is_shown(self, c):
        return True

    def class_of(self, i):
        return self.labels[i]


WeightedExperts = with_weights(Experts)


def experts_of(targets: Any, each: int, experts: int) -> Any:
    """The targets of so many experts with so many problems."""
    made, sample_weight = Experts(targets.labels, each, experts), weights_in(targets)
    return made if sample_weight is None else weighted(made, sample_weight)


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
    leaders: Annotated[np.ndarray, Array(MOST_LEADERS, dtype=np.int32, below="experts")]
    clock: Annotated[np.recarray, Array(1, dtype=CLOCK, fill={"stride": 1})]

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

    def write_leader(self, trials):
        if trials % self.clock[0].stride == 0:
            leader = 0
            for e in range(self.weights.size):
                if self.weights[e] > self.weights[leader]:
                    leader = e
            self.leaders[self.clock[0].written] = leader
            self.clock[0].written += 1
            if self.clock[0].written == self.leaders.size:
                half = self.leaders.size // 2
                for k in range(half):
                    self.leaders[k] = self.leaders[2 * k + 1]
                self.clock[0].written = half
                self.clock[0].stride *= 2


bridge("score", "judge", "write_leader")


def new_votes(experts: int) -> Votes:
    """All experts weigh the same."""
    return blank(Votes, {"experts": experts}, weights=np.full(experts, 1.0 / experts))


@helper
def winner(scores, n, first, columns, classes):  # type: ignore[no-untyped-def]
    """The class of the highest score of row ``n``; of two classes the sign of the second's decides.

    The scores are in ``columns`` columns from ``first`` on, those of the ``classes`` that can be
    predicted before others; a single one is that of class 1.
    """
    if classes == 2:
        return 1 if scores[n, first + min(columns - 1, 1)] >= 0.0 else 0
    best = 0
    for c in range(1, classes):
        if scores[n, first + c] > scores[n, first + best]:
            best = c
    return best


@Compiled
def predict_classes(outputs, each, classes, first, stop, predicted):  # type: ignore[no-untyped-def]
    """Put into ``predicted`` the classes that experts ``first`` to ``stop`` predict for each row.

    Of the ``each`` outputs of an expert those of the first ``classes`` are of classes that can be
    predicted.
    """
    for n in range(predicted.shape[0]):
        for e in range(first, stop):
            predicted[n, e] = winner(outputs, n, (e - first) * each, each, classes)


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
            mistakes += winner(scores, n, 0, scores.shape[1], classes) != label
            trials += 1
            kept = max(SMALLEST_PART, keep if weight == 1.0 else keep**weight)
            votes.judge(predicted, n, label, kept, share)
            votes.write_leader(trials)
    tally[0].trials, tally[0].mistakes = trials, mistakes


def rules_in(rules: Any) -> list[Any]:
    """The rules of a `Bank`, each as a tuple of its parameters; any other rule by itself."""
    return [tuple(line) for line in rules.table.tolist()] if isinstance(rules, Bank) else [rules]
