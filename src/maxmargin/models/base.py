"""What every model can do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from maxmargin.certificates.evidence import Evidence
from maxmargin.core.array_fields import Array, Saved
from maxmargin.core.loop import TALLY
from maxmargin.core.rows import Tail
from maxmargin.core.trace import NO_TRACE, MeanTrace, Trace, tracing
from maxmargin.models.model_formulas import Formula
from maxmargin.models.spec import ModelSpec


class Model(ABC):
    """Weights of one or more problems.

    A fit calls `begin_fit`, `present` as often as it likes, and `end_fit`; a stream `streaming`,
    `present` and `settle`. Methods that change the structure (`grown`, `streaming`, `continued`)
    give a model with the same weights, and leave this one whole; only `present` learns, in place.

    Attributes
    ----------
    spec : what it was built from
    tail : the coordinates of each row behind its features
    tally : counts, see `core.loop.TALLY`
    p : the norm in which rows are measured
    unsettled : is there something left to do by `settle`?
    """

    has_supports: ClassVar[bool] = False
    # Are outputs log-odds, so that there are probabilities without calibration?
    outputs_are_odds: ClassVar[bool] = False
    # Is learning from a single row one call of a compiled loop?
    learns_rows_in_place: ClassVar[bool] = False

    spec: ModelSpec
    tail: Annotated[Tail, Saved()]
    tally: Annotated[np.recarray, Array(1, dtype=TALLY)]
    p: float = 2.0
    unsettled: bool

    # ------------------------------------------------------------------------------------ learning
    @abstractmethod
    def rows(self, X: Any, sample_weight: np.ndarray | None = None) -> Any:
        """The rows of ``X``, as the model takes them; sample weights act by its soft margin."""

    def fit_rows(self, X: Any, sample_weight: np.ndarray | None = None) -> Any:
        """The same for all rows of a fit."""
        return self.rows(X, sample_weight)

    def apart_from_rows(self) -> Model:
        """The model after a fit with weights, without what depends on them."""
        return self

    @abstractmethod
    def begin_fit(self, rows: Any) -> None:
        """From here on all rows are among these."""

    @abstractmethod
    def end_fit(self) -> None:
        """Let go of all that only the passes of a fit needed."""

    @abstractmethod
    def twin(self) -> Model:
        """A copy that learns by itself, from the same rows."""

    @abstractmethod
    def continued(self) -> Model:
        """A model to go on with in another fit, for which bounds from earlier rows mean nothing."""

    @abstractmethod
    def streaming(self, rows: int, alone: bool = False) -> Model:
        """A model to learn from so many rows, which are all new.

        Whatever stops it leaves this one as it was, unless no other thread uses it (``alone``). It
        may be this one if learning from the rows is a single step.
        """

    def settle(self) -> None:
        """Do what is left to do after `present`; it may be interrupted, and called again."""
        self.unsettled = False

    @abstractmethod
    def grown(self, width: int, which: Sequence[int], codes: np.ndarray) -> Model:
        """A model for ``width`` features, in which problem c continues problem ``which[c]``.

        ``codes`` are the new codes of the classes. All rows from here on must be new ones.
        """

    @abstractmethod
    def present(
        self, rows: Any, targets: Any, order: np.ndarray, rule: Any, trace: Trace = NO_TRACE
    ) -> None:
        """Let ``rule`` learn from the rows ``order``, in that order; see `core.loop.learn`."""

    def tracing(self, places: int) -> Trace | MeanTrace:
        """Arrays for the outputs of rows at so many places, before they are learned from."""
        return tracing(places, self.problems(), average=False)

    # ----------------------------------------------------------------------------- what was learned
    @abstractmethod
    def problems(self) -> int:
        """Number of weight vectors."""

    @abstractmethod
    def width(self) -> int:
        """Number of features."""

    @abstractmethod
    def updates(self) -> int:
        """Made so far, by all problems together."""

    @abstractmethod
    def is_finite(self) -> bool:
        """Are the weights numbers?"""

    @abstractmethod
    def outputs(self, X: Any) -> np.ndarray:
        """``w.x + b`` for each row and problem."""

    @abstractmethod
    def formula(self, features: int) -> Formula:
        """How `outputs` come about, of rows with so many features."""

    @abstractmethod
    def weights(self) -> np.ndarray:
        """What to predict by: of the features, or of the supports."""

    @abstractmethod
    def coefficients(self) -> np.ndarray:
        """The weights of the features, where there are such."""

    @abstractmethod
    def intercepts(self) -> np.ndarray:
        """One for each problem."""

    @abstractmethod
    def margins(self, rows: Any, targets: Any) -> np.ndarray:
        """The geometric margins reached on the rows."""

    @abstractmethod
    def bounds(self) -> np.ndarray:
        """Upper bounds on the best margins of the rows seen."""

    @abstractmethod
    def ceiling(self, rows: Any, radius: float) -> float:
        """No margin can be larger, on the rows of a fit, whose norms are at most ``radius``."""

    def parts(self) -> int:
        """The number of problems that can be learned independently."""
        return 1

    def verdicts(self) -> int:
        """Number of margins and bounds."""
        return self.problems()

    def evidence(self, features: int) -> list[Evidence]:
        """What the bounds rest on, in a form that adds up over machines, if there is such.

        Behind the first ``features`` there may be unused columns, on some machines only.
        """
        return []

    def mistakes(self) -> int:
        return int(np.asarray(self.tally)["mistakes"][0])

    def trials(self) -> int:
        return int(np.asarray(self.tally)["trials"][0])

    def is_full(self) -> bool:
        """Does it forget rows to take others?"""
        return False

    def allows_unused_columns(self, width: int) -> bool:
        """Does it learn the same with columns up to ``width`` that are always 0?"""
        return False

    def private_coordinates(self) -> int:
        """Number of rows with a coordinate of their own that is recorded."""
        return 0


def new_tally() -> np.recarray:
    """A tally of zeros."""
    return np.zeros(1, TALLY).view(np.recarray)
