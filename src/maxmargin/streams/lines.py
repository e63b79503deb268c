"""Text in pieces of whole lines."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from maxmargin.streams.compression import Bytes


class Chunk(NamedTuple):
    """Whole lines, where they end in the text, and the bytes read from the disk up to there."""

    text: bytes
    end: int
    done: int


def whole_lines(text: Bytes, size: int, offset: int) -> Generator[Chunk, None, None]:
    """Pieces of about ``size`` bytes of what is left of ``text``, which begins at ``offset``.

    Where a piece ends depends on where it begins, and on nothing else. A last line without a
    newline is given one.
    """
    end, rest = offset, b""
    while piece := rest + text.read(max(size - len(rest), 1)):
        while b"\n" not in piece and (more := text.read(size)):
            piece += more
        cut = piece.rfind(b"\n") + 1
        if cut == 0:
            yield Chunk(piece + b"\n", end + len(piece), text.done())
            return
        rest, piece = piece[cut:], piece[:cut]
        end += cut
        yield Chunk(piece, end, text.done())
