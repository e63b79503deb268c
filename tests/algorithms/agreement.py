"""Compare a learner with its plain reference, row by row."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import reference
from extent import EVERYTHING
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

from maxmargin import ROMMA, Perceptron

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Run = Callable[[Array, Array], reference.Trace]

RELATIVE_TOLERANCE = 1e-9
# How rows are stored, and how many problems there are, is not the rule's business, and each is
# compiled anew: these stand for all.
FOR_ALL = (Perceptron, ROMMA)


class Stream(NamedTuple):
    """Rows in the order in which they come, class numbers from 0, and the intercept's coordinate.

    ``offset=0`` is no intercept.
    """

    X: Array
    y: Labels
    classes: int
    offset: float

    def rows(self) -> Array:
        """The rows with the intercept's coordinate."""
        return np.column_stack([self.X, np.full(len(self.X), self.offset)])


def _stream(
    rows: int,
    width: int,
    classes: int,
    offset: float,
    scale: float,
    noise: float,
    density: float,
    seed: int,
) -> Stream:
    random = np.random.default_rng(seed)
    X = scale * random.normal(size=(rows, width))
    y = np.argmax(X @ random.normal(size=(width, classes)), axis=1)
    relabelled = random.uniform(size=rows) < noise
    y[relabelled] = random.integers(classes, size=relabelled.sum())
    y[:classes] = np.arange(classes)
    # Two features are in every row. Without them rows would often be orthogonal or parallel but
    # for the intercept, where the last bit decides what happens.
    kept = random.uniform(size=(rows, width)) < density
    kept[:, :2] = True
    X *= kept
    if offset == 0.0:
        X[random.uniform(size=rows) < 0.1] = 0.0
    return Stream(X, y, classes, offset)


def streams(min_width: int = 2, several: bool = EVERYTHING) -> st.SearchStrategy[Stream]:
    """Strategy for streams of two classes, with an intercept or with some zero rows.

    With ``several``, of two or three classes.

    The values are continuous, so that no margin is exactly on a threshold.
    """
    return st.builds(
        _stream,
        rows=st.integers(3, 24),
        width=st.integers(min_width, 18),  # the compiled sums work in groups of eight
        classes=st.sampled_from([2, 3] if several else [2]),
        offset=st.sampled_from([0.0, 0.83, 2.71]),
        scale=st.sampled_from([0.1, 1.0, 10.0]),
        noise=st.sampled_from([0.0, 0.2, 1.0]),
        density=st.sampled_from([0.2, 1.0]),
        seed=st.integers(0, 2**32 - 1),
    )


def magnitudes(low: float, high: float) -> st.SearchStrategy[float]:
    """Strategy for positive hyper-parameters: all orders of magnitude are equally likely."""
    return st.floats(np.log10(low), np.log10(high)).map(lambda power: 10.0**power)


def assert_follows(learner, run: Run, stream: Stream, predicts: Run | None = None) -> None:
    """The learner does what the reference does: weights, updates and mistakes of every trial.

    With more than two classes, as one reference per class against the rest. ``predicts`` is the
    reference whose weights make the mistakes, if that is another one.
    """
    X, y, classes, offset = stream
    learner = clone(learner).set_params(
        fit_intercept=offset > 0, intercept_scaling=offset or 1.0, max_iter=1, shuffle=False
    )
    if "multiclass" in learner.get_params():
        learner.set_params(multiclass="ovr")
    rows, positive = stream.rows(), [1] if classes == 2 else range(classes)
    signs = [np.where(y == c, 1.0, -1.0) for c in positive]
    traces = [run(rows, sign) for sign in signs]
    weights = np.stack([trace.history for trace in traces], axis=1)
    updates = np.cumsum(sum(trace.updated.astype(int) for trace in traces))
    if classes == 2:
        mistakes = np.cumsum(traces[0].mistakes)
    else:
        predicting = [(predicts or run)(rows, sign).history for sign in signs]
        mistakes = np.cumsum(_joint_mistakes(np.stack(predicting, axis=1), rows, y))

    for i in range(len(X)):
        learner.partial_fit(X[i : i + 1], y[i : i + 1], classes=range(classes))
        _assert_same(learner, weights[i], updates[i], mistakes[i], offset)
    as_csr = EVERYTHING or (classes == 2 and isinstance(learner, FOR_ALL))
    learner.fit(sparse.csr_matrix(X) if as_csr else X, y)
    _assert_same(learner, weights[-1], updates[-1], mistakes[-1], offset)


def _joint_mistakes(weights: Array, rows: Array, y: Labels) -> NDArray[np.bool_]:
    """Trials in which the output for the right class was not the largest one."""
    before = np.concatenate([np.zeros_like(weights[:1]), weights[:-1]])
    outputs = np.einsum("icj,ij->ic", before, rows)
    own = np.take_along_axis(outputs, y[:, None], axis=1)[:, 0]
    np.put_along_axis(outputs, y[:, None], -np.inf, axis=1)
    return own <= outputs.max(axis=1)


def _assert_same(learner, weights: Array, updates: int, mistakes: int, offset: float) -> None:
    learned = np.column_stack([learner.coef_, learner.intercept_ / (offset or 1.0)])
    for mine, expected in zip(learned, weights, strict=True):
        tolerance = RELATIVE_TOLERANCE * np.linalg.norm(expected)
        np.testing.assert_allclose(mine, expected, rtol=0, atol=tolerance)
    assert learner.n_updates_ == updates
    assert learner.n_mistakes_ == mistakes
