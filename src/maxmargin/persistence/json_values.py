"""Values as JSON trees, with arrays beside them; see ``docs/files.md``.

An object that occurs twice is stored once. A learner is stored as its parameters and the dictionary
of ``__learned__``, which ``__relearn__`` checks.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from maxmargin import _registry
from maxmargin.persistence.container import PLAIN_KINDS
from maxmargin.persistence.learner_files import (
    checked_setting,
    is_learner,
    is_public,
    not_ours,
)
from maxmargin.persistence.model_tree import Misfit

Random = np.random.RandomState | np.random.Generator

MOST_LEVELS = 50  # of nesting
# Arrays of texts pad each text to the longest: the most padding that a file may need, in bytes.
MOST_PADDING = 2**26
# The most bytes of all uses of arrays, as a multiple of the bytes stored, plus some.
MOST_SHARING, FREE_SHARING = 8, 2**20

BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
# Positions in a buffer, which NumPy does not check.
LARGEST_POSITIONS = {"pos": 624, "buffer_pos": 4}


def padding_of(texts: list[str], length: int) -> int:
    """The bytes of padding in an array of texts of at most ``length`` characters."""
    return 4 * (len(texts) * length - sum(map(len, texts)))


class TreeWriter:
    """Turns values into trees, and collects their arrays."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self._numbers: dict[int, int] = {}  # of arrays and other objects, by id
        self._kept: list[object] = []  # objects that are no arrays, so that no id is reused
        self._level = 0
        self._padding = 0

    @contextlib.contextmanager
    def naming(self, what: str) -> Iterator[None]:
        """Errors within say that ``what`` cannot be saved."""
        try:
            yield
        except (TypeError, Misfit) as problem:
            raise TypeError(f"{what} cannot be saved: {problem}") from None

    def dump(self, value: object) -> Any:
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, np.generic):
            if isinstance(value, np.str_ | np.float64 | np.bool_):
                return self.dump(value.item())
            return {"scalar": self._add(np.array(value))}
        if id(value) in self._numbers:
            kind = "array" if isinstance(value, np.ndarray) else "same"
            return {kind: self._numbers[id(value)]}
        self._level += 1
        if self._level > MOST_LEVELS:
            raise TypeError("it is nested too deeply.")
        tree = self._dump_object(value)
        self._level -= 1
        return tree

    def _dump_object(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.dump(each) for each in value]
        if type(value) is tuple:
            return {"tuple": [self.dump(each) for each in value]}
        if isinstance(value, dict):
            return {"dict": [[self.dump(key), self.dump(each)] for key, each in value.items()]}
        if isinstance(value, np.ndarray):
            return self._dump_array(value)
        if sparse.issparse(value) and value.format == "csr":
            parts: dict[str, Any] = {
                name: self.dump(getattr(value, name)) for name in ("data", "indices", "indptr")
            }
            parts |= {"columns": value.shape[1], "matrix": sparse.isspmatrix(value)}
            return {"csr": parts}
        if isinstance(value, np.random.RandomState | np.random.Generator):
            if isinstance(value, np.random.RandomState):
                state: Any = value.get_state(legacy=False)
            else:
                state = value.bit_generator.state
            random = {"kind": type(value).__name__, "state": self.dump(state)}
            return {"random": random, "number": self._remember(value)}
        if is_learner(value):
            number = self._remember(value)
            return {**self._dump_learner(value), "number": number}
        raise TypeError(f"{value!r} is neither a number nor a text.")

    def _dump_array(self, array: np.ndarray) -> dict[str, Any]:
        if array.dtype.kind == "U" and array.ndim == 1:
            texts, length = array.tolist(), array.dtype.itemsize // 4
            self._padding += padding_of(texts, length)
            if self._padding > MOST_PADDING:
                raise TypeError("its texts are of too different lengths; use dtype=object.")
            return {"texts": texts, "length": length}
        if array.dtype.kind == "O" and array.ndim == 1:
            return {"objects": [self.dump(each) for each in array]}
        if array.dtype.names is None and array.dtype.kind not in PLAIN_KINDS:
            raise TypeError(f"it is an array of {array.dtype}.")
        self._numbers[id(array)] = number = self._add(array)
        return {"array": number}

    def _add(self, array: np.ndarray) -> int:
        self.arrays.append(array)
        return len(self.arrays) - 1

    def _remember(self, value: object) -> int:
        self._numbers[id(value)] = number = len(self._kept)
        self._kept.append(value)
        return number

    def _dump_learner(self, clf: BaseEstimator) -> dict[str, Any]:
        name = type(clf).__name__
        if not is_public(clf):
            raise TypeError(not_ours(clf))
        parameters, attributes = {}, {}
        for parameter, value in clf.get_params(deep=False).items():
            with self.naming(f"The parameter '{parameter}' of {name}"):
                parameters[parameter] = self.dump(checked_setting(value))
        for attribute, value in clf.__learned__().items():
            with self.naming(f"The attribute '{attribute}' of {name}"):
                attributes[attribute] = self.dump(value)
        return {"estimator": name, "parameters": parameters, "attributes": attributes}


