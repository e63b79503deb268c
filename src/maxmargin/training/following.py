"""What follows the scores that rows have before they are learned from: probabilities and sets."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.core.trace import MeanTrace, Trace
from maxmargin.models.base import Model
from maxmargin.models.linear_model import LinearModel
from maxmargin.streams import Option, OptionError
from maxmargin.training.calibration import (
    NO_ODDS,
    NO_ROWS,
    NO_WEIGHTS,
    copied_maps,
    follow,
    maps_for,
    tracks_level,
)
from maxmargin.training.inputs import shown
from maxmargin.training.options import Options
from maxmargin.training.pauses import Pauses, present
from maxmargin.training.prediction_sets import NO_SETS, follow_sets, tracker_for
from maxmargin.training.state import State
from maxmargin.training.types import Rows, Rule, Targets


class Following:
    """A model that learns, with maps and sets that learn from the scores of rows before.

    It presents rows in the model's place.

    Parameters
    ----------
    options : say what is to follow
    state : with the maps and sets so far, which stay as they are
    model : what learns
    weights : sample weights only, or None: class weights say what mistakes cost, not how often
        rows come
    seen : what sets were seen at each place, see `prediction_sets.cover`; empty if not needed

    Attributes
    ----------
    maps, sets : those that follow, or None
    """

    def __init__(
        self,
        options: Options,
        state: State,
        model: Model,
        weights: np.ndarray | None,
        seen: np.ndarray | None = None,
    ) -> None:
        check_followed(options, state.multilabel, model)
        self.model, self.weights = model, NO_WEIGHTS if weights is None else weights
        self.shown, self.classes = shown(state), state.classes.size
        self.seen = NO_SETS if seen is None else seen
        self.maps = self.sets = None
        if options.calibration is not None:
            before = state.calibration
            self.maps = maps_for(model) if before is None else copied_maps(before, model.width())
        if options.coverage is not None:
            self.sets = tracker_for(options.coverage, state.sets)

    def present(
        self,
        rows: Rows,
        targets: Targets,
        order: np.ndarray,
        rule: Rule,
        trace: Trace,
        pauses: Pauses | None = None,
        first: int = 0,
    ) -> None:
        """`Model.present`, with what follows, and with pauses."""
        model, maps = self.model, self.maps
        own = traced(model, order.size, steps=maps is not None)
        if trace.history.size:  # the caller reads them as well
            own = trace._replace(steps=own.steps)
        own = own._replace(touched=trace.touched, stamp=trace.stamp)
        trials = model.trials() if model.spec.average else -1
        present(model, rows, targets, order, rule, own, pauses, first)
        evidence = scores = own.scores()
        if maps is not None:
            odds = NO_ODDS if self.sets is None else np.empty((order.size, model.problems()))
            rows = rows if tracks_level(model) else NO_ROWS
            followed = rows, scores, own.history, own.steps, targets, order, self.weights
            follow(*followed, maps, trials, odds)
            evidence = odds
        if self.sets is not None:
            labels, is_odds = targets.labels, maps is not None or model.outputs_are_odds
            places = labels, order, self.shown, self.classes
            follow_sets(self.sets, evidence, is_odds, *places, self.seen)


def traced(model: Model, places: int, steps: bool = True) -> Trace | MeanTrace:
    """A trace with all that maps and sets learn from; ``steps`` are for maps."""
    trace = model.tracing(places)
    if steps and tracks_level(model):
        trace = trace._replace(steps=np.empty((places, model.problems(), 2)))
    return trace


def check_followed(options: Options, multilabel: bool, model: Model) -> None:
    """Raise if these scores cannot be followed."""
    if model.spec.average and not isinstance(model, LinearModel):
        raise ValueError(
            f"{_asked(options)} cannot follow the mean of a kernel's coefficients: use "
            "average=False, or kernel='linear'."
        )
    if multilabel and options.coverage is not None:
        raise ValueError(
            f"coverage={options.coverage} needs rows with one label each: the sets of several "
            "labels a row are not nested. Use coverage=None."
        )


def _asked(options: Options) -> str:
    """The parameter that asks for scores to be followed, if one does."""
    if options.calibration is not None:
        return f"calibration={options.calibration!r}"
    return "" if options.coverage is None else f"coverage={options.coverage}"


def in_one_pass(
    options: Options, state: State, sample_weight: ArrayLike | None, rows: int
) -> Following | None:
    """What follows a fit of so many rows, which must be one pass over them; None if nothing does"""
    if not (asked := _asked(options)):
        return None
    if not options.incremental:
        way = "sklearn.calibration.CalibratedClassifierCV around it"
        if options.calibration is None:
            way = "MaxMargin.predict_set, or a learner with partial_fit"
        raise ValueError(
            f"{asked} needs rows that come one by one, and {options.name} needs all at once: use "
            f"{way}."
        )
    check_passes(options, "max_iter", options.max_iter)
    weights = None
    if sample_weight is not None:
        weights = np.asarray(sample_weight, dtype=np.float64)
        # Without those of weight 0, which are no rows of a fit.
        weights = weights[weights > 0.0] if weights.ndim else np.full(rows, float(weights))
    return Following(options, state, state.model, weights)


def check_passes(options: Options, option: str, passes: int) -> None:
    """Raise if rows would be presented again, when they have been learned from."""
    asked = _asked(options)
    if asked and passes > 1:
        way = "sklearn.calibration.CalibratedClassifierCV around a learner without calibration."
        raise OptionError(
            f"{asked} needs scores of rows that were not learned from, which only the first pass "
            "has, and ",
            Option(option, passes),
            " asks for more: use ",
            Option(option, 1),
            "." if options.calibration is None else f", or {way}",
        )
