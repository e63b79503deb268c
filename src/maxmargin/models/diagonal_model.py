"""Linear models with a scale or a variance of each column beside its weight."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from maxmargin.core.array_fields import NEVER, Saved, blank
from maxmargin.core.rows import Tail
from maxmargin.models.linear_model import LinearModel
from maxmargin.models.spec import ModelSpec
from maxmargin.spaces.diagonal_space import AdaptiveRates, Confidence, DiagonalSpace, Leader

METRICS: dict[str, Any] = {
    "confidence": Confidence,
    "adaptive rates": AdaptiveRates,
    "leader": Leader,
}


class DiagonalModel(LinearModel):
    """Weights that move along ``Sigma x``, for the diagonal matrix of a `DiagonalSpace`.

    They are no sums of rows, so there are no bounds on margins but that by the norms of the rows.
    """

    diagonal: Annotated[DiagonalSpace, Saved()]

    steps_along_rows: ClassVar[bool] = False

    def __init__(
        self, spec: ModelSpec, problems: int, width: int, private: int, tail: Tail, p: float
    ) -> None:
        super().__init__(spec, problems, width, private, tail, p)
        table = self.linear.scalars.table
        table.certifiable, table.next_mark = 0.0, NEVER
        sizes = {"problems": problems, "coordinates": width + 1}
        follows = spec.scaling == "columns"
        given: Any = {"follows": follows, **dict(spec.regularization)}
        metric = blank(METRICS[spec.metric or ""], sizes, **given)
        self.diagonal = blank(DiagonalSpace, sizes, linear=self.linear, metric=metric)

    @property
    def space(self) -> Any:
        return self.diagonal

    @property
    def scored_by(self) -> Any:
        return self.linear
