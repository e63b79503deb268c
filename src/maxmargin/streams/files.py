"""Files here, at addresses of fsspec, and pipes; files must not change while they are read."""

from __future__ import annotations

import bz2
import contextlib
import errno
import glob
import gzip
import hashlib
import importlib
import io
import lzma
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from maxmargin.streams.source import (
    IDENTITY_PIECES,
    Block,
    ChangedError,
    DelegatingSource,
    Source,
    StreamError,
    Survey,
    identity_of_file,
)

ADDRESS = re.compile(r"([a-z][\w+.-]+::)*[a-z][\w+.-]+://", re.IGNORECASE)
# The parts of an address before an @ and after a question mark or a # may be credentials.
USER, QUERY = re.compile(r"(?<=://)[^@/]*@"), re.compile(r"[?#].*?(?=::|$)")
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
# Prefixes of files and folders that programs keep with the data.
LONGEST_FIRST_LINE, PIECE = 2**20, 2**16  # of a pipe, in bytes
HIDDEN, LOG_OF_DELTA = ("_", "."), "_delta_log"


class Files:
    """A file, or the files of a folder or of a pattern in the order of their names.

    Attributes
    ----------
    name : the path or address without credentials, for messages
    paths : of all files, as their file system takes them
    system : the file system of fsspec; None for this machine
    size : of all files, in bytes; None if it is unknown
    is_folder : whether it is a folder or a pattern
    """

    def __init__(self, place: str) -> None:
        self.name, self.system = shown(place), None
        with naming_errors(place):
            if is_address(place):
                self.system, self.paths, self.is_folder = _at_address(place)
            else:
                self.paths, self.is_folder = _at_path(place)
            self._states = [self._state(path) for path in self.paths]
        sizes = [size for size, *_ in self._states]
        self.size: int | None = None if None in sizes else sum(sizes)  # type: ignore[arg-type]

    def __str__(self) -> str:
        return self.name

    def suffix(self) -> str:
        """The suffix of the (first) file name, without that of a compression."""
        path = PurePosixPath(self.paths[0])
        return (path.with_suffix("") if path.suffix in COMPRESSED else path).suffix.lower()

    def only(self, suffixes: tuple[str, ...]) -> None:
        """Keep the files whose names end so."""
        kept = [k for k, path in enumerate(self.paths) if path.lower().endswith(suffixes)]
        self.paths = [self.paths[k] for k in kept]
        self._states = [self._states[k] for k in kept]

    @contextlib.contextmanager
    def open(self, path: str | None = None) -> Iterator[Any]:
        """The (first) file."""
        path = self.paths[0] if path is None else path
        with naming_errors(self.name):
            opens = open if self.system is None else self.system.open
            file = opens(path, "rb")
        with file:
            yield file

    def _state(self, path: str) -> tuple[int | None, ...]:
        """What differs if a file has changed; its size comes first."""
        if self.system is None:
            found = os.stat(path)
            return found.st_size, found.st_mtime_ns
        info = self.system.info(path)
        return info.get("size"), info.get("ETag"), self.system.ukey(path)

    def check_unchanged(self) -> None:
        """Raise `ChangedError` unless the files are those that were opened first."""
        if self.system is not None:
            self.system.invalidate_cache()
        for path, before in zip(self.paths, self._states, strict=True):
            name = path if self.is_folder else self.name
            try:
                with naming_errors(name):
                    now = self._state(path)
            except OSError as error:
                raise ChangedError(name, f"it cannot be found: {error.strerror}") from None
            if now[0] != before[0]:
                raise ChangedError(name, f"its size was {before[0]:,} bytes and is now {now[0]:,}")
            if now != before:
                raise ChangedError(name, "it was written to")

    def identity(self) -> str:
        """A hash of the content, or of what an address says about it."""
        hashed = hashlib.sha256()
        for path, state in zip(self.paths, self._states, strict=True):
            if self.system is not None:
                hashed.update(repr(state).encode())
                continue
            with open(path, "rb") as file:
                pieces = max(2, IDENTITY_PIECES // len(self.paths))
                hashed.update(identity_of_file(file, os.stat(path).st_size, pieces).encode())
        return hashed.hexdigest()


def _at_path(place: str) -> tuple[list[str], bool]:
    """The paths of the files at a path, and whether it is a folder or a pattern."""
    if os.path.isdir(place):
        return _visible(place, [str(each) for each in Path(place).rglob("*") if each.is_file()])
    if glob.has_magic(place) and not os.path.lexists(place):
        return _visible(place, glob.glob(place, recursive=True))
    return [place], False


def _at_address(place: str) -> tuple[Any, list[str], bool]:
    """The file system of an address, the paths of its files, and whether it is a folder."""
    try:
        fsspec = importlib.import_module("fsspec")
    except ModuleNotFoundError:
        raise StreamError(
            f"{shown(place)}: addresses need fsspec: pip install 'maxmargin[remote]'"
        ) from None
    try:
        system, path = fsspec.url_to_fs(place)
    except ImportError as error:  # fsspec names the package
        hint = ": pip install 'maxmargin[remote]'" if "aiohttp" in str(error) else ""
        raise StreamError(f"{shown(place)}: {error}{hint}") from None
    system.invalidate_cache()
    if "*" in path:
        return system, *_visible(place, system.glob(path))
    if system.info(path).get("type") == "directory":
        return system, *_visible(place, system.find(path))
    return system, [path], False


def _visible(place: str, paths: list[str]) -> tuple[list[str], bool]:
    parts = [PurePosixPath(path).parts for path in paths]
    if any(LOG_OF_DELTA in each for each in parts):
        raise StreamError(
            f"{shown(place)} is a table of Delta Lake, some of whose files may not count any more: "
            "read it with a library that knows."
        )
    depth = len(PurePosixPath(os.path.commonpath(paths)).parts) if len(paths) > 1 else -1
    visible = [
        path
        for path, each in zip(paths, parts, strict=True)
        if not any(part.startswith(HIDDEN) for part in each[depth:])
    ]
    if not visible:
        raise FileNotFoundError(errno.ENOENT, "There is no such file", shown(place))
    return sorted(visible), True


def paths_like(place: str) -> list[str]:
    """The paths or addresses that match a pattern; one without a pattern itself."""
    if not is_address(place):
        return sorted(glob.glob(place)) if glob.has_magic(place) else [place]
    system, paths, is_folder = _at_address(place)
    return [system.unstrip_protocol(path) for path in paths] if is_folder else [place]


def is_address(place: Any) -> bool:
    return isinstance(place, str) and ADDRESS.match(place) is not None


def shown(place: str) -> str:
    """A path, or an address without credentials."""
    return QUERY.sub("?...", USER.sub("", place)) if is_address(place) else place


@contextlib.contextmanager
def naming_errors(place: str) -> Iterator[None]:
    """Errors of an address become `StreamError` or `OSError` without its credentials."""
    try:
        yield
    except StreamError:
        raise
    except (FileNotFoundError, PermissionError) as error:
        if not is_address(place):
            raise
        raise type(error)(error.errno, type(error).__name__, shown(place)) from None
    except Exception as error:
        if not is_address(place):
            raise
        message = str(error).replace(place, shown(place)) or type(error).__name__
        raise StreamError(f"{shown(place)}: {message}") from None


# -------------------------------------------------------------------------------------- compression
def _open_zstd(file: Any) -> Any:
    try:
        arrow = importlib.import_module("pyarrow")
    except ModuleNotFoundError:
        raise StreamError(
            "files compressed by zstd need pyarrow: pip install 'maxmargin[streams]'"
        ) from None
    return io.BufferedReader(arrow.CompressedInputStream(file, "zstd"))


# By the first bytes of files.
OPENERS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"\x28\xb5\x2f\xfd": _open_zstd,
}
LONGEST_MAGIC = max(map(len, OPENERS))
DAMAGE = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)


