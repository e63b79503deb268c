"""Separable problems whose best margin is known exactly, for the theorems about convergence."""

from typing import NamedTuple

import numpy as np
import reference
from hypothesis import strategies as st
from numpy.typing import NDArray
from problems import separable

Array = NDArray[np.float64]

# What a theorem says about real numbers holds for rounded ones up to this.
ROUNDING = 1e-9


class Problem(NamedTuple):
    """Rows with the intercept's coordinate 1, in whose space the theorems hold."""

    X: Array
    y: Array
    rows: Array

    @property
    def radius(self) -> float:
        """The largest norm of a row."""
        return float(np.linalg.norm(self.rows, axis=1).max())

    @property
    def smallest(self) -> float:
        """The smallest norm of a row."""
        return float(np.linalg.norm(self.rows, axis=1).min())

    @property
    def margin(self) -> float:
        """The best directional margin."""
        return reference.max_margin(self.rows, self.y, intercept=False)[0]

    def normalised(self) -> "Problem":
        """The same directions, all of norm 1."""
        rows = self.rows / np.linalg.norm(self.rows, axis=1, keepdims=True)
        return self._replace(rows=rows)

    def reached(self, learner) -> float:
        """The directional margin of a fitted learner."""
        w = weights(learner)
        return float(np.min(self.y * (self.rows @ w)) / np.linalg.norm(w))


def with_intercept(X: Array) -> Array:
    """The rows with the intercept's coordinate 1."""
    return np.column_stack([X, np.ones(len(X))])


def problem(X: Array, y: NDArray[np.int64]) -> Problem:
    return Problem(X, y.astype(float), with_intercept(X))


def separable_problems() -> st.SearchStrategy[Problem]:
    """Strategy for separable problems that take few passes."""
    sets = st.builds(
        separable,
        n=st.integers(2, 25),
        d=st.integers(1, 5),
        gap=st.floats(0.2, 1.0),
        shift=st.floats(-1.0, 1.0),
        seed=st.integers(0, 2**32 - 1),
    )
    return sets.map(lambda drawn: problem(*drawn))


def converged(learner, problem: Problem):
    """The learner after as many passes as it needs."""
    learner.set_params(max_iter=100_000, random_state=0).fit(problem.X, problem.y)
    assert learner.converged_
    return learner


def weights(learner) -> Array:
    """The weights of a binary learner, that of the intercept's coordinate 1 last."""
    return np.append(learner.coef_, learner.intercept_)


def played(learner, X: Array, y: Array) -> Array:
    """Present the rows one by one, and return the weights before each trial, the first being 0."""
    history = np.zeros((len(X), X.shape[1] + 1))
    for i in range(len(X)):
        if i > 0:
            history[i] = weights(learner)
        learner.partial_fit(X[i : i + 1], y[i : i + 1], classes=[-1, 1])
    return history


def losses(history: Array, rows: Array, y: Array) -> Array:
    """The hinge losses ``max(0, 1 - y (w.x))`` of one row after the other."""
    return np.maximum(0.0, 1.0 - y * np.sum(history * rows, axis=-1))
