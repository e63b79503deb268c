"""The examples that all contenders learn from.

Both sets are separable with a wide gap, but the last rows repeat the first ones with the other
label: a learner soon makes few updates, and never none, so no run stops early.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

DENSE_ROWS, DENSE_WIDTH = 400_000, 100
SPARSE_ROWS, SPARSE_WIDTH = 300_000, 50_000
FEWEST_ENTRIES, MOST_ENTRIES = 40, 75
KEYWORDS = 100
CONTRADICTIONS = 5


def dense_data(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """A Gaussian cloud, pulled apart along a random direction."""
    random = np.random.default_rng(0)
    X = random.standard_normal((rows, DENSE_WIDTH))
    direction = random.standard_normal(DENSE_WIDTH)
    direction /= np.linalg.norm(direction)
    y = np.where(X @ direction > 0.0, 1, -1)
    X += np.outer(y, direction)
    X[-CONTRADICTIONS:], y[-CONTRADICTIONS:] = X[:CONTRADICTIONS], -y[:CONTRADICTIONS]
    return X, y


def sparse_data(rows: int) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Rows like short texts, in float64 and int32: the first entry is a keyword and decides."""
    random = np.random.default_rng(0)
    lengths = random.integers(FEWEST_ENTRIES, MOST_ENTRIES + 1, rows)
    lengths[-CONTRADICTIONS:] = lengths[:CONTRADICTIONS]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    # Entry j of n lies in the j-th of n equal ranges of columns: sorted, and never twice the same.
    ranges = np.repeat(SPARSE_WIDTH // lengths, lengths)
    places = np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)
    columns = (places * ranges + random.integers(0, ranges)).astype(np.int32)
    columns[starts[:-1]] = random.integers(0, KEYWORDS, rows)
    values = random.uniform(0.5, 1.5, columns.size)
    for array in (columns, values):
        repeated = array[: starts[CONTRADICTIONS]]
        array[-repeated.size :] = repeated
    y = np.where(columns[starts[:-1]] % 2, 1, -1)
    y[-CONTRADICTIONS:] *= -1
    return sparse.csr_matrix((values, columns, starts), (rows, SPARSE_WIDTH)), y
