"""The training protocol: learning as functions from state to state."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.core.trace import MeanTrace, Trace
from maxmargin.models.spec import ModelSpec
from maxmargin.training.state import State

# The parameter `class_weight`.
ClassWeight = dict[Hashable, float] | str | None


@dataclass(frozen=True)
class Options:
    """The hyper-parameters that training reads, documented in `estimator.parameters`, and:

    name : of the learner, for messages
    settles : after a pass without an update there is never another one
    takes_several : rows can have several labels, with the linear kernel
    several_in_kernels : rows can have several labels with other kernels, too
    unset : names of unset parameters that help with inseparable rows
    """

    name: str
    fit_intercept: bool = True
    intercept_scaling: float | str = 1.0
    soft_margin: Any = 0.0
    kernel: Any = "linear"
    gamma: float | str = "scale"
    device: str = "cpu"
    average: bool = False
    budget: int | None = None
    multiclass: str = "ovr"
    max_iter: int = 1
    n_iter_no_change: int | None = None
    tol: float | None = None
    shuffle: bool = True
    random_state: Any = None
    class_weight: ClassWeight = None
    verbose: int = 0
    settles: bool = False
    takes_several: bool = True
    several_in_kernels: bool = False
    unset: tuple[str, ...] = ()

    @property
    def averages_kernels(self) -> bool:
        """True for averaged kernel coefficients, whose outputs no compiled loop computes."""
        return self.average and self.kernel != "linear"


# The options that are attributes of estimators with the same name.
SHARED = tuple(each.name for each in fields(Options) if each.name not in ("name", "unset"))


class Batch(NamedTuple):
    """Rows to learn from, as passed by users.

    Attributes
    ----------
    classes : all possible labels, for the first batch
    order : the order in which rows are learned; an entry ``-1 - i`` only scores row i
    grow : accept new columns and labels
    traced : record the outputs of each row before it is learned
    """

    X: ArrayLike
    y: ArrayLike
    classes: ArrayLike | None = None
    weight: ArrayLike | None = None
    order: np.ndarray | None = None
    grow: bool = False
    traced: bool = False


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
        owned: bool = False,
    ) -> Learned:
        """Learn from each row of a batch once.

        If no one else uses the state (``owned``), its arrays may be reused. They may also be
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
        """The trainer for the current hyper-parameters."""

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
