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
from maxmargin.models.model_formulas import MixedPlanes, Planes
from maxmargin.models.resizing import MOST_COPIED_WEIGHTS
from maxmargin.models.spec import ModelSpec
from maxmargin.spaces.expert_space import ROOTED, SCALES, ExpertColumns, ExpertSpace


@Compiled
def outputs_of_all(rows, space, found):  # type: ignore[no-untyped-def]
    """Put the outputs of all rows and problems into ``found``."""
    for i in range(rows.size()):
        rows.prefetch_behind(i)
        for c in range(found.shape[1]):
            found[i, c] = space.output(rows, i, c)


def new_expert_space(
    kinds: tuple[str, ...], experts: int, problems: int, width: int
) -> ExpertSpace:
    """Linear experts of these kinds at w = 0, and a mixture of so many experts in all."""
    confident = len(kinds) - kinds.count(ROOTED)
    sizes = {"problems": problems, "coordinates": width + 1, "linear": len(kinds)}
    scales = np.zeros(len(kinds), np.int64)
    scales[:confident] = [SCALES.index(kind) for kind in kinds[:confident]]
    columns = blank(ExpertColumns, sizes, confident=confident, scales=scales, width=width)
    sizes["experts"], mixture = experts, new_mixture(problems, experts)
    return blank(ExpertSpace, sizes, columns=columns, mixture=mixture)


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
        self.space = new_expert_space(spec.mixture, len(spec.mixture), problems, width)

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
        mixture, columns = self.linear().mixture, self.linear().columns
        weights = columns.weights[:, : min(features, columns.width)]
        return MixedPlanes(
            weights=np.swapaxes(weights, 1, 2).copy(),
            intercepts=self.tail.offset * columns.weights[:, columns.width],
            slopes=mixture.slopes.copy(),
            offsets=mixture.offsets + mixture.follows * mixture.surprises[:, None],
            shares=mixture.weights.copy(),
        )

    def pooled(self) -> Planes:
        """One plane for each problem: the mean of the experts' log-odds, by their weights.

        Unlike the log-odds of the mean, which are `outputs`, and without the surprise of the last
        row: such a plane is for any row.
        """
        mixture, columns = self.space.mixture, self.space.columns
        slopes = mixture.weights * mixture.slopes
        weights = (columns.weights @ slopes[:, :, None])[:, :, 0]
        offsets = (mixture.weights * mixture.offsets).sum(axis=1)
        last = self.tail.offset * weights[:, columns.width] + offsets
        return Planes(weights[:, : columns.width], last)

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
