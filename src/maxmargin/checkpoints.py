"""Checkpoints: how far a run has come, in a file that is always whole."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.persistence import ModelFileError, read_file, write_file
from maxmargin.persistence.container import explained
from maxmargin.persistence.learners import is_learner
from maxmargin.streams import START, Position

KIND = "checkpoint"
# A file that is half written and has not been touched for so long is one of a killed process.
SECONDS_FOR_A_WRITE = 60.0


@dataclass
class Checkpoint:
    """Where a run over a stream stands.

    Attributes
    ----------
    learner : estimator
    classes : array
        All labels that can occur.
    width : int
        Number of columns so far; the learner may have room for more.
    position : Position
        Where the next block begins.
    passes : int
        Passes that are over.
    updates : int
        Made before this pass.
    settled : bool
        Is nothing left to learn?
    source : str
        The identity of the source.
    schema : dict
        How its columns are read.
    """

    learner: Any
    classes: Any
    width: int = 0
    position: Position = START
    passes: int = 0
    updates: int = 0
    settled: bool = False
    source: str = ""
    schema: dict[str, Any] | None = None

    def place(self) -> str:
        """For messages."""
        return f"row {self.position.row:,} of pass {self.passes + 1}"


class CheckpointFile:
    """A file with the last checkpoint; the one before it is kept beside it, for bad days."""

    def __init__(self, path: Any) -> None:
        self.path = Path(path)
        self.previous = self.path.with_name(self.path.name + ".previous")
        # Another process may write to the same place: until a file is whole, it has its own name.
        self._fresh = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        self._last_good = ""

    def write(self, checkpoint: Checkpoint) -> None:
        """Replace the last checkpoint, or leave it as it is, with a warning, if the disk is full.

        A process that is killed here leaves at least one whole file.
        """
        content = {**vars(checkpoint), "position": list(checkpoint.position)}
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
            self._last_good = checkpoint.place()

    def read(self) -> Checkpoint | None:
        """The last whole checkpoint; None if there is none yet."""
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                errno.ENOENT, "There is no such folder for a checkpoint", str(self.path.parent)
            )
        self._tidy_up()
        checkpoint, trouble = None, ""
        for path in (self.path, self.previous) if self.path.exists() else ():
            try:
                checkpoint = _read(path)
                break
            except FileNotFoundError:
                continue  # the first one was the only one
            except ModelFileError as error:
                trouble += f"{error} "
        if checkpoint is None:
            if trouble:
                raise ModelFileError(
                    f"{trouble}No checkpoint is whole: use another file to begin anew."
                )
            return None
        self._last_good = checkpoint.place()
        if trouble:
            warnings.warn(
                f"{trouble}The checkpoint before it is whole: going on from {self._last_good}.",
                RuntimeWarning,
                stacklevel=2,
            )
        return checkpoint

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


def _read(path: Path) -> Checkpoint:
    content = read_file(path, KIND)
    with explained(path):
        checkpoint = Checkpoint(**{**content, "position": Position(*content["position"])})
        _check(checkpoint)
        return checkpoint


def _check(checkpoint: Checkpoint) -> None:
    """Raise unless a run can go on from there."""
    one, classes = checkpoint, checkpoint.classes
    if not all(
        type(number) is int and 0 <= number < 2**62
        for number in (*one.position, one.width, one.passes, one.updates)
    ):
        raise ValueError("its counts are no numbers")
    if not (isinstance(classes, np.ndarray) and classes.ndim == 1 and classes.size > 1):
        raise ValueError("its classes are none")
    if not (type(one.settled) is bool and type(one.source) is str and type(one.schema) is dict):
        raise ValueError("it does not describe a source")
    if not is_learner(one.learner):
        raise ValueError("there is no learner in it")
    if not np.array_equal(getattr(one.learner, "classes_", classes), classes):
        raise ValueError("its learner has other classes")
    if one.position.row > 0 and not hasattr(one.learner, "classes_"):
        raise ValueError("its learner has learnt nothing")
