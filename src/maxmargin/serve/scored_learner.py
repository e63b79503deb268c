"""A learner that is served, and the quality of its predictions.

All of it is a function of the rows in their order: blocks of any size give the same, to the bit.
Snapshots hold these types; msgspec checks their fields when a snapshot is read.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

import maxmargin
from maxmargin.estimator import OnlineClassifier
from maxmargin.evaluate.predictions import classes_by, hinge_losses
from maxmargin.models.build import check_fits
from maxmargin.models.spec import ModelSpec
from maxmargin.streams import Recipe
from maxmargin.streams.iterators import entries
from maxmargin.streams.source import StreamError
from maxmargin.training.inputs import problems_for
from maxmargin.training.protocol import put_state, state_of, trainer_of
from maxmargin.training.recipes import restored
from maxmargin.training.sample_weights import weights_by_label
from maxmargin.training.state import RECIPE

# The number of rows that "recent" is about.
RECENT = 1000
# Points of the history at most; every other one is dropped when there are more.
MOST_POINTS, FIRST_STEP = 300, 10

Count = Annotated[int, Meta(ge=0, lt=2**53)]


class Tally(msgspec.Struct, kw_only=True, eq=False, forbid_unknown_fields=True):
    """Counts of right and wrong predictions: of all of them, and of the recent ones."""

    rows: Count = 0
    mistakes: Count = 0
    # Which of the recent predictions were wrong; the oldest is overwritten first.
    recent_wrong: np.ndarray = msgspec.field(default_factory=lambda: np.zeros(RECENT, dtype=bool))

    def __post_init__(self) -> None:
        _check_array("recent_wrong", self.recent_wrong, bool, RECENT)
        if self.mistakes > self.rows:
            raise ValueError(f"there are {self.mistakes:,} mistakes in {self.rows:,} rows")

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


class ProgressiveStats(Tally, kw_only=True):
    """Counts and losses of predictions that a learner made just before it learned each row."""

    counts: np.ndarray  # rows of each class
    loss: float = 0.0  # the sum of the hinge losses
    recent_losses: np.ndarray = msgspec.field(default_factory=lambda: np.zeros(RECENT))
    step: Count = FIRST_STEP
    # List of (row, accuracy, recent accuracy, recent loss).
    history: Annotated[list[tuple[int, float, float, float]], Meta(max_length=MOST_POINTS)] = []

    @classmethod
    def of(cls, classes: int) -> ProgressiveStats:
        return cls(counts=np.zeros(classes, dtype=np.int64))

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_array("counts", self.counts, np.int64, self.counts.size)
        _check_array("recent_losses", self.recent_losses, np.float64, RECENT)
        if (self.counts < 0).any() or int(self.counts.sum()) != self.rows:
            raise ValueError("the counts of the classes do not add up to the number of rows")
        doublings, rest = divmod(self.step, FIRST_STEP)
        if rest or doublings.bit_count() != 1:
            raise ValueError(f"step must be {FIRST_STEP} times a power of two, got {self.step}")

    def add(self, truth: np.ndarray, wrong: np.ndarray, losses: np.ndarray) -> None:
        """Add rows: their class codes, which predictions were wrong, and their losses."""
        start, size = 0, truth.size
        while start < size:
            stop = min(size, start + self.step - self.rows % self.step)
            self._add(truth[start:stop], wrong[start:stop], losses[start:stop])
            start = stop

    def _add(self, truth: np.ndarray, wrong: np.ndarray, losses: np.ndarray) -> None:
        """Add rows up to the next point of the history."""
        self.recent_losses[np.arange(self.rows, self.rows + truth.size) % RECENT] = losses
        self.count(wrong)
        for loss in losses.tolist():  # one after another, as rows come
            self.loss += loss
        self.counts += np.bincount(truth, minlength=self.counts.size)
        if self.rows % self.step == 0:
            point = (self.rows, self.accuracy(), self.recent_accuracy(), self.recent_loss())
            self.history.append(point)
            if len(self.history) > MOST_POINTS:
                self.step *= 2
                self.history = [each for each in self.history if each[0] % self.step == 0]

    def mean_loss(self) -> float:
        return self.loss / self.rows if self.rows else math.nan

    def recent_loss(self) -> float:
        number = min(self.rows, RECENT)
        return float(self.recent_losses[:number].mean()) if number else math.nan

    def scores(self) -> dict[str, float]:
        return {
            "progressive_accuracy": self.accuracy(),
            "recent_progressive_accuracy": self.recent_accuracy(),
            "loss": self.mean_loss(),
            "recent_loss": self.recent_loss(),
        }

    def largest_class_share(self) -> float:
        return float(self.counts.max() / self.rows) if self.rows else math.nan


def _check_array(name: str, array: np.ndarray, dtype: type, size: int) -> None:
    if array.dtype != dtype or array.shape != (size,):
        raise ValueError(f"{name} must be {size} values of {dtype.__name__}")


# ---------------------------------------------------------------------------------------- learners
# Learners without a seed get one: what they learn must be the same whenever it is learned again.
SEED = 0


def new_learner(algorithm: str, parameters: dict[str, Any]) -> OnlineClassifier:
    """A learner by its name, that begins with nothing; a ValueError says why there is none."""
    names = {name.lower(): name for name in maxmargin.ALGORITHMS}
    plain = algorithm.lower().replace("-", "").replace("_", "")
    if plain not in names:
        raise ValueError(f"there is no algorithm {algorithm!r}; there are {', '.join(names)}.")
    learner = getattr(maxmargin, names[plain])()
    known = learner.get_params(deep=False)
    for name in parameters:
        if name not in known:
            raise ValueError(
                f"{names[plain]} has no parameter {name!r}; it has {', '.join(sorted(known))}."
            )
    return checked_learner(learner.set_params(**parameters))


def checked_learner(learner: object) -> OnlineClassifier:
    """The learner, if it can learn from events, with a seed; otherwise a ValueError."""
    name = type(learner).__name__
    if not isinstance(learner, OnlineClassifier) or not hasattr(learner, "partial_fit"):
        instead = ""
        if hasattr(learner, "steps"):
            instead = (
                " Serve a learner whose rows a Recipe prepares: "
                "fit_stream(streams.open(rows, recipe=Recipe()))."
            )
        raise ValueError(f"{name} does not learn row by row, and cannot be served.{instead}")
    if learner.random_state is None:
        learner.random_state = SEED
    learner.check_parameters()
    if (state := state_of(learner)) is not None:
        if state.multilabel:
            raise ValueError("rows with several labels cannot be served.")
        if not isinstance(recipe_of(learner), Recipe | None):
            raise ValueError("rows that another transformer than a Recipe prepares are not served.")
    else:
        learner.check_can_stream()
    return learner


def recipe_of(learner: OnlineClassifier) -> Any:
    try:
        return learner.recipe_
    except (AttributeError, NotFittedError):
        return None


class HalfLearned(MemoryError):
    """The learner has learned, but the counts beside it have not: only a replay can go on."""


class ScoredLearner(msgspec.Struct, dict=True, eq=False, forbid_unknown_fields=True):
    """A learner, and how well it has predicted; snapshots hold its fields.

    ``schema`` is that of raw rows, with the recipe for them, for a learner that has not learned
    anything yet. ``refused`` counts lessons that others could learn.
    """

    learner: Any  # msgspec would take a dataclass for a dict of its fields
    classes: np.ndarray
    stats: ProgressiveStats
    schema: dict[str, Any] | None = None
    refused: Count = 0

    @classmethod
    def of(
        cls, learner: OnlineClassifier, classes: np.ndarray, schema: dict[str, Any] | None = None
    ) -> ScoredLearner:
        """A learner without predictions."""
        return cls(learner, classes, ProgressiveStats.of(classes.size), schema)

    def __post_init__(self) -> None:
        """Check what comes from a file, which may be damaged, or from a request."""
        checked_learner(self.learner)
        _ = self.spec  # a ValueError if the parameters do not fit each other
        if self.schema is not None and not isinstance(self.schema.get(RECIPE), Recipe):
            self.schema = restored(self.schema)
            if not isinstance(self.schema.get(RECIPE), Recipe):
                raise ValueError("the schema has no recipe")
        if self.stats.counts.size != self.classes.size:
            raise ValueError("the counts are not one for each class")
        check_classes(self.learner, self.classes)

    @cached_property
    def labels(self) -> list[Any]:
        return self.classes.tolist()

    @cached_property
    def codes(self) -> dict[Any, int]:
        return {label: code for code, label in enumerate(self.labels)}

    @cached_property
    def spec(self) -> ModelSpec:
        return trainer_of(self.learner).spec

    @cached_property
    def can_join(self) -> bool:
        """Is what it learns the same, to the bit, if lessons are joined?

        Kernels are products of matrices, whose rounding depends on their shapes.
        """
        return self.spec.kernel == "linear" and self.spec.on_full is None

    @property
    def algorithm(self) -> str:
        return type(self.learner).__name__

    def numbers(self, columns: int) -> int:
        """About how many numbers the model keeps if rows have so many columns.

        Rows that a kernel model without a budget keeps are not counted: they come one by one.
        """
        return numbers_of(self.spec, columns) * problems_for(self.classes)

    def check_parameters(self) -> None:
        """Raise a ValueError if its parameters are for other classes, so that it could not learn.

        Examples are costs for another number of classes, and weights of unknown classes.
        """
        check_fits(self.spec, problems_for(self.classes))
        weights = self.learner.class_weight
        if weights is not None and not isinstance(weights, str):
            weights_by_label(weights, self.classes)

    def preparing(self) -> Recipe | None:
        """The recipe for its rows, if they are raw."""
        return recipe_of(self.learner) if self.schema is None else self.schema[RECIPE]

    def schema_of_raw(self) -> dict[str, Any] | None:
        """How its rows are read, if they are raw."""
        if self.schema is not None or self.preparing() is None:
            return self.schema
        state: Any = state_of(self.learner)
        return dict(state.schema)

    def learn(self, rows: Any, codes: list[int], weights: np.ndarray | None) -> None:
        """Learn from the rows, of the classes with these numbers.

        A ValueError refuses all of them, and changes nothing; nor does a MemoryError, but for
        `HalfLearned`.
        """
        truth = np.array(codes)
        y = self.classes[truth]
        classes = None if self.learner.__sklearn_is_fitted__() else self.classes
        schema = self.schema
        if schema is not None:
            ignored = None if weights is None else weights == 0.0
            recipe, rows = schema[RECIPE].learned(rows, ignored)
            schema = {**schema, RECIPE: recipe}
        elif classes is None and isinstance(rows, np.ndarray):
            columns = self.learner.n_features_in_
            if rows.shape[1] < columns and hasattr(self.learner, "columns_"):
                rows = with_columns(rows, columns)  # names have come since they were read
        order = np.arange(y.size, dtype=np.int32)
        before = self._trials()
        try:
            outputs, _ = self.learner.score_then_learn(rows, y, order, classes, weights)
        except MemoryError as error:
            if self._trials() != before:  # it came too late
                raise HalfLearned(
                    f"there was no memory to say what was learned: {error}"
                ) from error
            raise
        try:
            if schema is not None:
                state: Any = state_of(self.learner)
                put_state(self.learner, state._replace(schema=schema))
                self.schema = None
            wrong = classes_by(outputs) != truth
            self.stats.add(truth, wrong, hinge_losses(outputs, truth))
        except MemoryError as error:
            raise HalfLearned(f"there was no memory to count what was learned: {error}") from error

    def _trials(self) -> int:
        state = state_of(self.learner)
        return 0 if state is None else state.model.trials()


def check_classes(learner: OnlineClassifier, classes: np.ndarray) -> None:
    if learner.__sklearn_is_fitted__() and not np.array_equal(learner.classes_, classes):
        raise ValueError("a learner has other classes than the model")


def with_columns(rows: np.ndarray, columns: int) -> np.ndarray:
    """The rows, with columns of zeros if there are fewer than that."""
    missing = columns - rows.shape[1]
    return np.pad(rows, ((0, 0), (0, missing))) if missing > 0 else rows


def numbers_of(spec: ModelSpec, columns: int) -> int:
    """About how many numbers a model keeps for each of its problems."""
    if spec.experts:
        return sum(numbers_of(expert, columns) for expert in spec.experts)
    if spec.on_full is None or spec.budget is None:
        return columns
    has_products = spec.lengths or spec.on_full == "project"
    return spec.budget * (columns + (spec.budget if has_products else 1))


def new_names(learner: OnlineClassifier, rows: list[dict[str, Any]]) -> set[str]:
    """The names of columns that a learner does not have yet."""
    known: Any = getattr(learner, "columns_", None)
    if known is None:
        known = getattr(learner, "feature_names_in_", ())
    try:
        return {name for row in rows for name, _ in entries(row, "row")}.difference(known)
    except StreamError:  # the learner refuses such rows
        return set()


def outputs_of(learner: BaseEstimator, rows: Any) -> np.ndarray:
    """The scores of some rows, of any kind that can be learned from."""
    if isinstance(rows, list) and recipe_of(learner) is None:
        return np.array([learner.decision_one(row) for row in rows])
    return learner.decision_function(rows)
