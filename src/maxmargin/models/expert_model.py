"""Models of many experts in one space, which predict by the mixture of their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from maxmargin.core import array_fields
from maxmargin.core.array_fields import Saved, blank
from maxmargin.core.experts import new_mixture
from maxmargin.core.loop import learn, present
from maxmargin.core.numba_backend import Compiled
from maxmargin.core.rows import Tail
from maxmargin.core.trace import NO_TRACE, Trace
from maxmargin.models.base import Model, new_tally
from maxmargin.models.linear_model import Rows, as_rows
from maxmargin.models.model_formulas import ExpertPlanes, MixedPlanes, Planes, Standardization
from maxmargin.models.resizing import MOST_COPIED_WEIGHTS
from maxmargin.models.spec import ModelSpec
from maxmargin.spaces.expert_space import ROOTED, SCALES, ExpertColumns, ExpertSpace
from maxmargin.spaces.standardized_columns import (
    STANDARDIZED,
    STANDARDIZED_ROOTED,
    StandardizedColumns,
)


@Compiled
def outputs_of_all(rows, space, found):  # type: ignore[no-untyped-def]
    """Put the outputs of all rows and problems into ``found``."""
    for i in range(rows.size()):
        rows.prefetch_behind(i)
        for c in range(found.shape[1]):
            found[i, c] = space.output(rows, i, c)


def new_expert_space(kinds: tuple[str, ...], problems: int, width: int) -> ExpertSpace:
    """Experts at w = 0, of which those on columns are of these kinds, and a mixture of them."""
    direct, standardized = parts_of(kinds)
    sizes = {
        "problems": problems,
        "coordinates": width + 1,
        "linear": len(direct),
        "standardized": len(standardized),
        "experts": len(kinds),
    }
    confident = len(direct) - direct.count(ROOTED)
    scales = np.zeros(len(direct), np.int64)
    scales[:confident] = [SCALES.index(kind) for kind in direct[:confident]]
    plain = standardized.count(STANDARDIZED)
    return blank(
        ExpertSpace,
        sizes,
        columns=blank(ExpertColumns, sizes, confident=confident, scales=scales, width=width),
        standardized=blank(StandardizedColumns, sizes, confident=plain, width=width),
        mixture=new_mixture(problems, len(kinds)),
    )


def parts_of(kinds: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The kinds of experts on columns as they are, and on standardized ones."""
    standardized = STANDARDIZED, STANDARDIZED_ROOTED
    direct = tuple(kind for kind in kinds if kind in (*SCALES, ROOTED))
    return direct, tuple(kind for kind in kinds if kind in standardized)


def standardization(columns: StandardizedColumns) -> Standardization:
    """What makes features of the values of each column."""
    seen, which = float(columns.rows_seen[0]), slice(columns.width)
    counts, means, squares = columns.counts[0], columns.means[0], columns.squares[0]
    parts = np.where(columns.centered[0] > 0.0, counts / max(seen, 1.0), 0.0)
    spreads = squares + means**2 * counts * (1.0 - parts)
    return Standardization(
        centers=(means * parts)[which],
        spreads=np.where(parts > 0.0, spreads * (1.0 + 1.0 / max(seen, 1.0)), spreads)[which],
        counts=np.where(parts > 0.0, seen, counts + 1.0)[which],
    )


