"""Another learner on the events of the past."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.persistence import ModelFileError, read_file
from maxmargin.persistence.checkpoints import KIND, CheckpointFile
from maxmargin.persistence.container import explained
from maxmargin.serve.drift_watch import DriftWatch, SavedWatch, is_place_to_copy
from maxmargin.serve.event_log import read_log, segments_of
from maxmargin.serve.events import Lesson
from maxmargin.serve.registry import DEFAULT
from maxmargin.serve.scored_learner import ScoredLearner, checked_learner
from maxmargin.serve.served_model import BLOCK_ROWS, alike, joined, learn_block
from maxmargin.serve.service import LOG, SNAPSHOT, decoded_record
from maxmargin.serve.snapshots import Snapshot
from maxmargin.training.state import RECIPE


class Replay:
    """A learner that begins with nothing, and the lessons of a log.

    ``folder`` is that of one model, or of all, if there is one called "default". ``events`` counts
    lessons so far, ``rows`` their rows, and ``refused`` lessons that the learner refused.
    """

    def __init__(self, folder: Path, learner: object) -> None:
        if not any(snapshots_in(folder)):
            folder = folder / DEFAULT
        found = last_of(snapshots_in(folder))
        if found is None:
            raise ValueError(f"{folder} is not the folder of a model that was served.")
        self.folder = folder / LOG
        self.classes = found.classes
        schema = ScoredLearner.from_saved(found.live, found.classes).schema_of_raw()
        if schema is not None:
            recipe = schema[RECIPE]  # as it was before any row
            schema = {**schema, RECIPE: recipe.at(recipe.plan_, recipe.plan_.begin())}
        self.scored = ScoredLearner(checked_learner(learner), self.classes, schema=schema)
        self.drift = DriftWatch(SavedWatch(), self.classes)
        segments = segments_of(self.folder)
        self.first = segments[0].first if segments else 1  # event that the log has
        self.events = self.rows = self.refused = 0

    def run(self) -> None:
        """Learn from all events of the log."""
        block: list[Lesson] = []
        rows = 0
        for record in read_log(self.folder, self.first - 1):
            event = decoded_record(self.folder, record)
            if not isinstance(event, Lesson):
                continue
            is_full = rows + event.size() > BLOCK_ROWS or is_place_to_copy(
                self.rows, self.rows + rows
            )
            if block and (is_full or not alike(block[0], event)):
                self._teach(block)
                block, rows = [], 0
            block.append(event)
            rows += event.size()
        if block:
            self._teach(block)

    def _teach(self, lessons: list[Lesson]) -> None:
        if learn_block(self.scored, lessons) is None:
            codes = [self.scored.codes[label] for lesson in lessons for label in lesson.labels]
            self.drift.add(joined(lessons), np.array(codes), self.rows, self.scored.learner)
            self.events += len(lessons)
            self.rows += len(codes)
        elif len(lessons) == 1:
            self.refused += 1
        else:
            for lesson in lessons:
                self._teach([lesson])

    def report(self) -> dict[str, Any]:
        stats = self.scored.stats
        return {
            "algorithm": self.scored.algorithm,
            "first_event": self.first,
            "events": self.events,
            "rows": self.rows,
            "refused": self.refused,
            "mistakes": stats.mistakes,
            "progressive_accuracy": stats.accuracy(),
            "recent_progressive_accuracy": stats.recent_accuracy(),
            "loss": stats.mean_loss(),
            "recent_loss": stats.recent_loss(),
            "largest_class": stats.largest_class_share(),
            "drifts": self.drift.alarms,
        }


def last_of(paths: list[Path]) -> Snapshot | None:
    """The first snapshot that is whole; raises if there are files, and none is."""
    trouble: ModelFileError | None = None
    for path in paths:
        try:
            content = read_file(path, KIND)
            with explained(path):
                return Snapshot.of(content)
        except ModelFileError as error:
            trouble = trouble or error
    if trouble is not None:
        raise trouble
    return None


def snapshots_in(folder: Path) -> list[Path]:
    """The last one and the one before, as far as they are there: a server may be replacing them."""
    file = CheckpointFile(folder / SNAPSHOT)
    return [path for path in (file.path, file.previous) if path.exists()]
