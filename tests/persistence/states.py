"""Learners in all kinds of states, and all that can be known about one."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator

import maxmargin
from maxmargin.core.array_fields import Buffer, declared
from maxmargin.estimator.wrapping_learner import WrappingLearner
from maxmargin.training.state import State

# Those with a state of their own.
ESTIMATORS = [
    public
    for public in (getattr(maxmargin, name) for name in maxmargin.__all__)
    if isinstance(public, type)
    and issubclass(public, BaseEstimator)
    and not issubclass(public, WrappingLearner)
]
every_estimator = pytest.mark.parametrize("Estimator", ESTIMATORS, ids=lambda each: each.__name__)

random = np.random.default_rng(7)
X = random.normal(size=(40, 3))
two = np.where(X[:, 0] + 0.3 * X[:, 1] > 0.1, "yes", "no")
three = np.digitize(X[:, 0], [-0.5, 0.5]) * 2.0
FIRST, REST = slice(0, 25), slice(25, 40)


def accepts(Estimator: type, **parameters: Any) -> bool:
    return parameters.keys() <= inspect.signature(Estimator).parameters.keys()


def streams(Estimator: type) -> bool:
    return hasattr(Estimator(), "partial_fit")


def made(Estimator: type, **parameters: Any) -> Any:
    """With few passes, and the same random numbers each time, unless told otherwise."""
    defaults = {"max_iter": 3, "random_state": 0, "warm_start": True}
    if Estimator().get_params().get("kernel") in ("rbf", "poly"):
        defaults["gamma"] = 0.5
    known = {name: value for name, value in defaults.items() if accepts(Estimator, **{name: 0})}
    return Estimator(**known | parameters)


def fitted(clf: Any, rows: Any = X, labels: Any = two) -> Any:
    return clf.fit(rows, labels)


def streamed(clf: Any, rows: Any = X, labels: Any = two) -> Any:
    return clf.partial_fit(rows[FIRST], labels[FIRST], classes=np.unique(labels))


def as_dict(row: np.ndarray) -> dict[str, float]:
    return {f"x{j}": value for j, value in enumerate(row.tolist()) if value > -1.0}


# Parameters that change what the state is made of, with labels and rows to learn from.
VARIANTS: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "p-norm": ({"p": 3.0}, X, two),
    "averaged": ({"average": True}, X, three),
    "together": ({"multiclass": "1-best"}, X, three),
    "k-best": ({"multiclass": "k-best", "k": 2}, X, three),
    "in pairs": ({"intercept": "pair"}, X, two),
    "soft margin": ({"soft_margin": 0.5}, X, three),
    "rbf": ({"kernel": "rbf", "gamma": 0.5}, X, three),
    "rbf, float32": ({"kernel": "rbf", "gamma": 0.5}, X.astype(np.float32), two),
    "poly, sparse": ({"kernel": "poly", "gamma": 0.5}, sparse.csr_matrix(X), two),
    "kernel, averaged": ({"kernel": "rbf", "gamma": 0.5, "average": True}, X, two),
    "kernel, in pairs": ({"kernel": "rbf", "gamma": 0.5, "intercept": "pair"}, X, two),
    "kernel, k-best": ({"kernel": "rbf", "gamma": 0.5, "multiclass": "k-best"}, X, three),
    "oldest": ({"budget": 4, "on_full": "oldest", "kernel": "rbf", "gamma": 0.5}, X, two),
    "random": ({"budget": 4, "on_full": "random", "kernel": "rbf", "gamma": 0.5}, X, three),
    "project": ({"budget": 4, "on_full": "project", "kernel": "rbf", "gamma": 0.5}, X, two),
    "sparse budget": (
        {"budget": 4, "on_full": "random", "kernel": "poly", "gamma": 0.5},
        sparse.csr_matrix(X),
        two,
    ),
}

# The same for the learner that needs all rows at once.
EXACT: dict[str, dict[str, Any]] = {
    "hinge": {"loss": "hinge"},
    "rbf": {"kernel": "rbf", "gamma": 0.5},
    "rbf, hinge": {"kernel": "rbf", "gamma": 0.5, "loss": "hinge"},
    "rbf, chosen": {"kernel": "rbf", "soft_margin": "auto", "calibration": "loo"},
}

# A vote has no space of its own, but experts of several kinds, each compiled anew.
VOTED = {"rbf", "oldest"}


def _learners(parameters: dict[str, Any]) -> list[type]:
    return [each for each in ESTIMATORS if streams(each) and _valid(each, parameters)]


def _valid(Estimator: type, parameters: dict[str, Any]) -> bool:
    if not accepts(Estimator, **parameters):
        return False
    try:
        Estimator(**parameters).check_parameters()
    except ValueError:
        return False
    return True


def states(wide: bool = False) -> Iterator[tuple[str, Callable[[], Any], Callable[[Any], Any]]]:
    """Names, what makes a learner, and what lets it go on.

    Variants are about spaces, not about rules: one learner is enough for each, unless ``wide``.
    """
    for Estimator in ESTIMATORS:
        name = Estimator.__name__
        yield f"{name} new", lambda E=Estimator: made(E), fitted
        yield f"{name} fitted", lambda E=Estimator: fitted(made(E)), fitted
        if streams(Estimator):
            yield f"{name} streamed", lambda E=Estimator: streamed(made(E)), _go_on(X, two)
    for variant, (parameters, rows, labels) in VARIANTS.items():
        found = _learners(parameters)
        if variant not in VOTED:
            found = [each for each in found if each is not maxmargin.FixedShare]
        for Estimator in found if wide else found[:1]:

            def make(E=Estimator, given=(parameters, rows, labels), learn=streamed):
                return learn(made(E, **given[0]), *given[1:])

            name = f"{Estimator.__name__} {variant}"
            yield f"{name} streamed", make, _go_on(rows, labels)
            if _valid(Estimator, {"warm_start": True}):
                fit = lambda make=make: make(learn=fitted)  # noqa: E731
                yield f"{name} fitted", fit, lambda clf, r=rows, y=labels: fitted(clf, r, y)

    for variant, parameters in EXACT.items():
        for labels, kind in ((two, "two"), (three, "three")):

            def fit(given=parameters, labels=labels):
                return fitted(made(maxmargin.MaxMargin, max_iter=100, **given), X, labels)

            yield f"MaxMargin {variant} {kind} fitted", fit, lambda clf, y=labels: fitted(clf, X, y)

    gram, exact = X @ X.T, {"kernel": "precomputed"}
    for variant, more in {"precomputed": {}, "precomputed budget": {"budget": 4}}.items():
        for Estimator in _learners(exact | more)[: None if wide else 1]:
            name = f"{Estimator.__name__} {variant} fitted"
            make = lambda E=Estimator, more=more: fitted(made(E, **exact | more), gram)  # noqa: E731
            yield name, make, lambda clf: fitted(clf, gram)


def _go_on(rows: Any, labels: Any) -> Callable[[Any], Any]:
    return lambda clf: clf.partial_fit(rows[REST], labels[REST])


# ------------------------------------------------------------------------- all that can be known
# What is only needed in the middle of a call, or can be computed from the rest.
FLEETING = {
    "_access",
    "_one_row",
    "_checked_parameters",
    "_trainer",
    "_together",
    "training",
    "cross",
    "products",
}
FLEETING |= {"coords", "shadows", "turned", "fresh", "refilled", "sources", "rivals", "row", "logs"}
FLEETING |= {"distances", "outputs", "stamps", "serial", "z", "t"}


def known_to(value: Any) -> Any:
    """All that an object holds, bit by bit, in a form that can be compared."""
    if isinstance(value, np.ndarray):
        content = value.tolist() if value.dtype == object else value.tobytes()
        return value.dtype.str if value.dtype.names is None else "table", value.shape, content
    if sparse.issparse(value):
        return value.shape, *map(known_to, (value.data, value.indices, value.indptr))
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return repr(value.get_state())
    if isinstance(value, float | np.floating):
        return float(value).hex()
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, dict):
        return {name: known_to(each) for name, each in value.items() if name not in FLEETING}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        kinds = declared(type(value))
        scratch = {name for name, each in kinds.items() if isinstance(each, Buffer)}
        scratch |= {"buffer"} if type(value).__name__ == "PNorm" else set()
        fields = {name: each for name, each in value._asdict().items() if name not in scratch}
        if isinstance(value, State):  # margins that are out of date say nothing
            fields |= {"margins": value.known_margins(), "measured": 0}
        return type(value).__name__, known_to(fields)
    if isinstance(value, list | tuple):
        return [known_to(each) for each in value]
    if hasattr(value, "__dict__") and type(value).__module__.startswith("maxmargin"):
        return type(value).__name__, known_to(vars(value))
    if isinstance(value, type):
        return np.dtype(value).str
    return value.str if isinstance(value, np.dtype) else value
