"""Arrays declared once, with their fields.

A NamedTuple or a class says of each array what its axes are, and all else follows from that::

    class PairSpace(NamedTuple):
        bias: Annotated[np.ndarray, Array("problems")]
        members: Annotated[np.ndarray, Array("problems * 2", "coordinates")]
        scratch: Annotated[np.ndarray, Buffer(1, "coordinates")]

`blank` allocates the arrays, `own_arrays` copies them, `grown` makes place for more features or
problems, `resized` for more slots, and `maxmargin.persistence.model_tree` writes them to files,
reads and checks them.

An axis is a number or a name, possibly times a number of lines for each entry ("problems * 2": the
lines of a problem follow each other), possibly with further lines at the end ("coordinates + 2").
Two axes mean something to this module:

- ``problems``: one entry for each weight vector;
- ``coordinates``: the features, the intercept's coordinate, and private coordinates of rows.

Declarations are read from type annotations on first use; compiled code never sees them.
"""

from __future__ import annotations

import copy
import functools
import math
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

Axis = str | int
Sizes = Mapping[str, int]
Kind = TypeVar("Kind")
Function = TypeVar("Function", bound=Callable[..., Any])

# Instead of a count: an update that never comes.
NEVER = np.iinfo(np.int64).max
CACHE_LINE = 64


def cached(function: Function) -> Function:
    """`functools.cache`, whose types know of no classes as arguments."""
    return typing.cast(Function, functools.cache(function))


class Saved:
    """A saved field: a number of at least ``at_least``, a random generator, or a part with fields.

    ``name`` is its name in files, by default that of the field.
    """

    saved = True

    def __init__(self, name: str = "", at_least: float = -math.inf) -> None:
        self.name, self.at_least = name, at_least


class Follows:
    """A number that is the length of an axis; of ``coordinates``, the number of features."""

    saved = False

    def __init__(self, axis: str) -> None:
        self.axis = axis


class Array:
    """A declared array.

    Parameters
    ----------
    dtype : None if it is passed when the array is allocated
    fill : the initial value; for a table, a dict of the columns that are not 0
    saved, name : whether files contain it, and its name there, by default that of the field
    optional : it may be empty or None
    omit_zeros : files leave it out if it is all 0
    at_least, below : the range of values; integers are counts by default, and class codes if below
        ``classes``
    finite : reject infinities and NaN
    """

    is_buffer = False

    def __init__(
        self,
        *axes: Axis,
        dtype: Any = np.float64,
        fill: Any = 0,
        saved: bool = True,
        name: str = "",
        optional: bool = False,
        omit_zeros: bool = False,
        at_least: float | None = None,
        below: Axis | None = None,
        finite: bool = False,
    ) -> None:
        self.axes, self.dtype, self.fill = axes, None if dtype is None else np.dtype(dtype), fill
        self.saved, self.name, self.optional, self.omit_zeros = saved, name, optional, omit_zeros
        self.at_least, self.below, self.finite = at_least, below, finite

    def new(self, sizes: Sizes, dtype: Any = None) -> np.ndarray:
        """An array for axes of these lengths."""
        shape = tuple(length(axis, sizes) for axis in self.axes)
        kind = np.dtype(dtype) if self.dtype is None else self.dtype
        if kind.names is not None:
            table = np.zeros(shape, kind).view(np.recarray)
            for column, value in self.fill.items() if self.fill else ():
                table[column] = value
            return table
        if "coordinates" in self.axes and kind == np.float64:
            array = aligned_zeros(*shape) if len(shape) > 1 else np.zeros(shape)
        else:
            array = np.zeros(shape, kind)
        if self.fill:
            array[...] = self.fill
        return array

    def is_off(self, array: np.ndarray | None) -> bool:
        """True if the optional array is missing."""
        return array is None or (self.optional and array.shape[:1] == (0,))

    def position(self, name: str) -> int | None:
        """The number of the axis with this name, or None."""
        for k, axis in enumerate(self.axes):
            if isinstance(axis, str) and _parsed(axis)[0][0] == name:
                return k
        return None

    def of_problems(self, array: np.ndarray, which: Any, sizes: Sizes) -> np.ndarray:
        """The entries of some problems: a view if they are a slice, else a copy."""
        k = self.position("problems")
        if k is None or self.is_off(array):
            return array
        factors, more = _parsed(str(self.axes[k]))
        lines = math.prod(_number(factor, sizes) for factor in factors[1:])
        if isinstance(which, slice):
            which = slice(lines * which.start, lines * which.stop)
        elif lines != 1 or more:
            end = range(array.shape[k] - more, array.shape[k])
            which = [*(lines * c + n for c in which for n in range(lines)), *end]
        part = array[(slice(None),) * k + (which,)]
        return part.view(np.recarray) if isinstance(array, np.recarray) else part


