"""Text in pieces of whole lines."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from maxmargin.streams.compression import Bytes
from maxmargin.streams.source import StreamError

LONGEST_LINE = 2**30


class Chunk(NamedTuple):
    """Whole lines, where they end in the text, and the bytes read from the disk up to there."""

    text: bytes
    end: int
    done: int


def whole_lines(text: Bytes, name: str, size: int, offset: int) -> Generator[Chunk, None, None]:
    """Pieces of about ``size`` bytes of what is left of ``text``, which begins at ``offset``.

    Where a piece ends depends on where it begins, and on nothing else. A last line without a
    newline is given one.
    """
    end, rest = offset, b""
    while piece := rest + text.read(size - len(rest)):
        if b"\n" not in piece:
            piece += _to_newline(text, name, size)
        has_ended = len(piece) % size > 0  # only then there are fewer bytes than asked for
        cut = len(piece) if has_ended else (piece.rfind(b"\n") + 1 or len(piece))
        rest, piece = piece[cut:], piece[:cut]
        end += cut
        yield Chunk(piece if piece.endswith(b"\n") else piece + b"\n", end, text.done())


def _to_newline(text: Bytes, name: str, size: int) -> bytes:
    """More text, ``size`` bytes at a time, until there is the end of a line."""
    parts: list[bytes] = []
    while more := text.read(size):
        parts.append(more)
        if b"\n" in more:
            break
        if len(parts) * size > LONGEST_LINE:
            raise StreamError(f"{name}: a line is longer than 1 GiB.")
    return b"".join(parts)
