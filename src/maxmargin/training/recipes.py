"""Recipes stored in the state of a learner: raw rows in, features for the model out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.training.state import (
    RECIPE,
    Features,
    Matrix,
    State,
    Tree,
    grown,
    takes_unused_columns,
)


def recipe_of(state: State | None) -> Any:
    """The recipe of a learner, or None."""
    return None if state is None else state.recipe


def prepared(state: State, X: ArrayLike) -> Matrix:
    """``X`` after the recipe, if there is one."""
    return X if state.recipe is None else state.recipe.transform(X)


def learned_along(
    state: State, X: Matrix, sample_weight: ArrayLike | None = None
) -> tuple[State, Features | None, Matrix]:
    """A state whose recipe has learned from the rows, and the prepared rows.

    If recipes add columns, the model has spare ones. Then the state and the rows have them as well,
    and the caller has to replace the features of the state once the rows have been learned.
    """
    assert state.schema is not None
    ignored = None if sample_weight is None else np.asarray(sample_weight) == 0.0
    recipe, X = state.recipe.learned(X, ignored)
    state = state._replace(schema={**state.schema, RECIPE: recipe})
    if not recipe.plan_.grows:
        return state, None, X
    width, count = state.model.width(), X.shape[1]
    if count > width:
        width = 2 * count if takes_unused_columns(state, 2 * count) else count
        state = grown(state, width, state.classes)
    X.resize(X.shape[0], width)
    features = state.features
    state = state._replace(features=features._replace(count=width))
    return state, features._replace(count=count), X


def names_of(state: State) -> np.ndarray | None:
    """The feature names from a table, dicts or a recipe, or None."""
    if state.features.names is not None or state.schema is None:
        return state.features.names
    schema = state.schema
    if (recipe := state.recipe) is not None:
        return recipe.get_feature_names_out()
    names = schema.get("columns")
    if names is None:
        return None
    return np.array(names, dtype=object) if len(names) == state.features.count else None


# ---------------------------------------------------------------------------------------- for files
def storable(schema: Tree | None) -> Tree | None:
    """A schema as plain values for a file."""
    if schema is None or RECIPE not in schema:
        return schema
    return {**schema, RECIPE: schema[RECIPE].tree()}


def restored(schema: Any) -> Any:
    """The inverse of `storable`; raises a `ValueError` if the schema is damaged."""
    if not isinstance(schema, dict | None):
        raise ValueError(f"the schema is damaged: {schema!r:.40}")
    if schema is None or RECIPE not in schema:
        return schema
    from maxmargin.streams import Recipe

    if isinstance(schema[RECIPE], Recipe):  # of a pickle
        return schema
    return {**schema, RECIPE: Recipe.from_tree(schema[RECIPE])}
