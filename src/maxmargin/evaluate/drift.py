"""What becomes of a learner when a detector says that the stream has drifted."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.base import BaseEstimator, clone

from maxmargin.evaluate.batching import Rows
from maxmargin.evaluate.drift_alarm import DriftAlarm
from maxmargin.evaluate.frozen_copies import CheckedBlock, FrozenModel, frozen_copy, strangeness
from maxmargin.training.protocol import state_of, trainer_of

ALARM, RESET, RESTART, BOOST = ACTIONS = "alarm", "reset", "restart", "boost"


# Rows that a frozen copy scores at once, first and later: those behind an alarm are scored in vain.
ROWS_SCORED, MOST_SCORED = 2**10, 2**15


class Detector(Protocol):
    """What is needed of a drift detector; those of river are such."""

    drift_detected: bool

    def update(self, x: Any, /) -> Any: ...


@dataclass(frozen=True)
class Drift:
    """A drift detector, and what is done when it detects a drift; see `progressive`.

    The detector is updated for each row that has been learned from, with 1 if its prediction was
    wrong and 0 if it was right. A `DriftAlarm` gets the scores of a frozen copy of the learner
    instead, which makes its alarms trustworthy.

    Parameters
    ----------
    detector : drift detector
        One of river, or anything with ``update(x)`` and ``drift_detected``. Learners get copies.
    action : {"alarm", "reset", "restart", "boost"} or callable, default="reset"
        "alarm": the drift is only reported. "reset": the learner forgets all. "restart": it does,
        and learns from the last ``rows`` rows again. "boost": it goes on, and the next ``rows``
        rows count ``factor`` times, as if its rate were so much higher. A function is called with
        the learner, and changes it as it likes.
    rows : int, default=500
    factor : float, default=10.0

    Examples
    --------
    >>> from maxmargin import NORMA
    >>> from maxmargin.evaluate import Drift, progressive
    >>> class Streak:
    ...     length, drift_detected = 0, False
    ...
    ...     def update(self, wrong):
    ...         self.length = self.length % 3 + 1 if wrong else 0
    ...         self.drift_detected = self.length == 3
    >>> X, y = [[1.0], [-1.0]] * 100, [1, 0] * 50 + [0, 1] * 50
    >>> progressive(NORMA(rate=0.01), X, y, on_drift=Drift(Streak(), "restart", rows=3)).drifts
    array([103])
    """

    detector: Any
    action: str | Callable[[Any], Any] = RESET
    rows: int = 500
    factor: float = 10.0

    def __post_init__(self) -> None:
        if not (hasattr(self.detector, "update") and hasattr(self.detector, "drift_detected")):
            raise TypeError(
                'on_drift must be "alarm", a drift detector, with update and drift_detected, or a '
                f"maxmargin.evaluate.Drift; got {self.detector!r}."
            )
        if self.action not in ACTIONS and not callable(self.action):
            raise ValueError(
                f"action must be one of {', '.join(map(repr, ACTIONS))}, or a function of the "
                f"learner; got {self.action!r}."
            )
        if not isinstance(self.rows, (int, np.integer)) or self.rows < 1:
            raise ValueError(f"rows must be a whole number of at least 1, got {self.rows!r}.")
        if not 0.0 < self.factor < np.inf:
            raise ValueError(f"factor must be a positive number, got {self.factor!r}.")


def as_drift(asked: Any) -> Drift:
    """What `progressive` does by a name or a detector alone."""
    if asked == ALARM:
        return Drift(DriftAlarm(), ALARM)
    return Drift(asked)


class Watch:
    """Watches one learner, and does what a `Drift` asks for."""

    def __init__(self, asked: Drift) -> None:
        self.asked, self.detector = asked, copy.deepcopy(asked.detector)
        self.drifts: list[int] = []  # numbers of rows after which a drift was detected
        self.seen = self.boosted = 0  # rows so far, and how many of the next ones count more
        self.is_frozen = bool(getattr(self.detector, "on_frozen_scores", False))
        self.frozen: Any = None  # a copy of the learner, whose scores the detector gets
        self.scored = ROWS_SCORED
        self.block: CheckedBlock  # the rows that are learned from just now
        self.waited = 0  # rows that the next copy has learned from since the last alarm
        self.before = 0  # rows before the block

    def rows_to_freeze(self) -> int:
        """After so many rows the learner is to be copied; 0 if it is not, or has been."""
        return self.detector.warm_up - self.waited if self.is_frozen and not self.frozen else 0

    def freeze(self, clf: BaseEstimator, rows: int) -> None:
        """Copy the learner if it is time, after it has learned from so many rows."""
        if not self.is_frozen or self.frozen is not None:
            return
        self.waited += rows
        if self.waited >= self.detector.warm_up:
            self.frozen, self.scored = frozen_copy(clf), ROWS_SCORED

    def pass_over(self, rows: int) -> int:
        """Count rows behind an alarm, at most those before the next copy; the number taken."""
        taken = min(rows, self.detector.warm_up) if self.asked.action == ALARM else 0
        self._count(taken)
        self.waited += taken
        return taken

    # ------------------------------------------------------------ alarms while the learner goes on
    def pauses_suffice(self, clf: Any) -> bool:
        """Can a learner learn from whole blocks, with pauses for copies?

        It can if alarms do not change it; and a recipe is part of what is frozen, so that it has to
        be there when rows are scored.
        """
        if not self.is_frozen or self.asked.action != ALARM:
            return False
        state = state_of(clf)
        has_recipe = state is not None and state.recipe is not None
        return not has_recipe and not trainer_of(clf).options.averages_kernels

    def begin(self, X: Any, codes: np.ndarray, shown: slice) -> int:
        """Watch a block of rows that are about to be learned from; see `Pauses`."""
        self.block = CheckedBlock(X, codes, shown)
        self.before, self.seen = self.seen, self.seen + codes.size
        return self._watched(0)

    def pause(self, model: Any, place: int) -> int:
        """Copy the model, and watch the rows from here on; see `Pauses`."""
        self.frozen, self.scored = FrozenModel(model, self.block), ROWS_SCORED
        return self._watched(place)

    def _watched(self, place: int) -> int:
        """Watch rows from a place on; the place at which the next copy is to be made."""
        size = self.block.codes.size
        while place < size:
            if self.frozen is None:
                due = place + self.detector.warm_up - self.waited
                self.waited += min(due, size) - place
                return due
            part = slice(place, min(place + self.scored, size))
            place += self.detector.update_many(self.frozen.strangeness(self.block, part))
            self.scored = min(MOST_SCORED, 2 * self.scored)
            if self.detector.drift_detected:
                self.drifts.append(self.before + place)
                self.frozen, self.waited = None, 0
        return size + 1

    def keeps_rows(self) -> int:
        """The number of last rows that may be learned from again."""
        return self.asked.rows if self.asked.action == RESTART else 0

    def update(self, rows: Rows, wrong: np.ndarray) -> int:
        """Update the detector row by row up to the first drift; the number of rows taken."""
        if self.is_frozen:
            return self.update_frozen(rows)
        for taken, each in enumerate(wrong.tolist(), 1):
            self.detector.update(int(each))
            if self.detector.drift_detected:
                self._count(taken)
                self.drifts.append(self.seen)
                return taken
        self._count(wrong.size)
        return wrong.size

    def update_frozen(self, rows: Rows) -> int:
        """`update` with the scores of the frozen copy, if there is one yet."""
        if self.frozen is None:
            self._count(rows.size())
            return rows.size()
        taken, is_detected = 0, False
        while taken < rows.size() and not is_detected:
            part = rows
            if rows.size() > self.scored:
                part = rows.part(slice(taken, taken + self.scored))
            taken += self.detector.update_many(strangeness(self.frozen, part))
            is_detected = self.detector.drift_detected
            self.scored = min(MOST_SCORED, 2 * self.scored)
        self._count(taken)
        if is_detected:
            self.drifts.append(self.seen)
            self.frozen, self.waited = None, 0
        return taken

    def _count(self, rows: int) -> None:
        self.seen += rows
        self.boosted = max(0, self.boosted - rows)

    def has_drifted(self) -> bool:
        """Was a drift detected with the last row?"""
        return bool(self.drifts) and self.drifts[-1] == self.seen

    def act(self, clf: BaseEstimator) -> None:
        """Take the action, except for learning from the last rows again."""
        if callable(self.asked.action):
            self.asked.action(clf)
        elif self.asked.action == BOOST:
            self.boosted = self.asked.rows
        elif self.asked.action != ALARM:
            become(clf, clone(clf))


def become(clf: BaseEstimator, other: BaseEstimator) -> None:
    """Give ``clf`` the state of ``other``, of the same class, by a single assignment."""
    clf.__dict__ = dict(vars(other))
