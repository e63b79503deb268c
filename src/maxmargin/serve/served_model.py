"""A served model: a learner and the quality of its predictions, as a function of the events.

Each event is learned by itself, so a rebuild from the events gives the same model, to the bit.
"""

from __future__ import annotations

import io
import itertools
import logging
import math
import threading
from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from maxmargin import LabelQueries, __version__
from maxmargin.certificates.error_bound import error_bound
from maxmargin.evaluate import DriftAlarm, explain
from maxmargin.evaluate.explanation import words_of
from maxmargin.evaluate.nonconformity import fixed_copy
from maxmargin.evaluate.predictions import classes_by, hinge_losses, leads
from maxmargin.persistence import load
from maxmargin.serve.beginnings import as_file, rebuilt
from maxmargin.serve.bodies import LEARN, LabelOne, LearnBody, PredictBody, Refusal, rows_of
from maxmargin.serve.database import Database, Event, Snapshot, Waiting

RECENT = 1000  # rows
# Points of the history at most; every other one is dropped when there are more.
MOST_POINTS, FIRST_STEP = 300, 10
# Rows before a copy of the learner is frozen to look for drift.
ROWS_TO_COPY, MOST_ALARMS = 1000, 100
LARGEST = 1e300  # score for the drift alarm
# Values and words of the rows of a request that can be explained, and contributions in an answer.
MOST_EXPLAINED, MOST_SHOWN = 500, 20

logger = logging.getLogger("maxmargin.serve")


class Tally(msgspec.Struct):
    """Counts of right and wrong predictions: of all, and of the recent ones."""

    rows: int = 0
    mistakes: int = 0
    recent_wrong: list[int] = []

    def count(self, wrong: list[int]) -> None:
        self.rows += len(wrong)
        self.mistakes += sum(wrong)
        self.recent_wrong += wrong
        del self.recent_wrong[:-RECENT]

    def accuracy(self) -> float:
        return 1.0 - self.mistakes / self.rows if self.rows else math.nan

    def recent_accuracy(self) -> float:
        recent = self.recent_wrong
        return 1.0 - sum(recent) / len(recent) if recent else math.nan


class Counts(msgspec.Struct, kw_only=True):
    """What is counted for the learner; snapshots hold it as JSON.

    ``progressive`` counts predictions made just before each row was learned, ``answers`` those that
    callers were given.
    """

    sequence: int = 0
    events: int = 0
    progressive: Tally = msgspec.field(default_factory=Tally)
    answers: Tally = msgspec.field(default_factory=Tally)
    loss: float = 0.0  # the sum of the hinge losses
    recent_losses: list[float] = []
    by_class: list[int]
    step: int = FIRST_STEP
    # (row, accuracy, recent accuracy, recent loss)
    history: list[tuple[int, float, float, float]] = []
    alarms: list[int] = []  # the rows that raised the last drift alarms
    watched_since: int = 0  # the row after which rows count for the next frozen copy
    alarm_state: dict[str, Any] | None = None  # only in snapshots

    def add(self, truth: np.ndarray, outputs: np.ndarray) -> None:
        """Count rows with these class codes and scores."""
        losses = hinge_losses(outputs, truth)
        before = self.progressive.rows // self.step
        self.progressive.count((classes_by(outputs) != truth).astype(int).tolist())
        self.loss += float(losses.sum())
        self.recent_losses += losses.tolist()
        del self.recent_losses[:-RECENT]
        for code in truth.tolist():
            self.by_class[code] += 1
        if self.progressive.rows // self.step != before:
            self._add_point()

    def _add_point(self) -> None:
        tally = self.progressive
        point = (tally.rows, tally.accuracy(), tally.recent_accuracy(), self.recent_loss())
        self.history.append(point)
        if len(self.history) > MOST_POINTS:
            self.step *= 2
            self.history = self.history[1::2]

    def recent_loss(self) -> float:
        return sum(self.recent_losses) / len(self.recent_losses) if self.recent_losses else math.nan

    def report(self) -> dict[str, Any]:
        """How good predictions just before learning were."""
        tally, rows = self.progressive, self.progressive.rows
        return {
            "rows": rows,
            "events": self.events,
            "mistakes": tally.mistakes,
            "progressive_accuracy": tally.accuracy(),
            "error_bound": error_bound(tally.mistakes, rows).bound if rows else None,
            "recent_progressive_accuracy": tally.recent_accuracy(),
            "largest_class_share": max(self.by_class) / rows if rows else None,
            "loss": self.loss / rows if rows else None,
            "recent_loss": self.recent_loss(),
        }


