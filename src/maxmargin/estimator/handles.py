"""What learning in other places needs of a learner: what it knows, and how it goes on."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from maxmargin.models.spec import ModelSpec
from maxmargin.training.state import State


def is_online(learner: BaseEstimator) -> bool:
    """Does it learn from some rows at a time?"""
    return all(hasattr(learner, name) for name in ("partial_fit", "_learnt", "_spec"))


def spec_of(learner: BaseEstimator) -> ModelSpec:
    """What its model is built from."""
    return learner._spec()


def state_of(learner: BaseEstimator) -> State | None:
    """All that it has learnt; None if that is nothing."""
    return learner._known()


def put(learner: BaseEstimator, state: State) -> None:
    """Let it know that, and nothing else."""
    learner._state = state


def holding(learner: BaseEstimator, state: State) -> Any:
    """A copy that knows that."""
    return learner._holding(state)


def learnt(
    learner: BaseEstimator,
    state: State | None,
    X: Any,
    y: Any,
    classes: Any,
    weight: np.ndarray | None,
) -> State:
    """What it knows after these rows, as by `partial_fit`; it does not change itself."""
    after, _ = learner._learnt(state, X, y, classes, sample_weight=weight)
    return after
