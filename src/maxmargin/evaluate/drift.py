"""What becomes of a learner when a detector says that the stream has drifted."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.base import BaseEstimator, clone

from maxmargin.evaluate.batching import StreamRows
from maxmargin.evaluate.drift_alarm import DriftAlarm
from maxmargin.evaluate.nonconformity import fixed_copy, nonconformity

ALARM, RESET = ACTIONS = "alarm", "reset"
# Rows that a fixed copy scores at once: those behind an alarm are scored in vain.
ROWS_SCORED = 2**13


class Detector(Protocol):
    """What is needed of a drift detector; those of river are such."""

    drift_detected: bool

    def update(self, x: Any, /) -> Any: ...


@dataclass(frozen=True)
class Drift:
    """A drift detector, and what is done when it detects a drift; see `progressive`.

    The detector is updated for each row that has been learned from, with 1 if its prediction was
    wrong and 0 if it was right. A `DriftAlarm` gets the scores of a fixed copy of the learner
    instead, so that its bound on false alarms holds.

    Parameters
    ----------
    detector : drift detector
        One of river, or anything with ``update(x)`` and ``drift_detected``. Learners get copies.
    action : {"alarm", "reset"} or callable, default="reset"
        "alarm": the drift is only reported. "reset": the learner forgets all. A function is called
        with the learner, and changes it as it likes.

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
    >>> faster = Drift(Streak(), lambda clf: clf.set_params(rate=1.0))
    >>> progressive(NORMA(rate=0.01), X, y, on_drift=faster).drifts
    array([103])
    """

    detector: Any
    action: str | Callable[[Any], Any] = RESET

    def __post_init__(self) -> None:
        if not (hasattr(self.detector, "update") and hasattr(self.detector, "drift_detected")):
            raise TypeError(
                'on_drift must be "alarm", a drift detector, with update and drift_detected, or a '
                f"maxmargin.evaluate.Drift; got {self.detector!r}."
            )
        if self.action not in ACTIONS and not callable(self.action):
            raise ValueError(
                f"action must be {' or '.join(map(repr, ACTIONS))}, or a function of the "
                f"learner; got {self.action!r}."
            )


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
        self.seen = 0
        self.is_fixed = bool(getattr(self.detector, "on_fixed_scores", False))
        self.fixed: Any = None  # a copy of the learner, whose scores the detector gets
        self.waited = 0  # rows that the next copy has learned from since the last alarm

    def rows_to_copy(self) -> int:
        """After so many rows the learner is to be copied; 0 if it is not, or has been."""
        return self.detector.warm_up - self.waited if self.is_fixed and self.fixed is None else 0

    def update(self, wrong: np.ndarray) -> int:
        """Update the detector row by row up to the first drift; the number of rows taken."""
        taken = 0
        for each in wrong.tolist():
            taken += 1
            self.detector.update(int(each))
            if self.detector.drift_detected:
                break
        return self._counted(taken, self.detector.drift_detected)

    def update_by_scores(self, rows: StreamRows) -> int:
        """`update` by the scores of the fixed copy, if there is one yet."""
        if self.fixed is None:
            return self._counted(rows.size(), False)
        taken, is_detected = 0, False
        while taken < rows.size() and not is_detected:
            scores = nonconformity(self.fixed, rows.part(slice(taken, taken + ROWS_SCORED)))
            taken += self.detector.update_many(scores)
            is_detected = self.detector.drift_detected
        return self._counted(taken, is_detected)

    def _counted(self, rows: int, is_detected: bool) -> int:
        self.seen += rows
        if is_detected:
            self.drifts.append(self.seen)
            self.fixed, self.waited = None, 0
        return rows

    def has_drifted(self) -> bool:
        """Was a drift detected with the last row?"""
        return bool(self.drifts) and self.drifts[-1] == self.seen

    def copy_when_due(self, clf: BaseEstimator, rows: int) -> None:
        """Copy the learner if it is time, after it has learned from so many rows."""
        if self.rows_to_copy() and not self.has_drifted():
            self.waited += rows
            if self.waited >= self.detector.warm_up:
                self.fixed = fixed_copy(clf)

    def act(self, clf: BaseEstimator) -> None:
        if callable(self.asked.action):
            self.asked.action(clf)
        elif self.asked.action == RESET:
            become(clf, clone(clf))


def become(clf: BaseEstimator, other: BaseEstimator) -> None:
    """Give ``clf`` the state of ``other``, of the same class, by a single assignment."""
    clf.__dict__ = dict(vars(other))
