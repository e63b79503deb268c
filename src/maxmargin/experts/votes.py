"""A vote of experts by fixed shares (Herbster and Warmuth)."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Array, blank
from maxmargin.core.numba_backend import Compiled, bridge, helper

# If all experts lost more of their weights by one row, rounding would leave nothing to share.
SMALLEST_PART = 1e-200


class Votes(NamedTuple):
    """Weights and mistakes of the experts.

    Attributes
    ----------
    weights : their weights, which add up to 1
    wrong : their mistakes
    """

    weights: Annotated[np.ndarray, Array("experts", at_least=0.0, finite=True)]
    wrong: Annotated[np.ndarray, Array("experts", dtype=np.int64)]

    def score(self, predicted, n, scores):
        """The scores of all classes for row ``n``: the weight of their voters less that of others.

        A single column is that of class 1.
        """
        for c in range(scores.shape[1]):
            mine = 1 if scores.shape[1] == 1 else c
            scores[n, c] = 0.0
            for e in range(self.weights.size):
                scores[n, c] += self.weights[e] if predicted[n, e] == mine else -self.weights[e]

    def learn_votes(self, predicted, n, label, keep, share):
        """Herbster and Warmuth's fixed-share algorithm, where ``keep`` is ``exp(-rate)``.

        (Of a row of weight s, ``exp(-rate s)``.)

        Experts that were wrong keep that part of their weight, and then each gives the part
        ``share`` of its weight to the others, in equal parts.
        """
        right = total = 0.0
        for e in range(self.weights.size):
            right += self.weights[e] if predicted[n, e] == label else 0.0
        if right == 0.0 and keep < SMALLEST_PART:
            keep = 1.0  # all experts lose the same part of their weights
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


bridge("score", "learn_votes")


def invalid_weights(weights: np.ndarray) -> str:
    """Why weights of experts are invalid; empty if they are valid."""
    fits = (weights >= 0.0).all() and np.isclose(weights.sum(axis=-1), 1.0).all()
    return "" if fits else "the weights of experts do not fit together"


def new_votes(experts: int) -> Votes:
    """All experts weigh the same."""
    return blank(Votes, {"experts": experts}, weights=np.full(experts, 1.0 / experts))


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
            kept = keep if weight == 1.0 else keep**weight
            votes.learn_votes(predicted, n, label, kept, share)
    tally[0].trials, tally[0].mistakes = trials, mistakes
