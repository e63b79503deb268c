"""Arrays that grow at their ends, without copying what is there."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

# How much larger an array becomes when its capacity is exceeded.
GROWTH = 1.5

_claiming = threading.Lock()


class Growable(np.ndarray):
    """Memory in which an array grows along an axis.

    All states of the array are views of its beginning, and no entry is written twice: so older,
    shorter states share the memory with newer ones.
    """

    filled: int


def appended(array: np.ndarray, more: Any, axis: int = -1) -> np.ndarray:
    """``array`` followed by ``more``, in the same memory if nothing was appended to it before."""
    more = np.asarray(more)
    start, stop = array.shape[axis], array.shape[axis] + more.shape[axis]
    dtype = np.promote_types(array.dtype, more.dtype)
    memory: Any = growable_of(array)
    if not _claimed(memory, array, stop, axis) or memory.dtype != dtype:
        shape = list(array.shape)
        shape[axis] = max(stop, int(GROWTH * start))
        memory = Growable(shape, dtype)
        memory.filled = stop
        _part(memory, 0, start, axis)[...] = array
    _part(memory, start, stop, axis)[...] = more
    return _part(memory, 0, stop, axis)


def growable_of(array: np.ndarray) -> Growable | None:
    """The growable memory that an array is the beginning of, if any."""
    memory: Any = array
    while not (memory is None or isinstance(memory, Growable)):
        memory = getattr(memory, "base", None)
    return memory if memory is not None and memory.ctypes.data == array.ctypes.data else None


def _claimed(memory: Any, array: np.ndarray, stop: int, axis: int) -> bool:
    """Claim the entries behind ``array``, up to ``stop``; False if that is impossible."""
    if memory is None or memory.shape[axis] < stop or array.strides != memory.strides:
        return False
    with _claiming:
        if memory.filled != array.shape[axis]:
            return False
        memory.filled = stop
        return True


def _part(memory: np.ndarray, start: int, stop: int, axis: int) -> np.ndarray:
    which = [slice(None)] * memory.ndim
    which[axis] = slice(start, stop)
    return np.asarray(memory)[tuple(which)]