class Buffer(Array):
    """A scratch array: not saved, not shared by threads, and invalid between two calls."""

    is_buffer = True

    def __init__(self, *axes: Axis, dtype: Any = np.float64, fill: Any = 0) -> None:
        super().__init__(*axes, dtype=dtype, fill=fill, saved=False)


Declaration = Saved | Follows | Array


# ------------------------------------------------------------------------------------- declarations
@cached
def declared(kind: type) -> dict[str, Declaration]:
    """The declarations of a class, by the names of its fields."""
    found = {}
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        for each in getattr(hint, "__metadata__", ()):
            if isinstance(each, Declaration):
                found[name] = each
    return found


@cached
def parts_of(kind: type) -> dict[str, type]:
    """The fields of a class that are NamedTuples with declarations, and their classes."""
    hints = typing.get_type_hints(kind)
    return {
        name: hint
        for name, hint in hints.items()
        if isinstance(hint, type) and hasattr(hint, "_fields") and declared(hint)
    }


@cached
def per_problem(kind: type) -> tuple[str, ...]:
    """The names of the arrays of a class with one entry for each problem."""
    return tuple(
        name
        for name, each in declared(kind).items()
        if isinstance(each, Array) and each.axes[0] == "problems"
    )


def is_part(value: Any) -> bool:
    """True if ``value`` has fields of its own."""
    return hasattr(value, "_fields") or bool(declared(type(value)))


def walk(part: Any) -> Iterator[tuple[Array, np.ndarray]]:
    """All declared arrays of a part and its parts, with their declarations."""
    for name, each in declared(type(part)).items():
        value = getattr(part, name, None)
        if isinstance(each, Array):
            if isinstance(value, np.ndarray):
                yield each, value
        elif is_part(value):
            yield from walk(value)


def sizes_of(part: Any) -> dict[str, int]:
    """The lengths of all named axes of a part."""
    sizes: dict[str, int] = {}
    for each, array in walk(part):
        if not each.is_off(array):
            for axis, size in zip(each.axes, array.shape, strict=True):
                if isinstance(axis, str) and axis.isidentifier():
                    sizes.setdefault(axis, size)
    return sizes


def length(axis: Axis, sizes: Sizes) -> int:
    """The length of an axis, given the lengths of the names in it."""
    if isinstance(axis, int):
        return axis
    factors, more = _parsed(axis)
    return math.prod(_number(factor, sizes) for factor in factors) + more


@cached
def _parsed(axis: str) -> tuple[tuple[str, ...], int]:
    product, _, more = axis.partition(" + ")
    return tuple(product.split(" * ")), int(more or 0)


def _number(factor: str, sizes: Sizes) -> int:
    return int(factor) if factor.isdecimal() else sizes[factor]


# -------------------------------------------------------------------------------------- new arrays
def aligned_zeros(*shape: int) -> np.ndarray:
    """Zeros that start at a cache line, so that vector loads do not straddle two."""
    size = math.prod(shape)
    buffer = np.zeros(size + 8)
    first = -buffer.ctypes.data % CACHE_LINE // 8
    return buffer[first : first + size].reshape(shape)


def new_arrays(
    kind: type,
    sizes: Sizes,
    *,
    off: Collection[str] = (),
    given: Collection[str] = (),
    dtype: Any = None,
) -> dict[str, np.ndarray]:
    """New arrays for the declarations of a class that are not ``given``, by field name.

    Arrays that are ``off`` are empty; ``dtype`` is for arrays declared without one.
    """
    none = {**sizes, "problems": 0}
    return {
        name: each.new(none if name in off else sizes, dtype)
        for name, each in declared(kind).items()
        if isinstance(each, Array) and name not in given
    }


def blank(
    kind: type[Kind], sizes: Sizes, *, off: Collection[str] = (), dtype: Any = None, **given: Any
) -> Kind:
    """A NamedTuple with new arrays, also in its parts; all other fields must be given."""
    made: dict[str, Any] = new_arrays(kind, sizes, off=off, given=given, dtype=dtype)
    for name, part in parts_of(kind).items():
        if name not in given:
            made[name] = blank(part, sizes, dtype=dtype)
    return kind(**made | given)


# --------------------------------------------------------------------------------------- all arrays
Change = Callable[[Array, np.ndarray], np.ndarray]


