"""Arrays that grow at their ends, without copying what is there."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from maxmargin.core.forks import held_in_forks

# How much larger an array becomes when it has no room left.
GROWTH = 1.5

_claiming = held_in_forks(threading.Lock())


class Room(np.ndarray):
    """Memory in which an array grows along an axis.

    All that it held at some time are views of its beginning, and no entry is written twice: so
    those who know less of the array share its memory with those who know more.
    """

    filled: int


def appended(known: np.ndarray, more: Any, axis: int = -1) -> np.ndarray:
    """``known`` followed by ``more``, in the same memory if nobody has appended to it before."""
    more = np.asarray(more)
    start, stop = known.shape[axis], known.shape[axis] + more.shape[axis]
    dtype = np.promote_types(known.dtype, more.dtype)
    room: Any = room_begun_by(known)
    if not _claimed(room, known, stop, axis) or room.dtype != dtype:
        shape = list(known.shape)
        shape[axis] = max(stop, int(GROWTH * start))
        room = Room(shape, dtype)
        room.filled = stop
        _part(room, 0, start, axis)[...] = known
    _part(room, start, stop, axis)[...] = more
    return _part(room, 0, stop, axis)


def room_begun_by(array: np.ndarray) -> Room | None:
    """The memory that an array has the beginning of, if it is such."""
    room: Any = array
    while not (room is None or isinstance(room, Room)):
        room = getattr(room, "base", None)
    return room if room is not None and room.ctypes.data == array.ctypes.data else None


def _claimed(room: Any, known: np.ndarray, stop: int, axis: int) -> bool:
    """Is what lies behind ``known`` free, and ours from now on?"""
    if room is None or room.shape[axis] < stop:
        return False
    if known.strides != room.strides:
        return False
    with _claiming:
        if room.filled != known.shape[axis]:
            return False
        room.filled = stop
        return True


def _part(room: np.ndarray, start: int, stop: int, axis: int) -> np.ndarray:
    which = [slice(None)] * room.ndim
    which[axis] = slice(start, stop)
    return np.asarray(room)[tuple(which)]
