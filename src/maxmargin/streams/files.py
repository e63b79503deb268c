"""Files that can be opened again and again, wherever they lie."""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from maxmargin.streams.source import IDENTITY_PIECES, identity_of_file


class Stored(abc.ABC):
    """A file that can be opened any number of times.

    Attributes
    ----------
    name : str
        For messages.
    size : int or None
        In bytes, if that is known.
    path : PurePath
        Whose suffix says what is in it.
    """

    name: str
    size: int | None
    path: PurePath

    def __str__(self) -> str:
        return self.name

    @abc.abstractmethod
    def open(self, at_once: int = 1) -> Any:
        """A binary file at its beginning, which is read in so many places in turns."""

    @abc.abstractmethod
    def identity(self, pieces: int = IDENTITY_PIECES) -> str:
        """Tells the content from another one; where it is looked at, in so many places."""


class LocalFile(Stored):
    """A file of this machine."""

    path: Path

    def __init__(self, path: Path) -> None:
        self.path, self.name, self.size = path, str(path), os.stat(path).st_size

    def open(self, at_once: int = 1) -> Any:
        return open(self.path, "rb")

    def identity(self, pieces: int = IDENTITY_PIECES) -> str:
        with open(self.path, "rb") as file:
            return identity_of_file(file, os.stat(self.path).st_size, pieces)


class Folder(NamedTuple):
    """Parquet files that belong together.

    Attributes
    ----------
    name : for messages
    base : the folder that all are below
    paths : of the files, sorted
    file : gives the file at a path
    files : their file system, as pyarrow takes it; None for that of this machine
    """

    name: str
    base: str
    paths: Sequence[str]
    file: Callable[[str], Stored]
    files: Any = None

    def __str__(self) -> str:
        return self.name


def stored(file: Any) -> Any:
    """What a path names; anything else as it is."""
    return LocalFile(file) if isinstance(file, Path) else file
