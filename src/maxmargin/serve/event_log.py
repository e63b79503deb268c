"""The log: events in the order in which they came, in files that are only appended to.

A file begins with a header that names the first event in it. Behind it stand frames, each of the
events that were written together::

    u32 length of what follows the header | u32 CRC-32 | u64 number of the first event | events
    an event:  u32 length | bytes

The checksum is one of the number and of all events of the frame. The next frame is written when the
one before is on the disk: so whatever a crash leaves undone is the last frame, as a whole.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from maxmargin.persistence.container import sync_folder

MAGIC = b"MMEVENTS"
VERSION = 1
HEADER = struct.Struct("<8sIQI")  # magic, version, first event, CRC-32 of these
FRAME = struct.Struct("<IIQ")
NUMBER = struct.Struct("<Q")
LENGTH = struct.Struct("<I")
SUFFIX = ".log"
SEGMENT_BYTES = 2**26
# How a server opens its files: as bytes, not inherited by child processes, never through a link,
# and without waiting for a pipe. No system has all of these flags.
PLAIN = 0
for _flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_NOINHERIT", "O_BINARY"):
    PLAIN |= getattr(os, _flag, 0)


class LogError(ValueError):
    """The log is damaged, or a part of it is missing."""


class Record(NamedTuple):
    """An event in the log, by its number."""

    sequence: int
    payload: bytes


class Segment(NamedTuple):
    """A file of the log, and its first event."""

    path: Path
    first: int


def segments_of(folder: Path) -> list[Segment]:
    """The files of a log, in order."""
    found = []
    for path in folder.glob(f"*{SUFFIX}"):
        if path.stem.isascii() and path.stem.isdigit():
            found.append(Segment(path, int(path.stem)))
    return sorted(found, key=lambda segment: segment.first)


def open_plain(path: Path, flags: int) -> int:
    """Open a file of a server, which is never a link, a pipe or a device.

    A folder may come from a stranger, and what a link in it points at belongs to somebody else.
    """
    try:
        if not hasattr(os, "O_NOFOLLOW") and path.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        file = os.open(path, flags | PLAIN)
    except OSError as error:
        if path.is_symlink() or not path.is_file():
            raise _not_plain(path) from error
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise _not_plain(path)
    return file


def _not_plain(path: Path) -> LogError:
    return LogError(
        f"{path}: it must be a plain file, not a link, a folder, a pipe or a "
        "device. Move it away, or put the file itself there."
    )


def content_of(path: Path, size: int = -1) -> bytes:
    with open(open_plain(path, os.O_RDONLY), "rb") as file:
        return file.read(size)


def is_begun(data: bytes, first: int) -> bool:
    """Is it what a crash leaves of a file whose header was not finished?"""
    return header_of(first).startswith(data) or (len(data) <= HEADER.size and not any(data))


def frame_of(first: int, payloads: Sequence[bytes]) -> bytes:
    """Events as they stand in a file."""
    parts = []
    for payload in payloads:
        parts += [LENGTH.pack(len(payload)), payload]
    body = b"".join(parts)
    checksum = zlib.crc32(body, zlib.crc32(NUMBER.pack(first)))
    return FRAME.pack(len(body), checksum, first) + body


def header_of(first: int) -> bytes:
    begin = HEADER.pack(MAGIC, VERSION, first, 0)[: -LENGTH.size]
    return begin + LENGTH.pack(zlib.crc32(begin))


class Scan:
    """Reads the frames of one file; afterwards, ``end`` is where the last whole one ends.

    Only the last file of a log may end in a frame that is torn.
    """

    def __init__(self, segment: Segment, is_last: bool) -> None:
        self.segment, self.is_last = segment, is_last
        self.next, self.end, self.torn = segment.first, 0, 0

    def records(self, after: int = 0) -> Iterator[Record]:
        """The events behind number ``after``."""
        data = content_of(self.segment.path)
        whole = header_of(self.segment.first)
        if data[: HEADER.size] != whole:
            self._check_version(data)
            self._give_up(data, 0)
            if not is_begun(data, self.segment.first):
                raise LogError(
                    f"{self.segment.path}: it does not begin as a log whose first event is "
                    f"{self.segment.first:,}, and is left as it is. Restore the file, or move it "
                    "away."
                )
            return
        self.end = HEADER.size
        while self.end < len(data):
            body = self._body(data)
            if body is None:
                self._give_up(data, self.end)
                return
            place, stop = body
            self.end = stop
            while place < stop:
                (size,) = LENGTH.unpack_from(data, place)
                place += LENGTH.size
                if self.next > after:
                    yield Record(self.next, data[place : place + size])
                self.next += 1
                place += size

    def _body(self, data: bytes) -> tuple[int, int] | None:
        """Where the events of the next frame begin and end, if it is whole."""
        start = self.end + FRAME.size
        if start > len(data):
            return None
        size, checksum, first = FRAME.unpack_from(data, self.end)
        stop = start + size
        if size == 0 or stop > len(data) or first != self.next:
            return None
        body = memoryview(data)[start:stop]
        if zlib.crc32(body, zlib.crc32(NUMBER.pack(first))) != checksum:
            return None
        return start, stop

    def _check_version(self, data: bytes) -> None:
        if data[: len(MAGIC)] == MAGIC and len(data) >= HEADER.size:
            version = HEADER.unpack_from(data)[1]
            if version > VERSION:
                raise LogError(
                    f"{self.segment.path}: the log has version {version}; this library reads "
                    f"version {VERSION}."
                )

    def _give_up(self, data: bytes, place: int) -> None:
        """What follows is not a whole frame: is it the end, or damage?"""
        if not self.is_last or _has_frame_behind(data, place, self.next):
            raise LogError(
                f"{self.segment.path}: damaged at byte {place:,}, event {self.next:,}; there are "
                "events behind it, which must not be read without it. Restore the file, or move "
                "the folder away to begin anew."
            )
        self.torn = len(data) - place


def _has_frame_behind(data: bytes, place: int, first: int) -> bool:
    """Is there a whole frame of a later event at any byte behind ``place``?"""
    numbers = FRAME.size - NUMBER.size  # where the number stands in a frame
    for shift in range(NUMBER.size):
        begin = place + shift + numbers
        count = (len(data) - begin) // NUMBER.size
        if count <= 0:
            break
        found = np.frombuffer(data, "<u8", count, begin)
        likely = (found >= first) & (found < first + 2**32)
        for k in np.flatnonzero(likely).tolist():
            start = place + shift + k * NUMBER.size
            size, checksum, number = FRAME.unpack_from(data, start)
            body = memoryview(data)[start + FRAME.size : start + FRAME.size + size]
            if (
                start > place
                and 0 < size == len(body)
                and zlib.crc32(body, zlib.crc32(NUMBER.pack(number))) == checksum
            ):
                return True
    return False


def read_log(folder: Path, after: int = 0) -> Iterator[Record]:
    """The events of a log behind number ``after``, without changing anything."""
    for scan in _scans(folder, after):
        yield from scan.records(after)


def _scans(folder: Path, after: int) -> Iterator[Scan]:
    """The files that hold events behind ``after``, which must follow one another."""
    segments = segments_of(folder)
    nexts = [segment.first for segment in segments[1:]]
    expected = None
    for k, segment in enumerate(segments):
        if k < len(nexts) and nexts[k] <= after + 1:
            continue
        if expected is None and segment.first > after + 1 and after > 0:
            expected = after + 1
        if expected is not None and segment.first != expected:
            raise LogError(
                f"{segment.path}: it begins with event {segment.first:,}, and event "
                f"{expected:,} is expected; a file is missing."
            )
        scan = Scan(segment, is_last=k == len(nexts))
        yield scan
        expected = scan.next


class Log:
    """A log that events can be appended to, after `recover`."""

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.folder, self.segment_bytes = folder, segment_bytes
        self.sequence = 0  # the number of the last event
        self.torn = 0  # bytes of a frame that a crash had left half written, and that were cut off
        self._file = -1
        self._segment: Segment | None = None
        self._end = 0  # of what is known to be on the disk
        self._last = 0, 0  # where the last frame begins, and its first event
        self._in_doubt = False

    def recover(self, after: int) -> Iterator[Record]:
        """The events behind number ``after``; when all are read, the log can be appended to.

        What a process wrote that was killed before it could wait for the disk is no better than
        anything else until it is there: so that comes first.
        """
        for segment in segments_of(self.folder)[-1:]:
            file = open_plain(segment.path, os.O_RDWR)
            try:
                os.fsync(file)
            finally:
                os.close(file)
        sync_folder(self.folder)
        scan = None
        for scan in _scans(self.folder, after):
            yield from scan.records(after)
            self.sequence = scan.next - 1
        if self.sequence < after:
            raise LogError(
                f"{self.folder}: the log ends with event {self.sequence:,}, but the snapshot is "
                f"one of event {after:,}; a file is missing."
            )
        if scan is None or scan.end == 0:  # no file, or one whose header was not finished
            self.torn = 0 if scan is None else scan.torn
            self._begin_segment()
            return
        self.torn = scan.torn
        self._file = open_plain(scan.segment.path, os.O_WRONLY)
        self._segment, self._end = scan.segment, scan.end
        if scan.torn:
            os.ftruncate(self._file, scan.end)
            os.fsync(self._file)
        os.lseek(self._file, scan.end, os.SEEK_SET)

    def append(self, payloads: Sequence[bytes]) -> int:
        """Write events and wait until they are on the disk; the number of the first.

        After an `OSError` nothing of them is in the log, and it can be tried again.
        """
        if self._in_doubt:
            self._mend()
        elif self._end >= self.segment_bytes:
            self._begin_segment()
        first = self.sequence + 1
        frame = memoryview(frame_of(first, payloads))
        size = len(frame)
        try:
            while frame:
                frame = frame[os.write(self._file, frame) :]
        except OSError:
            self._cut()
            raise
        try:
            os.fdatasync(self._file)
        except OSError:
            self._cut()  # whoever sent them hears that they are not there
            self._in_doubt = True  # how much of it is on the disk is unknown
            raise
        self._last = self._end, first
        self._end += size
        self.sequence += len(payloads)
        return first

    def replace_last(self, payloads: Sequence[bytes]) -> None:
        """Write other events in place of those of the last `append`, or none.

        Only for events that have not been acknowledged.
        """
        self._end, first = self._last
        self.sequence = first - 1
        os.ftruncate(self._file, self._end)
        os.lseek(self._file, self._end, os.SEEK_SET)
        os.fsync(self._file)  # so that the frames are never mixed
        if payloads:
            self.append(payloads)

    def bytes(self) -> int:
        size = 0
        for segment in segments_of(self.folder):
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                size += segment.path.stat().st_size
        return size

    def drop_until(self, sequence: int) -> None:
        """Remove the files all of whose events are up to this number."""
        segments, removed = segments_of(self.folder), False
        for segment, behind in pairwise(segments):
            if behind.first > sequence + 1:
                break
            with contextlib.suppress(LogError):  # a link stays, as any file of others
                if content_of(segment.path, HEADER.size) == header_of(segment.first):
                    segment.path.unlink()
                    removed = True
        if removed:
            sync_folder(self.folder)

    def close(self) -> None:
        """Let the file end with the last event that was acknowledged."""
        if self._file >= 0:
            if self._in_doubt:
                with contextlib.suppress(OSError):  # a disk that fails for good
                    os.ftruncate(self._file, self._end)
                    os.fsync(self._file)
            os.close(self._file)
            self._file = -1

    def _cut(self) -> None:
        """Take back what was written behind the last whole frame."""
        try:
            os.ftruncate(self._file, self._end)
            os.lseek(self._file, self._end, os.SEEK_SET)
        except OSError:
            self._in_doubt = True

    def _mend(self) -> None:
        """After a failed write: let the file end where it is known to be whole, and begin another.

        What the system says of a file after a failed fsync must not be believed; so events go to a
        new one.
        """
        segment = self._segment
        assert segment is not None
        os.ftruncate(self._file, self._end)
        os.fsync(self._file)
        if segment.first == self.sequence + 1:
            segment.path.unlink()
        self._begin_segment()
        self._in_doubt = False

    def _begin_segment(self) -> None:
        first = self.sequence + 1
        path = self.folder / f"{first:020d}{SUFFIX}"
        if os.path.lexists(path):  # of a crash, or of an attempt that failed
            if not is_begun(content_of(path), first):
                raise FileExistsError(errno.EEXIST, "It is not the beginning of a log", str(path))
            path.unlink()
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | PLAIN, 0o600)
        try:
            header = header_of(first)
            if os.write(file, header) != len(header):
                raise OSError("the header of a new file of the log could not be written")
            os.fsync(file)
            sync_folder(self.folder)
        except OSError:
            os.close(file)
            with contextlib.suppress(OSError):
                path.unlink()
            raise
        self.close()
        self._file, self._segment, self._end = file, Segment(path, first), HEADER.size
