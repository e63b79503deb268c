"""What a served model begins with, and what its snapshots hold."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np

from maxmargin.estimator import OnlineClassifier
from maxmargin.evaluate.drift_alarm import DriftAlarm
from maxmargin.serve.drift_watch import DriftWatch
from maxmargin.serve.scored_learner import (
    Count,
    ScoredLearner,
    Tally,
    check_classes,
    checked_learner,
)
from maxmargin.streams import Recipe


class Origin(msgspec.Struct, eq=False, forbid_unknown_fields=True):
    """The learner that a model began with, to recognize the same one when it is given again."""

    algorithm: str
    parameters: str
    classes: np.ndarray


class Beginning(NamedTuple):
    """The learner and the classes of a model without a state."""

    learner: OnlineClassifier
    classes: np.ndarray

    @classmethod
    def of(cls, learner: object, classes: Any = None) -> Beginning:
        """Of a learner, fitted or with ``classes``; a ValueError says what is wrong."""
        learner = checked_learner(learner)
        if learner.__sklearn_is_fitted__():
            fitted = learner.classes_
            if classes is not None and not np.array_equal(np.unique(classes), fitted):
                raise ValueError(f"the model has the classes {fitted.tolist()}, not {classes}.")
            return cls(learner, fitted)
        if classes is None:
            raise ValueError("a learner that is not fitted needs classes: all labels.")
        unique = np.unique(classes)
        if unique.size < 2:
            raise ValueError(f"there must be at least two classes, got {unique.tolist()}.")
        ScoredLearner.of(learner, unique).check_parameters()
        return cls(learner, unique)

    def origin(self) -> Origin:
        parameters = sorted(self.learner.get_params(deep=False).items())
        return Origin(type(self.learner).__name__, repr(parameters), self.classes)


class Snapshot(msgspec.Struct, kw_only=True, eq=False):
    """The state of a served model after the event ``sequence``.

    ``events`` counts the lessons that were learned and ``rows`` their rows. ``answers`` counts
    predictions as they were served, and ``drift`` looks for changes in the rows, by whichever
    learner was live.
    """

    sequence: Count = 0
    events: Count = 0
    rows: Count = 0
    classes: np.ndarray
    live: ScoredLearner
    shadows: dict[str, ScoredLearner] = {}
    names: list[str] = []  # of all shadows that there have been
    # JSON of `recent_ids`.
    ids: str = "[]"
    labelled: str = "[]"
    waiting: str = "[]"
    answers: Tally = msgspec.field(default_factory=Tally)
    drift: DriftWatch = msgspec.field(default_factory=DriftWatch)
    origin: Origin

    def __post_init__(self) -> None:
        if self.classes.ndim != 1 or self.classes.size < 2:
            raise ValueError("classes must be an array of at least two labels")
        if not np.array_equal(np.unique(self.classes), self.classes):
            raise ValueError("classes must be sorted and distinct")
        for scored in (self.live, *self.shadows.values()):
            if not np.array_equal(scored.classes, self.classes):
                raise ValueError("a learner has other classes than the model")
        if self.drift.frozen is not None:
            check_classes(checked_learner(self.drift.frozen), self.classes)

    @classmethod
    def of(cls, content: dict[str, Any]) -> Snapshot:
        """The content of a file, checked; a ValueError says what is wrong."""
        return msgspec.convert(content, cls, dec_hook=_from_file)


def tree_of(value: Any) -> Any:
    """What a model file holds for a part of a snapshot."""
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, dict):
        return {name: tree_of(each) for name, each in value.items()}
    if isinstance(value, DriftAlarm):
        return value.state()
    return value.tree() if isinstance(value, Recipe) else value


def _from_file(kind: type, value: Any) -> Any:
    """Arrays of a file share its buffer, which is not kept for a part of it."""
    if kind is DriftAlarm:
        return DriftAlarm().restore(value)
    return value.copy() if isinstance(value, np.ndarray) else value
