"""Probabilities from the scores that a learner gives to rows before it learns from them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.core.rows import NO_TAIL, DenseRows
from maxmargin.core.trace import MeanTrace, Trace
from maxmargin.models.base import Model
from maxmargin.models.linear_model import LinearModel, PairModel, read_only
from maxmargin.streams import Option, OptionError
from maxmargin.training.options import Options
from maxmargin.training.platt import Maps, copied_maps, follow, new_maps
from maxmargin.training.state import State
from maxmargin.training.types import Rows, Rule, Targets

NO_WEIGHTS = np.empty(0)
# Where no level is followed, rows are not looked at.
NO_ROWS = DenseRows(read_only(np.empty((0, 0))), NO_TAIL)


def knows_level(model: Model) -> bool:
    """Can the score of the mean of rows be followed?

    Its weights must be vectors that move along the row itself.
    """
    is_plain = isinstance(model, LinearModel) and not isinstance(model, PairModel)
    return is_plain and model.p == 2.0 and not model.is_joint  # type: ignore[attr-defined]


def maps_for(model: Model) -> Maps:
    """Those that have followed no rows."""
    return new_maps(model.problems(), model.width() if knows_level(model) else None)


def traced(model: Model, places: int) -> Trace | MeanTrace:
    """A trace with room for what maps have to know."""
    trace = model.tracing(places)
    if knows_level(model):
        trace = trace._replace(steps=np.empty((places, model.problems(), 2)))
    return trace


class Calibrating:
    """A model that learns, and maps that follow what it says of rows before.

    Parameters
    ----------
    model : Model
    maps : those so far, which stay as they are, or None
    weights : how often rows count, or none
    """

    def __init__(self, model: Model, maps: Maps | None, weights: np.ndarray) -> None:
        self.model, self.weights = model, weights
        self.maps = maps_for(model) if maps is None else copied_maps(maps, model.width())

    def present(
        self, rows: Rows, targets: Targets, order: np.ndarray, rule: Rule, trace: Trace
    ) -> None:
        """`Model.present`, with the maps."""
        model, own = self.model, traced(self.model, order.size)
        if trace.history.size:  # the caller reads them as well
            own = trace._replace(steps=own.steps)
        own = own._replace(touched=trace.touched, stamp=trace.stamp)
        trials = model.trials() if model.spec.average else -1
        model.present(rows, targets, order, rule, own)  # type: ignore[arg-type]
        rows = rows if knows_level(model) else NO_ROWS
        scores, outputs, weights = own.scores(), own.history, self.weights
        follow(rows, scores, outputs, own.steps, targets, order, weights, self.maps, trials)

    def settle(self) -> None:
        """`Model.settle`."""
        self.model.settle()


def calibrating(model: Model, maps: Maps | None, weights: np.ndarray | None) -> Calibrating:
    """What learns, and follows its own scores from these maps on.

    ``weights`` are those of rows only: weights of classes say what mistakes cost, not how often
    rows come.
    """
    if model.spec.average and not isinstance(model, LinearModel):
        raise ValueError(
            "calibration='online' cannot follow the mean of a kernel's coefficients: use "
            "average=False, or kernel='linear'."
        )
    return Calibrating(model, maps, NO_WEIGHTS if weights is None else weights)


def in_one_pass(
    options: Options, state: State, sample_weight: ArrayLike | None, rows: int
) -> Calibrating:
    """The same for a fit of so many rows, which must be one pass over them."""
    if not options.incremental:
        raise ValueError(
            f"calibration='online' needs rows that come one by one, and {options.name} needs "
            "all at once: use sklearn.calibration.CalibratedClassifierCV around it."
        )
    check_passes("online", "max_iter", options.max_iter)
    weights = None
    if sample_weight is not None:
        weights = np.asarray(sample_weight, dtype=np.float64)
        # Without those of weight 0, which are no rows of a fit.
        weights = weights[weights > 0.0] if weights.ndim else np.full(rows, float(weights))
    return calibrating(state.model, state.calibration, weights)


def check_passes(calibration: str | None, option: str, passes: int) -> None:
    """Raise if rows would be presented again, when they have been learned from."""
    if calibration is not None and passes > 1:
        raise OptionError(
            "calibration='online' needs scores of rows that were not learned from, which only the "
            "first pass has, and ",
            Option(option, passes),
            " asks for more: use ",
            Option(option, 1),
            ", or sklearn.calibration.CalibratedClassifierCV around a learner without calibration.",
        )
