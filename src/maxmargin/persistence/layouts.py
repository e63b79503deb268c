"""A small language for what the parts of a learner look like: types, shapes and ranges.

A layout gives a spec to each field of a class. The same specs write and read: whatever is read has
passed the checks that were made when it was written, so that compiled loops are never handed arrays
that do not fit together.

Lengths have names ("problems", "width", ...). The first array with such a length decides what it
is, and all others must agree; a length may also be a number, or computed from those known already.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.kernels import Points

# Counts below this cannot overflow in the lifetime of a machine.
MOST = 2**62
NEVER = np.iinfo(np.int64).max

Length = int | str | Callable[["Context"], int]


class Misfit(ValueError):
    """Something that does not look as its layout says."""


class Context:
    """The lengths and fields known so far of one learner, and the tree that it is part of."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree
        self.lengths: dict[str, int] = {}
        self.fields: dict[str, Any] = {}

    def __getitem__(self, name: str) -> int:
        return self.lengths[name]

    def agree(self, length: Length, found: int) -> bool:
        """Is this what ``length`` is, or may it become so?"""
        if isinstance(length, str):
            return self.lengths.setdefault(length, found) == found
        return self.value_of(length) == found

    def value_of(self, length: Length) -> int:
        if isinstance(length, str):
            return self.lengths[length]
        return length(self) if callable(length) else length


class Spec:
    """What can stand in a field."""

    stored = True

    def dump(self, value: Any, context: Context) -> Any:
        """The JSON for ``value``."""
        self.check(value, context)
        return context.tree.dump(value)

    def load(self, tree: Any, context: Context) -> Any:
        """The value that JSON stands for."""
        value = context.tree.load(tree)
        self.check(value, context)
        return value

    def check(self, value: Any, context: Context) -> None:
        """Raise `Misfit` unless this may stand here."""


class Plain(Spec):
    """Any value that a tree can hold."""


class Flag(Spec):
    def dump(self, value: Any, context: Context) -> bool:
        return bool(value)

    def check(self, value: Any, context: Context) -> None:
        if not isinstance(value, bool):
            raise Misfit(f"{value!r} is neither true nor false")


@dataclass
class Real(Spec):
    """A float, at least ``low``."""

    low: float = -np.inf
    finite: bool = True

    def dump(self, value: Any, context: Context) -> Any:
        return super().dump(float(value), context)

    def check(self, value: Any, context: Context) -> None:
        if not isinstance(value, float) or value < self.low or np.isnan(value):
            raise Misfit(f"{value!r} is not a number from {self.low} on")
        if self.finite and np.isinf(value):
            raise Misfit("a number is infinite")


@dataclass
class Whole(Spec):
    """An int in a range; with a ``name`` it is a length."""

    low: int = 0
    name: str | None = None

    def dump(self, value: Any, context: Context) -> Any:
        return super().dump(int(value), context)

    def check(self, value: Any, context: Context) -> None:
        if type(value) is not int or not self.low <= value < MOST:
            raise Misfit(f"{value!r} is not a whole number from {self.low} on")
        if self.name is not None and not context.agree(self.name, value):
            raise Misfit(f"{self.name} is {context[self.name]}, and {value} elsewhere")


@dataclass
class OneOf(Spec):
    values: tuple[Any, ...]

    def check(self, value: Any, context: Context) -> None:
        if not isinstance(value, str) or value not in self.values:
            raise Misfit(f"{value!r} is none of {self.values}")


@dataclass
class Option(Spec):
    """What ``spec`` says, or None."""

    spec: Spec

    def dump(self, value: Any, context: Context) -> Any:
        return None if value is None else self.spec.dump(value, context)

    def load(self, tree: Any, context: Context) -> Any:
        return None if tree is None else self.spec.load(tree, context)


class Array(Spec):
    """An array of one of the ``dtypes``, of that shape.

    Its numbers go from ``low`` to below ``high``, if one of these is given. One that can be
    ``switched`` off has no lines then. Its lines follow each other in memory, as compiled loops
    expect it, unless it is in ``any_order``.
    """

    def __init__(
        self,
        dtypes: str,
        *shape: Length,
        low: int | None = None,
        high: Length | None = None,
        switched: bool = False,
        any_order: bool = False,
    ) -> None:
        self.dtypes = [np.dtype(name) for name in dtypes.split()]
        self.shape, self.low, self.high = shape, low, high
        self.switched, self.any_order = switched, any_order

    def load(self, tree: Any, context: Context) -> Any:
        value = super().load(tree, context)
        return value if self.any_order else np.ascontiguousarray(value)

    def check(self, value: Any, context: Context) -> None:
        if not isinstance(value, np.ndarray) or value.dtype not in self.dtypes:
            raise Misfit(f"an array of {self.dtypes[0]} is expected, not {kind_of(value)}")
        _check_shape(value, self.shape, context, self.switched)
        if value.size == 0:
            return
        if self.low is not None and value.min() < self.low:
            raise Misfit(f"an array has {value.min()}, below {self.low}")
        if self.low is not None or self.high is not None:
            high = MOST if self.high is None else context.value_of(self.high)
            if value.max() >= high:
                raise Misfit(f"an array has {value.max()}, beyond {high - 1}")


