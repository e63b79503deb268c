"""Decompression of files, by their first bytes."""

from __future__ import annotations

import bz2
import importlib
import lzma
import os
import zlib
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, BinaryIO

from maxmargin.streams.source import StreamError

# zstd is decompressed in small pieces, since 4 bytes may become 128 kB.
ZSTD_PIECE = 2**9
LONGEST_MAGIC = 6


class ZstdFrames:
    """The content of a zstd file; a truncated frame is an error."""

    def __init__(self, file: Any, decompressor: Any) -> None:
        self._file = file
        self._decompressor = decompressor
        self._frame = decompressor.decompressobj()
        self._is_within = False
        self._ready = memoryview(b"")

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes; none at the end."""
        while not self._ready:
            compressed = self._frame.unused_data
            if self._frame.eof:
                self._frame, self._is_within = self._decompressor.decompressobj(), False
            compressed = compressed or self._file.read(ZSTD_PIECE)
            if not compressed:
                if self._is_within:
                    raise EOFError("Compressed file ended within a frame")
                return b""
            self._is_within = True
            self._ready = memoryview(self._frame.decompress(compressed))
        part, self._ready = bytes(self._ready[:size]), self._ready[size:]
        return part

    def close(self) -> None:
        """The file is closed by its owner."""


def _open_zstd(file: Any) -> Any:
    """With the standard library from Python 3.14 on, or with the package zstandard."""
    try:
        return importlib.import_module("compression.zstd").open(file)
    except ModuleNotFoundError:
        pass
    try:
        zstandard = importlib.import_module("zstandard")
    except ModuleNotFoundError:
        raise StreamError(
            "files compressed by zstd need zstandard: pip install 'maxmargin[streams]'"
        ) from None
    return ZstdFrames(file, zstandard.ZstdDecompressor())


def _means_damage(error: Exception) -> bool:
    """Whether the compressed content is damaged, rather than the disk."""
    if isinstance(error, OSError):  # bzip2 raises it without a number
        return error.errno is None
    is_of_zstd = type(error).__module__.split(".")[0] in ("zstandard", "zstd", "compression")
    return is_of_zstd or isinstance(error, EOFError | zlib.error | lzma.LZMAError)


class Inflated:
    """gzip in large steps: Python's reader takes 8 kB and may then wait for other threads."""

    STEP = 2**20

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._input = b""
        self._member: Any = None  # being read

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes; none at the end."""
        while True:
            self._input = self._input or self._file.read(self.STEP)
            if not self._input:
                break
            if self._member is None:
                self._input = self._input.lstrip(b"\0")  # padding of tapes
                self._member = zlib.decompressobj(wbits=31) if self._input else None
                continue
            text = self._member.decompress(self._input, size)
            self._input = self._member.unconsumed_tail
            if self._member.eof:
                self._input, self._member = self._member.unused_data, None
            if text:
                return text
        if self._member is not None:
            raise EOFError("it ends too early")
        return b""

    def close(self) -> None:
        self._file.close()


# By the first bytes of files.
OPENERS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": Inflated,
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": _open_zstd,
}
SUFFIXES = (".gz", ".bz2", ".xz", ".zst")


def opener_of(head: bytes) -> Callable[[Any], Any] | None:
    """How to open a file that begins with ``head``; None if it is not compressed."""
    return next((each for magic, each in OPENERS.items() if head.startswith(magic)), None)


def plain_suffix(path: PurePath) -> str:
    """The suffix of a file name, without that of a compression."""
    return path.with_suffix("").suffix if path.suffix in SUFFIXES else path.suffix


class Raw:
    """A file or a pipe that is read sequentially, and whose first bytes can be peeked at."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._head = b""
        self.done = 0  # bytes read so far

    def look(self, size: int) -> bytes:
        """The first ``size`` bytes, which `read` returns as well."""
        while len(self._head) < size:
            more = self._file.read(size - len(self._head))
            if not more:
                break
            self._head += more
        return self._head

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes; none at the end."""
        part, self._head = self._head[:size], self._head[size:]
        part = part or self._file.read(size)
        self.done += len(part)
        return part

    def readinto(self, buffer: memoryview) -> int:
        """Read some bytes into ``buffer``; returns their number, 0 at the end."""
        if self._head or not hasattr(self._file, "readinto"):
            part = self.read(len(buffer))
            buffer[: len(part)] = part
            return len(part)
        count = self._file.readinto(buffer) or 0
        self.done += count
        return count

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def skip(self, size: int) -> None:
        self._file.seek(size - len(self._head), os.SEEK_CUR)
        self._head = b""
        self.done += size

    def close(self) -> None:
        self._file.close()


class Bytes:
    """The decompressed content of a binary file; ``name`` is for messages."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._raw = Raw(file)
        self._name = name
        opener = opener_of(self._raw.look(LONGEST_MAGIC))
        self._file = self._raw if opener is None else opener(self._raw)
        self._plain = opener is None
        self._read = 0

    def read(self, size: int) -> bytes:
        """The next ``size`` bytes; fewer only at the end."""
        parts, left = [], size
        while left:
            try:
                part = self._file.read(left)
            except Exception as error:
                if self._plain or not _means_damage(error):
                    raise
                raise StreamError(
                    f"{self._name}: damaged, more than {self._read:,} bytes of text on: {error}"
                ) from None
            if not part:
                break
            parts.append(part)
            left -= len(part)
            self._read += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def readinto(self, buffer: memoryview) -> int:
        """Fill ``buffer``; returns the number of bytes, fewer only at the end."""
        if not self._plain:
            part = self.read(len(buffer))
            buffer[: len(part)] = part
            return len(part)
        filled = 0
        while filled < len(buffer) and (more := self._raw.readinto(buffer[filled:])):
            filled += more
        self._read += filled
        return filled

    def skip(self, size: int) -> None:
        """Skip the next ``size`` bytes."""
        if size and self._plain and self._raw.seekable():
            self._raw.skip(size)
            self._read += size
            return
        while size > 0 and (part := self.read(min(size, 2**20))):
            size -= len(part)

    def done(self) -> int:
        """The number of bytes read from the disk."""
        return self._raw.done

    def close(self) -> None:
        self._file.close()
        self._raw.close()
