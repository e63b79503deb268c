"""Small random data sets, Hypothesis strategies that draw them, and the learners to try on them."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
from extent import everything_or
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone

import maxmargin
from maxmargin.core.rows import Tail
from maxmargin.estimator import OnlineClassifier
from maxmargin.models.linear_model import LinearModel
from maxmargin.models.spec import LinearSpec

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


def separable(
    n: int = 60, d: int = 5, gap: float = 0.2, shift: float = 1.0, seed: int = 0
) -> tuple[Array, Labels]:
    """Normal points around ``(shift, ..., shift)``, labelled by a hyperplane through that centre.

    The points are moved ``gap`` away from the hyperplane, so the best margin with an intercept is
    at least ``gap``; without one there may be none, as the centre is not the origin. Both labels,
    -1 and +1, occur (``n >= 2``).
    """
    random = np.random.default_rng(seed)
    normal = random.normal(size=d)
    normal /= np.linalg.norm(normal)
    X = random.normal(size=(n, d))
    y = np.where(X @ normal > 0, 1, -1)
    if np.all(y == y[0]):
        X[0], y[0] = -X[0], -y[0]
    return X + gap * y[:, None] * normal + shift, y


def sparse_separable(
    n: int = 60, d: int = 30, density: float = 0.2, gap: float = 0.2, seed: int = 0
) -> tuple[sparse.csr_matrix, Labels]:
    """Rows with few non-zero features, labelled by a hyperplane with an intercept.

    Each row has a share of its own in one further feature, the last, that carries the gap.
    """
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) * (random.uniform(size=(n, d)) < density)
    y = np.where(X[:, :-1] @ random.normal(size=d - 1) > 0, 1, -1)
    y[:2] = 1, -1
    X[:, -1] = gap * y * (1 + random.uniform(size=n)) + 1
    return sparse.csr_matrix(X), y


def overlapping(
    n: int = 60, d: int = 5, distance: float = 1.0, seed: int = 0
) -> tuple[Array, Labels]:
    """Two normal clouds whose centres are ``distance`` apart; labels -1 and +1, both occur."""
    random = np.random.default_rng(seed)
    y = np.where(random.uniform(size=n) < 0.5, 1, -1)
    y[:2] = 1, -1
    X = random.normal(size=(n, d))
    X[:, 0] += y * distance / 2
    return X, y


def three_classes(
    n: int = 60, d: int = 5, spread: float = 0.3, seed: int = 0
) -> tuple[Array, Labels]:
    """Clouds around three corners of a simplex (``d >= 2``), labels 0, 1 and 2, all occur.

    Each class is cut off at 0.4 from its corner along the first two features, so that each can be
    separated from the rest.
    """
    random = np.random.default_rng(seed)
    y = random.integers(3, size=n)
    y[:3] = 0, 1, 2
    X = spread * random.normal(size=(n, d))
    X[:, :2] = np.clip(X[:, :2], -0.4, 0.4)
    angle = 2 * np.pi * y / 3
    X[:, 0] += 2 * np.cos(angle)
    X[:, 1] += 2 * np.sin(angle)
    return X, y


def separable_sets(
    max_rows: int = 30, max_features: int = 5
) -> st.SearchStrategy[tuple[Array, Labels]]:
    """Strategy for the sets that `separable` makes, of all sizes, gaps and shifts."""
    return st.builds(
        separable,
        n=st.integers(2, max_rows),
        d=st.integers(1, max_features),
        gap=st.floats(0.02, 1.0),
        shift=st.floats(-3.0, 3.0),
        seed=st.integers(0, 2**32 - 1),
    )


def overlapping_sets(
    max_rows: int = 30, max_features: int = 5
) -> st.SearchStrategy[tuple[Array, Labels]]:
    """Strategy for the sets that `overlapping` makes; small ones are often separable."""
    return st.builds(
        overlapping,
        n=st.integers(2, max_rows),
        d=st.integers(1, max_features),
        distance=st.floats(0.0, 4.0),
        seed=st.integers(0, 2**32 - 1),
    )


def chunk_sizes(rows: int) -> st.SearchStrategy[list[int]]:
    """Strategy for ways of cutting ``rows`` rows into consecutive chunks."""
    cuts = st.sets(st.integers(1, rows - 1), max_size=rows - 1)
    return cuts.map(lambda at: np.diff([0, *sorted(at), rows]).tolist())


class FaultyKernel:
    """A kernel until a given call, which fails."""

    def __init__(self, kernel: Callable[[Any, Any], Any]) -> None:
        self.kernel, self.calls = kernel, -1

    def __call__(self, some: Any, others: Any) -> Any:
        self.calls -= 1
        if self.calls == 0:
            raise RuntimeError("no more")
        return self.kernel(some, others)


def linear_model(
    problems: int = 1,
    width: int = 4,
    *,
    offset: float = 1.0,
    average: bool = False,
    p: float = 2.0,
    private: float = 0.0,
) -> LinearModel:
    """A model at w = 0, without an estimator; there is an intercept if ``offset > 0``.

    ``private`` is the coordinate that each row of a stream has of its own.
    """
    spec = LinearSpec(fit_intercept=offset > 0.0, average=average, p=p, soft_margin=private**2)
    return LinearModel(spec, problems, width, private=0, tail=Tail(offset, private), p=p)


def learner_classes() -> list[type]:
    """The classes of all public learners of weights of features that learn from streams."""
    public = (getattr(maxmargin, name) for name in maxmargin.__all__)
    classes = (one for one in public if isinstance(one, type) and issubclass(one, OnlineClassifier))
    classes = (
        one
        for one in classes
        if getattr(one, "kernel", "linear") == "linear" and one.facts.certificate
    )
    return [one for one in classes if hasattr(one(), "partial_fit")]


def with_intercept(learner: Any, scaling: Any) -> Any:
    """A fresh copy of ``learner`` with this `intercept_scaling`, or without intercept for None."""
    fresh = clone(learner).set_params(fit_intercept=scaling is not None)
    if scaling is not None and "intercept_scaling" in fresh.get_params():
        fresh.set_params(intercept_scaling=scaling)
    return fresh


def learners() -> list[Any]:
    """Every public learner as it comes, and with settings that reach its other branches."""
    return [each() for each in learner_classes()] + [
        maxmargin.ALMA(alpha=0.5),
        maxmargin.AMIRA(epsilon=0.0),
        maxmargin.AMIRA(epsilon=1.0),
        maxmargin.AMIRA(intercept="pair"),
        maxmargin.DirectionalPerceptron(beta=0.1, step="relaxed"),
        maxmargin.DirectionalPerceptron(beta=0.1, length="fixed", rate=0.05),
        maxmargin.MICRA(beta=0.5, eta=0.3, epsilon=0.7, zeta=0.9),
        maxmargin.NORMA(rate=0.3, decay=0.5, margin=0.5),
        maxmargin.PassiveAggressive(C=0.1),
        maxmargin.PassiveAggressive(C=0.1, loss="squared_hinge"),
        maxmargin.Pegasos(lambda_=0.1, project=True),
        maxmargin.Perceptron(average=True),
        maxmargin.Perceptron(margin=1.0, rate=0.1),
        maxmargin.ROMMA(delta=0.0),
        maxmargin.ROMMA(delta=0.1),
        maxmargin.Relaxation(margin=0.5, target=1.0, rate=1.8),
        maxmargin.TrackingALMA(rate=0.5, radius=0.7, margin=0.3),
    ]


def kinds_of_learners() -> list[Any]:
    """One learner for each way to keep weights of features; all by `make test-all`."""
    kinds = [
        maxmargin.ROMMA(delta=0.1),
        maxmargin.Pegasos(lambda_=0.1, project=True),
        maxmargin.Perceptron(average=True),
        maxmargin.ALMA(p=4.0),
        maxmargin.PUMMA(),
        maxmargin.AMIRA(),
    ]
    return everything_or(kinds, [*learners(), maxmargin.ALMA(p=4.0)])


def learners_of_sparse_rows() -> list[Any]:
    """How rows are stored is not the rule's business, and CSR is compiled anew for each."""
    return everything_or(kinds_of_learners()[:3], learners())


def label(learner: Any) -> str:
    """A short name for a learner and its settings, to tell tests apart.

    The same in each process: without the addresses of random states.
    """
    return re.sub(r"at0x\w+", "", "".join(repr(learner).split()))
