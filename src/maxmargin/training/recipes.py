"""Recipes that travel with a learner: raw rows in, features for the model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.training.state import RECIPE, State
from maxmargin.training.types import Matrix, Tree


def recipe_of(state: State | None) -> Any:
    """What prepares the rows of a learner; None if they come prepared."""
    return None if state is None else state.recipe


def prepared(state: State, X: ArrayLike) -> Matrix:
    """Rows as the model takes them."""
    return X if state.recipe is None else state.recipe.transform(X)


def learned_along(
    state: State | None, X: ArrayLike, sample_weight: ArrayLike | None = None
) -> tuple[State | None, Matrix]:
    """The state whose recipe has learned from rows of some weight, and the rows prepared."""
    if state is None or state.schema is None or (recipe := state.recipe) is None:
        return state, X
    if not hasattr(recipe, "learned"):
        return state, recipe.transform(X)
    ignored = None if sample_weight is None else np.asarray(sample_weight) == 0.0
    recipe, X = recipe.learned(X, ignored)
    return state._replace(schema={**state.schema, RECIPE: recipe}), X


def names_of(state: State) -> np.ndarray | None:
    """The names of the features, from a table, from dicts or from a recipe."""
    if state.features.names is not None or state.schema is None:
        return state.features.names
    schema = state.schema
    if hasattr(recipe := state.recipe, "get_feature_names_out"):
        return recipe.get_feature_names_out()
    names = schema.get("columns")
    if names is None:
        return None
    if (vocabulary := schema.get("vocabulary")) is not None:
        from maxmargin.streams.recipe_plan import identity_plan

        kinds = {name: schema["kinds"][name] for name in names}
        plan, known = identity_plan(kinds, vocabulary)
        names = plan.feature_names(known)
    return np.array(names, dtype=object) if len(names) == state.features.count else None


# ---------------------------------------------------------------------------------------- for files
def storable(schema: Tree | None) -> Tree | None:
    """A schema in what files hold."""
    if schema is None or RECIPE not in schema:
        return schema
    if not hasattr(schema[RECIPE], "tree"):
        raise TypeError(
            f"A learner whose rows {type(schema[RECIPE]).__name__} prepares cannot be saved, nor "
            "have checkpoints: use a maxmargin.streams.Recipe, or pickle for files that you trust."
        )
    return {**schema, RECIPE: schema[RECIPE].tree()}


def restored(schema: Any) -> Any:
    """What `storable` was made from; raises a `ValueError` if it is damaged."""
    if not isinstance(schema, dict) or RECIPE not in schema:
        return schema
    from maxmargin.streams import Recipe

    return {**schema, RECIPE: Recipe.from_tree(schema[RECIPE])}
