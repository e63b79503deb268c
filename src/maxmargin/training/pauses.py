"""Learning from a batch of rows with pauses, in which the model can be looked at."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from maxmargin.core.trace import MeanTrace, Trace
from maxmargin.models.base import Model
from maxmargin.training.types import Matrix, Rows, Rule, Targets


class Pauses(Protocol):
    """Looks at a model between two rows of a batch, and says when to look again."""

    def begin(self, X: Matrix, codes: np.ndarray, shown: slice) -> int:
        """The first place of the order to pause at; none if it is beyond the last.

        ``X`` and ``codes`` are the rows and the numbers of their classes, and ``shown`` the
        problems that users see.
        """

    def pause(self, model: Model, place: int) -> int:
        """The next place to pause at: the model has learned from the rows before ``place``."""


def present(
    model: Model,
    rows: Rows,
    targets: Targets,
    order: np.ndarray,
    rule: Rule,
    trace: Trace | MeanTrace,
    pauses: Pauses | None,
    first: int,
) -> None:
    """`Model.present`, with pauses; the first of them before the place ``first``."""
    if pauses is None or first > order.size:
        model.present(rows, targets, order, rule, trace)  # type: ignore[arg-type]
        return
    start, stop, made = 0, first, 0.0
    while start < order.size:
        part = part_of(trace, slice(start, stop))
        model.present(rows, targets, order[start:stop], rule, part)  # type: ignore[arg-type]
        part.history[:, -1] += made  # each call counts updates from 0
        made = part.history[-1, -1] if part.history.size else 0.0
        start = stop
        if stop <= order.size:
            stop = pauses.pause(model, stop)


def part_of(trace: Trace | MeanTrace, places: slice) -> Trace | MeanTrace:
    """What is recorded at some places of the order."""
    part = trace._replace(history=trace.history[places])
    return part._replace(means=part.means[places]) if isinstance(part, MeanTrace) else part
