"""Prediction sets of a classifier that does not learn any more, by rows that were held out.

The score of a class is how far it is behind the best of the others. If the held-out rows and a new
one are exchangeable, the rank of the score of its label among the ``m + 1`` scores is uniform, up
to ties. So the label has a score of at most the ``ceil((m + 1) coverage)``-th smallest of the m
held-out ones with a probability of at least the coverage (Vovk, Gammerman and Shafer 2005), and of
at most ``coverage + 1 / (m + 1)`` if no scores are equal.
"""

from __future__ import annotations

import math

import numpy as np

SEED = 0


def held_out_rows(weights: np.ndarray, share: float) -> np.ndarray:
    """The numbers of rows to hold out: so many of those that count, in a fixed random order."""
    there = np.flatnonzero(weights)
    return np.random.default_rng(SEED).permutation(there)[: math.ceil(share * there.size)]


def class_scores(outputs: np.ndarray) -> np.ndarray:
    """How far each class is behind the best of the others, for outputs of shape (rows, problems)"""
    if outputs.shape[1] == 1:
        return np.hstack([outputs, -outputs])
    best = np.sort(outputs, axis=1)[:, -2:]
    return np.where(outputs == best[:, 1:], best[:, :1], best[:, 1:]) - outputs


def label_scores(outputs: np.ndarray, labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The scores of labels, sorted; infinite for one that is not among the classes."""
    places = np.minimum(np.searchsorted(classes, labels), classes.size - 1)
    scores = class_scores(outputs)[np.arange(labels.size), places]
    return np.sort(np.where(classes[places] == labels, scores, np.inf))


def threshold(held_out: np.ndarray, coverage: float) -> float:
    """The highest score of a class in a set, by the sorted scores of held-out labels."""
    rank = math.ceil((held_out.size + 1) * coverage)
    return float(held_out[rank - 1]) if rank <= held_out.size else math.inf
