"""From the parts of a model to named leaves and back, whatever the parts are.

A model is a tree of objects and NamedTuples. Its leaves are arrays, numbers and random generators;
their names are paths, ``linear.witness.mark``. What is written are the fields in `NAMES`, all else
is working memory. What is read must look like a model that was freshly built for the same
specification: the same types, data types and shapes; and integers that compiled loops take for
indices must be in `RANGES`. So no loop is ever handed arrays that do not fit together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.kernels.functions import Kernel
from maxmargin.kernels.points import Points

# Counts below this cannot overflow in the lifetime of a machine.
MOST = 2**62
NEVER = np.iinfo(np.int64).max

Leaves = dict[str, Any]

# What fields are called in files. A field that gets another name in the code keeps this one.
NAMES = {
    name: name
    for name in (
        *("p", "tail", "offset", "private", "tally", "linear", "pair", "joint"),
        *("geometry", "witness"),
        *("weights", "share", "mark", "mark_share", "average", "past"),
        *("units", "powers", "sums", "lows", "sum_errors", "gains", "evaluations"),
        *("bias", "members", "numbers", "squares"),
        *("kernel", "gamma", "degree", "coef0", "dtype", "center", "adapts"),
        *("scalars", "table", "next_mark", "supports", "points", "X", "factors", "labels", "worth"),
        *("diagonal", "coefs", "marks", "averages", "largest_square", "store", "slots", "taken"),
        *("eviction", "random", "inner", "stored", "gained", "lost", "latest"),
        *("inverse", "slack", "joins", "distance", "limit"),
        *("masses", "hidden", "grounds"),
        *("groups", "votes", "wrong", "leaders", "clock"),
        *("mixture", "errors", "owners", "means", "variances", "sizes", "levels", "state"),
    )
} | {"_bounds": "bounds"}
# The same for the fields of tables.
COLUMNS: dict[str, str] = {}

# Tables that are left out of files where all is 0, as it is without means of weights that shrink.
OPTIONAL = {"past"}

# Integers that compiled loops take for indices go from the first number to below the second.
RANGES: dict[str, Callable[[Any, int], tuple[int, int]]] = {
    "pair.numbers": lambda model, classes: (-3, model.private_coordinates() or MOST),
    "members": lambda model, classes: (-2, model.supports.numbers.size),
    "supports.numbers": lambda model, classes: (0, MOST),
    "supports.labels": lambda model, classes: (0, classes),
    "store.numbers": lambda model, classes: (0, MOST),
    "store.labels": lambda model, classes: (0, classes),
    "store.slots.taken": lambda model, classes: (0, model.store.room + 1),
    "eviction.stored": lambda model, classes: (0, MOST),
    "next_mark": lambda model, classes: (0, MOST),
    "errors": lambda model, classes: (0, MOST),
    "votes.leaders": lambda model, classes: (0, model.votes.weights.size),
    "mixture.owners": lambda model, classes: (0, model.mixture.outputs.size),
    "mixture.sizes": lambda model, classes: (0, MOST),
}
# Numbers that are not below these.
LOWEST = {
    "p": 2.0,
    "tail.offset": 0.0,
    "tail.private": 0.0,
    "largest_square": 0.0,
    "kernel.gamma": 0.0,
    "kernel.degree": 1.0,
}


class Misfit(ValueError):
    """Something that does not look as it should."""


def fields_of(part: Any) -> dict[str, Any]:
    """The fields of a part that are written, in order, by their names in the code."""
    if isinstance(part, Kernel) and part.only_in_fit:
        return {}
    if isinstance(part, tuple):
        found = part._asdict()  # type: ignore[attr-defined]
        found.pop("p", None)  # the norm is that of the model
    else:
        found = vars(part)
    return {name: value for name, value in found.items() if name in NAMES}


def is_part(value: Any) -> bool:
    """Is it made of further parts?"""
    return type(value).__module__.startswith("maxmargin.")


# ------------------------------------------------------------------------------------------ writing
def leaves_of(part: Any, path: str = "") -> Leaves:
    """All leaves by their paths; a part that is met twice is written where it is met first."""
    found: Leaves = {}
    _gather(part, path, found, set())
    return found


def _gather(value: Any, path: str, found: Leaves, met: set[int]) -> None:
    if isinstance(value, list):
        for k, each in enumerate(value):
            _gather(each, _join(path, str(k)), found, met)
    elif is_part(value):
        if id(value) not in met:
            met.add(id(value))
            for name, each in fields_of(value).items():
                _gather(each, _join(path, NAMES[name]), found, met)
    elif isinstance(value, np.recarray):
        if not _is_optional(path) or value.tobytes().strip(b"\0"):
            found[path] = renamed(value, COLUMNS)
    elif isinstance(value, type | np.dtype):
        found[path] = np.dtype(value).name
    elif value is not None:
        found[path] = value


def _is_optional(path: str) -> bool:
    return path.rpartition(".")[2] in OPTIONAL


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def renamed(table: np.ndarray, names: dict[str, str]) -> np.ndarray:
    """A table whose columns are called otherwise."""
    if table.dtype.names is None or not set(names) & set(table.dtype.names):
        return table
    kinds = [(names.get(name, name), table.dtype[name]) for name in table.dtype.names]
    return table.view(np.dtype(kinds, align=True)).view(np.recarray)


# ------------------------------------------------------------------------------------------ reading
def filled(blank: Any, leaves: Leaves, path: str = "", known: Any = None) -> Any:
    """The part that the leaves tell of, given a blank one of the same structure.

    Leaves are taken out of ``leaves``, so that what is left belongs to nothing. A part of it that
    is ``known`` has been filled already.
    """
    return _fill(blank, leaves, path, {id(known): known})


def _fill(blank: Any, leaves: Leaves, path: str, done: dict[int, Any]) -> Any:
    if isinstance(blank, list):
        return [_fill(each, leaves, _join(path, str(k)), done) for k, each in enumerate(blank)]
    if isinstance(blank, Points):
        return blank  # `points_from` has read them
    if not is_part(blank):
        return _leaf(blank, leaves, path)
    if id(blank) not in done:
        new = {
            name: _fill(value, leaves, _join(path, NAMES[name]), done)
            for name, value in fields_of(blank).items()
        }
        done[id(blank)] = _with(blank, new)
    return done[id(blank)]


def _with(blank: Any, new: dict[str, Any]) -> Any:
    if isinstance(blank, tuple):
        return blank._replace(**new)  # type: ignore[attr-defined]
    if dataclasses.is_dataclass(blank):
        return dataclasses.replace(blank, **new)  # type: ignore[type-var]
    vars(blank).update(new)
    return blank


def _leaf(blank: Any, leaves: Leaves, path: str) -> Any:
    value = leaves.pop(path, None)
    if value is None and _is_optional(path):
        return blank
    if isinstance(blank, np.ndarray):
        return _array(blank, value, path)
    if isinstance(blank, np.random.Generator):
        fits = isinstance(value, np.random.Generator)
    elif blank is None:
        return value if value is None else _array(np.empty(0), value, path, any_size=True)
    elif isinstance(blank, bool):
        fits = isinstance(value, bool)
    elif isinstance(blank, int):
        fits = type(value) is int and 0 <= value < MOST
    elif isinstance(blank, float):
        fits = isinstance(value, float) and LOWEST.get(path, -np.inf) <= value < np.inf
        fits = fits and value > -np.inf
    else:
        return dtype_named(value, path)
    if not fits:
        raise Misfit(f"{path} is {value!r}, which is not of the kind of {blank!r}")
    return value


def _array(blank: np.ndarray, value: Any, path: str, any_size: bool = False) -> np.ndarray:
    if not isinstance(value, np.ndarray):
        raise Misfit(f"{path} is missing, or no array")
    if value.dtype.names is not None:
        value = renamed(value, {there: here for here, there in COLUMNS.items()})
    if value.dtype != blank.dtype:
        raise Misfit(f"{path} is an array of {value.dtype}, not of {blank.dtype}")
    # Vectors behind certificates may be switched off, see `models.linear_model`.
    switched = ".witness." in path and value.shape[1:] == blank.shape[1:] and 0 in value.shape[:1]
    if value.shape != blank.shape and not (any_size or switched):
        raise Misfit(f"{path} has the shape {value.shape}, not {blank.shape}")
    if isinstance(blank, np.recarray):
        _check_counts(value, path)
        return value if isinstance(value, np.recarray) else value.view(np.recarray)
    # Compiled loops want lines that follow each other; of supports, which they never see, sums
    # depend on the order in memory.
    return value if path.startswith("supports.") else np.ascontiguousarray(value)


def _check_counts(table: np.ndarray, path: str) -> None:
    for name in table.dtype.names or ():
        counts = table[name]
        if counts.dtype.kind == "i":
            counts = counts[counts != NEVER] if name == "next_mark" else counts
            if counts.min(initial=0) < 0 or counts.max(initial=0) >= MOST:
                raise Misfit(f"{path}: {name} is not a count")


def dtype_named(name: Any, path: str) -> np.dtype:
    """A data type of kernel values."""
    if name not in ("float32", "float64"):
        raise Misfit(f"{path}: kernel values cannot be of {name!r}")
    return np.dtype(name)


def points_from(leaves: Leaves, path: str, width: int, kernel: Kernel) -> Points:
    """Rows of a kernel model, checked."""
    X = leaves.pop(f"{path}.X", None)
    squares, factors = leaves.pop(f"{path}.squares", None), leaves.pop(f"{path}.factors", None)
    if sparse.issparse(X):
        fits = X.shape[1] == width and not kernel.only_in_fit
    elif kernel.only_in_fit:
        fits = isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype == np.int64
        fits = fits and (X.size == 0 or 0 <= X.min() <= X.max() < width)
    else:
        fits = isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] == width
        fits = fits and X.dtype in (np.float32, np.float64)
    if not fits:
        raise Misfit(f"{path}.X does not fit to {width} features")
    like = kernel.points(X[:0] if not kernel.only_in_fit else np.empty((0, width)))
    if (squares is None) != (like.squares is None):
        raise Misfit(f"{path}.squares are there, or are not, against the kernel")
    if squares is not None:
        squares = _array(np.empty(X.shape[0]), squares, f"{path}.squares")
    if factors is not None:
        blank = np.broadcast_to(np.zeros((), kernel.dtype), (X.shape[0], width))  # takes no room
        factors = _array(blank, factors, f"{path}.factors")
    if (worth := leaves.pop(f"{path}.worth", None)) is not None:
        worth = _array(np.empty(X.shape[0]), worth, f"{path}.worth")
        if not (np.isfinite(worth) & (worth > 0.0)).all():
            raise Misfit(f"{path}.worth are no weights")
    return Points(X, squares, factors, worth)


def check_ranges(model: Any, classes: int) -> None:
    """Raise if an integer is not what a compiled loop could take for an index."""
    for path, limits in RANGES.items():
        value: Any = model
        for name in path.split("."):
            value = getattr(value, name, None)
        if value is not None and np.size(value):
            low, high = limits(model, classes)
            if np.min(value) < low or np.max(value) >= high:
                raise Misfit(f"{path} goes beyond {low} to {high - 1}")