def _check_shape(
    array: np.ndarray, shape: tuple[Length, ...], context: Context, switched: bool = False
) -> None:
    fits = array.ndim == len(shape)
    for axis, length in enumerate(shape if fits else ()):
        off = switched and axis == 0 and array.shape[0] == 0
        fits = fits and (off or context.agree(length, array.shape[axis]))
    if not fits:
        raise Misfit(f"an array of shape {array.shape} does not fit to the others")


def kind_of(value: Any) -> str:
    return str(value.dtype) if isinstance(value, np.ndarray) else type(value).__name__


class Records(Spec):
    """A record array; ``counts`` are the fields with counts, of which ``mark`` may be NEVER."""

    def __init__(self, dtype: np.dtype, length: Length, *counts: str, mark: str = "") -> None:
        self.dtype, self.length, self.counts, self.mark = dtype, length, counts, mark

    def check(self, value: Any, context: Context) -> None:
        if not isinstance(value, np.recarray) or value.dtype != self.dtype:
            raise Misfit(f"a table is expected, not {kind_of(value)}")
        _check_shape(value, (self.length,), context)
        for name in self.counts:
            found = value[name][value[name] != NEVER] if name == self.mark else value[name]
            if found.min(initial=0) < 0 or found.max(initial=0) >= MOST:
                raise Misfit(f"{name} is not a count")


class Filled(Spec):
    """An array that only the middle of a call needs: made anew, all ``value``, never stored.

    Where it may have one of several data types, that one is stored.
    """

    def __init__(self, value: float, dtypes: str, *shape: Length) -> None:
        self.value, self.dtypes, self.shape = value, dtypes.split(), shape
        self.stored = len(self.dtypes) > 1

    def dump(self, value: Any, context: Context) -> Any:
        if value.dtype.str[1:] not in self.dtypes:
            raise Misfit(f"an array is of {value.dtype}")
        _check_shape(value, self.shape, context)
        return value.dtype.str[1:]

    def load(self, tree: Any, context: Context) -> Any:
        dtype = tree if self.stored else self.dtypes[0]
        if dtype not in self.dtypes:
            raise Misfit(f"an array is of {dtype}")
        shape = [context.value_of(length) for length in self.shape]
        # Zeros take no memory until they are written to.
        return np.full(shape, self.value, dtype) if self.value else np.zeros(shape, dtype)


@dataclass
class Made(Spec):
    """What follows from lengths and from fields named earlier in the layout; never stored."""

    make: Callable[[Context], Any]
    stored = False

    def dump(self, value: Any, context: Context) -> None:
        pass

    def load(self, tree: Any, context: Context) -> Any:
        return self.make(context)


@dataclass
class Always(Spec):
    """The only value there can be between two calls."""

    value: Any
    stored = False

    def dump(self, value: Any, context: Context) -> None:
        if value is not self.value:
            raise Misfit("it is in the middle of a fit")

    def load(self, tree: Any, context: Context) -> Any:
        return self.value


@dataclass
class TheSame(Spec):
    """The object in another field, met before."""

    name: str
    stored = False

    def dump(self, value: Any, context: Context) -> None:
        if value is not context.fields[self.name]:
            raise Misfit(f"{self.name} is not shared")

    def load(self, tree: Any, context: Context) -> Any:
        return context.fields[self.name]


@dataclass
class ListOf(Spec):
    spec: Spec
    length: str | None = None

    def dump(self, value: Any, context: Context) -> list[Any]:
        self.check(value, context)
        return [self.spec.dump(each, context) for each in value]

    def load(self, tree: Any, context: Context) -> list[Any]:
        self.check(tree, context)
        return [self.spec.load(each, context) for each in tree]

    def check(self, value: Any, context: Context) -> None:
        if not isinstance(value, list):
            raise Misfit(f"a list is expected, not {kind_of(value)}")
        if self.length is not None and not context.agree(self.length, len(value)):
            raise Misfit(f"a list has {len(value)} entries, not {context[self.length]}")


@dataclass
class Rows(Spec):
    """`Points`: dense or sparse rows, or numbers of rows where the kernel is precomputed."""

    length: str

    def _specs(self) -> dict[str, Spec]:
        return {
            "squares": Option(Array("f8", self.length)),
            "factors": Option(Array("f4 f8", self.length, "width")),
        }

    def dump(self, value: Any, context: Context) -> Any:
        self._check_X(value.X, context)
        parts = {
            name: spec.dump(getattr(value, name), context) for name, spec in self._specs().items()
        }
        return {"X": context.tree.dump(value.X), **parts}

    def load(self, tree: Any, context: Context) -> Any:
        X = context.tree.load(tree["X"])
        self._check_X(X, context)
        parts = {name: spec.load(tree[name], context) for name, spec in self._specs().items()}
        return Points(X, **parts)

    def _check_X(self, X: Any, context: Context) -> None:
        if sparse.issparse(X):
            if not (context.agree(self.length, X.shape[0]) and context.agree("width", X.shape[1])):
                raise Misfit(f"sparse rows of shape {X.shape} do not fit to the rest")
        elif isinstance(X, np.ndarray) and X.ndim == 1:
            Array("i8", self.length, low=0, high="width").check(X, context)
        else:
            Array("f4 f8", self.length, "width").check(X, context)
