"""Soft confidence-weighted learning: SCW-I and SCW-II."""

from __future__ import annotations

import math
from typing import NamedTuple

from maxmargin.core.numba_backend import bridge, with_methods_of
from maxmargin.core.rule import rule


class Confident:
    """What both rules have in common: the margin must exceed ``phi`` standard deviations."""

    phi: float

    def active(self, trial):
        return trial.margin < self.phi * math.sqrt(trial.xx)

    def needs_norm(self):
        return True

    def step(self, trial):
        return 1.0, self.multiplier(trial)

    def precision_gain(self, trial):
        # alpha phi / sqrt(u), where u is the variance of the margin after a full update.
        along = self.multiplier(trial) * self.phi
        spread = along * trial.xx
        root = math.sqrt(spread * spread + 4.0 * trial.xx)
        return along * (spread + root) / (2.0 * trial.xx)


@rule
@with_methods_of(Confident)
class SCW1Rule(NamedTuple):
    """The slack costs ``cost`` times itself: the multiplier is at most that."""

    cost: float
    phi: float

    def multiplier(self, trial):
        """alpha, of proposition 1."""
        square = self.phi * self.phi
        half = 0.5 * square * trial.margin
        root = math.sqrt(half * half + trial.xx * square * (1.0 + square))
        alpha = (root - half - trial.margin) / (trial.xx * (1.0 + square))
        return min(self.cost * trial.weight, max(0.0, alpha))


@rule
@with_methods_of(Confident)
class SCW2Rule(NamedTuple):
    """The slack costs ``cost`` times its square."""

    cost: float
    phi: float

    def multiplier(self, trial):
        """alpha, of proposition 2, over the variance, so that squares of it do not occur."""
        square = self.phi * self.phi
        n = trial.xx + 0.5 / (self.cost * trial.weight)
        part = trial.xx / n
        spread = square * trial.margin * part
        root = math.sqrt(spread * spread + 4.0 * square * trial.xx * (1.0 + square * part))
        alpha = (root - spread - 2.0 * trial.margin) / (2.0 * n * (1.0 + square * part))
        return max(0.0, alpha)


bridge("multiplier")
