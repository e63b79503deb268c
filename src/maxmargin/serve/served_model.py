"""A served model as a function of its events: the learners, and what is kept beside them.

A replay in larger or smaller blocks gives the same state, to the bit.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import msgspec
import numpy as np

from maxmargin._extras import Self
from maxmargin.serve.drift_watch import DriftWatch, is_place_to_copy
from maxmargin.serve.events import DropShadow, Event, Lesson, NewShadow, Promotion, Waiting
from maxmargin.serve.http_errors import HTTPError, unprocessable
from maxmargin.serve.limits import Limits
from maxmargin.serve.scored_learner import (
    Count,
    HalfLearned,
    ScoredLearner,
    Tally,
    check_classes,
    checked_learner,
    new_learner,
    new_names,
)
from maxmargin.serve.snapshots import Beginning, Ids, Origin, Predictions, from_tree, tree_of

# Rows that are learned in one call, at most, where the events allow it.
BLOCK_ROWS = 4096

UNSAVED = ("name", "limits", "lost")

logger = logging.getLogger("maxmargin.serve")


class Outcome(NamedTuple):
    """What became of an event: its number, and why it was refused, if it was."""

    sequence: int
    refusal: HTTPError | None


class NoMemory(MemoryError):
    """The live learner has no memory for an event, and is as it was before it."""


class ServedModel(msgspec.Struct, kw_only=True, eq=False):
    """The live learner, its shadows, recent ids and predictions without labels.

    Snapshots hold its fields, but for the last three. ``sequence`` is the number of the last event,
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
    ids: Ids[int] = msgspec.field(default_factory=Ids)  # the last event of each
    labelled: Ids[tuple[Any, int]] = msgspec.field(default_factory=Ids)  # the label, too
    waiting: Predictions = msgspec.field(default_factory=Predictions)
    answers: Tally = msgspec.field(default_factory=Tally)
    drift: DriftWatch = msgspec.field(default_factory=DriftWatch)
    origin: Origin
    name: str = ""
    limits: Limits = msgspec.field(default_factory=Limits)
    lost: list[str] = []  # shadows out of memory, whose end is not in the log yet

    def __post_init__(self) -> None:
        """Check what comes from a file, which may be damaged."""
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
    def begun(cls, beginning: Beginning, schema: dict[str, Any] | None = None) -> ServedModel:
        """A model before its first event."""
        learner, classes = beginning
        live = ScoredLearner.of(learner, classes, schema)
        return cls(classes=classes, live=live, origin=beginning.origin())

    @classmethod
    def of(cls, content: dict[str, Any]) -> ServedModel:
        """The model in a snapshot; a ValueError says what is wrong."""
        saved = {name: each for name, each in content.items() if name not in UNSAVED}
        return msgspec.convert(saved, cls, dec_hook=from_tree)

    def content(self) -> dict[str, Any]:
        """What a snapshot holds, and the learner as model files have it."""
        tree = {
            name: tree_of(each)
            for name, each in msgspec.structs.asdict(self).items()
            if name not in UNSAVED
        }
        return {"learner": self.live.learner, **tree}

    def limited(self, name: str, limits: Limits) -> Self:
        """The model with its name and limits, which may be smaller than before."""
        self.name, self.limits = name, limits
        self.waiting = Predictions(self.waiting.waiting.values(), limits)
        return self

    @property
    def labels(self) -> list[Any]:
        return self.live.labels

    @property
    def codes(self) -> dict[Any, int]:
        return self.live.codes

    def place(self) -> str:
        return f"event {self.sequence:,}"

    def learned_as(self, key: str | None) -> int:
        """The number of the event with this id, by whichever route it came; 0 if there is none."""
        if key is None:
            return 0
        _, labelled = self.labelled.get(key) or (None, 0)
        return self.ids.get(key) or labelled

    # ----------------------------------------------------------------------------------- events
    def apply(self, events: Sequence[Event]) -> Iterator[Outcome]:
        """Apply events in the order of the log."""
        k = 0
        while k < len(events):
            event = events[k]
            if isinstance(event, Lesson):
                block = self._block(event, islice(events, k + 1, None))
                yield from self._learn(block)
                k += len(block)
            else:
                refusal = self._change(event)
                self.sequence += 1
                yield Outcome(self.sequence, refusal)
                k += 1

    def _block(self, first: Lesson, following: Iterable[Event]) -> list[Lesson]:
        """The first lesson, and those after it that can be learned in the same call."""
        block, rows = [first], first.size()
        if not all(scored.can_join for scored in (self.live, *self.shadows.values())):
            return block
        for event in following:
            if not isinstance(event, Lesson) or not alike(first, event):
                break
            if is_place_to_copy(self.rows, self.rows + rows):
                break
            rows += event.size()
            if rows > BLOCK_ROWS:
                break
            block.append(event)
        return block

    def _learn(self, lessons: list[Lesson]) -> Iterator[Outcome]:
        """Let all learners learn; shadows do not learn what the live one refuses."""
        try:
            why = learn_block(self.live, lessons)
        except HalfLearned:
            raise
        except MemoryError as error:
            if len(lessons) == 1:
                raise NoMemory(str(error)) from error
            why = str(error)
        if why is not None and len(lessons) > 1:
            for lesson in lessons:
                yield from self._learn([lesson])
            return
        if why is not None:
            self.sequence += 1
            yield Outcome(self.sequence, unprocessable(why))
            return
        codes = np.array([self.codes[label] for lesson in lessons for label in lesson.labels])
        try:
            self.drift.add(joined(lessons), codes, self.rows, self.live.learner)
        except MemoryError as error:
            raise HalfLearned(f"there was no memory to look for drift: {error}") from error
        for name, shadow in self.shadows.items():
            try:
                shadow.refused += count_refused(shadow, lessons)
            except MemoryError as error:
                logger.warning("%s: the shadow %s is dropped: %s", self.name, name, error)
                self.lost.append(name)
                self.shadows = without(self.shadows, name)
        outcomes = [Outcome(self._count(lesson), None) for lesson in lessons]
        answered = (lesson for lesson in lessons if lesson.answer is not None)
        wrong = [lesson.answer != self.codes[lesson.labels[0]] for lesson in answered]
        self.answers.count(np.array(wrong, dtype=bool))
        yield from outcomes

    def _count(self, lesson: Lesson) -> int:
        """Count a lesson that was learned, and remember its ids; its number."""
        self.sequence += 1
        self.events += 1
        self.rows += lesson.size()
        for key in lesson.ids:
            if key is not None:
                self.ids.add(key, self.sequence, self.limits.known_ids)
                self.waiting.remove(key)
        if lesson.prediction is not None:
            self.waiting.remove(lesson.prediction)
            label = lesson.labels[0], self.sequence
            self.labelled.add(lesson.prediction, label, self.limits.known_ids)
        return self.sequence

    def _change(self, event: Waiting | NewShadow | DropShadow | Promotion) -> HTTPError | None:
        """Apply an event that is not a lesson; the reason, if it is refused."""
        if isinstance(event, Waiting):
            for prediction in event.predictions:
                self.waiting.expire(prediction.time)
                self.waiting.add(prediction)
            return None
        if event.name in self.lost:
            if isinstance(event, Promotion):
                raise MemoryError(f"the shadow {event.name}, which was promoted, is too large.")
            self.lost.remove(event.name)
        try:
            self._check_possible(event)
        except HTTPError as refusal:
            return refusal
        others = without(self.shadows, event.name)
        if isinstance(event, NewShadow):
            self.shadows = {**self.shadows, event.name: self._new_shadow(event)}
            self.names.append(event.name)
        elif isinstance(event, DropShadow):
            self.shadows = others
        else:
            name = before = self.live.algorithm.lower()
            number = 2
            while name in others:
                name, number = f"{before}-{number}", number + 1
            self.live, self.shadows = self.shadows[event.name], {**others, name: self.live}
        for key in event.ids:
            self.ids.add(key, self.sequence + 1, self.limits.known_ids)
        return None

    # ----------------------------------------------------------------------------------- checks
    def check(self, event: Lesson | NewShadow | DropShadow | Promotion) -> None:
        """Raise a `HTTPError` if an event is impossible, or would exceed a limit.

        Events in the log are not checked against limits again.
        """
        if isinstance(event, Lesson):
            self._check_columns(event.rows)
            return
        self._check_possible(event)
        if isinstance(event, NewShadow):
            if len(self.shadows) >= self.limits.shadows:
                raise HTTPError(409, f"there are {len(self.shadows)} shadows already.")
            if (event.parameters.get("budget") or 0) > (most := self.limits.budget):
                raise unprocessable(f"the budget of a shadow is at most {most:,} rows.")
            shadow = self._new_shadow(event)
            self._check_numbers(self.columns(), shadow)
            self._check_learns(shadow)

    def _check_possible(self, event: NewShadow | DropShadow | Promotion) -> None:
        if not isinstance(event, NewShadow):
            if event.name not in self.shadows:
                raise HTTPError(404, f"there is no shadow {event.name!r}.")
            return
        if event.name in self.shadows:
            raise HTTPError(409, f"there is a shadow {event.name!r} already.")
        try:
            self._new_shadow(event)
        except Exception as error:  # the same whenever the log is replayed
            raise unprocessable(str(error) or type(error).__name__) from None

    def _new_shadow(self, event: NewShadow) -> ScoredLearner:
        learner = new_learner(event.algorithm, event.parameters)
        return ScoredLearner.of(learner, self.classes, self.live.schema_of_raw())

    def columns(self) -> int:
        learner = self.live.learner
        return int(learner.n_features_in_) if learner.__sklearn_is_fitted__() else 0

    def _check_columns(self, rows: Any) -> None:
        """Raise a `HTTPError` if the columns of these rows would be too many."""
        if self.live.preparing() is not None:  # the recipe decides on columns
            return
        before, most = self.columns(), self.limits.columns
        if isinstance(rows, list):
            columns = before + sum(map(len, rows))
            if columns <= most and self._numbers(columns) <= self.limits.numbers:
                return  # even if all names are new
            columns = before + len(new_names(self.live.learner, rows))
        else:
            columns = rows.shape[1]
        if columns > before:
            if columns > most:
                raise HTTPError(413, f"there would be {columns:,} columns; at most {most:,} fit.")
            self._check_numbers(columns)

    def _numbers(self, columns: int, *more: ScoredLearner) -> int:
        """How many numbers all learners keep, with so many columns."""
        return sum(each.numbers(columns) for each in (self.live, *self.shadows.values(), *more))

    def _check_numbers(self, columns: int, *more: ScoredLearner) -> None:
        needed, most = self._numbers(columns, *more), self.limits.numbers
        if needed > most:
            raise HTTPError(
                413,
                f"the learners would keep {needed:,} numbers for {columns:,} columns and "
                f"{self.classes.size:,} classes; at most {most:,} fit. Use fewer columns or "
                "shadows, a smaller budget, or a higher limit of numbers.",
            )

    def _check_learns(self, shadow: ScoredLearner) -> None:
        """Raise a `HTTPError` if a shadow, which is not used afterwards, can learn from no row."""
        row = np.zeros((1, self.columns() or 1))
        try:
            shadow.learner.partial_fit(row, self.classes[:1], classes=self.classes)
        except Exception as error:
            raise unprocessable(str(error) or type(error).__name__) from None


