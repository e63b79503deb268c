"""A learner that is served, and how well it predicts before it learns."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

import maxmargin
from maxmargin.estimator import OnlineClassifier
from maxmargin.evaluate.predictions import classes_by, hinge_losses
from maxmargin.models.build import check_fits
from maxmargin.models.spec import ModelSpec
from maxmargin.serve.progressive_stats import Count, ProgressiveStats
from maxmargin.streams import Recipe
from maxmargin.streams.iterators import entries
from maxmargin.streams.source import StreamError
from maxmargin.training.inputs import problems_for
from maxmargin.training.protocol import put_state, state_of, trainer_of
from maxmargin.training.recipes import restored, storable
from maxmargin.training.sample_weights import weights_by_label
from maxmargin.training.state import RECIPE

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


class SavedLearner(msgspec.Struct, eq=False, forbid_unknown_fields=True):
    """A `ScoredLearner` as snapshots hold it."""

    learner: Any  # msgspec would take a dataclass for a dict of its fields
    standing: ProgressiveStats
    schema: dict[str, Any] | None
    refused: Count


class ScoredLearner:
    """A learner, and how well it has predicted.

    ``schema`` is that of raw rows, with the recipe for them, for a learner that has not learned
    anything yet.
    """

    def __init__(
        self,
        learner: OnlineClassifier,
        classes: np.ndarray,
        stats: ProgressiveStats | None = None,
        schema: dict[str, Any] | None = None,
    ) -> None:
        self.learner, self.classes, self.schema = learner, classes, schema
        self.codes = {label: code for code, label in enumerate(classes.tolist())}
        self.stats = stats or ProgressiveStats.of(classes.size)
        self.refused = 0  # lessons that others could learn
        self.spec = trainer_of(learner).spec
        # Is what it learns the same, to the bit, if lessons are joined? Kernels are computed as
        # products of matrices, whose rounding depends on their shapes.
        self.can_join = self.spec.kernel == "linear" and self.spec.on_full is None

    @property
    def algorithm(self) -> str:
        return type(self.learner).__name__

    def numbers(self, columns: int) -> int:
        """About how many numbers the model keeps if rows have so many columns.

        Rows that a kernel model without a budget keeps are not counted: they come one by one.
        """
        return numbers_of(self.spec, columns) * problems_for(self.classes)

    def check_classes(self) -> None:
        """Raise a ValueError if its parameters are for other classes, so that it could not learn.

        Such are costs for another number of classes, and weights of classes that there are not.
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
            rows = self._as_wide(rows)
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

    def _as_wide(self, rows: np.ndarray) -> np.ndarray:
        """With columns for names that have come since the rows were read, which they have not."""
        missing = self.learner.n_features_in_ - rows.shape[1]
        if missing > 0 and hasattr(self.learner, "columns_"):
            return np.pad(rows, ((0, 0), (0, missing)))
        return rows

    # ------------------------------------------------------------------------------- for files
    def tree(self) -> dict[str, Any]:
        """What `SavedLearner` describes."""
        return {
            "learner": self.learner,
            "standing": msgspec.structs.asdict(self.stats),
            "schema": storable(self.schema),
            "refused": self.refused,
        }

    @classmethod
    def from_saved(cls, saved: SavedLearner, classes: np.ndarray) -> ScoredLearner:
        """The learner that was saved; a ValueError if it has other classes, or cannot be served."""
        learner, schema = checked_learner(saved.learner), restored(saved.schema)
        if schema is not None and not isinstance(schema.get(RECIPE), Recipe):
            raise ValueError("the schema has no recipe")
        if learner.__sklearn_is_fitted__() and not np.array_equal(learner.classes_, classes):
            raise ValueError("a learner has other classes than the model")
        if saved.standing.counts.size != classes.size:
            raise ValueError("the counts are not one for each class")
        scored = cls(learner, classes, saved.standing, schema)
        scored.refused = saved.refused
        return scored


def numbers_of(spec: ModelSpec, columns: int) -> int:
    """About how many numbers a model keeps for each of its problems."""
    if spec.experts:
        return sum(count * numbers_of(expert, columns) for expert, count in spec.experts)
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