def changed(part: Any, change: Change, lengths: Sizes | None = None, shared: str = "") -> Any:
    """A copy of a part with ``change`` applied to each declared array, also in its parts.

    A part that occurs twice is copied once. `Follows` fields get the values in ``lengths``. The
    field named ``shared`` is not copied.
    """
    return _changed(part, change, lengths or {}, shared, {})


def _changed(part: Any, change: Change, lengths: Sizes, shared: str, done: dict[int, Any]) -> Any:
    if id(part) not in done:
        new = {}
        for name, each in _visited(type(part)).items():
            value = getattr(part, name, None)
            if isinstance(each, Follows):
                new[name] = lengths.get(each.axis, value)
            elif isinstance(each, Array) and isinstance(value, np.ndarray):
                new[name] = change(each, value)
            elif hasattr(value, "_fields") and name != shared:
                new[name] = _changed(value, change, lengths, shared, done)
        done[id(part)] = _with(part, new)
    return done[id(part)]


@cached
def _visited(kind: type) -> dict[str, Declaration | None]:
    return {**dict.fromkeys(parts_of(kind)), **declared(kind)}


def _with(part: Any, new: dict[str, Any]) -> Any:
    if hasattr(part, "_fields"):
        return part._replace(**new) if new else part
    other = copy.copy(part)
    vars(other).update(new)
    return other


def own_arrays(part: Any, shared: str = "") -> Any:
    """A deep copy of all arrays, except for the field named ``shared``."""
    return changed(part, lambda _, array: array.copy(), shared=shared)


def own_buffers(part: Any) -> Any:
    """A copy with new buffers, so that several threads can use the same arrays."""
    return changed(part, lambda each, array: new_buffer(array) if each.is_buffer else array)


def new_buffer(array: np.ndarray) -> np.ndarray:
    """Zeros of this shape and type; memory of a large one is taken where it is first written."""
    return np.zeros(array.shape, array.dtype)


def grown(
    part: Any,
    which: Sequence[int],
    width: int,
    before: int | None = None,
    codes: np.ndarray | None = None,
) -> Any:
    """A part for ``width`` features, in which problem c continues problem ``which[c]``.

    It shares no memory with the old one. ``before`` is the number of features there, and ``codes``
    are the new codes of the classes.
    """
    sizes = sizes_of(part)
    later = {**sizes, "problems": len(which), "coordinates": width + 1}

    def change(each: Array, array: np.ndarray) -> np.ndarray:
        if each.is_buffer:
            return each.new(later, array.dtype)
        new = each.of_problems(array, which, sizes)
        if codes is not None and each.below == "classes":
            new = codes[new].astype(array.dtype)
        if "coordinates" in each.axes:
            assert before is not None
            return with_width(new, before, width)
        return new.copy() if new is array else new

    return changed(part, change, {"coordinates": width})


def without_private_coordinates(part: Any, width: int) -> Any:
    """A copy without the coordinates behind the intercept's."""

    def change(each: Array, array: np.ndarray) -> np.ndarray:
        cut = array[:, : width + 1] if "coordinates" in each.axes[1:] else array
        return cut.copy()

    return changed(part, change)


def resized(part: Any, dtype: Any = None, **sizes: int) -> Any:
    """A copy with axes of other lengths; new entries are 0, and only zeros may be dropped."""
    before = sizes_of(part)
    later = {**before, **sizes}

    def change(each: Array, array: np.ndarray) -> np.ndarray:
        new = each.new(later, array.dtype if dtype is None else dtype)
        if each.is_off(array):
            return new[:0]
        if not each.is_buffer:
            old = array.reshape(_factors(each, before))
            target = new.reshape(_factors(each, later))
            both = tuple(map(slice, map(min, old.shape, target.shape)))
            target[both] = old[both]
        return new

    return changed(part, change)


def _factors(each: Array, sizes: Sizes) -> list[int]:
    """The shape with one axis for each factor of an axis."""
    shape: list[int] = []
    for axis in each.axes:
        shape += [_number(f, sizes) for f in _parsed(axis)[0]] if isinstance(axis, str) else [axis]
    return shape


def with_width(vectors: np.ndarray, before: int, width: int) -> np.ndarray:
    """Vectors resized from ``before`` to ``width`` features and the intercept's coordinate.

    New features are 0, and only zeros may be dropped. A third axis is allowed.
    """
    shape = vectors.shape[0], width + 1, *vectors.shape[2:]
    wider = aligned_zeros(*shape) if vectors.dtype == np.float64 else np.zeros(shape, vectors.dtype)
    both = min(before, width)
    wider[:, :both] = vectors[:, :both]
    wider[:, width] = vectors[:, before]
    return wider
