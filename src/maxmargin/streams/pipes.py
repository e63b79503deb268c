"""Standard input and named pipes, which can be read only once."""

from __future__ import annotations

import codecs
import io
import os
import re
import stat
import sys
from typing import Any

from maxmargin.streams.compression import Raw

# The first line is searched for in so many bytes, which are read in pieces.
LONGEST_LINE, PIECE = 2**20, 2**16
SVMLIGHT = re.compile(rb"([-+.\deE:]+|\S+(\s+(qid|\d+):\S+)+)\s*(#.*)?")
DELIMITERS = (b",", b"\t", b";", b"|")


def opened_once(path: Any) -> Any:
    """The pipe at ``path``, or standard input for "-"; None if it is a regular file."""
    if path == "-":
        if sys.stdin is None:
            raise ValueError("There is no standard input.")
        try:
            return _without_buffer(sys.stdin.fileno(), "<stdin>")
        except io.UnsupportedOperation:  # it was replaced
            return sys.stdin.buffer
    mode = os.stat(path).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
        return _without_buffer(os.open(path, os.O_RDONLY), str(path))
    return None


def _without_buffer(descriptor: int, name: str) -> io.FileIO:
    # The lock of a buffer, held by a blocked thread, would crash Python at exit.
    pipe = io.FileIO(descriptor, closefd=False)
    pipe.name = name  # type: ignore[misc]
    return pipe


class Peeked(Raw):
    """A binary file that is read sequentially, and whose first line is known beforehand."""

    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self.name = getattr(file, "name", "<pipe>")
        while b"\n" not in self._head and len(self._head) < LONGEST_LINE:
            if not (piece := file.read(PIECE)):
                break
            self._head += piece
        self.first_line = self._head.partition(b"\n")[0]

    def seekable(self) -> bool:
        return False


def looks_like_csv(line: bytes) -> bool:
    """Whether a file that begins with this line is a table rather than svmlight text."""
    line = line.removeprefix(codecs.BOM_UTF8).strip()
    return SVMLIGHT.fullmatch(line) is None and any(delimiter in line for delimiter in DELIMITERS)
