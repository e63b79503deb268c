"""Checkpoints: the progress of a run, in a file that is always complete."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from maxmargin.persistence import read_file, write_file
from maxmargin.persistence.container import ModelFileError, StrPath, explained

KIND = "checkpoint"
# An unfinished file that has not changed for this long belongs to a killed process.
SECONDS_FOR_A_WRITE = 60.0


class CheckpointFile:
    """A file with the latest checkpoint; a symbolic link is followed."""

    def __init__(self, path: StrPath) -> None:
        self.path = Path(os.path.realpath(path))
        self._last_good = ""

    def write(self, content: dict[str, Any], place: str) -> None:
        """Replace the last checkpoint, or keep it and issue a warning if the disk is full.

        If the process is killed, a complete file is left. ``place`` describes the progress in
        messages.
        """
        try:
            write_file(self.path, KIND, content)
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

    def read(self, interpret: Callable[[dict[str, Any]], Any]) -> Any:
        """The checkpoint as ``interpret`` reads it, or None before the first one is written."""
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                errno.ENOENT, "There is no such folder for a checkpoint", str(self.path.parent)
            )
        self._remove_unfinished()
        try:
            content = read_file(self.path, KIND)
            with explained(self.path):
                found = interpret(content)
        except FileNotFoundError:
            return None
        except ModelFileError as error:
            raise ModelFileError(
                f"{error} Delete it, or use another file, to begin anew."
            ) from error
        self._last_good = found.place()
        return found

    def _remove_unfinished(self) -> None:
        """Remove what killed processes have left."""
        name = re.escape(self.path.name[:100])
        unfinished = re.compile(rf"\.{name}\.[0-9a-f]{{16}}\.tmp")  # as `container.replacing` does
        for left in map(
            self.path.with_name, filter(unfinished.fullmatch, os.listdir(self.path.parent))
        ):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - left.stat().st_mtime > SECONDS_FOR_A_WRITE:
                    left.unlink()