class TreeReader:
    """Turns trees back into values."""

    def __init__(self, arrays: list[np.ndarray]) -> None:
        self.arrays = arrays
        self._objects: dict[int, Any] = {}
        self._level = 0
        self._padding = self._handed_out = 0
        self._stored = sum(array.nbytes for array in arrays)

    def load(self, tree: Any) -> Any:
        if tree is None or isinstance(tree, bool | int | float | str):
            return tree
        self._level += 1
        if self._level > MOST_LEVELS:
            raise Misfit("it is nested too deeply")
        value = self._load_object(tree)
        self._level -= 1
        return value

    def _load_object(self, tree: Any) -> Any:
        if isinstance(tree, list):
            return [self.load(each) for each in tree]
        if "float" in tree:
            return float({"inf": "inf", "-inf": "-inf", "nan": "nan"}[tree["float"]])
        if "tuple" in tree:
            return tuple(self.load(each) for each in tree["tuple"])
        if "dict" in tree:
            return {self.load(key): self.load(value) for key, value in tree["dict"]}
        if "same" in tree:
            return self._objects[tree["same"]]
        if "random" in tree:
            return self._remember(tree["number"], self._load_random(tree["random"]))
        if "estimator" in tree:
            return self._remember(tree["number"], self._load_learner(tree))
        return self._load_array(tree)

    def _remember(self, number: int, value: Any) -> Any:
        self._objects[number] = value
        return value

    def _load_array(self, tree: dict[str, Any]) -> Any:
        if "array" in tree:
            return self._array(tree["array"])
        if "scalar" in tree:
            return self._array(tree["scalar"])[()]
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
        if "objects" in tree:
            objects = np.empty(len(tree["objects"]), dtype=object)
            objects[:] = [self.load(each) for each in tree["objects"]]
            return objects
        return self._load_csr(tree["csr"])

    def _array(self, number: object) -> np.ndarray:
        if type(number) is not int or number < 0:
            raise Misfit(f"{number!r} is not the number of an array")
        array = self.arrays[number]
        # Each use of an array may be copied: a file must not cause thousands of copies.
        self._handed_out += array.nbytes
        if self._handed_out > MOST_SHARING * self._stored + FREE_SHARING:
            raise Misfit("the same array stands in too many places")
        return array

    def _load_csr(self, tree: dict[str, Any]) -> Any:
        data, indices, indptr = (self.load(tree[name]) for name in ("data", "indices", "indptr"))
        columns = tree["columns"]
        if (data.dtype.kind, indices.dtype.kind, indptr.dtype.kind) != ("f", "i", "i"):
            raise Misfit("a sparse matrix is not made of numbers")
        # SciPy's own check computes differences, which may overflow.
        if not (
            data.ndim == indices.ndim == indptr.ndim == 1
            and data.size == indices.size
            and type(columns) is int
            and 0 <= columns < 2**62
            and indptr.size > 0
            and indptr[0] == 0
            and indptr[-1] == data.size
            and bool((indptr[1:] >= indptr[:-1]).all())
            and (data.size == 0 or 0 <= indices.min() <= indices.max() < columns)
        ):
            raise Misfit("a sparse matrix points outside its arrays")
        kind = sparse.csr_matrix if tree["matrix"] is True else sparse.csr_array
        return kind((data, indices, indptr), shape=(indptr.size - 1, columns))

    def _load_random(self, tree: dict[str, Any]) -> Random:
        state = self.load(tree["state"])
        if state["bit_generator"] not in BIT_GENERATORS:
            raise Misfit(f"there is no generator {state['bit_generator']!r}")
        bits = getattr(np.random, state["bit_generator"])(0)
        for name, largest in LARGEST_POSITIONS.items():
            for part in (state, state["state"]):
                if not 0 <= part.get(name, 0) <= largest:
                    raise Misfit("a generator of random numbers is out of range")
        if tree["kind"] == "Generator":
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
        clf: Any = kind()
        given = tree["parameters"]
        parameters = {name: checked_setting(self.load(value)) for name, value in given.items()}
        if not parameters.keys() <= clf.get_params(deep=False).keys():
            raise Misfit(f"the parameters are not those of {tree['estimator']}")
        clf.set_params(**parameters)
        learned = {name: self.load(value) for name, value in tree["attributes"].items()}
        if learned:
            clf.__relearn__(learned)
        return clf