class Lesson:
    """Rows to learn from, all or none, with their labels as the model's classes."""

    __slots__ = ("answer", "codes", "ids", "prediction", "rows", "weights")

    def __init__(self, body: LearnBody, codes: list[int]) -> None:
        is_one = isinstance(body.label, int | float | str | bool)
        self.rows, self.codes = rows_of(body), codes
        self.weights = [body.weight] if is_one and body.weight is not None else body.weights
        self.ids = [body.id] if body.id is not None else body.ids or []
        self.prediction: str | None = None
        self.answer: int | None = None


class ServedModel:
    """A learner, and what is counted for it.

    `lock` is held while the learner changes; whoever predicts holds it, too.
    """

    def __init__(self, learner: Any, classes: np.ndarray) -> None:
        self.learner, self.classes = learner, classes
        self.labels: list[Any] = classes.tolist()
        self.codes = {label: code for code, label in enumerate(self.labels)}
        self.counts = Counts(by_class=[0] * len(self.labels))
        self.alarm, self.frozen = DriftAlarm(), None
        self.lock = threading.Lock()
        self.example: Any = None  # the last row that was learned
        self.is_fitted = bool(learner.__sklearn_is_fitted__())
        # A recipe has columns of its own; without one, new names are new columns.
        self.has_recipe = self.is_fitted and getattr(learner, "recipe_", None) is not None
        self.columns = self._known_columns()
        self.unknown_columns = self.missing_columns = 0  # in rows so far, since the start

    def _known_columns(self) -> set[str]:
        """The names of columns in rows; text makes a column "name=text"."""
        if self.has_recipe:
            return {column["name"] for column in self.learner.recipe_.columns_}
        names: Any = getattr(self.learner, "columns_", ()) if self.is_fitted else ()
        names = names or getattr(self.learner, "feature_names_in_", ())
        found = set[str]()
        for name in names:
            parts = name.split("=")
            found.update("=".join(parts[: k + 1]) for k in range(len(parts)))
        return found

    # ----------------------------------------------------------------------------------- lessons
    def codes_of(self, labels: Iterable[Any]) -> list[int]:
        """The numbers of the classes; 1.0 is the class 1."""
        try:
            return [self.codes[label] for label in labels]
        except KeyError as error:
            shown = ", ".join(map(str, self.labels[:20]))
            raise Refusal(
                422, f"the label {error.args[0]!r:.80} is not among the classes {shown}."
            ) from None

    def lesson(self, body: LearnBody) -> Lesson:
        """What a body teaches."""
        labels = [body.label] if isinstance(body.row, list | dict) else body.labels
        lesson = Lesson(body, self.codes_of(labels))  # type: ignore[arg-type]
        if self.has_recipe:
            self.check_columns(lesson.rows)
        return lesson

    def lesson_of(self, event: Event) -> Lesson:
        """What a stored event teaches."""
        lesson = self.lesson(LEARN.read(event.body, f"event {event.sequence:,}"))
        if event.prediction is not None and event.answer is not None:
            lesson.prediction = event.prediction
            lesson.answer = self.codes[msgspec.json.decode(event.answer)]
        return lesson

    def labelled(self, waiting: Waiting, given: LabelOne) -> tuple[Event, Lesson]:
        """The event that a label makes of a prediction; its number is the next one's place."""
        weight = "" if given.weight is None else f',"weight":{given.weight!r}'
        label = msgspec.json.encode(self.labels[self.codes_of([given.label])[0]]).decode()
        body = f'{{"row":{waiting.row},"label":{label}{weight},"id":{_quoted(given.id)}}}'
        event = Event(0, waiting.time, body, waiting.id, waiting.answer)
        return event, self.lesson_of(event)

    def check_columns(self, rows: Any) -> None:
        """Count unknown and missing columns; refuse rows without any that is known."""
        if not isinstance(rows, list) or not self.columns:
            return
        for k, row in enumerate(rows):
            hits = len(self.columns.intersection(row))
            if not hits:
                place = f"rows[{k}]: " if len(rows) > 1 else ""
                shown = ", ".join(sorted(self.columns)[:20])
                raise Refusal(
                    422,
                    f"{place}none of the columns {', '.join(list(row)[:20]) or '(none)':.500} is "
                    f"known; the model knows {shown:.500}.",
                )
            self.unknown_columns += len(row) - hits
            self.missing_columns += len(self.columns) - hits

    # ----------------------------------------------------------------------------------- learning
    def count(self, lesson: Lesson, outputs: np.ndarray) -> None:
        """Count a lesson that was learned, given the scores of its rows before that."""
        truth = np.array(lesson.codes)
        if not self.has_recipe and isinstance(lesson.rows, list):
            self.columns.update(*lesson.rows)
        self._look_for_drift(lesson.rows, truth)
        self.counts.add(truth, outputs)
        self.counts.events += 1
        if lesson.answer is not None:
            self.counts.answers.count([int(lesson.answer != lesson.codes[0])])

    def learn(self, lesson: Lesson) -> np.ndarray:
        """Learn from a lesson: the scores of its rows before each was learned.

        An exception refuses the lesson, and leaves the model as it was.
        """
        truth = np.array(lesson.codes)
        learner, rows, weights = self.learner, lesson.rows, lesson.weights
        classes = None if self.is_fitted else self.classes
        if len(rows) == 1 and (not self.has_recipe or isinstance(rows, list)):
            outputs = self._outputs(rows)
            weight = 1.0 if weights is None else weights[0]
            learner.learn_one(rows[0], self.labels[lesson.codes[0]], w=weight, classes=classes)
            self.is_fitted = True
            return outputs
        given = None if weights is None else np.array(weights)
        order = np.arange(truth.size, dtype=np.int32)
        is_asked = isinstance(learner, LabelQueries)
        learn = learner.learn_labelled if is_asked else learner.score_then_learn
        outputs, _ = learn(rows, self.classes[truth], order, classes, given)
        self.is_fitted = True
        return outputs.reshape(truth.size, -1)

    def _outputs(self, rows: Any) -> np.ndarray:
        """The scores of some rows; 0 before any was learned."""
        if not self.is_fitted:
            return np.zeros((len(rows), 1 if len(self.labels) == 2 else len(self.labels)))
        return outputs_of(self.learner, rows, self.has_recipe)

    def _look_for_drift(self, rows: Any, truth: np.ndarray) -> None:
        """Let a frozen copy score rows that were just learned, or freeze one when it is time."""
        counts = self.counts
        seen = counts.progressive.rows
        if self.frozen is not None:
            width = self.frozen.n_features_in_
            if isinstance(rows, np.ndarray) and rows.shape[1] > width:
                rows = rows[:, :width]  # names have added columns
            outputs = outputs_of(self.frozen, rows, self.has_recipe)
            scores = np.clip(np.nan_to_num(-leads(outputs, truth)), -LARGEST, LARGEST)
            taken = self.alarm.update_many(scores)
            if self.alarm.drift_detected:
                counts.watched_since, self.frozen = seen + taken, None
                counts.alarms = [*counts.alarms[1 - MOST_ALARMS :], counts.watched_since]
                logger.warning("drift alarm at row %d", counts.watched_since)
        elif seen + truth.size - counts.watched_since >= ROWS_TO_COPY:
            self.frozen = fixed_copy(getattr(self.learner, "estimator_", self.learner))

    # --------------------------------------------------------------------------------- predicting
    def predict(self, rows: Any, asked: PredictBody) -> dict[str, list[Any]]:
        """The fields of an answer, with a value for each row."""
        learner, labels = self.learner, self.labels
        is_more = asked.scores or asked.proba or asked.set or asked.ask or asked.why
        self.check_columns(rows)
        try:
            is_single = len(rows) == 1 and (not self.has_recipe or isinstance(rows, list))
            if is_single and self.is_fitted and not is_more:
                return {"prediction": [learner.predict_one(rows[0])]}
            outputs = self._outputs(rows)
            found = {"prediction": [labels[code] for code in classes_by(outputs).tolist()]}
            if asked.scores:
                each = np.hstack([-outputs, outputs]) if outputs.shape[1] == 1 else outputs
                found["scores"] = self._by_class(each)
            if asked.proba:
                found["probabilities"] = self._by_class(self._probabilities(rows))
            if asked.set:
                found["set"] = self._sets(rows)
            if asked.ask:
                found["ask"] = self._questions(rows)
            if asked.why:
                found["why"] = self._contributions(rows)
        except (ValueError, OverflowError) as error:  # an integer may be too large for a float
            raise Refusal(422, str(error)) from None
        return found

    def _probabilities(self, rows: Any) -> np.ndarray:
        if not hasattr(self.learner, "predict_proba"):
            raise Refusal(422, "proba: this learner has no probabilities; AutoMargin has.")
        if isinstance(rows, list):
            return np.array([list(self.learner.predict_proba_one(row).values()) for row in rows])
        return self.learner.predict_proba(rows)

    def _sets(self, rows: Any) -> list[list[Any]]:
        """The classes in the prediction set of each row; all of them before any row was learned."""
        if not hasattr(self.learner, "predict_set_one"):
            raise Refusal(422, "set: there are prediction sets only with serve --coverage.")
        if not self.is_fitted:
            return [list(self.labels)] * len(rows)
        found = [self.learner.predict_set_one(row) for row in rows]
        return [[label for label in self.labels if label in each] for each in found]

    def _questions(self, rows: Any) -> list[bool]:
        """Whether to ask for the label of each row, which counts it as seen.

        These counts are no events: a server that starts again has those of the last snapshot.
        """
        if not isinstance(self.learner, LabelQueries):
            raise Refusal(422, "ask: this model asks for no labels; LabelQueries does.")
        return [self.learner.query_one(row) for row in rows]

    def _contributions(self, rows: Any) -> list[dict[str, float]]:
        """The largest contributions to the prediction for each row; none before any was learned."""
        if not self.is_fitted:
            return [{} for _ in rows]
        values = [row.values() if isinstance(row, dict) else row for row in rows]
        size = sum(len(words_of(v)) if isinstance(v, str) else 1 for row in values for v in row)
        if size > MOST_EXPLAINED:
            raise Refusal(
                422,
                f"why: the rows of a request can have {MOST_EXPLAINED} values and words, "
                f"these have {size:,}.",
            )
        found = [explain(self.learner, row).contributions for row in rows]
        return [dict(itertools.islice(each.items(), MOST_SHOWN)) for each in found]

    def _by_class(self, numbers: np.ndarray) -> list[dict[str, float]]:
        names = [str(label) for label in self.labels]
        return [dict(zip(names, each, strict=True)) for each in numbers.tolist()]

    # ---------------------------------------------------------------------------------- snapshots
    def file(self) -> tuple[bytes, int]:
        """The model file between two events, and the number of the last one."""
        with self.lock:
            return as_file(self.learner), self.counts.sequence

    def snapshot(self, time: float) -> Snapshot:
        """The model as it is stored."""
        state = self.alarm.state()
        plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in state.items()}
        counts = msgspec.json.encode(msgspec.structs.replace(self.counts, alarm_state=plain))
        frozen = None if self.frozen is None else as_file(self.frozen)
        sequence, file = self.counts.sequence, as_file(self.learner)
        return Snapshot(sequence, time, __version__, file, frozen, counts.decode())

    @classmethod
    def restored(cls, snapshot: Snapshot, classes: np.ndarray) -> ServedModel:
        """The model of a snapshot; an exception if this version cannot read it."""
        model = cls(load(io.BytesIO(snapshot.learner)), classes)
        model.counts = msgspec.json.decode(snapshot.counts, type=Counts)
        state = model.counts.alarm_state or {}
        arrays = {name: np.array(value) for name, value in state.items()}
        arrays["wealth"] = arrays["wealth"].astype(np.float64)
        model.alarm = model.alarm.restore(arrays)
        if snapshot.frozen is not None:
            model.frozen = load(io.BytesIO(snapshot.frozen))
        return model


