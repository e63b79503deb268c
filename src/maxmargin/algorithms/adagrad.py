"""Adaptive sub-gradient steps (AdaGrad)."""

from __future__ import annotations

import math
from typing import NamedTuple

from maxmargin.core.numba_backend import bridge, with_methods_of
from maxmargin.core.rule import rule

# Beyond it the logistic loss is 0 in double precision, and the exponential soon no number.
LARGEST_MARGIN = 700.0


class Descent:
    """A gradient step, of the loss times the sample weight: its gradient is ``-slope * y * x``."""

    rate: float

    def step(self, trial):
        return 1.0, self.rate * self.loss_slope(trial) * trial.weight

    def precision_gain(self, trial):
        slope = self.loss_slope(trial) * trial.weight
        return slope * slope


@rule
@with_methods_of(Descent)
class HingeDescentRule(NamedTuple):
    rate: float

    def active(self, trial):
        return trial.margin < 1.0

    def loss_slope(self, trial):
        """How steeply the loss falls at the margin."""
        return 1.0


@rule
@with_methods_of(Descent)
class LogisticDescentRule(NamedTuple):
    rate: float

    def active(self, trial):
        return trial.margin < LARGEST_MARGIN

    def loss_slope(self, trial):
        return 1.0 / (1.0 + math.exp(min(trial.margin, LARGEST_MARGIN)))


bridge("loss_slope")
