"""Checkpoints: the progress of a run, in a file that is always complete."""

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
    explained,
    is_model_file,
    mode_of,
    sync_folder,
)

KIND = "checkpoint"
# An unfinished file that has not changed for this long belongs to a killed process.
SECONDS_FOR_A_WRITE = 60.0
# The names of a complete file before it is renamed, and of one that is being written.
NEW = r"\.{name}\.[0-9a-f]{{16}}\.new"
HALF_WRITTEN = r"\.\.{name}\.[0-9a-f]{{16}}\.new\.[0-9a-f]{{16}}\.tmp"


class Progress(Protocol):
    """The content of a checkpoint."""

    def place(self) -> str:
        """How far the run has come, for messages."""


Found = TypeVar("Found", bound=Progress)


class CheckpointFile:
    """A file with the latest checkpoint.

    The previous one is kept beside it, in case the latest is damaged. A symbolic link is followed.
    ``new_mode`` are the permissions of a new file, by default those that the umask leaves.
    """

    def __init__(self, path: StrPath, new_mode: int | None = None) -> None:
        self.new_mode = new_mode
        self.path = Path(os.path.realpath(path)) if os.path.islink(path) else Path(path)
        self.previous = self.path.with_name(self.path.name + ".previous")
        # No other process uses this name.
        self._fresh = self.path.with_name(f".{self.path.name}.{secrets.token_hex(8)}.new")
        self._last_good = ""
        self._last_is_damaged = False

    def write(self, content: dict[str, Any], place: str) -> None:
        """Replace the last checkpoint, or keep it and issue a warning if the disk is full.

        If the process is killed, at least one complete file is left. ``place`` describes the
        progress in messages.
        """
        try:
            self.replace(content)
        except OSError as error:
            if not self._last_good:
                raise  # nothing was ever written there
            warnings.warn(
                f"No checkpoint could be written to {self.path}: {error.strerror or error}. The "
                f"last good one is that of {self._last_good}; learning goes on.",
                RuntimeWarning,
                stacklevel=2,
            )
        else:
            self._last_good = place

    def replace(self, content: dict[str, Any]) -> None:
        """Replace the last checkpoint, or raise an `OSError` and keep it."""
        mode = mode_of(self.path)
        write_file(self._fresh, KIND, content, self.new_mode if mode is None else mode)
        if not self._last_is_damaged:
            with contextlib.suppress(FileNotFoundError):
                os.replace(self.path, self.previous)
        os.replace(self._fresh, self.path)
        sync_folder(self.path.parent)
        self._last_is_damaged = False

    def read(self, interpret: Callable[[dict[str, Any]], Found]) -> Found | None:
        """The last checkpoint that ``interpret`` accepts; None if there is no checkpoint yet."""
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                errno.ENOENT, "There is no such folder for a checkpoint", str(self.path.parent)
            )
        if os.path.lexists(self.previous) and not is_model_file(self.previous):
            raise FileExistsError(
                errno.EEXIST,
                "It is not a checkpoint, and would be replaced by one: use another name",
                str(self.previous),
            )
        self._tidy_up()
        trouble = ""
        for path in (self.path, self.previous) if self.path.exists() else ():
            try:
                content = read_file(path, KIND)
                with explained(path):
                    found = interpret(content)
            except FileNotFoundError:
                continue  # the first one was the only one
            except ModelFileError as error:
                trouble += f"{error} "
                continue
            self._last_good, self._last_is_damaged = found.place(), bool(trouble)
            if trouble:
                warnings.warn(
                    f"{trouble}The checkpoint before it is whole: going on from {self._last_good}.",
                    RuntimeWarning,
                    stacklevel=2,
                )
            return found
        if trouble:
            raise ModelFileError(
                f"{trouble}No checkpoint is whole: use another file to begin anew."
            )
        return None

    def _tidy_up(self) -> None:
        """Complete or remove what a killed process has left."""
        fresh = self._left_over(NEW)
        # If there is no new file, the user has deleted the checkpoint to begin anew.
        if fresh and not self.path.exists() and self.previous.exists():
            os.replace(self.previous, self.path)
        for left in [*fresh, *self._left_over(HALF_WRITTEN)]:
            with contextlib.suppress(FileNotFoundError):
                if time.time() - left.stat().st_mtime > SECONDS_FOR_A_WRITE:
                    left.unlink()

    def _left_over(self, pattern: str) -> list[Path]:
        """Files beside the checkpoint whose names match and that begin like ours."""
        ours = re.compile(pattern.format(name=re.escape(self.path.name)))
        found = []
        for name in filter(ours.fullmatch, os.listdir(self.path.parent)):
            with contextlib.suppress(FileNotFoundError, PermissionError):
                left = self.path.with_name(name)
                if is_model_file(left) or left.stat().st_size == 0:
                    found.append(left)
        return found
