"""Another learner on the events of the past."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from maxmargin.persistence import ModelFileError, read_file
from maxmargin.persistence.checkpoints import KIND, CheckpointFile
from maxmargin.persistence.container import explained
from maxmargin.serve.event_log import read_log, segments_of
from maxmargin.serve.events import Lesson
from maxmargin.serve.registry import DEFAULT
from maxmargin.serve.scored_learner import checked_learner
from maxmargin.serve.served_model import ServedModel, blocks_of
from maxmargin.serve.service import LOG, SNAPSHOT, decoded_record
from maxmargin.serve.snapshots import Beginning
from maxmargin.training.state import RECIPE


class Replay:
    """A learner that begins with nothing, and the lessons of a log.

    ``folder`` is that of one model, or of all, if there is one called "default". ``refused`` counts
    lessons that the learner refused.
    """

    def __init__(self, folder: Path, learner: object) -> None:
        if not any(snapshots_in(folder)):
            folder = folder / DEFAULT
        found = last_of(snapshots_in(folder))
        if found is None:
            raise ValueError(f"{folder} is not the folder of a model that was served.")
        self.folder = folder / LOG
        schema = found.live.schema_of_raw()
        if schema is not None:
            recipe = schema[RECIPE]  # as it was before any row
            schema = {**schema, RECIPE: recipe.at(recipe.plan_, recipe.plan_.begin())}
        beginning = Beginning(checked_learner(learner), found.classes)
        self.model = ServedModel.begun(beginning, schema)
        segments = segments_of(self.folder)
        self.first = segments[0].first if segments else 1  # event that the log has
        self.refused = 0

    def run(self) -> None:
        """Learn from all events of the log."""
        records = read_log(self.folder, self.first - 1)
        events = (decoded_record(self.folder, record) for record in records)
        for block in blocks_of(event for event in events if isinstance(event, Lesson)):
            for outcome in self.model.apply(block):
                self.refused += outcome.refusal is not None

    def report(self) -> dict[str, Any]:
        model, stats = self.model, self.model.live.stats
        return {
            "algorithm": model.live.algorithm,
            "first_event": self.first,
            "events": model.events,
            "rows": model.rows,
            "refused": self.refused,
            "mistakes": stats.mistakes,
            **stats.scores(),
            "largest_class": stats.largest_class_share(),
            "drifts": model.drift.alarms,
        }


def last_of(paths: list[Path]) -> ServedModel | None:
    """The first snapshot that is whole; raises if there are files, and none is."""
    trouble: ModelFileError | None = None
    for path in paths:
        try:
            content = read_file(path, KIND)
            with explained(path):
                return ServedModel.of(content)
        except ModelFileError as error:
            trouble = trouble or error
    if trouble is not None:
        raise trouble
    return None


def snapshots_in(folder: Path) -> list[Path]:
    """The last one and the one before, as far as they are there: a server may be replacing them."""
    file = CheckpointFile(folder / SNAPSHOT)
    return [path for path in (file.path, file.previous) if path.exists()]
