"""Streams whose labels come from a comparison vector that moves."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from reference import Trace

from maxmargin import NORMA
from maxmargin.models.spec import LinearSpec

Array = NDArray[np.float64]


class Pursuit(NamedTuple):
    """Rows, labels, the comparison vectors u_t, the margin mu that they are held to, and p."""

    X: Array
    y: Array
    U: Array
    margin: float
    p: float

    def known(self) -> dict[str, float]:
        """What the theorems need to know, but for the margin and for how the target moves."""
        return {
            "radius": float(np.linalg.norm(self.X, ord=self.p, axis=1).max()),
            "norm": float(self.lengths(self.U).max()),
            "losses": self.losses(),
            "p": self.p,
        }

    def losses(self) -> float:
        """Sum of the hinge losses of u_t."""
        return float(np.maximum(0.0, self.margin - self.y * np.sum(self.U * self.X, axis=1)).sum())

    def drift(self) -> float:
        return float(self.lengths(np.diff(self.U, axis=0)).sum())

    def standing(self) -> "Pursuit":
        """The same rows and labels, compared with the first vector alone."""
        return self._replace(U=np.repeat(self.U[:1], len(self.U), axis=0))

    def squared_drift(self) -> float:
        return float(np.sum(self.lengths(np.diff(self.U, axis=0)) ** 2))

    def lengths(self, vectors: Array) -> Array:
        """In the norm that is dual to the rows'."""
        return np.linalg.norm(vectors, ord=self.p / (self.p - 1), axis=1)


def known(learner: type, pursuit: Pursuit) -> dict[str, float]:
    """What the theorems of this learner need to know but for the margin."""
    facts = pursuit.known() | {"drift": pursuit.drift()}
    if learner is NORMA:
        facts |= {"trials": len(pursuit.X), "squared_drift": pursuit.squared_drift()}
    return facts


def losses_on_the_way(trace: Trace, pursuit: Pursuit, threshold: float) -> float:
    """Sum of ``max(0, threshold - y (w.x))``, with the weights before each trial."""
    before = np.vstack([np.zeros(pursuit.X.shape[1]), trace.history[:-1]])
    outputs = pursuit.y * np.sum(before * pursuit.X, axis=1)
    return float(np.maximum(0.0, threshold - outputs).sum())


def _pursuit(
    trials: int,
    d: int,
    relevant: int,
    speed: float,
    jumps: int,
    noise: float,
    lax: float,
    p: float | str,
    seed: int,
) -> Pursuit:
    random = np.random.default_rng(seed)
    U = speed * np.cumsum(random.normal(size=(trials, d)), axis=0)
    U += random.normal(size=(jumps + 1, d))[np.sort(random.integers(jumps + 1, size=trials))]
    U[:, relevant:] = 0.0
    X = random.normal(size=(trials, d))
    outputs = np.sum(U * X, axis=1)
    y = np.where(outputs > 0, 1.0, -1.0)
    y[random.uniform(size=trials) < noise] *= -1
    margin = float(np.quantile(np.abs(outputs), lax))
    return Pursuit(X, y, U, margin, LinearSpec(p=p).exponent(d))


def pursuits(exponents: Sequence[float | str] = (2.0, 4.0, "log")) -> st.SearchStrategy[Pursuit]:
    """Strategy for targets that stand, drift or jump, with clean and with noisy labels.

    ``lax=0`` and no noise is a target without losses.
    """
    return st.builds(
        _pursuit,
        trials=st.integers(2, 200),
        d=st.integers(1, 6) | st.just(40),
        relevant=st.sampled_from([1, 3, 40]),
        speed=st.sampled_from([0.0, 0.003, 0.03, 0.3]),
        jumps=st.sampled_from([0, 0, 1, 4]),
        noise=st.sampled_from([0.0, 0.1]),
        lax=st.sampled_from([0.0, 0.3, 0.8]),
        p=st.sampled_from(exponents),
        seed=st.integers(0, 2**32 - 1),
    )
