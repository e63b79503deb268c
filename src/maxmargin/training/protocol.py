"""What learners have in common, whatever they learn by: functions from state to state."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.core.trace import MeanTrace, Trace
from maxmargin.models.spec import ModelSpec
from maxmargin.training.options import Batch, Options
from maxmargin.training.passes import RunPasses
from maxmargin.training.state import State

# Lets callbacks watch the passes of a fit, given its first state and its rows, labels and weights.
Watch = Callable[[RunPasses, State, tuple[Any, Any, Any]], RunPasses]
# For arrays that no other thread reads while they are changed in place.
UNSHARED: AbstractContextManager[object] = nullcontext()


class Fitted(NamedTuple):
    """The state after a fit, a warning for the user, and Ctrl-C if that has ended it."""

    state: State
    warning: str = ""
    interrupted: KeyboardInterrupt | None = None


class Learned(NamedTuple):
    """The state after some rows, and their outputs before each was learned, if asked for."""

    state: State
    trace: Trace | MeanTrace | None = None


class Trainer(Protocol):
    """Learns for an estimator: its methods take a state and give another one.

    A state stays as it is, unless a method says otherwise, and a trainer keeps nothing of it. What
    a learner cannot do raises an error that says so.

    Attributes
    ----------
    options : the hyper-parameters that it reads
    can_grow : can rows become wider on the way?
    """

    options: Options
    can_grow: bool

    @property
    def spec(self) -> ModelSpec:
        """What a model is built from."""

    def fit(
        self,
        state: State | None,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        watch: Watch | None = None,
    ) -> Fitted:
        """Learn from all rows, from the beginning or from a ``state`` on."""

    def learn(
        self,
        state: State | None,
        batch: Batch,
        *,
        alone: bool = False,
        changing: AbstractContextManager[object] = UNSHARED,
    ) -> Learned:
        """Learn from each row of a batch once.

        If no other code has the state (``alone``), its arrays may be used for the new one. They may
        also be changed in place, all at once and while ``changing`` is held, for a single row.
        """

    def outputs(self, state: State, X: ArrayLike) -> np.ndarray:
        """The outputs for rows, one column for each problem that users see."""

    def check_can_stream(self) -> None:
        """Raise if a parameter is one that only all rows together can tell."""


@runtime_checkable
class Learner(Protocol):
    """What has a trainer and a state: an estimator of this library."""

    def __trainer__(self) -> Trainer:
        """The trainer for the present hyper-parameters."""

    def __state__(self) -> State | None:
        """All that was learned; None before."""

    def __put_state__(self, state: State) -> None:
        """Replace all that was learned."""

    def __with_state__(self, state: State | None) -> Any:
        """A learner with the same parameters and this state."""


Kind = TypeVar("Kind")


def trainer_of(learner: object) -> Trainer:
    """What learns for a learner; a TypeError if it is not one of this library."""
    return _as_learner(learner).__trainer__()


def state_of(learner: object) -> State | None:
    """All that it has learned; None if that is nothing."""
    return _as_learner(learner).__state__()


def put_state(learner: object, state: State) -> None:
    """Replace all that it has learned."""
    _as_learner(learner).__put_state__(state)


def with_state(learner: Kind, state: State | None) -> Kind:
    """A copy of a learner with this state."""
    return cast(Kind, _as_learner(learner).__with_state__(state))


def is_learner(learner: object) -> bool:
    return isinstance(learner, Learner)


def _as_learner(learner: object) -> Learner:
    if not isinstance(learner, Learner):
        raise TypeError(f"{type(learner).__name__} is not a learner of maxmargin.")
    return learner
