"""Text in pieces of whole lines."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import NamedTuple

from maxmargin.streams.compression import Bytes
from maxmargin.streams.source import StreamError


class LongLine(Exception):
    """The first line of the next chunk, which begins with ``text``, is too long."""

    def __init__(self, limit: int, text: bytes) -> None:
        super().__init__(limit)
        self.limit = limit
        self.text = text

    def at(self, name: str, line: int) -> StreamError:
        """The error for whoever knows which line that is."""
        return StreamError(f"{name}, line {line}: longer than {self.limit:,} bytes.")


class Chunk(NamedTuple):
    """Whole lines, where they end in the text, and the bytes read from the disk up to there."""

    text: bytes
    end: int
    done: int


def end_of_line(text: bytes, is_first: bool) -> int:
    """The place behind the first or the last newline; 0 if there is none."""
    return (text.find(b"\n") if is_first else text.rfind(b"\n")) + 1


def whole_lines(
    text: Bytes,
    size: int,
    offset: int,
    longest: int,
    end_of: Callable[[bytes, bool], int] = end_of_line,
    held: bytes = b"",
) -> Generator[Chunk, None, None]:
    """Pieces of about ``size`` bytes of ``held`` and what is left of ``text``.

    These begin at ``offset``. ``end_of`` says where the last whole line of a piece ends, or the
    first; 0 if there is none.

    Where a piece ends depends on where it begins, and on nothing else. A last line without a
    newline is given one. A line of more than ``longest`` bytes, where a piece is not as long
    anyway, raises `LongLine`.
    """
    end = offset
    while held := held + text.read(max(size - len(held), 0)):
        length = size
        cut = len(held) if len(held) < size else end_of(held[:size], False)
        while not cut:
            if length > longest:
                raise LongLine(longest, held[:length])
            # Twice as long: all looks together cost no more than two at the longest.
            length = min(2 * length, longest + 1)
            held += text.read(max(length - len(held), 0))
            cut = end_of(held[:length], True)
            if len(held) < length:  # nothing is left of the text
                cut = cut or len(held)
        piece, held = held[:cut], held[cut:]
        end += cut
        yield Chunk(piece if piece.endswith(b"\n") else piece + b"\n", end, text.done())
