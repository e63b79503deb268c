"""Values as JSON, and named arrays beside it; see ``docs/files.md``.

A learner is stored as its parameters and the dictionary of ``__learned__``, which ``__relearn__``
checks.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from maxmargin import _registry
from maxmargin.persistence.container import PLAIN_KINDS, Container, StoredArray, described
from maxmargin.persistence.learner_files import (
    checked_setting,
    is_learner,
    is_public,
    not_ours,
)
from maxmargin.persistence.model_tree import Misfit

Random = np.random.RandomState | np.random.Generator

PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
# Arrays of texts pad each text to the longest: the most padding that a file may need, in bytes.
MOST_PADDING = 2**26
BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
# Positions in a buffer, which NumPy does not check.
LARGEST_POSITIONS = {"pos": 624, "buffer_pos": 4}


def padding_of(texts: list[str], length: int) -> int:
    """The bytes of padding in an array of texts of ``length`` characters."""
    return 4 * (len(texts) * length - sum(map(len, texts)))


@contextlib.contextmanager
def naming(what: str) -> Iterator[None]:
    """Errors in the block say that ``what`` cannot be saved."""
    try:
        yield
    except (TypeError, Misfit, RecursionError) as problem:
        raise TypeError(f"{what} cannot be saved: {problem}") from None


class Writer:
    """Turns values into JSON, and collects their arrays by names that say where they belong."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._padding = 0

    def dump(self, value: Any, path: str) -> Any:
        value = value.item() if isinstance(value, np.generic) else value
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, list):
            return self._dump_items(value, path)
        if type(value) is tuple:
            return {"tuple": self._dump_items(value, path)}
        if isinstance(value, dict):
            pairs = enumerate(value.items())
            return {
                "dict": [
                    [self.dump(k, path), self.dump(v, _join(path, k, n))] for n, (k, v) in pairs
                ]
            }
        if isinstance(value, np.ndarray):
            return self._dump_array(value, path)
        if isinstance(value, np.random.RandomState):
            state: Any = value.get_state(legacy=False)
            return {"random": "RandomState", "state": self.dump(state, path)}
        if isinstance(value, np.random.Generator):
            return {"random": "Generator", "state": self.dump(value.bit_generator.state, path)}
        if is_learner(value):
            return self._dump_learner(value, path)
        raise TypeError(f"{value!r} is neither a number nor a text.")

    def _dump_items(self, items: Any, path: str) -> list[Any]:
        return [self.dump(each, _join(path, str(k))) for k, each in enumerate(items)]

    def _dump_array(self, array: np.ndarray, path: str) -> dict[str, Any]:
        if array.dtype.kind == "U" and array.ndim == 1:
            texts, length = array.tolist(), array.dtype.itemsize // 4
            self._padding += padding_of(texts, length)
            if self._padding > MOST_PADDING:
                raise TypeError("its texts are of too different lengths; use dtype=object.")
            return {"texts": texts, "length": length}
        if array.dtype.kind == "O" and array.ndim == 1:
            return {"objects": self._dump_items(array, path)}
        if array.dtype.names is None and array.dtype.kind not in PLAIN_KINDS:
            raise TypeError(f"it is an array of {array.dtype}.")
        while path in self.arrays:
            path += "_"
        self.arrays[path] = array
        return {"array": path, **described(array)}

    def _dump_learner(self, clf: BaseEstimator, path: str) -> dict[str, Any]:
        name = type(clf).__name__
        if not is_public(clf):
            raise TypeError(not_ours(clf))
        parameters, attributes, given = {}, {}, clf.get_params(deep=False)
        for each in vars(clf).keys() - given.keys():
            if each[0] != "_":
                raise TypeError(
                    f"The attribute '{each}' of {name} cannot be saved: learning did not make it."
                )
        for each, value in given.items():
            with naming(f"The parameter '{each}' of {name}"):
                parameters[each] = self.dump(checked_setting(value), _join(path, each))
        for each, value in clf.__learned__().items():
            with naming(f"The attribute '{each}' of {name}"):
                attributes[each] = self.dump(value, _join(path, each))
        return {"estimator": name, "parameters": parameters, "attributes": attributes}


