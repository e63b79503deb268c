"""Adaptive regularisation of weights (AROW)."""

from __future__ import annotations

from typing import NamedTuple

from maxmargin.core.rule import rule


@rule
class AROWRule(NamedTuple):
    """A row of weight s has the regularisation ``r / s``, so it counts as s rows at once."""

    r: float

    def active(self, trial):
        return trial.margin < 1.0

    def step(self, trial):
        return 1.0, (1.0 - trial.margin) / (trial.xx + self.r / trial.weight)

    def precision_gain(self, trial):
        return trial.weight / self.r
