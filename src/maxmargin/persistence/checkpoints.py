"""Checkpoints: how far a run has come, in a file that is always whole."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from maxmargin.persistence import read_file, write_file
from maxmargin.persistence.container import ModelFileError, explained

KIND = "checkpoint"
# A file that is half written and has not been touched for so long is one of a killed process.
SECONDS_FOR_A_WRITE = 60.0


class CheckpointFile:
    """A file with the last checkpoint.

    The one before it is kept beside it, in case the last one turns out to be damaged.
    """

    def __init__(self, path: Any) -> None:
        self.path = Path(path)
        self.previous = self.path.with_name(self.path.name + ".previous")
        # Another process may write to the same place: until a file is whole, it has its own name.
        self._fresh = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        self._last_good = ""

    def write(self, content: dict[str, Any], place: str) -> None:
        """Replace the last checkpoint, or leave it as it is, with a warning, if the disk is full.

        A process that is killed here leaves at least one whole file. ``place`` says in messages
        what it is a checkpoint of.
        """
        try:
            write_file(self._fresh, KIND, content)
            with contextlib.suppress(FileNotFoundError):
                os.replace(self.path, self.previous)
            os.replace(self._fresh, self.path)
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

    def read(self, interpret: Callable[[dict[str, Any]], Any]) -> Any:
        """What ``interpret`` makes of the last whole checkpoint; None if there is none yet.

        One that it refuses is not whole; the result says by ``place()`` what it is one of.
        """
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                errno.ENOENT, "There is no such folder for a checkpoint", str(self.path.parent)
            )
        self._tidy_up()
        found, trouble = None, ""
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
        self._last_good = found.place()
        if trouble:
            warnings.warn(
                f"{trouble}The checkpoint before it is whole: going on from {self._last_good}.",
                RuntimeWarning,
                stacklevel=2,
            )
        return found

    def _tidy_up(self) -> None:
        """Undo what a killed process has left half done."""
        folder, name = self.path.parent, glob.escape(self.path.name)
        fresh = list(folder.glob(f"{name}.*.new"))
        # Without a fresh one somebody has deleted the checkpoint, to begin anew.
        if fresh and not self.path.exists() and self.previous.exists():
            os.replace(self.previous, self.path)
        for left in [*fresh, *folder.glob(f".{name}.*.new.*.tmp")]:
            with contextlib.suppress(FileNotFoundError):
                if time.time() - left.stat().st_mtime > SECONDS_FOR_A_WRITE:
                    left.unlink()


def _read(path: Path, interpret: Callable[[dict[str, Any]], Any]) -> Any:
    content = read_file(path, KIND)
    with explained(path):
        return interpret(content)
