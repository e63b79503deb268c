"""Local and remote files that can be opened repeatedly, and must not change meanwhile."""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from maxmargin.streams.source import (
    IDENTITY_PIECES,
    START,
    Block,
    ChangedError,
    DelegatingSource,
    Position,
    Source,
    Survey,
    identity_of_file,
)

# The number of files of a large folder that are checked after each block, in turn.
FILES_AT_ONCE = 64


class Stored(abc.ABC):
    """A file that can be opened any number of times."""

    name: str  # for messages
    size: int | None  # in bytes, if that is known
    path: PurePath  # whose suffix tells the format

    def __str__(self) -> str:
        return self.name

    @abc.abstractmethod
    def open(self, at_once: int = 1) -> Any:
        """A binary file, which is read alternately at so many places."""

    @abc.abstractmethod
    def identity(self, pieces: int = IDENTITY_PIECES) -> str:
        """A hash of the content, perhaps of so many pieces of it."""

    @abc.abstractmethod
    def check_unchanged(self) -> None:
        """Raise `ChangedError` unless the file is the one that was opened first."""


class LocalFile(Stored):
    """A file of this machine."""

    path: Path
    size: int

    def __init__(self, path: Path) -> None:
        found = os.stat(path)
        self.path, self.name, self.size = path, str(path), found.st_size
        self._found = found

    def open(self, at_once: int = 1) -> Any:
        return open(self.path, "rb")

    def identity(self, pieces: int = IDENTITY_PIECES) -> str:
        with open(self.path, "rb") as file:
            return identity_of_file(file, os.stat(self.path).st_size, pieces)

    def check_unchanged(self) -> None:
        try:
            found = os.stat(self.path)
        except OSError as error:
            raise ChangedError(self.name, f"it cannot be found: {error.strerror}") from None
        if found.st_size != self.size:
            raise ChangedError(self.name, change_of_size(self.size, found.st_size))
        if found.st_mtime_ns != self._found.st_mtime_ns:
            raise ChangedError(self.name, "it was written to")
        # Some network file systems renumber files that are not open.
        if (
            not os.path.samestat(found, self._found)
            and found.st_ctime_ns != self._found.st_ctime_ns
        ):
            raise ChangedError(self.name, "another file took its place")


class Folder(NamedTuple):
    """Parquet files that form one table."""

    name: str  # for messages
    base: str  # the folder that contains all of them
    paths: Sequence[str]  # sorted
    stored: Sequence[Stored]  # the files at these paths
    files: Any = None  # their file system, for pyarrow; None for the local one

    def __str__(self) -> str:
        return self.name


def change_of_size(before: int, after: int) -> str:
    return f"its size was {before:,} bytes and is now {after:,}"


def stored(file: Any) -> Any:
    """The file at a path; anything else is returned unchanged."""
    return LocalFile(file) if isinstance(file, Path) else file


class UnchangedSource(DelegatingSource):
    """A source that ``make`` opens, whose files must not change.

    All files are checked before and after each pass, local ones also after each block, before it is
    yielded.
    """

    def __init__(self, make: Callable[[], Source], files: Sequence[Stored]) -> None:
        self._files = files
        self._local = [file for file in files if isinstance(file, LocalFile)]
        self._in_turns = cycle(self._local)
        with self._watched():
            super().__init__(make())

    def survey(self) -> Survey:
        with self._watched():
            return super().survey()

    def glance(self) -> Survey:
        with self._watched():
            return super().glance()

    def schema(self) -> dict[str, Any]:
        with self._watched():
            return super().schema()

    def restore(self, schema: dict[str, Any]) -> None:
        with self._watched():
            super().restore(schema)

    def blocks(self, start: Position = START) -> Iterator[Block]:
        with self._watched():
            _check(self._files)
            for block in self._source.blocks(start):
                _check(islice(self._in_turns, min(len(self._local), FILES_AT_ONCE)))
                self.skipped = self._source.skipped
                yield block
            self.skipped = self._source.skipped
            _check(self._files)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Errors that a change has caused say so."""
        try:
            yield
        except ChangedError:
            raise
        except Exception as error:
            try:
                _check(self._files)
            except ChangedError as change:
                raise change from error
            except Exception:
                pass  # the server does not answer
            raise
        _check(self._local)


def _check(files: Iterable[Stored]) -> None:
    for file in files:
        file.check_unchanged()
