"""Text in chunks of complete lines."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from maxmargin.streams.compression import Bytes
from maxmargin.streams.source import StreamError

# Initial size of the buffer that text is read into.
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
    """Complete lines, their end in the text, and the number of bytes read from the disk."""

    text: bytes
    end: int
    done: int


def end_of_line(text: bytes, is_first: bool) -> int:
    """The position after the first or the last newline; 0 if there is none."""
    return (text.find(b"\n") if is_first else text.rfind(b"\n")) + 1


def whole_lines(
    text: Bytes,
    size: int,
    offset: int,
    longest: int,
    end_of: Callable[[Any, bool], int] = end_of_line,
    held: bytes = b"",
) -> Generator[Chunk, None, None]:
    """Chunks of about ``size`` bytes of ``held`` and the rest of ``text``, from ``offset`` on.

    ``end_of`` finds the end of the first or the last complete line; 0 if there is none. The end of
    a chunk depends only on its beginning. A missing newline at the end is added. A line of more
    than ``longest`` bytes raises `LongLine`, unless chunks are that long anyway.
    """
    end, buffer = offset, bytearray()  # reused: fresh memory takes longer than reading
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
    """Fill the buffer, which may grow, with ``held`` and at most ``size`` bytes in total."""
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
    """The line that begins with ``line``, and the text that was read after it."""
    cut, length = 0, len(line)
    while not cut:
        if length > longest:
            raise LongLine(longest, line)
        # Twice as long, so that all searches together take linear time.
        length = min(2 * length, longest + 1)
        line, held = line + held[: length - len(line)], held[length - len(line) :]
        line += text.read(length - len(line))
        cut = end_of(line, True)
        if len(line) < length:  # the end of the text
            cut = cut or len(line)
    return line[:cut], line[cut:] + held
