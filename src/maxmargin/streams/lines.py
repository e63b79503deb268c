"""Text in pieces of whole lines."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from maxmargin.streams.compression import Bytes
from maxmargin.streams.source import StreamError


class LongLine(Exception):
    """The first line of the next chunk is longer than ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._limit = limit

    def at(self, name: str, line: int) -> StreamError:
        """The error for whoever knows which line that is."""
        return StreamError(f"{name}, line {line}: longer than {self._limit:,} bytes.")


class Chunk(NamedTuple):
    """Whole lines, where they end in the text, and the bytes read from the disk up to there."""

    text: bytes
    end: int
    done: int


def whole_lines(text: Bytes, size: int, offset: int, longest: int) -> Generator[Chunk, None, None]:
    """Pieces of about ``size`` bytes of what is left of ``text``, which begins at ``offset``.

    Where a piece ends depends on where it begins, and on nothing else. A last line without a
    newline is given one. A line of more than ``longest`` bytes, where a piece is not as long
    anyway, raises `LongLine`.
    """
    end, rest = offset, b""
    while piece := rest + text.read(size - len(rest)):
        if b"\n" not in piece:
            piece += _to_newline(text, size, longest - len(piece), longest)
        has_ended = len(piece) % size > 0  # only then there are fewer bytes than asked for
        cut = len(piece) if has_ended else (piece.rfind(b"\n") + 1 or len(piece))
        rest, piece = piece[cut:], piece[:cut]
        end += cut
        yield Chunk(piece if piece.endswith(b"\n") else piece + b"\n", end, text.done())


def _to_newline(text: Bytes, size: int, room: int, longest: int) -> bytes:
    """More text, ``size`` bytes at a time, until there is the end of a line, in so many bytes."""
    parts: list[bytes] = []
    while room >= 0 and (more := text.read(size)):
        parts.append(more)
        if b"\n" in more:
            break
        room -= len(more)
    if room < 0:
        raise LongLine(longest)
    return b"".join(parts)
