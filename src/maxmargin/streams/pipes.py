"""Standard input and named pipes: binary files that can be opened, and read, only once."""

from __future__ import annotations

import io
import os
import stat
import sys
from typing import Any


def opened_once(path: Any) -> Any:
    """The pipe at ``path``, where "-" is standard input; None if it is an ordinary file."""
    if path == "-":
        if sys.stdin is None:
            raise ValueError("There is no standard input.")
        try:
            return _without_buffer(sys.stdin.fileno(), "<stdin>")
        except io.UnsupportedOperation:  # it is not the process's own any more
            return sys.stdin.buffer
    mode = os.stat(path).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        return _without_buffer(os.open(path, os.O_RDONLY), str(path))
    return None


def _without_buffer(descriptor: int, name: str) -> io.FileIO:
    # The lock of a buffer, held by a thread that waits for more, would crash Python's exit.
    pipe = io.FileIO(descriptor, closefd=False)
    pipe.name = name  # type: ignore[misc]
    return pipe
