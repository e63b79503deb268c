"""Remote files, read ahead in ranges, or sequentially where there are no ranges."""

from __future__ import annotations

import importlib
import io
import os
import re
import tempfile
import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future
from functools import cached_property
from hashlib import blake2b, sha256
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from maxmargin.streams.addresses import Address, is_web
from maxmargin.streams.files import Stored, change_of_size
from maxmargin.streams.prefetch import ahead
from maxmargin.streams.source import IDENTITY_PIECES, ChangedError, StreamError

# The length of ranges; it is shorter if a file is read alternately at many places, to limit the
# memory that all take.
RANGE, LEAST_RANGE, MEMORY = 2**22, 2**17, 2**25
IN_FLIGHT = 4
HEAD = 2**18  # kept, since it is read several times
PIECE = 2**20  # of sequential reads
# A request for a whole file may take any time, but not be silent for longer than this.
SILENT_SECONDS = 60.0
# Metadata of fsspec that identify the content, the best first.
TAGS = (
    *("ETag", "etag", "Content-MD5", "md5Hash", "content_md5", "CRC", "checksum", "sha256"),
    *("generation", "blob_id", "mtime", "modified", "LastModified", "Last-Modified"),
    *("last_modified", "last_commit", "updated", "created"),
)
# Those in each response of a web server.
WEB_TAGS = ("ETag", "Last-Modified")
WEAK = "W/"
COMPLETE, PARTIAL, PRECONDITION_FAILED, NOT_SATISFIABLE = 200, 206, 412, 416
CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)")


