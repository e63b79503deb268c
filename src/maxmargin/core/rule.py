"""Learning rules: a few pure functions of seven numbers.

A rule is a NamedTuple of hyper-parameters (floats) with up to ten methods:

``active(trial) -> bool``
    Whether to update.
``asked(trial) -> float``
    The required margin, if two of the other methods need it.
``needs_norm() -> bool``
    Whether `active` uses ``xx`` or ``largest_xx``. False unless defined; then the norm of a row is
    computed only for updates.
``step(trial) -> (shrink, step)``
    The update ``w <- shrink * w + step * y * x``.
``step_in_plane(trial, plane) -> (a, b)``
    In p-norms, for rules that need more than scalars to find their step: the new theta as a point
    of the `Plane` of the row and theta.
``precision_gain(trial) -> gain``
    In a diagonal geometry (`spaces.diagonal_space`), given the trial of a `step`: the precision of
    each column j grows by ``gain * x_j**2``; 0 unless defined.
``rest(trial) -> shrink``
    The scaling of ``w`` on a trial without an update; 1 unless defined.
``project(norm2) -> shrink``
    A last scaling after an update, given the new ``w.w``; 1 unless defined.
``of(c) -> rule``
    The rule of problem c; itself unless defined.
``uses_weight() -> bool``
    Whether `step` depends on the sample weight. True unless defined; False for rules that reach the
    required margin in one step, whatever the weight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from maxmargin.core.numba_backend import bridge, with_methods_of


class Trial(NamedTuple):
    """The arguments of a rule.

    Attributes
    ----------
    margin : y * f(x), before the update
    ww : w.w
    xx : x.x (the squared p-norm in a p-norm space; if not `needs_norm`, at least that; in a
        diagonal geometry the variance of the margin, x' Sigma x)
    largest_xx : the largest x.x so far, this trial included
        (of all trials if the rule `needs_norm`, else of those that caused an update)
    t : number of this trial, from 1
    k : number of updates before this trial
    weight : sample weight; see `docs/weights.md` for how each rule uses it
    """

    margin: float
    ww: float
    xx: float
    largest_xx: float
    t: int
    k: int
    weight: float = 1.0

    def repeats(self, gap, gain):
        """The number of consecutive updates by the row, each of which adds ``gain`` to its margin.

        At most its weight, and until the ``gap`` is closed.
        """
        if self.weight <= 1.0 or gain == 0.0:
            return self.weight
        needed = max(1.0, np.floor(gap / gain) + 1.0)
        return needed if needed < self.weight else self.weight


class Usual:
    """Default methods of rules."""

    step: Callable[[Trial], tuple[float, float]]

    def needs_norm(self):
        return False

    def precision_gain(self, trial):
        return 0.0

    def rest(self, trial):
        return 1.0

    def project(self, norm2):
        return 1.0

    def of(self, c):
        return self

    def uses_weight(self):
        return True


# Class decorator of rules.
rule = with_methods_of(Usual)

bridge("active", "asked", "needs_norm", "step", "precision_gain", "rest", "project", "of")
bridge("repeats")
bridge("step_in_plane", inline=False)