def outputs_of(learner: Any, rows: Any, has_recipe: bool) -> np.ndarray:
    """The scores of rows, of shape (rows, outputs)."""
    if isinstance(rows, list) and (not has_recipe or len(rows) == 1):
        return np.array([np.ravel(learner.decision_one(row)) for row in rows])
    return learner.decision_function(rows).reshape(len(rows), -1)


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def opened(database: Database) -> ServedModel:
    """The model of a data folder, as of its last snapshot that this version can read."""
    about = database.about()
    classes = np.array(msgspec.json.decode(about["classes"]))
    *later, base = database.snapshots()
    for snapshot in later:
        try:
            return ServedModel.restored(snapshot, classes)
        except (ValueError, KeyError, TypeError) as error:
            logger.warning(
                "the snapshot after event %d, by version %s, cannot be read (%s): the model is "
                "rebuilt from the events",
                *(snapshot.sequence, snapshot.version, error),
            )
    return beginning(about, base, classes)


def beginning(about: dict[str, str], base: Snapshot, classes: np.ndarray) -> ServedModel:
    """The model before the first event."""
    try:
        return ServedModel(rebuilt(about, base.learner), classes)
    except (ValueError, TypeError, AttributeError) as error:  # parameters and learners may leave
        raise ValueError(
            f"the model that the folder began with, by version {base.version}, cannot be read "
            f"({error}): install that version, and download the model from there."
        ) from None
