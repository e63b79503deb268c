"""From the parts of a model to named leaves, and back.

A model is a tree of objects and NamedTuples. Its leaves are arrays, numbers and random generators,
named by paths such as ``linear.witness.mark``. The fields that are declared as saved
(`maxmargin.core.array_fields`) are written. What is read must have the types, data types and shapes
of a fresh model of the same specification, and numbers in the declared ranges, so that compiled
loops never receive arrays that do not fit together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from maxmargin.core.array_fields import (
    NEVER,
    Array,
    Saved,
    Sizes,
    declared,
    is_part,
    length,
    sizes_of,
)
from maxmargin.kernels.functions import Kernel
from maxmargin.kernels.points import Points
from maxmargin.persistence.container import StoredArray

# Counts below this cannot overflow in the lifetime of a machine.
MOST = 2**62

Part = TypeVar("Part")


# Arrays, random generators, numbers, and names of data types, by their paths. Arrays of files are
# `StoredArray`, which `filled` reads.
Leaves = dict[str, Any]


class Misfit(ValueError):
    """Content of a file that does not have the expected form."""


def saved_fields(part: object) -> Iterator[tuple[str, str, Array | Saved]]:
    """The fields of a part that are written: their names, names in files, and declarations."""
    if isinstance(part, Kernel) and part.only_in_fit:
        return
    for name, each in declared(type(part)).items():
        if not isinstance(each, Array | Saved) or not each.saved or not hasattr(part, name):
            continue
        yield name, each.name or name, each


# ------------------------------------------------------------------------------------------ writing
def leaves_of(part: object) -> Leaves:
    """All leaves by their paths; a shared part is written where it occurs first."""
    found: Leaves = {}
    _gather(part, "", found, set())
    return found


def _gather(value: Any, path: str, found: Leaves, met: set[int]) -> None:
    if isinstance(value, list):
        for k, each in enumerate(value):
            _gather(each, _join(path, str(k)), found, met)
    elif is_part(value):
        if id(value) not in met:
            met.add(id(value))
            for name, there, each in saved_fields(value):
                field = getattr(value, name)
                may_omit = isinstance(each, Array) and each.omit_zeros
                if not may_omit or field.tobytes().strip(b"\0"):
                    _gather(field, _join(path, there), found, met)
    elif sparse.issparse(value):
        for name in ("data", "indices", "indptr"):
            found[_join(path, name)] = getattr(value, name)
        found[_join(path, "matrix")] = sparse.isspmatrix(value)
    elif isinstance(value, np.recarray):
        found[path] = value.view(np.dtype((np.void, value.dtype)), np.ndarray)
    elif isinstance(value, type | np.dtype):
        found[path] = np.dtype(value).name
    elif value is not None:
        found[path] = value


def taken(leaves: Leaves, path: str) -> Leaves:
    """The leaves below a path, which are removed from ``leaves``."""
    names = [name for name in leaves if name.startswith(f"{path}.")]
    return {name.removeprefix(f"{path}."): leaves.pop(name) for name in names}


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


# ------------------------------------------------------------------------------------------ reading
def filled(
    blank: Part, leaves: Leaves, path: str = "", done: object = None, classes: int = 0
) -> Part:
    """The part with these leaves, given a blank one of the same structure.

    Leaves that are used are removed from ``leaves``. A part of it may be ``done`` already.
    """
    rows = blank.private_coordinates() if hasattr(blank, "private_coordinates") else 0
    sizes = {**sizes_of(blank), "classes": classes, "rows": rows or MOST}
    filled: Part = _fill(blank, leaves, path, {id(done): done}, sizes)
    return filled


def _fill(blank: Any, leaves: Leaves, path: str, done: dict[int, Any], sizes: Sizes) -> Any:
    if isinstance(blank, list):
        return [
            _fill(each, leaves, _join(path, str(k)), done, sizes) for k, each in enumerate(blank)
        ]
    if isinstance(blank, Points):
        return blank  # `points_from` has read them
    if id(blank) not in done:
        new = {}
        for name, there, each in saved_fields(blank):
            value, at = getattr(blank, name), _join(path, there)
            if isinstance(each, Array):
                new[name] = _array(each, value, leaves.pop(at, None), at, sizes)
            elif isinstance(value, list) or is_part(value):
                new[name] = _fill(value, leaves, at, done, sizes)
            else:
                new[name] = _number(each, value, leaves.pop(at, None), at)
        done[id(blank)] = _with(blank, new)
    return done[id(blank)]


def _with(blank: Any, new: dict[str, Any]) -> Any:
    if isinstance(blank, tuple):
        return blank._replace(**new)  # type: ignore[attr-defined]
    if dataclasses.is_dataclass(blank):
        return dataclasses.replace(blank, **new)  # type: ignore[type-var]
    vars(blank).update(new)
    return blank


def _number(each: Saved, blank: Any, value: Any, path: str) -> Any:
    if isinstance(blank, np.random.Generator):
        fits = isinstance(value, np.random.Generator)
    elif isinstance(blank, bool):
        fits = isinstance(value, bool)
    elif isinstance(blank, int):
        fits = type(value) is int and 0 <= value < MOST
    elif isinstance(blank, float):
        fits = isinstance(value, float) and each.at_least <= value and -np.inf < value < np.inf
    else:
        return dtype_named(value, path)
    if not fits:
        raise Misfit(f"{path} is {value!r}, which is not of the kind of {blank!r}")
    return value


def _array(
    each: Array, blank: np.ndarray | None, value: Any, path: str, sizes: Sizes
) -> np.ndarray | None:
    """An array like ``blank``, or of any length if that is None, with values as declared."""
    if value is None and (blank is None or each.omit_zeros):
        return blank
    if not isinstance(value, StoredArray | np.ndarray):
        raise Misfit(f"{path} is missing, or no array")
    dtype = each.dtype if blank is None else blank.dtype
    if value.dtype != dtype:
        raise Misfit(f"{path} is an array of {value.dtype}, not of {dtype}")
    shape = value.shape if blank is None else blank.shape
    # The vectors of certificates may be switched off, see `models.linear_model`.
    is_off = each.optional and "coordinates" in each.axes and value.shape == (0, *shape[1:])
    if value.shape != shape and not is_off:
        raise Misfit(f"{path} has the shape {value.shape}, not {shape}")
    # Compiled loops need contiguous arrays. They never see supports, whose sums depend on the
    # order in memory.
    array = np.asarray(value) if "supports" in each.axes else np.ascontiguousarray(value)
    if wrong := _out_of_range(each, array, sizes):
        raise Misfit(f"{path} {wrong}")
    return array.view(dtype, np.recarray) if isinstance(blank, np.recarray) else array


def _out_of_range(each: Array, array: np.ndarray, sizes: Sizes) -> str:
    """Why these values are not as declared; empty if they are."""
    for name in array.dtype.names or ():
        counts = array[name]
        if counts.dtype.kind == "i":
            counts = counts[counts != NEVER] if name == "next_mark" else counts
            if counts.min(initial=0) < 0 or counts.max(initial=0) >= MOST:
                return f"has a {name} that is not a count"
    if array.size and array.dtype.kind == "i":
        low = 0 if each.at_least is None else each.at_least
        high = MOST if each.below is None else length(each.below, sizes)
        if not low <= array.min() <= array.max() < high:
            return f"goes beyond {low} to {high - 1}"
    if array.size and array.dtype.kind == "f":
        if each.finite and not np.isfinite(array).all():
            return "is not finite"
        if each.at_least is not None and not (array >= each.at_least).all():
            return f"is below {each.at_least}"
    return ""


def record_from(blank: Part, found: Any, name: str) -> Part:
    """A record of arrays like a blank one, from their dictionary; raises if they do not fit."""
    if not isinstance(found, dict):
        raise Misfit(f"{name} is no record of arrays")
    leaves = {_join(name, field): array for field, array in found.items()}
    record = filled(blank, leaves, name)
    if leaves:
        raise Misfit(f"nothing has {', '.join(leaves)}")
    return record


def dtype_named(name: object, path: str) -> np.dtype:
    """A data type of kernel values."""
    if name == "float32":
        return np.dtype(np.float32)
    if name == "float64":
        return np.dtype(np.float64)
    raise Misfit(f"{path}: kernel values cannot be of {name!r}")


def kernel_from(blank: Kernel, leaves: Leaves, width: int) -> Kernel:
    """The kernel of a model, checked."""
    kernel = filled(blank, leaves, "kernel")
    if kernel.center is not None and kernel.center.shape != (width,):
        raise Misfit("kernel.center is not a row")
    return kernel


def points_from(leaves: Leaves, path: str, width: int, kernel: Kernel) -> Points:
    """Rows of a kernel model, checked."""
    X = _rows_from(leaves, f"{path}.X", width, kernel)
    points, size = Points(X), X.shape[0]
    like = kernel.points(X[:0] if not kernel.only_in_fit else np.empty((0, width)))
    if ((squares := f"{path}.squares") in leaves) != (like.squares is not None):
        raise Misfit(f"{squares} are there, or are not, against the kernel")
    for name, there, each in saved_fields(points):
        at = _join(path, there)
        if at in leaves and isinstance(each, Array):
            shape = (size, width)[: len(each.axes)]
            blank = np.broadcast_to(np.zeros((), each.dtype or kernel.dtype), shape)  # no memory
            setattr(points, name, _array(each, blank, leaves.pop(at), at, {}))
    return points


def _rows_from(leaves: Leaves, path: str, width: int, kernel: Kernel) -> Any:
    """A matrix of rows, or the numbers of rows for a kernel that is known in a fit only."""
    if f"{path}.matrix" in leaves and not kernel.only_in_fit:
        return _csr_from(leaves, path, width)
    X, wanted = leaves.pop(path, None), [np.int64] if kernel.only_in_fit else [np.float32, float]
    tail = () if kernel.only_in_fit else (width,)
    if not isinstance(X, StoredArray | np.ndarray) or X.shape[1:] != tail or X.dtype not in wanted:
        raise Misfit(f"{path} does not fit to {width} features")
    X = np.asarray(X)
    if kernel.only_in_fit and X.size and not 0 <= X.min() <= X.max() < width:
        raise Misfit(f"{path} has numbers beyond {width} rows")
    return X


def _csr_from(leaves: Leaves, path: str, width: int) -> Any:
    stored = [leaves.pop(f"{path}.{name}") for name in ("data", "indices", "indptr")]
    if [each.dtype.kind for each in stored] != ["f", "i", "i"]:
        raise Misfit(f"{path}: a sparse matrix is not made of numbers")
    if any(len(each.shape) != 1 for each in stored) or stored[0].shape != stored[1].shape:
        raise Misfit(f"{path}: the arrays of a sparse matrix do not fit together")
    data, indices, starts = map(np.asarray, stored)
    # SciPy's own check computes differences, which may overflow.
    if not (
        starts.size > 0
        and starts[0] == 0
        and starts[-1] == data.size
        and bool((starts[1:] >= starts[:-1]).all())
        and (data.size == 0 or 0 <= indices.min() <= indices.max() < width)
    ):
        raise Misfit(f"{path}: a sparse matrix points outside its arrays")
    kind = sparse.csr_matrix if leaves.pop(f"{path}.matrix") is True else sparse.csr_array
    return kind((data, indices, starts), shape=(starts.size - 1, width))
