"""Checkpoints: how far a run has come, in a file that is always whole."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from maxmargin.persistence import read_file, write_file
from maxmargin.persistence.container import (
    ModelFileError,
    StrPath,
    begins_like_ours,
    explained,
    sync_folder,
)

KIND = "checkpoint"
# A file that is half written and has not been touched for so long is one of a killed process.
SECONDS_FOR_A_WRITE = 60.0
# The names of a file that has not got its place yet, and of one that is being written as such.
NEW = r"\.{name}\.[0-9a-f]{{16}}\.new"
HALF_WRITTEN = r"\.\.{name}\.[0-9a-f]{{16}}\.new\.[0-9a-f]{{16}}\.tmp"


class Progress(Protocol):
    """What a checkpoint tells: how far a run has come."""

    def place(self) -> str: ...


Found = TypeVar("Found", bound=Progress)


class CheckpointFile:
    """A file with the last checkpoint.

    The one before it is kept beside it, in case the last one turns out to be damaged. A link stays
    a link: the checkpoint is what it points at, and the one before is kept there. ``new_mode`` are
    the permissions of the first one, by default those that the umask leaves.
    """

    def __init__(self, path: StrPath, new_mode: int | None = None) -> None:
        self.new_mode = new_mode
        self.path = Path(os.path.realpath(path)) if os.path.islink(path) else Path(path)
        self.previous = self.path.with_name(self.path.name + ".previous")
        # Another process may write to the same place: until a file has its place, it has a name
        # that no other process uses.
        self._fresh = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}.new")
        self._last_good = ""
        self._last_is_damaged = False

    def write(self, content: dict[str, Any], place: str) -> None:
        """Replace the last checkpoint, or leave it as it is, with a warning, if the disk is full.

        A process that is killed here leaves at least one whole file. ``place`` says in messages
        what it is a checkpoint of.
        """
        try:
            self.replace(content)
        except OSError as error:
            if not self._last_good:
                raise  # nothing can be written there at all
            warnings.warn(
                f"No checkpoint could be written to {self.path}: {error.strerror or error}. The "
                f"last good one is that of {self._last_good}; learning goes on.",
                RuntimeWarning,
                stacklevel=2,
            )
        else:
            self._last_good = place

    def replace(self, content: dict[str, Any]) -> None:
        """Replace the last checkpoint, or raise an `OSError` and leave it as it is."""
        write_file(self._fresh, KIND, content, like=self.path, new_mode=self.new_mode)
        if not self._last_is_damaged:
            with contextlib.suppress(FileNotFoundError):
                os.replace(self.path, self.previous)
        os.replace(self._fresh, self.path)
        sync_folder(self.path.parent)
        self._last_is_damaged = False

    def read(self, interpret: Callable[[dict[str, Any]], Found]) -> Found | None:
        """What ``interpret`` makes of the last whole checkpoint; None if there is none yet.

        One that it refuses is not whole; the result says by ``place()`` what it is one of.
        """
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                errno.ENOENT, "There is no such folder for a checkpoint", str(self.path.parent)
            )
        if os.path.lexists(self.previous) and not begins_like_ours(self.previous):
            raise FileExistsError(
                errno.EEXIST,
                "It is not a checkpoint, and would be replaced by one: use another name",
                str(self.previous),
            )
        self._tidy_up()
        found: Found | None = None
        trouble = ""
        for path in (self.path, self.previous) if self.path.exists() else ():
            try:
                found = _read(path, interpret)
                break
            except FileNotFoundError:
                continue  # the first one was the only one
            except ModelFileError as error:
                trouble += f"{error} "
        if found is None:
            if trouble:
                raise ModelFileError(
                    f"{trouble}No checkpoint is whole: use another file to begin anew."
                )
            return None
        self._last_good, self._last_is_damaged = found.place(), bool(trouble)
        if trouble:
            warnings.warn(
                f"{trouble}The checkpoint before it is whole: going on from {self._last_good}.",
                RuntimeWarning,
                stacklevel=2,
            )
        return found

    def _tidy_up(self) -> None:
        """Undo what a killed process has left half done."""
        fresh = self._left_over(NEW)
        # Without a fresh one a user has deleted the checkpoint, to begin anew.
        if fresh and not self.path.exists() and self.previous.exists():
            os.replace(self.previous, self.path)
        for left in [*fresh, *self._left_over(HALF_WRITTEN)]:
            with contextlib.suppress(FileNotFoundError):
                if time.time() - left.stat().st_mtime > SECONDS_FOR_A_WRITE:
                    left.unlink()

    def _left_over(self, pattern: str) -> list[Path]:
        """Files beside the checkpoint that have our names, and nothing but our content."""
        ours = re.compile(pattern.format(name=re.escape(self.path.name)))
        found = []
        for name in filter(ours.fullmatch, os.listdir(self.path.parent)):
            with contextlib.suppress(FileNotFoundError, PermissionError):
                if begins_like_ours(left := self.path.with_name(name)):
                    found.append(left)
        return found


def _read(path: Path, interpret: Callable[[dict[str, Any]], Found]) -> Found:
    content = read_file(path, KIND)
    with explained(path):
        return interpret(content)
