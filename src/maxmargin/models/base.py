"""What all models have in common, and what those have that learn row by row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import singledispatch
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from maxmargin.certificates.evidence import Evidence
from maxmargin.core.array_fields import Array, Saved
from maxmargin.core.loop import TALLY
from maxmargin.core.rows import Tail
from maxmargin.core.trace import NO_TRACE, Trace
from maxmargin.kernels.products import Products
from maxmargin.models.model_formulas import Formula
from maxmargin.models.spec import ModelSpec


class Model(Protocol):
    """What was learned about one or more problems: weights, components or an exact solution.

    Attributes
    ----------
    has_supports : weights are those of rows, in the space of a kernel
    outputs_are_odds : outputs are log-odds, which need no calibration
    """

    @property
    def has_supports(self) -> bool: ...

    @property
    def outputs_are_odds(self) -> bool: ...

    def problems(self) -> int:
        """Number of outputs of a row."""

    def width(self) -> int:
        """Number of features."""

    def outputs(self, X: Any) -> np.ndarray:
        """The outputs of each row, ``w.x + b`` for a hyperplane."""

    def formula(self, features: int) -> Formula:
        """`outputs` as plain data, for rows with ``features`` columns."""

    def n_margins(self) -> int:
        """Number of margins and bounds."""

    def trials(self) -> int:
        """Number of rows learned one by one."""

    def updates(self) -> int:
        """Number of updates of all problems."""

    def mistakes(self) -> int:
        """Number of mistakes while learning."""


@runtime_checkable
class Certified(Model, Protocol):
    """A model whose margins have proved bounds; infinite ones if nothing is proved."""

    def bounds(self) -> np.ndarray:
        """Upper bounds on the best margins of the rows seen."""

    def evidence(self, features: int) -> list[Evidence]:
        """The sums behind the bounds, which can be added up over machines, or an empty list.

        Columns beyond the first ``features`` are unused.
        """


class OnlineModel(Certified):
    """A model that a rule changes row by row.

    A fit calls `begin_fit`, `learn_from` any number of times, and `end_fit`; a stream calls
    `streaming` and `learn_from`. Methods that change the structure (`grown`, `streaming`,
    `continued`) return another model with the same weights; only `learn_from` learns, in place.
    Without hyperplanes there are no margins (NaN), and nothing bounds them.

    Attributes
    ----------
    tail : the coordinates of each row behind its features
    tally : counts, see `core.loop.TALLY`
    p : the norm in which rows are measured
    """

    has_supports: ClassVar[bool] = False
    is_joint: ClassVar[bool] = False  # several classes are learned as one problem
    outputs_are_odds: ClassVar[bool] = False
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

    def begin_fit(self, rows: Any) -> None:
        """Begin a fit, which learns only these rows."""

    def end_fit(self) -> None:
        """Release what only the passes of a fit need."""

    @abstractmethod
    def learn_from(
        self, rows: Any, targets: Any, order: np.ndarray, rule: Any, trace: Trace = NO_TRACE
    ) -> None:
        """Let ``rule`` learn from the rows ``order``, in that order; see `core.loop.learn`."""

    @abstractmethod
    def copy(self) -> Any:
        """An independent copy, which can learn from the same rows."""

    def continued(self) -> Any:
        """A copy for another fit, in which bounds from earlier rows do not hold."""
        return self.copy()

    @abstractmethod
    def streaming(self, rows: int, owned: bool = False) -> Any:
        """A model for learning ``rows`` new rows.

        It is this model itself if no one else uses it (``owned``), or if a copy would cost more
        than learning.
        """

    @abstractmethod
    def grown(self, width: int, which: Sequence[int], codes: np.ndarray) -> Any:
        """A model for ``width`` features, in which problem c continues problem ``which[c]``.

        ``codes`` are the new class codes. All later rows must be new.
        """

    # ----------------------------------------------------------------------------- what was learned
    @abstractmethod
    def is_finite(self) -> bool:
        """True if all weights are finite."""

    def margins(self, rows: Any, targets: Any) -> np.ndarray:
        """The geometric margins on these rows."""
        return np.full(self.n_margins(), np.nan)

    def bounds(self) -> np.ndarray:
        return np.full(self.n_margins(), np.inf)

    def ceiling(self, rows: Any, radius: float) -> float:
        """An upper bound on every margin of the rows of a fit, with norms of at most ``radius``."""
        return np.inf

    def evidence(self, features: int) -> list[Evidence]:
        return []

    def n_margins(self) -> int:
        return 1 if self.is_joint else self.problems()

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


class Built(NamedTuple):
    """A model, its first rows in its own form, and their largest norm."""

    model: OnlineModel
    rows: Any
    radius: float


class Beginning(NamedTuple):
    """The rows that a model is built for.

    Attributes
    ----------
    problems : the number of weight vectors
    X : all rows of a fit, or the first ones of a stream
    radius : the largest Euclidean norm of a row of a fit, None for a stream
    unseen : one of the weight vectors is for a class that never occurs
    sample_weight : acts through a soft margin
    random_state : that of the learner
    products : computes kernel values; by default on the device of the specification
    """

    problems: int
    X: Any
    radius: float | None = None
    unseen: bool = False
    sample_weight: np.ndarray | None = None
    random_state: Any = None
    products: Products | None = None


def build(spec: ModelSpec, problems: int, X: Any, **more: Any) -> Built:
    """A model at w = 0 for the rows ``X``; see `Beginning` for what else can be given."""
    return build_for(spec, Beginning(problems, X, **more))


@singledispatch
def build_for(spec: ModelSpec, given: Beginning) -> Built:
    raise TypeError(f"There is no model for {spec!r}.")