class RemoteFile(Stored):
    """A file at ``place`` in a file system of fsspec, with its metadata ``info``.

    If they come from a list of files (``is_listed``), they may differ from those of a single file.
    """

    def __init__(
        self,
        address: Address,
        files: Any,
        place: str,
        info: dict[str, Any],
        *,
        is_listed: bool = False,
    ) -> None:
        self._address, self.name = address, address.name
        self._files, self._place, self._info = files, place, info
        self.size = info.get("size")
        self.path = PurePosixPath(urlsplit(place).path)
        self._is_web = is_web(files) and hasattr(files, "set_session")
        # The metadata before anything was read.
        self._opened_as = None if is_listed else info
        # ETag and Last-Modified of the first responses, which must not change.
        self._tags = {name: info[name] for name in WEB_TAGS if info.get(name)}
        # Without ranges: hashes of the content from each place that was read from.
        self._hashes: dict[int, bytes] = {}

    def identity(self, pieces: int = IDENTITY_PIECES) -> str:
        """A hash of the size and the metadata of the server, else of the first bytes."""
        tags = [(name, str(self._info[name])) for name in TAGS if self._info.get(name)]
        if tags:
            return sha256(f"{self.size} {tags[0]}".encode()).hexdigest()
        hashed = sha256(str(self.size).encode())
        with self.open() as file:
            hashed.update(file.read(HEAD))
        return hashed.hexdigest()

    def check_unchanged(self) -> None:
        has_tags = any(self._info.get(name) for name in TAGS)
        if not has_tags and self._has_ranges and self._fetch(0, len(self._head)) != self._head:
            raise ChangedError(self.name, "it begins with other bytes")
        if not has_tags and self._has_ranges and self._is_web:
            return  # that response had the size, too
        info = self._described()
        if self._opened_as is None:
            self._opened_as = info
        self._compare(self._opened_as, info, TAGS)
        if None not in (self.size, info.get("size")) and info["size"] != self.size:
            raise ChangedError(self.name, change_of_size(self.size or 0, info["size"]))

    def _described(self) -> dict[str, Any]:
        """The current metadata."""
        try:
            files, place = self._address.file_system()  # an archive is reopened
            files.invalidate_cache()
            return self._address.tried(lambda: files.info(place))
        except FileNotFoundError:
            raise ChangedError(self.name, "it cannot be found") from None

    def _compare(self, first: Mapping[str, Any], later: Mapping[str, Any], names: Any) -> None:
        """Raise unless the best tag that is in both is the same."""
        for name in names:
            if first.get(name) and later.get(name):
                # Compressing proxies weaken an ETag.
                one, other = (str(each[name]).removeprefix(WEAK) for each in (first, later))
                if one != other:
                    raise ChangedError(self.name, f"its {name} is different")
                return

    def open(self, at_once: int = 1) -> Any:
        if self._opened_as is None:
            self._opened_as = self._described()
        if self._has_ranges:
            return Ranges(self._fetch, self.size or 0, self._head if at_once == 1 else b"", at_once)
        return Sequential(self._pieces) if at_once == 1 else open(self._copy, "rb")

    @cached_property
    def _has_ranges(self) -> bool:
        """Whether parts can be read without those before them."""
        if self.size == 0:
            return True
        if self._is_web:
            found = self.size is not None and self._info.get("partial", True)
            last = (self.size or 1) - 1
            found = found and self._address.tried(lambda: self._asked(last, last + 1)[0] == PARTIAL)
            return self._noted(found)
        buffered = importlib.import_module("fsspec.spec").AbstractBufferedFile

        def look() -> bool | None:
            with self._files.open(self._place, "rb", cache_type="none") as file:
                if not isinstance(file, buffered):
                    return isinstance(file, io.BytesIO) or None
                if self.size is None:
                    return False
                try:
                    file.seek(self.size - 1)
                    return len(file.read(1)) == 1
                except ValueError:
                    return False

        return self._noted(self._address.tried(look))

    def _noted(self, found: bool | None) -> bool:
        if found is False:
            warnings.warn(
                f"{self.name}: the server gives no ranges of it, so it is read in one go, and "
                "resuming from a checkpoint reads it from the start again.",
                RuntimeWarning,
                stacklevel=3,
            )
        self._streams = found is False
        return bool(found)

    # -------------------------------------------------------------------------------- random access
    @cached_property
    def _head(self) -> bytes:
        return self._fetch(0, min(HEAD, self.size or 0))

    def _fetch(self, start: int, end: int) -> bytes:
        def fetch() -> bytes:
            if start == end:
                return b""
            if self._is_web:
                status, content = self._asked(start, end)
                if status == COMPLETE and not content:
                    raise OSError("the server gave the whole file instead of a range")
            else:
                content = self._files.cat_file(self._place, start=start, end=end)
            if len(content) != end - start:
                raise OSError(f"got {len(content):,} bytes instead of {end - start:,}")
            return content

        return self._address.tried(fetch, start)

    def _asked(self, start: int, end: int) -> tuple[int, bytes]:
        """The status of a web server's response, and the bytes of the range if it has them.

        fsspec itself returns only the content of responses.
        """

        async def ask() -> tuple[int, bytes]:
            how = dict(self._files.kwargs)
            headers = {**how.pop("headers", {}), "Range": f"bytes={start}-{end - 1}"}
            headers["Accept-Encoding"] = "identity"
            tag = self._tags.get("ETag", WEAK)
            if not tag.startswith(WEAK):  # a weak one never matches
                headers["If-Match"] = tag
            session = await self._files.set_session()
            url = self._files.encode_url(self._place)
            async with session.get(url, headers=headers, **how) as answer:
                if answer.status == PRECONDITION_FAILED:
                    raise ChangedError(self.name, "its ETag is different")
                self._check(answer)
                if answer.status == NOT_SATISFIABLE:
                    return answer.status, b""
                answer.raise_for_status()
                if answer.status == PARTIAL and _content_range(answer)[0] not in (None, start):
                    raise OSError("the server gave another range")
                is_range = answer.status == PARTIAL or answer.content_length == end - start
                return answer.status, await answer.read() if is_range else b""

        status, content = importlib.import_module("fsspec.asyn").sync(self._files.loop, ask)
        return status, content

    def _check(self, answer: Any) -> None:
        """Raise unless a web server's response refers to the content that was opened."""
        headers, status = answer.headers, answer.status
        if status not in (COMPLETE, PARTIAL, NOT_SATISFIABLE):
            return
        for name in WEB_TAGS if status != NOT_SATISFIABLE else ():
            if headers.get(name):
                self._tags.setdefault(name, headers[name])
        self._compare(self._tags, headers, WEB_TAGS)
        total = None
        if status != COMPLETE:
            total = _content_range(answer)[1]
        elif not _is_encoded(answer):
            total = answer.content_length
        if None not in (total, self.size) and total != self.size:
            raise self._other_length(f"{total:,}")

    def _other_length(self, found: str) -> StreamError:
        return StreamError(
            f"{self.name}: {self.size:,} bytes were announced, but there are {found}: the file has "
            "changed, or the server says a wrong length."
        )

    # ---------------------------------------------------------------------------- sequential access
    def _pieces(self, at: int) -> Generator[bytes, None, None]:
        """The content from a byte on; after an error, the file is reopened there."""
        file: Any = None
        begin, hashed, size = at, blake2b(), self.size

        def read() -> bytes:
            nonlocal file
            try:
                if file is None:
                    file = self._opened_at(begin, at, hashed.digest())
                piece = file.read(PIECE)
                if size is not None and not _is_encoded(getattr(file, "r", None)):
                    if not piece and at < size:
                        raise OSError(f"it ended {size - at:,} bytes too early")
                    if at + len(piece) > size:
                        raise self._other_length("more")
                return piece
            except BaseException:
                if file is not None:
                    file.close()
                file = None
                raise

        try:
            while piece := self._address.tried(read, at):
                at += len(piece)
                hashed.update(piece)
                yield piece
        finally:
            if file is not None:
                file.close()
        if self._hashes.setdefault(begin, hashed.digest()) != hashed.digest():
            raise ChangedError(self.name, "its content is different from the last time")

    def _opened_at(self, begin: int, at: int, expected: bytes) -> Any:
        """The file at a byte, if the bytes from ``begin`` on are unchanged."""
        how: dict[str, Any] = {"block_size": 0} if self._streams else {}
        if self._streams and self._is_web:
            client = importlib.import_module("aiohttp")
            silence = client.ClientTimeout(None, sock_read=SILENT_SECONDS)
            how |= {"timeout": silence, "size": self.size or 1}  # saves a request
        file = self._files.open(self._place, "rb", **how)
        try:
            if self._streams and self._is_web:
                self._check(file.r)
            if self._streams:
                _skip(file, begin)
            else:
                file.seek(begin)
            if _skip(file, at - begin) != expected:
                raise ChangedError(self.name, "what was read of it before is different")
        except BaseException:
            file.close()
            raise
        return file

    @cached_property
    def _copy(self) -> str:
        """A temporary copy for random access, which is deleted with this object."""
        number, path = tempfile.mkstemp(prefix="maxmargin-")
        weakref.finalize(self, Path(path).unlink, missing_ok=True)
        with os.fdopen(number, "wb") as copy:
            for piece in self._pieces(0):
                copy.write(piece)
        return path


