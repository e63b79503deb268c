"""Asking for labels near the margin, written down plainly; and all that can be asked for."""

import math
from itertools import pairwise

import numpy as np


def perceptron_that_asks(X, y, draws, *, b):
    """A Perceptron for y in {-1, 1} without intercept, which asks by the rule with a fixed b.

    Returns for each row its output, the probability of a question, and whether there was one.
    """
    w, found = np.zeros(X.shape[1]), []
    for x, label, draw in zip(X, y, draws, strict=True):
        output = float(w @ x)
        chance = b / (b + abs(output))
        asked = draw < chance
        if asked and label * output <= 0.0:
            w = w + label * x
        found.append((output, chance, asked))
    return w, np.array(found)


def every_path(X, y, *, b):
    """The probability of each sequence of questions, and what `perceptron_that_asks` returns."""
    paths = []

    def extend(asked):
        draws = np.where(asked, 0.0, 1.0 - 1e-16)
        n = len(asked)
        w, found = perceptron_that_asks(X[:n], y[:n], draws, b=b)
        if n and not np.array_equal(found[:, 2] > 0.0, asked):
            return  # a row with the probability 1 is always asked for
        if n == len(y):
            chance = np.where(asked, found[:, 1], 1.0 - found[:, 1])
            paths.append((math.prod(chance), w, found))
            return
        extend([*asked, True])
        extend([*asked, False])

    extend([])
    return paths


def inequality(X, y, u, found, *, b):
    """Both sides of what is proved for every path, and its terms of expectation b a mistake."""
    outputs, asked = found[:, 0], found[:, 2] > 0.0
    mistaken = y * outputs <= 0.0
    a = b + (X * X).sum(axis=1).max() / 2.0
    losses = np.maximum(0.0, 1.0 - y * (X @ u))
    both = mistaken & asked
    gained = np.where(both, b + np.abs(outputs), 0.0)
    return gained.sum(), a * losses[both].sum() + a * a * (u @ u) / 2.0, b * mistaken - gained


def in_parts(cuts, size):
    return [slice(*pair) for pair in pairwise([0, *sorted(cuts), size]) if pair[0] < pair[1]]
