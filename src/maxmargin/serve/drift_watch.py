"""Drift alarms of a served model: a frozen copy of the live learner scores the rows that come.

A copy is made where the number of rows that the model has learned passes a multiple of
`ROWS_TO_COPY`, once the last alarm lies that far back. Lessons are not joined beyond such a place,
so that all of this is a function of the events alone.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from maxmargin.estimator import OnlineClassifier
from maxmargin.evaluate.drift_alarm import DriftAlarm
from maxmargin.evaluate.frozen_copies import frozen_copy, frozen_outputs
from maxmargin.evaluate.predictions import leads
from maxmargin.serve.scored_learner import Count, recipe_of, with_columns

ROWS_TO_COPY = 1000
MOST_ALARMS = 100


class DriftWatch(msgspec.Struct, kw_only=True, eq=False, forbid_unknown_fields=True):
    """Watches the rows that a model learns from, whichever learner is live.

    ``alarms`` are the rows that raised the last alarms, and ``begun`` is the row after which rows
    count for the next copy.
    """

    frozen: Any = None
    detector: DriftAlarm = msgspec.field(default_factory=DriftAlarm)
    begun: Count = 0
    alarms: Annotated[list[Count], Meta(max_length=MOST_ALARMS)] = []

    def add(self, rows: Any, codes: np.ndarray, seen: int, learner: OnlineClassifier) -> None:
        """Watch rows that ``learner`` has learned from, after so many others."""
        if self.frozen is not None:
            scores = -leads(self._outputs(rows), codes)
            taken = self.detector.update_many(scores)
            if self.detector.drift_detected:
                self.begun, self.frozen = seen + taken, None
                self.alarms = [*self.alarms[1 - MOST_ALARMS :], self.begun]
        now = seen + codes.size
        if self.frozen is None and is_place_to_copy(seen, now) and now - self.begun >= ROWS_TO_COPY:
            self.frozen = frozen_copy(learner)

    def _outputs(self, rows: Any) -> np.ndarray:
        frozen: Any = self.frozen
        if isinstance(rows, list) and recipe_of(frozen) is None:
            return np.array([np.ravel(frozen.decision_one(row)) for row in rows])
        if isinstance(rows, np.ndarray):  # names may have added columns that it does not have
            rows = with_columns(rows, frozen.n_features_in_)[:, : frozen.n_features_in_]
        return frozen_outputs(frozen, rows)


def is_place_to_copy(before: int, now: int) -> bool:
    """Has a multiple of `ROWS_TO_COPY` been passed?"""
    return before // ROWS_TO_COPY != now // ROWS_TO_COPY
