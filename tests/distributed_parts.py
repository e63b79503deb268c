"""Rows in shards, for the tests of learning from many places."""

import itertools

import numpy as np

from maxmargin.distributed import Held


def held(X, y, cuts, weights=None):
    """Shards between the places where rows are cut, some of which may be empty."""
    ends = [0, *sorted(cuts), len(y)]
    return [
        Held(k, f"partition {k}", X[a:b], y[a:b], None if weights is None else weights[a:b])
        for k, (a, b) in enumerate(itertools.pairwise(ends))
    ]


def evenly(X, y, count, weights=None):
    return held(X, y, np.linspace(0, len(y), count + 1)[1:-1].astype(int), weights)


def noisy(n, d, classes=2, seed=0, offset=3.0):
    """Rows far from the origin, with labels that no hyperplane gets all right."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) + offset
    scores = (X - offset) @ random.normal(size=(d, classes)) + random.normal(size=(n, classes))
    return X, scores.argmax(axis=1)


def same(one, other):
    """Are two fitted learners the same, to the bit?"""
    return (
        one.coef_.tobytes() == other.coef_.tobytes()
        and one.intercept_.tobytes() == other.intercept_.tobytes()
        and one.certificate_ == other.certificate_
    )
