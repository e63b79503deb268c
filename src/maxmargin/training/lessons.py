"""The complete way of a single row: it may be the first, or have new names or a new label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from maxmargin.models.linear_model import LinearModel
from maxmargin.streams.iterators import entries
from maxmargin.training.calibration import maps_for
from maxmargin.training.dict_rows import met, named_features
from maxmargin.training.fast_ways import fast_way
from maxmargin.training.feature_columns import Features
from maxmargin.training.inputs import check_values, shown
from maxmargin.training.learning import known_classes
from maxmargin.training.one_row import Locks, OneRow
from maxmargin.training.options import Batch, Options
from maxmargin.training.recipes import learned_along, recipe_of
from maxmargin.training.row_reading import Row, as_matrix
from maxmargin.training.state import State

if TYPE_CHECKING:
    from maxmargin.training.online import OnlineTrainer


class Lesson(NamedTuple):
    """A single row, and a state that has columns for its names.

    Attributes
    ----------
    x, y, weight, classes, grow : as in `learn_one`
    state : what learns; None before the first row
    features : the columns, with their names
    way : learns from the row in place; None if `learn_beside` has to
    """

    x: Row
    y: Any
    weight: float = 1.0
    classes: ArrayLike | None = None
    grow: bool = False
    state: State | None = None
    features: Features | None = None
    way: OneRow | None = None


def prepared_lesson(
    trainer: OnlineTrainer, lesson: Lesson, before: OneRow | None, access: Locks
) -> Lesson:
    """The lesson for a state that knows all its names, and the way to learn from it."""
    state, x, features = lesson.state, lesson.x, lesson.features
    if recipe_of(state) is not None:
        state, x = learned_along(state, [x], lesson.weight)
    elif isinstance(x, dict):
        x = dict(entries(x, "x"))
        state, features = met(x, state)
    if state is not None and isinstance(state.model, LinearModel):
        state = _for_learning_in_place(trainer.options, state, state.model)
    way = fast_way(trainer.options, state, before, access)
    if state is not None:
        rule = trainer.rule(state.model.p)
        is_new = way is not None and lesson.grow and lesson.y not in way.targets
        if way is not None and not is_new and way.can_learn(lesson.weight, rule):
            trainer.check_structure(state)
            way.rule = rule
        else:
            way = None
    return lesson._replace(x=x, state=state, features=features, way=way)


def _for_learning_in_place(options: Options, state: State, model: LinearModel) -> State:
    """With all arrays that a single row changes."""
    totals, maps = state.totals, None
    if options.class_weight == "balanced" and totals is None:
        totals = np.zeros(state.classes.size + 1)
    if options.calibration is not None:
        maps = maps_for(model) if state.calibration is None else state.calibration
    return state._replace(model=model.streaming(1), totals=totals, calibration=maps)


def learn_beside(trainer: OnlineTrainer, lesson: Lesson, access: Locks) -> State:
    """The state after a lesson without a fast way."""
    x, features, weight = lesson.x, lesson.features, lesson.weight
    row = x if sparse.issparse(x) else as_matrix(x, features)
    # The row has no names of its own.
    bare = lesson.state and lesson.state._replace(features=Features(row.shape[1]))
    batch = Batch(
        row,
        np.array([lesson.y]),
        lesson.classes,
        None if weight == 1.0 else weight,
        grow=lesson.grow,
    )
    state = trainer.learn(bare, batch, changing=access.changing).state
    return state if features is None else state._replace(features=features)


def class_of_zero(classes: ArrayLike | None) -> Any:
    """What a learner predicts that knows nothing but perhaps the classes."""
    if classes is None:
        return None
    known = known_classes(classes, None).tolist()
    return known[1] if len(known) == 2 else known[0]


def outputs_of_one(state: State, x: Row) -> np.ndarray:
    """The scores of a single row where there is no fast way."""
    row = as_matrix(x, named_features(state))
    check_values(row)
    return state.model.outputs(row)[:, shown(state)]
