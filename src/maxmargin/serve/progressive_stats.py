"""The quality of predictions: those made just before learning, and those that were served.

All of it is a function of the rows in their order: blocks of any size give the same, to the bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maxmargin._extras import Self

# The last rows, that "recent" is about.
RECENT = 1000
# Points of the history at most; every other one is dropped when there are more.
MOST_POINTS, FIRST_STEP = 300, 10
# Drifts are looked for each time that so many rows have come, in the last LATELY of them, beside at
# least so many before; and a false alarm is as likely as that at each look.
LOOK, LATELY, BEFORE, CHANCE = 100, 500, 1000, 1e-6
MOST_DRIFTS = 100


class Tally:
    """Counts of right and wrong predictions: of all of them, and of the last ones.

    Attributes
    ----------
    rows, mistakes : int
    recent_wrong : array
        Which of the last predictions were wrong; the oldest is overwritten first.
    """

    def __init__(self) -> None:
        self.rows = self.mistakes = 0
        self.recent_wrong = np.zeros(RECENT, dtype=bool)

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

    def tree(self) -> dict[str, Any]:
        return dict(vars(self))

    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> Self:
        return cls()._filled(tree)

    def _filled(self, tree: dict[str, Any]) -> Self:
        if tree.keys() != vars(self).keys():
            raise ValueError("its counts are none")
        for name, value in tree.items():
            wanted = getattr(self, name)
            fits = type(value) is type(wanted)
            if isinstance(wanted, np.ndarray):
                fits = fits and (value.shape, value.dtype) == (wanted.shape, wanted.dtype)
                value = value.copy()
            if not fits:
                raise ValueError(f"its counts are none: {name}")
            setattr(self, name, value)
        if not self._is_possible():
            raise ValueError("its counts are impossible")
        return self

    def _is_possible(self) -> bool:
        return 0 <= self.mistakes <= self.rows < 2**53


class ProgressiveStats(Tally):
    """Counts and losses of predictions that a learner made just before it learned each row.

    Attributes
    ----------
    loss : float
        The sum of the hinge losses.
    counts : array
        Rows of each class.
    drifts : list of (row, accuracy before, accuracy lately)
    history : list of (row, accuracy, recent accuracy, recent loss)
    """

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.loss = 0.0
        self.counts = np.zeros(classes, dtype=np.int64)
        self.recent_losses = np.zeros(RECENT)
        self.step = FIRST_STEP
        self.history: list[tuple[int, float, float, float]] = []
        self.drifts: list[tuple[int, float, float]] = []
        # Since the last drift: rows and mistakes before the last ones, and mistakes in each LOOK of
        # these.
        self.before, self.wrong_before = 0, 0
        self.lately: list[int] = []
        self.wrong_now = 0

    def add(self, truth: np.ndarray, wrong: np.ndarray, losses: np.ndarray) -> None:
        """Some rows: their class codes, and what was predicted of them."""
        start, size = 0, truth.size
        while start < size:
            ahead = min(self.step - self.rows % self.step, LOOK - self.rows % LOOK)
            stop = min(size, start + ahead)
            self._add(truth[start:stop], wrong[start:stop], losses[start:stop])
            start = stop

    def _add(self, truth: np.ndarray, wrong: np.ndarray, losses: np.ndarray) -> None:
        """Rows up to the next place where something is written down."""
        self.recent_losses[np.arange(self.rows, self.rows + truth.size) % RECENT] = losses
        self.count(wrong)
        for loss in losses.tolist():  # one after another, as rows come
            self.loss += loss
        self.counts += np.bincount(truth, minlength=self.counts.size)
        self.wrong_now += int(np.count_nonzero(wrong))
        if self.rows % LOOK == 0:
            self._look_for_drift()
        if self.rows % self.step == 0:
            point = (self.rows, self.accuracy(), self.recent_accuracy(), self.recent_loss())
            self.history.append(point)
            if len(self.history) > MOST_POINTS:
                self.step *= 2
                self.history = [each for each in self.history if each[0] % self.step == 0]

    def _look_for_drift(self) -> None:
        """Are there more mistakes lately than before? By Hoeffding's bound on two means."""
        self.lately.append(self.wrong_now)
        self.wrong_now = 0
        if len(self.lately) * LOOK > LATELY:
            self.before += LOOK
            self.wrong_before += self.lately.pop(0)
        if self.before < BEFORE:
            return
        then, now = self.wrong_before / self.before, sum(self.lately) / LATELY
        harmonic = 1.0 / (1.0 / self.before + 1.0 / LATELY)
        if now - then > math.sqrt(math.log(1.0 / CHANCE) / (2.0 * harmonic)):
            self.drifts = [*self.drifts[1 - MOST_DRIFTS :], (self.rows, 1.0 - then, 1.0 - now)]
            self.before = self.wrong_before = 0
            self.lately = []

    # ---------------------------------------------------------------------------- what it says
    def mean_loss(self) -> float:
        return self.loss / self.rows if self.rows else math.nan

    def recent_loss(self) -> float:
        number = min(self.rows, RECENT)
        return float(self.recent_losses[:number].mean()) if number else math.nan

    def largest_class_share(self) -> float:
        return float(self.counts.max() / self.rows) if self.rows else math.nan

    # ------------------------------------------------------------------------------- for files
    @classmethod
    def from_tree(cls, tree: dict[str, Any]) -> Self:
        return cls(tree["counts"].size)._filled(tree)

    def _is_possible(self) -> bool:
        steps = self.step // FIRST_STEP
        return (
            super()._is_possible()
            and self.step == FIRST_STEP * steps > 0
            and steps & (steps - 1) == 0  # it is doubled now and then
            and bool((self.counts >= 0).all())
            and int(self.counts.sum()) == self.rows
            and len(self.history) <= MOST_POINTS
            and all(_is_point(point, 4) for point in self.history)
            and len(self.drifts) <= MOST_DRIFTS
            and all(_is_point(point, 3) for point in self.drifts)
            and 0 <= self.wrong_before <= self.before <= self.rows
            and len(self.lately) * LOOK <= LATELY
            and all(type(each) is int and 0 <= each <= LOOK for each in self.lately)
            and 0 <= self.wrong_now <= self.rows % LOOK
        )


def _is_point(found: Any, size: int) -> bool:
    """Is it a number of a row, with numbers that belong to it?"""
    return (
        isinstance(found, list | tuple)
        and len(found) == size
        and type(found[0]) is int
        and all(type(each) is float for each in found[1:])
    )
