"""What a served model begins with, and how its parts stand in a snapshot."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Generic, NamedTuple, TypeVar, get_args, get_origin

import msgspec
import numpy as np

from maxmargin.estimator import OnlineClassifier
from maxmargin.evaluate.drift_alarm import DriftAlarm
from maxmargin.serve.events import Prediction
from maxmargin.serve.limits import Limits
from maxmargin.serve.scored_learner import ScoredLearner, checked_learner
from maxmargin.streams import Recipe

V = TypeVar("V")


class Origin(msgspec.Struct, eq=False, forbid_unknown_fields=True):
    """The learner that a model began with, to recognize the same one when it is given again."""

    algorithm: str
    parameters: str
    classes: np.ndarray


class Beginning(NamedTuple):
    """The learner and the classes of a model without a state."""

    learner: OnlineClassifier
    classes: np.ndarray

    @classmethod
    def of(cls, learner: object, classes: Any = None) -> Beginning:
        """Of a learner, fitted or with ``classes``; a ValueError says what is wrong."""
        learner = checked_learner(learner)
        if learner.__sklearn_is_fitted__():
            fitted = learner.classes_
            if classes is not None and not np.array_equal(np.unique(classes), fitted):
                raise ValueError(f"the model has the classes {fitted.tolist()}, not {classes}.")
            return cls(learner, fitted)
        if classes is None:
            raise ValueError("a learner that is not fitted needs classes: all labels.")
        unique = np.unique(classes)
        if unique.size < 2:
            raise ValueError(f"there must be at least two classes, got {unique.tolist()}.")
        ScoredLearner.of(learner, unique).check_parameters()
        return cls(learner, unique)

    def origin(self) -> Origin:
        parameters = sorted(self.learner.get_params(deep=False).items())
        return Origin(type(self.learner).__name__, repr(parameters), self.classes)


class Ids(OrderedDict[str, V], Generic[V]):
    """A dict of the most recent ids."""

    def add(self, key: str, value: V, most: int) -> None:
        """Remember an id; the oldest goes when there are too many."""
        self[key] = value
        if len(self) > most:
            self.popitem(last=False)


class Predictions:
    """Predictions that wait for their labels; the oldest go when there are too many, or too large.

    What is kept is a function of the events in the log, at the times that stand there: looking one
    up changes nothing.
    """

    def __init__(
        self, predictions: Iterable[Prediction] = (), limits: Limits | None = None
    ) -> None:
        self.limits = limits or Limits()
        self.waiting: OrderedDict[str, Prediction] = OrderedDict()
        self.bytes = 0
        for prediction in predictions:
            self.add(prediction)

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, one: Prediction) -> None:
        """Keep a prediction, in place of one with the same id that has expired."""
        self.remove(one.id)
        self.waiting[one.id] = one
        self.bytes += one.size()
        limits = self.limits
        while len(self.waiting) > limits.waiting or self.bytes > limits.waiting_bytes:
            self.remove(next(iter(self.waiting)))

    def get(self, key: str, now: float) -> Prediction | None:
        """The prediction with this id; None if the id is unknown or has expired."""
        one = self.waiting.get(key)
        return None if one is None or self._has_expired(one, now) else one

    def expire(self, now: float) -> None:
        """Remove the oldest ones that have expired."""
        while self.waiting and self._has_expired(one := next(iter(self.waiting.values())), now):
            self.remove(one.id)

    def _has_expired(self, one: Prediction, now: float) -> bool:
        return one.time < now - self.limits.waiting_seconds

    def remove(self, key: str) -> None:
        one = self.waiting.pop(key, None)
        if one is not None:
            self.bytes -= one.size()


# ---------------------------------------------------------------------------------------- for files
def tree_of(value: Any) -> Any:
    """What a model file holds for a part of a model."""
    if isinstance(value, Ids):
        return msgspec.json.encode([*value.items()]).decode()
    if isinstance(value, Predictions):
        return msgspec.json.encode([*value.waiting.values()]).decode()
    if isinstance(value, msgspec.Struct):
        value = msgspec.structs.asdict(value)
    if isinstance(value, dict):
        return {name: tree_of(each) for name, each in value.items()}
    if isinstance(value, DriftAlarm):
        return value.state()
    return value.tree() if isinstance(value, Recipe) else value


def from_tree(kind: Any, value: Any) -> Any:
    """A part of a model of a type that msgspec does not know."""
    if get_origin(kind) is Ids:
        (item,) = get_args(kind)
        items = list[tuple[str, item]]  # type: ignore[valid-type]
        return Ids(msgspec.json.decode(value, type=items))
    if kind is Predictions:
        return Predictions(msgspec.json.decode(value, type=list[Prediction]))
    if kind is DriftAlarm:
        return DriftAlarm().restore(value)
    # Arrays of a file share its buffer, which is not kept for a part of it.
    return value.copy() if isinstance(value, np.ndarray) else value