class ExpertModel(Model):
    """One mixture of linear experts for each problem.

    Parameters
    ----------
    spec, tail : see `Model`
    problems, width : number of mixtures and of features
    """

    space: Annotated[ExpertSpace, Saved()]

    loop: ClassVar[Any] = staticmethod(learn)
    outputs_are_odds: ClassVar[bool] = True
    learns_rows_in_place: ClassVar[bool] = True

    def __init__(self, spec: ModelSpec, problems: int, width: int, tail: Tail) -> None:
        self.spec, self.tail, self.tally, self.unsettled = spec, tail, new_tally(), False
        self.space = new_expert_space(spec.mixture, problems, width)

    def linear(self) -> ExpertSpace:
        """The linear experts, with the mixture of all."""
        return self.space

    def rows(self, X: Any, sample_weight: np.ndarray | None = None) -> Rows:
        return as_rows(X, self.tail)

    def problems(self) -> int:
        return self.linear().updates_made.size

    def width(self) -> int:
        return self.linear().columns.width

    # ------------------------------------------------------------------------------------ learning
    def begin_fit(self, rows: Any) -> None:
        """Nothing is kept about rows."""

    def end_fit(self) -> None:
        """The same."""

    def twin(self) -> ExpertModel:
        return array_fields.own_arrays(self)

    def continued(self) -> ExpertModel:
        return self.twin()

    def streaming(self, rows: int, alone: bool = False) -> ExpertModel:
        size, width = self.linear().columns.weights.size, self.width()
        is_small = size <= max(MOST_COPIED_WEIGHTS, rows * width)
        return self.twin() if rows > 1 and is_small and not alone else self

    def grown(self, width: int, which: Sequence[int], codes: np.ndarray) -> ExpertModel:
        return array_fields.grown(self, which, width, self.width(), codes)

    def allows_unused_columns(self, width: int) -> bool:
        return True

    def present(
        self, rows: Any, targets: Any, order: np.ndarray, rule: Any, trace: Trace = NO_TRACE
    ) -> None:
        present(rows, targets, order, rule, self.space, self.tally, trace)

    def view(self) -> Any:
        """What gives outputs, in buffers of its own."""
        return array_fields.own_buffers(self.space)

    def maintain(self, space: Any) -> None:
        """Nothing ever runs out."""

    # ----------------------------------------------------------------------------- what was learned
    def updates(self) -> int:
        return int(self.linear().updates_made.sum())

    def is_finite(self) -> bool:
        """Weights that are not show in the outputs, and so in the sigmoids of these."""
        mixture = self.linear().mixture
        numbers = mixture.weights, mixture.slopes, mixture.offsets, mixture.follows
        return all(bool(np.isfinite(each).all()) for each in numbers)

    def outputs(self, X: Any) -> np.ndarray:
        """The log-odds of the positive class of each problem."""
        rows, found = self.rows(X), np.empty((X.shape[0], self.problems()))
        outputs_of_all(rows, self.view(), found)
        return found

    def formula(self, features: int) -> MixedPlanes:
        mixture = self.linear().mixture
        return MixedPlanes(
            groups=self.planes(features),
            slopes=mixture.slopes.copy(),
            offsets=mixture.offsets + mixture.follows * mixture.surprises[:, None],
            shares=mixture.weights.copy(),
        )

    def planes(self, features: int) -> list[ExpertPlanes]:
        """The outputs of the experts, for rows of so many features."""
        width, offset, space = self.width(), self.tail.offset, self.linear()
        bases = (None, space.columns), (standardization(space.standardized), space.standardized)
        return [
            ExpertPlanes(
                basis if basis is None else Standardization(*(each[:features] for each in basis)),
                np.swapaxes(part.weights[:, : min(features, width)], 1, 2).copy(),
                offset * part.weights[:, width],
            )
            for basis, part in bases
        ]

    def pooled(self) -> Planes:
        """One plane for each problem: the mean of the experts' log-odds, by their weights.

        Unlike the log-odds of the mean, which are `outputs`, and without the surprise of the last
        row: such a plane is for any row. Of standardized columns it has ``d sqrt(count / spread)``,
        to which their features tend with more rows.
        """
        mixture, (direct, scaled) = self.space.mixture, self.planes(self.width())
        basis, first = standardization(self.space.standardized), direct.intercepts.shape[1]
        slopes = mixture.weights * mixture.slopes
        intercepts = np.hstack([direct.intercepts, scaled.intercepts])
        offsets = (mixture.weights * mixture.offsets + slopes * intercepts).sum(axis=1)
        weights = np.einsum("ce,cej->cj", slopes[:, :first], direct.weights)
        units = np.sqrt(basis.counts / np.where(basis.spreads > 0.0, basis.spreads, np.inf))
        own = units * np.einsum("ce,cej->cj", slopes[:, first:], scaled.weights)
        return Planes(weights + own, offsets - own @ basis.centers)

    def weights(self) -> np.ndarray:
        raise AttributeError(
            "A mixture has no weights of features of its own: see weights_, those of its experts."
        )

    coefficients = intercepts = weights

    def margins(self, rows: Any, targets: Any) -> np.ndarray:
        """NaN: a mixture has no hyperplane."""
        return np.full(self.problems(), np.nan)

    def bounds(self) -> np.ndarray:
        return np.full(self.problems(), np.inf)

    def ceiling(self, rows: Any, radius: float) -> float:
        return np.inf
