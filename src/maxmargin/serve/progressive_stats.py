"""The quality of predictions: those made just before learning, and those that were served.

All of it is a function of the rows in their order: blocks of any size give the same, to the bit.
These types are stored in snapshots; msgspec checks their fields when a snapshot is read.
"""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

# The number of rows that "recent" is about.
RECENT = 1000
# Points of the history at most; every other one is dropped when there are more.
MOST_POINTS, FIRST_STEP = 300, 10

Count = Annotated[int, Meta(ge=0, lt=2**53)]


class Tally(msgspec.Struct, kw_only=True, eq=False, forbid_unknown_fields=True):
    """Counts of right and wrong predictions: of all of them, and of the recent ones."""

    rows: Count = 0
    mistakes: Count = 0
    # Which of the recent predictions were wrong; the oldest is overwritten first.
    recent_wrong: np.ndarray = msgspec.field(default_factory=lambda: np.zeros(RECENT, dtype=bool))

    def __post_init__(self) -> None:
        _check_array("recent_wrong", self.recent_wrong, bool, RECENT)
        if self.mistakes > self.rows:
            raise ValueError(f"there are {self.mistakes:,} mistakes in {self.rows:,} rows")

    def count(self, wrong: np.ndarray) -> None:
        """Add predictions, in their order."""
        places = np.arange(self.rows, self.rows + wrong.size) % RECENT
        self.recent_wrong[places] = wrong  # the last value stays where a place repeats
        self.rows += wrong.size
        self.mistakes += int(np.count_nonzero(wrong))

    def accuracy(self) -> float:
        return 1.0 - self.mistakes / self.rows if self.rows else math.nan

    def recent_accuracy(self) -> float:
        number = min(self.rows, RECENT)
        wrong = int(np.count_nonzero(self.recent_wrong[:number]))
        return 1.0 - wrong / number if number else math.nan


class ProgressiveStats(Tally, kw_only=True):
    """Counts and losses of predictions that a learner made just before it learned each row."""

    counts: np.ndarray  # rows of each class
    loss: float = 0.0  # the sum of the hinge losses
    recent_losses: np.ndarray = msgspec.field(default_factory=lambda: np.zeros(RECENT))
    step: Count = FIRST_STEP
    # List of (row, accuracy, recent accuracy, recent loss).
    history: Annotated[list[tuple[int, float, float, float]], Meta(max_length=MOST_POINTS)] = []

    @classmethod
    def of(cls, classes: int) -> ProgressiveStats:
        return cls(counts=np.zeros(classes, dtype=np.int64))

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_array("counts", self.counts, np.int64, self.counts.size)
        _check_array("recent_losses", self.recent_losses, np.float64, RECENT)
        if (self.counts < 0).any() or int(self.counts.sum()) != self.rows:
            raise ValueError("the counts of the classes do not add up to the number of rows")
        doublings, rest = divmod(self.step, FIRST_STEP)
        if rest or doublings.bit_count() != 1:
            raise ValueError(f"step must be {FIRST_STEP} times a power of two, got {self.step}")

    def add(self, truth: np.ndarray, wrong: np.ndarray, losses: np.ndarray) -> None:
        """Add rows: their class codes, which predictions were wrong, and their losses."""
        start, size = 0, truth.size
        while start < size:
            stop = min(size, start + self.step - self.rows % self.step)
            self._add(truth[start:stop], wrong[start:stop], losses[start:stop])
            start = stop

    def _add(self, truth: np.ndarray, wrong: np.ndarray, losses: np.ndarray) -> None:
        """Add rows up to the next point of the history."""
        self.recent_losses[np.arange(self.rows, self.rows + truth.size) % RECENT] = losses
        self.count(wrong)
        for loss in losses.tolist():  # one after another, as rows come
            self.loss += loss
        self.counts += np.bincount(truth, minlength=self.counts.size)
        if self.rows % self.step == 0:
            point = (self.rows, self.accuracy(), self.recent_accuracy(), self.recent_loss())
            self.history.append(point)
            if len(self.history) > MOST_POINTS:
                self.step *= 2
                self.history = [each for each in self.history if each[0] % self.step == 0]

    def mean_loss(self) -> float:
        return self.loss / self.rows if self.rows else math.nan

    def recent_loss(self) -> float:
        number = min(self.rows, RECENT)
        return float(self.recent_losses[:number].mean()) if number else math.nan

    def scores(self) -> dict[str, float]:
        return {
            "progressive_accuracy": self.accuracy(),
            "recent_progressive_accuracy": self.recent_accuracy(),
            "loss": self.mean_loss(),
            "recent_loss": self.recent_loss(),
        }

    def largest_class_share(self) -> float:
        return float(self.counts.max() / self.rows) if self.rows else math.nan


def _check_array(name: str, array: np.ndarray, dtype: type, size: int) -> None:
    if array.dtype != dtype or array.shape != (size,):
        raise ValueError(f"{name} must be {size} values of {dtype.__name__}")