def _join(path: str, key: object, number: int = 0) -> str:
    """The name of what is in ``key`` of ``path``; keys that are no plain names have numbers."""
    name = key if isinstance(key, str) and PLAIN_NAME.fullmatch(key) else str(number)
    return f"{path}.{name}" if path else name


class Reader:
    """Turns JSON and arrays back into values; each array has one place."""

    def __init__(self, container: Container) -> None:
        self.container = container
        self.unused = container.names()
        self._padding = 0

    def load(self, tree: Any) -> Any:
        if tree is None or isinstance(tree, bool | int | float | str):
            return tree
        if isinstance(tree, list):
            return [self.load(each) for each in tree]
        if "float" in tree:
            return float({"inf": "inf", "-inf": "-inf", "nan": "nan"}[tree["float"]])
        if "tuple" in tree:
            return tuple(self.load(each) for each in tree["tuple"])
        if "dict" in tree:
            return {self.load(key): self.load(value) for key, value in tree["dict"]}
        if "random" in tree:
            return self._load_random(tree)
        if "estimator" in tree:
            return self._load_learner(tree)
        return self._load_array(tree)

    def _attribute(self, name: str, tree: Any) -> Any:
        """An attribute; arrays of models are read once they have been compared with new ones."""
        is_array = name.startswith("model.") and isinstance(tree, dict) and "array" in tree
        return self._stored(tree) if is_array else self.load(tree)

    def _stored(self, tree: dict[str, Any]) -> StoredArray:
        self.unused.remove(tree["array"])
        return self.container.array(tree["array"], tree)

    def _load_array(self, tree: dict[str, Any]) -> Any:
        if "array" in tree:
            return self._stored(tree).read()
        if "texts" in tree:
            texts, length = tree["texts"], tree["length"]
            if not all(isinstance(text, str) for text in texts):
                raise Misfit("an array of texts contains something else")
            if type(length) is not int or not 0 <= length <= max(map(len, texts), default=0) + 1000:
                raise Misfit(f"texts are not of length {length}")
            self._padding += padding_of(texts, length)
            if self._padding > MOST_PADDING:
                raise Misfit("texts are of too different lengths")
            return np.array(texts, dtype=f"<U{length}")
        objects = np.empty(len(tree["objects"]), dtype=object)
        objects[:] = [self.load(each) for each in tree["objects"]]
        return objects

    def _load_random(self, tree: dict[str, Any]) -> Random:
        state = self.load(tree["state"])
        if state["bit_generator"] not in BIT_GENERATORS:
            raise Misfit(f"there is no generator {state['bit_generator']!r}")
        bits = getattr(np.random, state["bit_generator"])(0)
        for name, largest in LARGEST_POSITIONS.items():
            for part in (state, state["state"]):
                if not 0 <= part.get(name, 0) <= largest:
                    raise Misfit("a generator of random numbers is out of range")
        if tree["random"] == "Generator":
            bits.state = state
            return np.random.Generator(bits)
        random = np.random.RandomState(bits)
        random.set_state(state)
        return random

    def _load_learner(self, tree: dict[str, Any]) -> BaseEstimator:
        """A learner; parameters that are not in the file have their defaults."""
        kind = _registry.learner(tree["estimator"])
        if kind is None:
            raise Misfit(f"there is no learner {tree['estimator']!r}")
        given = tree["parameters"].items()
        parameters = {name: checked_setting(self.load(value)) for name, value in given}
        try:
            clf: Any = kind(**parameters)
        except TypeError:
            raise Misfit(f"the parameters are not those of {tree['estimator']}") from None
        learned = {name: self._attribute(name, value) for name, value in tree["attributes"].items()}
        if learned:
            clf.check_parameters()
            clf.__relearn__(learned)
        return clf