def without(shadows: dict[str, ScoredLearner], name: str) -> dict[str, ScoredLearner]:
    return {each: scored for each, scored in shadows.items() if each != name}


def blocks_of(events: Iterable[Event]) -> Iterator[list[Event]]:
    """Events that a replay applies together."""
    block: list[Event] = []
    rows = 0
    for event in events:
        block.append(event)
        rows += event.size() if isinstance(event, Lesson) else 1
        if rows >= BLOCK_ROWS:
            yield block
            block, rows = [], 0
    yield block


# --------------------------------------------------------------------------------- blocks of rows
def learn_block(scored: ScoredLearner, lessons: list[Lesson]) -> str | None:
    """Let a learner learn from lessons that are alike; the reason, if it refuses them."""
    try:
        codes = [scored.codes[label] for lesson in lessons for label in lesson.labels]
        scored.learn(joined(lessons), codes, _weights(lessons))
    except MemoryError:
        raise
    except Exception as error:  # whatever it is, the learner is as it was
        return str(error) or type(error).__name__
    return None


def count_refused(scored: ScoredLearner, lessons: list[Lesson]) -> int:
    """Let a learner learn from lessons that are alike; the number of those that it refuses."""
    if learn_block(scored, lessons) is None:
        return 0
    if len(lessons) == 1:
        return 1
    return sum(count_refused(scored, [lesson]) for lesson in lessons)


def alike(one: Lesson, other: Lesson) -> bool:
    """Can their rows be in one block?"""
    if (one.weights is None) != (other.weights is None):
        return False
    if isinstance(one.rows, np.ndarray):
        return isinstance(other.rows, np.ndarray) and one.rows.shape[1] == other.rows.shape[1]
    return isinstance(one.rows, list) and isinstance(other.rows, list)


def joined(lessons: list[Lesson]) -> Any:
    """The rows of lessons that are alike."""
    if len(lessons) == 1:
        return lessons[0].rows
    if isinstance(lessons[0].rows, list):
        return [row for lesson in lessons for row in lesson.rows]
    return np.concatenate([lesson.rows for lesson in lessons])


def _weights(lessons: list[Lesson]) -> np.ndarray | None:
    if lessons[0].weights is None:
        return None
    return np.array([weight for lesson in lessons for weight in lesson.weights or ()], dtype=float)