def _is_encoded(answer: Any) -> bool:
    """Whether the length of a response is not that of its content."""
    return answer is not None and answer.headers.get("Content-Encoding", "identity") != "identity"


def _content_range(answer: Any) -> tuple[int | None, int | None]:
    """The first byte and the total size in a response with a range."""
    found = CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
    begin, total = found.groups() if found else (None, None)
    return int(begin) if begin else None, int(total) if total and total != "*" else None


def _skip(file: Any, size: int) -> bytes:
    """Skip so many bytes, and return their hash."""
    hashed = blake2b()
    while size > 0 and (passed := file.read(min(size, PIECE))):
        size -= len(passed)
        hashed.update(passed)
    return hashed.digest()


class Reader(io.RawIOBase):
    """A seekable binary file, read by the `read` of subclasses."""

    def __init__(self, size: int | None) -> None:
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_END and self._size is None:
            raise io.UnsupportedOperation("the size of the file is unknown")
        self._at = place + (0, self._at, self._size or 0)[whence]
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        part = self.read(len(buffer))
        buffer[: len(part)] = part
        return len(part)


class Ranges(Reader):
    """A file in ranges, some of which are fetched ahead of their use.

    ``fetch`` returns the bytes of a range, ``head`` are the first bytes of the file, and
    ``at_once`` is the number of places that are read alternately.
    """

    def __init__(
        self, fetch: Callable[[int, int], bytes], size: int, head: bytes, at_once: int
    ) -> None:
        super().__init__(size)
        self._fetch, self._end, self._head = fetch, size, head
        self._alternates = at_once > 1
        self._length = max(min(LEAST_RANGE, RANGE), min(RANGE, MEMORY // (2 * at_once)))
        self._most = IN_FLIGHT + 2 * at_once
        # By their numbers, the least recently used first.
        self._ranges: OrderedDict[int, Future[bytes]] = OrderedDict()

    def read(self, size: int = -1) -> bytes:
        end = self._end if size < 0 else min(self._end, self._at + size)
        parts = list[bytes | memoryview]()
        while self._at < end:
            if self._at < len(self._head):
                part: bytes | memoryview = self._head[self._at : end]
            else:
                number, within = divmod(self._at, self._length)
                part = memoryview(self._range(number))[within : within + end - self._at]
            parts.append(part)
            self._at += len(part)
        return b"".join(parts)

    def _range(self, number: int) -> bytes:
        wanted = self._request(number)
        # After two consecutive ranges, the next one is likely to follow.
        if number - 1 in self._ranges or (number and not self._alternates):
            for later in range(number + 1, number + (2 if self._alternates else IN_FLIGHT)):
                in_flight = sum(not future.done() for future in self._ranges.values())
                if later * self._length < self._end and in_flight < IN_FLIGHT:
                    self._request(later)
        while len(self._ranges) > self._most:
            self._ranges.popitem(last=False)
        return wanted.result()

    def _request(self, number: int) -> Future[bytes]:
        if number in self._ranges:
            self._ranges.move_to_end(number)
            return self._ranges[number]
        future: Future[bytes] = Future()
        start = number * self._length
        end = min(start + self._length, self._end)

        def run() -> None:
            try:
                future.set_result(self._fetch(start, end))
            except BaseException as error:
                future.set_exception(error)

        self._ranges[number] = future
        # A daemon: one that is blocked by a server does not keep the process alive.
        threading.Thread(target=run, daemon=True).start()
        return future

    def close(self) -> None:
        super().close()
        self._ranges.clear()


class Sequential(Reader):
    """A file that is read sequentially, ahead of its use; after a seek it is reopened."""

    def __init__(self, pieces: Callable[[int], Generator[bytes, None, None]]) -> None:
        super().__init__(None)
        self._pieces_from = pieces
        self._pieces: Iterator[bytes] | None = None
        self._held = memoryview(b"")

    def read(self, size: int = -1) -> bytes:
        parts, left = list[memoryview](), size
        while left:
            if not self._held:
                if self._pieces is None:
                    self._pieces = ahead(self._pieces_from(self._at), lambda piece: piece, 1)
                self._held = memoryview(next(self._pieces, b""))
                if not self._held:
                    break
            part = self._held if left < 0 else self._held[:left]
            self._held = self._held[len(part) :]
            self._at += len(part)
            left -= len(part) if left > 0 else 0
            parts.append(part)
        return b"".join(parts)

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        before = self._at
        if super().seek(place, whence) != before:
            self._stop()
        return self._at

    def _stop(self) -> None:
        if isinstance(self._pieces, Generator):
            self._pieces.close()
        self._pieces, self._held = None, memoryview(b"")

    def close(self) -> None:
        super().close()
        self._stop()
