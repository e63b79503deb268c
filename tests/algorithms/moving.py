"""Streams whose labels come from a comparison vector that moves."""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Pursuit(NamedTuple):
    """Rows, labels, the comparison vectors u_t, and the margin mu that they are held to."""

    X: Array
    y: Array
    U: Array
    margin: float

    @property
    def radius(self) -> float:
        return float(np.linalg.norm(self.X, axis=1).max())

    @property
    def norm(self) -> float:
        return float(np.linalg.norm(self.U, axis=1).max())

    @property
    def losses(self) -> float:
        """Sum of the hinge losses of u_t."""
        return float(np.maximum(0.0, self.margin - self.y * np.sum(self.U * self.X, axis=1)).sum())

    @property
    def drift(self) -> float:
        return float(np.linalg.norm(np.diff(self.U, axis=0), axis=1).sum())

    @property
    def squared_drift(self) -> float:
        return float(np.sum(np.diff(self.U, axis=0) ** 2))


def _pursuit(trials: int, d: int, speed: float, noise: float, lax: float, seed: int) -> Pursuit:
    random = np.random.default_rng(seed)
    U = random.normal(size=d) + speed * np.cumsum(random.normal(size=(trials, d)), axis=0)
    X = random.normal(size=(trials, d))
    outputs = np.sum(U * X, axis=1)
    y = np.where(outputs > 0, 1.0, -1.0)
    y[random.uniform(size=trials) < noise] *= -1
    return Pursuit(X, y, U, margin=float(np.quantile(np.abs(outputs), lax)))


def pursuits() -> st.SearchStrategy[Pursuit]:
    """Strategy for fixed and drifting targets, with clean and with noisy labels.

    ``lax=0`` and no noise is a target without losses.
    """
    return st.builds(
        _pursuit,
        trials=st.integers(2, 200),
        d=st.integers(1, 6),
        speed=st.sampled_from([0.0, 0.003, 0.03, 0.3]),
        noise=st.sampled_from([0.0, 0.1]),
        lax=st.sampled_from([0.0, 0.3, 0.8]),
        seed=st.integers(0, 2**32 - 1),
    )