class Prefixed(io.RawIOBase):
    """The bytes of ``head``, and then the rest of a file."""

    def __init__(self, head: bytes, rest: Any) -> None:
        self._head, self._rest = memoryview(head), rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._head[: len(buffer)] or self._rest.read(len(buffer))
        self._head = self._head[len(part) :]
        buffer[: len(part)] = part
        return len(part)


def text_of(file: Any) -> Any:
    """The decompressed content of a file or pipe, by its first bytes."""
    head = b""
    while len(head) < LONGEST_MAGIC and (more := file.read(LONGEST_MAGIC - len(head))):
        head += more
    if file.seekable():
        file.seek(-len(head), os.SEEK_CUR)
    else:
        file = io.BufferedReader(Prefixed(head, file))
    opener = next((each for magic, each in OPENERS.items() if head.startswith(magic)), None)
    if opener is not None:
        return opener(file)
    return file if isinstance(file, io.BufferedIOBase) else io.BufferedReader(file)


@contextlib.contextmanager
def as_damage(name: str) -> Iterator[None]:
    """Errors in compressed content, with the name of the file."""
    try:
        yield
    except Exception as error:
        is_unnumbered = type(error) is OSError and error.errno is None  # of bzip2 and zstd
        if isinstance(error, DAMAGE) or is_unnumbered:
            raise StreamError(f"{name}: damaged: {error}") from None
        raise


