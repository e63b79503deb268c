"""The training protocol: learning as functions from state to state."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.core.trace import MeanTrace, Trace
from maxmargin.models.spec import ModelSpec
from maxmargin.training.options import Batch, Options
from maxmargin.training.state import State

NOTHING = np.empty(0, dtype=np.int32)


class Fitted(NamedTuple):
    """The state after a fit, and a warning for the user, if any."""

    state: State
    warning: str = ""


class Learned(NamedTuple):
    """The result of learning from a batch.

    Attributes
    ----------
    state : afterwards
    trace : the outputs of rows before they were learned, if traced
    codes : the numbers of the classes of rows
    order : the places of ``trace``, as in `Batch`; rows of weight 0 are only scored
    """

    state: State
    trace: Trace | MeanTrace | None = None
    codes: np.ndarray = NOTHING
    order: np.ndarray = NOTHING


class Trainer(Protocol):
    """Learns for an estimator: its methods map a state to a new one.

    Methods do not change the given state, unless they say so, and a trainer keeps no reference to
    it. ``can_grow`` is True if later rows may have more columns.
    """

    options: Options
    can_grow: bool

    @property
    def spec(self) -> ModelSpec:
        """The specification of the model."""

    def fit(
        self,
        state: State | None,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
    ) -> Fitted:
        """Fit all rows, from scratch or, with a ``state``, from there."""

    def learn(
        self,
        state: State | None,
        batch: Batch,
        *,
        alone: bool = False,
    ) -> Learned:
        """Learn from each row of a batch once.

        If no one else uses the state (``alone``), its arrays may be reused. They may also be
        changed in place where a copy would cost more than learning: then Ctrl-C waits, and the
        state that is returned replaces the given one.
        """

    def outputs(self, state: State, X: ArrayLike) -> np.ndarray:
        """Outputs of shape (rows, visible problems)."""

    def check_can_stream(self) -> None:
        """Raise if a parameter depends on all rows of a fit."""


@runtime_checkable
class Learner(Protocol):
    """An estimator of this library: it has a trainer and a state."""

    def __trainer__(self) -> Trainer:
        """The trainer for the present hyper-parameters."""

    def __state__(self) -> State | None:
        """The state; None if not fitted."""

    def __put_state__(self, state: State) -> None:
        """Replace the state."""

    def __with_state__(self, state: State | None) -> Any:
        """A learner with the same parameters and this state."""


Kind = TypeVar("Kind")


def trainer_of(learner: object) -> Trainer:
    return _as_learner(learner).__trainer__()


def state_of(learner: object) -> State | None:
    return _as_learner(learner).__state__()


def put_state(learner: object, state: State) -> None:
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
