"""Values as JSON, and named arrays that go with it; see ``docs/files.md``.

A learner is stored as its parameters and the dictionary of ``__learned__``, which ``__relearn__``
checks.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator
from typing import Any, TypeGuard

import numpy as np
from sklearn.base import BaseEstimator

from maxmargin import _registry
from maxmargin.persistence.container import (
    LARGEST_IN_HEADER,
    PLAIN_KINDS,
    Container,
    as_text,
    described,
)
from maxmargin.persistence.model_tree import Misfit

Random = np.random.RandomState | np.random.Generator

PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
# Positions in a buffer, which NumPy does not check.
LARGEST_POSITIONS = {"pos": 624, "buffer_pos": 4}


def is_learner(value: object) -> TypeGuard[BaseEstimator]:
    return isinstance(value, BaseEstimator)


def is_public(value: object) -> bool:
    """Whether it is a learner of this library itself, not of a derived class."""
    return _registry.learner(type(value).__name__) is type(value)


def not_ours(value: object) -> str:
    """The message about an object that cannot be saved."""
    return (
        f"Only learners of maxmargin can be saved, not {type(value)!r}. Save pipelines and other "
        "estimators by skops.io.dump, or by joblib.dump in files that only you can write, since "
        "loading those runs what is in them."
    )


@contextlib.contextmanager
def naming(what: str) -> Iterator[None]:
    """Errors in the block say that ``what`` cannot be saved."""
    try:
        yield
    except (TypeError, RecursionError) as problem:
        raise TypeError(f"{what} cannot be saved: {problem}") from None


# ------------------------------------------------------------------------------------------ writing
def dumped(value: Any, path: str, arrays: dict[str, np.ndarray]) -> Any:
    """A value as JSON; large arrays in it are added to ``arrays``, by names that begin so."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, list):
        return [dumped(each, _join(path, str(k)), arrays) for k, each in enumerate(value)]
    if type(value) is tuple:
        return {"tuple": dumped(list(value), path, arrays)}
    if isinstance(value, dict):
        pairs = enumerate(value.items())
        return {
            "dict": [
                [dumped(k, path, arrays), dumped(v, _join(path, k, n), arrays)]
                for n, (k, v) in pairs
            ]
        }
    if isinstance(value, np.ndarray):
        return _dumped_array(value, path, arrays)
    if isinstance(value, np.random.RandomState):
        state: Any = value.get_state(legacy=False)
        return {"random": "RandomState", "state": dumped(state, path, arrays)}
    if isinstance(value, np.random.Generator):
        return {"random": "Generator", "state": dumped(value.bit_generator.state, path, arrays)}
    if is_learner(value):
        return _dumped_learner(value, path, arrays)
    raise TypeError(f"{value!r} is neither a number nor a text.")


def _join(path: str, key: object, number: int = 0) -> str:
    """The name of what is in ``key`` of ``path``; keys that are no plain names have numbers."""
    name = key if isinstance(key, str) and PLAIN_NAME.fullmatch(key) else str(number)
    return f"{path}.{name}" if path else name


def _dumped_array(array: np.ndarray, path: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    if array.dtype.kind == "O" and array.ndim == 1:
        return {"objects": dumped(array.tolist(), path, arrays)}
    if array.dtype.names is None and array.dtype.kind not in PLAIN_KINDS:
        raise TypeError(f"it is an array of {array.dtype}.")
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if array.nbytes <= LARGEST_IN_HEADER:
        return {"bytes": as_text(array), **described(array)}
    while path in arrays:
        path += "_"
    arrays[path] = array
    return {"array": path, **described(array)}


def _dumped_learner(clf: Any, path: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    name = type(clf).__name__
    if not is_public(clf):
        raise TypeError(not_ours(clf))
    given, learned = clf.get_params(deep=False), clf.__learned__()
    for each in vars(clf).keys() - given.keys():
        if each[0] != "_":
            raise TypeError(
                f"The attribute '{each}' of {name} cannot be saved: learning did not make it."
            )
    found: dict[str, Any] = {"estimator": name}
    for what, values in ("parameter", given), ("attribute", learned):
        part = found[f"{what}s"] = {}
        for each, value in values.items():
            with naming(f"The {what} '{each}' of {name}"):
                part[each] = dumped(value, _join(path, each), arrays)
    return found


# ------------------------------------------------------------------------------------------ reading
def loaded(tree: Any, container: Container) -> Any:
    """The value that was `dumped`; each array has one place."""
    if tree is None or isinstance(tree, bool | int | float | str):
        return tree
    if isinstance(tree, list):
        return [loaded(each, container) for each in tree]
    if "float" in tree:
        return float({"inf": "inf", "-inf": "-inf", "nan": "nan"}[tree["float"]])
    if "tuple" in tree:
        return tuple(loaded(tree["tuple"], container))
    if "dict" in tree:
        return {loaded(k, container): loaded(v, container) for k, v in tree["dict"]}
    if "random" in tree:
        return _loaded_random(tree["random"], loaded(tree["state"], container))
    if "estimator" in tree:
        return _loaded_learner(tree, container)
    if "objects" in tree:
        values = loaded(tree["objects"], container)
        objects = np.empty(len(values), dtype=object)
        objects[:] = values
        return objects
    return np.asarray(container.array(tree))


def _loaded_random(kind: str, state: dict[str, Any]) -> Random:
    if state["bit_generator"] not in BIT_GENERATORS:
        raise Misfit(f"there is no generator {state['bit_generator']!r}")
    bits = getattr(np.random, state["bit_generator"])(0)
    for name, largest in LARGEST_POSITIONS.items():
        for part in (state, state["state"]):
            if not 0 <= part.get(name, 0) <= largest:
                raise Misfit("a generator of random numbers is out of range")
    if kind == "Generator":
        bits.state = state
        return np.random.Generator(bits)
    random = np.random.RandomState(bits)
    random.set_state(state)
    return random


def _loaded_learner(tree: dict[str, Any], container: Container) -> BaseEstimator:
    """A learner; parameters that are not in the file have their defaults."""
    kind = _registry.learner(tree["estimator"])
    if kind is None:
        raise Misfit(f"there is no learner {tree['estimator']!r}")
    parameters = {name: loaded(value, container) for name, value in tree["parameters"].items()}
    try:
        clf: Any = kind(**parameters)
    except TypeError:
        raise Misfit(f"the parameters are not those of {tree['estimator']}") from None
    learned = {name: _attribute(name, each, container) for name, each in tree["attributes"].items()}
    if learned:
        clf.check_parameters()
        clf.__relearn__(learned)
    return clf


def _attribute(name: str, tree: Any, container: Container) -> Any:
    """An attribute; arrays of models are read once they have been compared with new ones."""
    is_array = name.startswith("model.") and isinstance(tree, dict) and "shape" in tree
    return container.array(tree) if is_array else loaded(tree, container)