# -------------------------------------------------------------------------------------------- pipes
class Pipe(io.BufferedReader):
    """Standard input, a named pipe, or an open file, which is read once.

    Its content is decompressed, and the first line can be looked at.
    """

    def __init__(self, file: Any, name: str = "") -> None:
        name = name or getattr(file, "name", "")
        self.source = name if name and isinstance(name, str) else "<pipe>"
        text, head = text_of(file), b""
        with as_damage(self.source):
            while b"\n" not in head and len(head) < LONGEST_FIRST_LINE:
                if not (piece := text.read1(PIECE)):
                    break
                head += piece
        self.first_line = head.partition(b"\n")[0]
        super().__init__(Prefixed(head, text), LONGEST_FIRST_LINE)


def pipe_at(place: str) -> Pipe | None:
    """The pipe at a path, or standard input for "-"; None if it is no pipe."""
    if place == "-":
        if sys.stdin is None:
            raise ValueError("There is no standard input.")
        try:
            return Pipe(io.FileIO(sys.stdin.fileno(), closefd=False), "<stdin>")
        except io.UnsupportedOperation:  # it was replaced
            return Pipe(sys.stdin.buffer, "<stdin>")
    with contextlib.suppress(FileNotFoundError):
        mode = os.stat(place).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode):
            return Pipe(io.FileIO(os.open(place, os.O_RDONLY), closefd=False), place)
    return None


# ---------------------------------------------------------------------------------- unchanged files
class UnchangedSource(DelegatingSource):
    """A source that ``make`` opens, whose files must not change from then to the end of a pass."""

    def __init__(self, make: Callable[[], Source], files: list[Files]) -> None:
        self._files = files
        with self._watched():
            super().__init__(make())

    def survey(self) -> Survey:
        with self._watched():
            return super().survey()

    def glance(self) -> Survey:
        with self._watched():
            return super().glance()

    def blocks(self, start: int = 0) -> Iterator[Block]:
        self._check()
        with self._watched():
            for block in self._source.blocks(start):
                for files in self._files:  # a checkpoint must not know rows of two versions
                    if files.system is None and not files.is_folder:
                        files.check_unchanged()
                yield block

    def _check(self) -> None:
        for files in self._files:
            files.check_unchanged()

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Raise if the files have changed, also where that was the cause of another error."""
        try:
            yield
        except ChangedError:
            raise
        except Exception as error:
            try:
                self._check()
            except ChangedError as change:
                raise change from error
            except Exception:
                pass  # the server does not answer
            raise
        self._check()
