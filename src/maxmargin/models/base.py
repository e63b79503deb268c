"""The interface of models."""

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

    A fit calls `begin_fit`, `present` any number of times, and `end_fit`; a stream calls
    `streaming` and `present`. Methods that change the structure (`grown`, `streaming`,
    `continued`) return another model with the same weights; only `present` learns, in place.

    Attributes
    ----------
    tail : the coordinates of each row behind its features
    tally : counts, see `core.loop.TALLY`
    p : the norm in which rows are measured
    """

    has_supports: ClassVar[bool] = False
    is_joint: ClassVar[bool] = False  # several classes are learned as one problem
    outputs_are_odds: ClassVar[bool] = False  # log-odds, which need no calibration
    learns_rows_in_place: ClassVar[bool] = False  # a single row is one call of a compiled loop
    spec: ModelSpec
    tail: Annotated[Tail, Saved()]
    tally: Annotated[np.recarray, Array(1, dtype=TALLY)]
    p: float = 2.0

    # ------------------------------------------------------------------------------------ learning
    @abstractmethod
    def rows(self, X: Any, sample_weight: np.ndarray | None = None) -> Any:
        """Convert ``X`` to the rows of this model; sample weights act through the soft margin."""

    def fit_rows(self, X: Any, sample_weight: np.ndarray | None = None) -> Any:
        """`rows` for all rows of a fit."""
        return self.rows(X, sample_weight)

    def apart_from_rows(self) -> Model:
        """The model after a weighted fit, without the parts that depend on the weights."""
        return self

    @abstractmethod
    def begin_fit(self, rows: Any) -> None:
        """Begin a fit, which presents only these rows."""

    @abstractmethod
    def end_fit(self) -> None:
        """Release what only the passes of a fit need."""

    @abstractmethod
    def twin(self) -> Model:
        """An independent copy, which can learn from the same rows."""

    @abstractmethod
    def continued(self) -> Model:
        """A copy for another fit, in which bounds from earlier rows do not hold."""

    @abstractmethod
    def streaming(self, rows: int, alone: bool = False) -> Model:
        """A model for learning ``rows`` new rows.

        It is this model itself if no one else uses it (``alone``), or if a copy would cost more
        than learning.
        """

    @abstractmethod
    def grown(self, width: int, which: Sequence[int], codes: np.ndarray) -> Model:
        """A model for ``width`` features, in which problem c continues problem ``which[c]``.

        ``codes`` are the new class codes. All later rows must be new.
        """

    @abstractmethod
    def present(
        self, rows: Any, targets: Any, order: np.ndarray, rule: Any, trace: Trace = NO_TRACE
    ) -> None:
        """Let ``rule`` learn from the rows ``order``, in that order; see `core.loop.learn`."""

    def tracing(self, places: int) -> Trace | MeanTrace:
        """Arrays for the outputs of ``places`` rows before they are learned."""
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
        """The number of updates of all problems."""

    @abstractmethod
    def is_finite(self) -> bool:
        """True if all weights are finite."""

    @abstractmethod
    def outputs(self, X: Any) -> np.ndarray:
        """``w.x + b`` for each row and problem."""

    @abstractmethod
    def formula(self, features: int) -> Formula:
        """`outputs` as plain data, for rows with ``features`` columns."""

    @abstractmethod
    def weights(self) -> np.ndarray:
        """The weights that predict, of features or of supports."""

    @abstractmethod
    def coefficients(self) -> np.ndarray:
        """The weights of the features, if there are any."""

    @abstractmethod
    def intercepts(self) -> np.ndarray:
        """One for each problem."""

    @abstractmethod
    def margins(self, rows: Any, targets: Any) -> np.ndarray:
        """The geometric margins on these rows."""

    @abstractmethod
    def bounds(self) -> np.ndarray:
        """Upper bounds on the best margins of the rows seen."""

    @abstractmethod
    def ceiling(self, rows: Any, radius: float) -> float:
        """An upper bound on every margin of the rows of a fit, with norms of at most ``radius``."""

    def verdicts(self) -> int:
        """The number of margins and bounds."""
        return 1 if self.is_joint else self.problems()

    def evidence(self, features: int) -> list[Evidence]:
        """The sums behind the bounds, which can be added up over machines; empty if there are none.

        Columns beyond the first ``features`` are unused.
        """
        return []

    def mistakes(self) -> int:
        return int(np.asarray(self.tally)["mistakes"][0])

    def trials(self) -> int:
        return int(np.asarray(self.tally)["trials"][0])

    def is_full(self) -> bool:
        """True if it evicts rows to make room for others."""
        return False

    def allows_unused_columns(self, width: int) -> bool:
        """True if further columns up to ``width`` that are always 0 change nothing."""
        return False

    def invalid_reason(self) -> str:
        """Why arrays from a file do not fit together; empty if they do."""
        return ""

    def private_coordinates(self) -> int:
        """The number of rows with a private coordinate that is stored."""
        return 0


class Diverged(ArithmeticError):
    """Learning from some rows would make weights infinite."""


def new_tally() -> np.recarray:
    return np.zeros(1, TALLY).view(np.recarray)
