"""The stored events once more: the model as it was after one of them, or another learner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from maxmargin.serve.beginnings import inner_of, servable
from maxmargin.serve.bodies import Refusal
from maxmargin.serve.database import Database
from maxmargin.serve.served_model import ServedModel, beginning


class Replay:
    """A model that learns from the events of a folder, which a server may use meanwhile.

    With ``learner``, which has learned nothing yet, this one learns instead of the folder's own.
    """

    def __init__(self, folder: Path, learner: Any = None) -> None:
        self.database = Database(folder, read_only=True)
        about = self.database.about()
        classes = np.array(msgspec.json.decode(about["classes"]))
        if learner is None:
            self.model = beginning(about, self.database.snapshots()[-1], classes)
        else:
            self.model = ServedModel(servable(learner), classes)
        self.refused = 0

    def run(self, until: int | None = None, end: float | None = None) -> None:
        """Learn from all events, or up to a number or a time."""
        for event in self.database.events():
            if (until is not None and event.sequence > until) or (end and event.time > end):
                break
            self.model.counts.sequence = event.sequence
            try:
                lesson = self.model.lesson_of(event)
                outputs = self.model.learn(lesson)
            except (Refusal, ValueError, ArithmeticError):  # by another learner or version
                self.refused += 1
            else:
                self.model.count(lesson, outputs)
        self.database.close()

    def report(self) -> dict[str, Any]:
        counts = self.model.counts
        return {
            "algorithm": type(inner_of(self.model.learner)).__name__,
            "sequence": counts.sequence,
            **counts.report(),
            "refused": self.refused,
            "drifts": counts.alarms,
        }
