"""Text in pieces of whole lines."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from maxmargin.streams.compression import Bytes
from maxmargin.streams.source import StreamError

# Of the memory that text is read into.
FIRST_BUFFER = 2**20


class LongLine(Exception):
    """The first line of the next chunk, which begins with ``text``, is too long."""

    def __init__(self, limit: int, text: bytes) -> None:
        super().__init__(limit)
        self.limit = limit
        self.text = text

    def at(self, name: str, line: int) -> StreamError:
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
    end_of: Callable[[Any, bool], int] = end_of_line,
    held: bytes = b"",
) -> Generator[Chunk, None, None]:
    """Pieces of about ``size`` bytes of ``held`` and what is left of ``text``.

    These begin at ``offset``. ``end_of`` says where the last whole line of a piece ends, or the
    first; 0 if there is none.

    Where a piece ends depends on where it begins, and on nothing else. A last line without a
    newline is given one. A line of more than ``longest`` bytes, where a piece is not as long
    anyway, raises `LongLine`.
    """
    end, buffer = offset, bytearray()  # used again: fresh memory takes longer than reading
    while filled := _fill(buffer, held[:size], text, size):
        held = held[size:]
        cut = filled if filled < size else end_of(buffer, False)
        if cut:
            piece, held = bytes(memoryview(buffer)[:cut]), bytes(buffer[cut:filled]) + held
        else:
            piece, held = _long_line(bytes(buffer), held, text, longest, end_of)
        end += len(piece)
        yield Chunk(piece if piece.endswith(b"\n") else piece + b"\n", end, text.done())


def _fill(buffer: bytearray, held: bytes, text: Bytes, size: int) -> int:
    """Put ``held`` and what comes behind it into the buffer; how many bytes, at most ``size``.

    The buffer grows with the text.
    """
    buffer[: len(held)] = held
    filled = len(held)
    while filled < size:
        if filled == len(buffer):
            buffer.extend(bytes(min(max(filled, FIRST_BUFFER), size - filled)))
        with memoryview(buffer) as view:
            more = text.readinto(view[filled:])
        filled += more
        if filled < len(buffer):
            break
    return filled


def _long_line(
    line: bytes, held: bytes, text: Bytes, longest: int, end_of: Callable[[Any, bool], int]
) -> tuple[bytes, bytes]:
    """The line that begins with ``line``, and what was read behind it."""
    cut, length = 0, len(line)
    while not cut:
        if length > longest:
            raise LongLine(longest, line)
        # Twice as long: all looks together cost no more than two at the longest.
        length = min(2 * length, longest + 1)
        line, held = line + held[: length - len(line)], held[length - len(line) :]
        line += text.read(length - len(line))
        cut = end_of(line, True)
        if len(line) < length:  # nothing is left of the text
            cut = cut or len(line)
    return line[:cut], line[cut:] + held
