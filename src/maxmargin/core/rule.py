"""What a learning rule is: a few pure functions of seven numbers.

A rule is a NamedTuple of hyper-parameters (floats) with up to seven methods:

``active(trial) -> bool``
    Is an update due?
``asked(trial) -> float``
    The margin that is asked for, where `active` and `step` both need it.
``needs_norm() -> bool``
    Does `active` look at ``xx`` or ``largest_xx``? False unless defined; then the norm of a row is
    computed only when an update is due.
``step(trial) -> (shrink, step)``
    The update ``w <- shrink * w + step * y * x``.
``rest(trial) -> shrink``
    What happens to ``w`` on a trial without an update; 1 unless defined.
``project(norm2) -> shrink``
    A last scaling after an update, given the new ``w.w``; 1 unless defined.
``of(c) -> rule``
    The rule of problem c; itself unless defined.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np

from maxmargin.core.bridge import bridge

RuleClass = TypeVar("RuleClass", bound=type[Any])


class Trial(NamedTuple):
    """All that a rule gets to know about a trial.

    Attributes
    ----------
    margin : y * f(x), before the update
    ww : w.w
    xx : x.x (the squared p-norm in a p-norm space; if not `needs_norm`, at least that)
    largest_xx : the largest x.x so far, this trial included
        (of all trials if the rule `needs_norm`, else of those that brought an update)
    t : number of this trial, from 1
    k : updates made before this trial
    weight : how often the row counts; see `docs/weights.md` for what each rule makes of it
    """

    margin: float
    ww: float
    xx: float
    largest_xx: float
    t: int
    k: int
    weight: float = 1.0

    def repeats(self, gap, gain):
        """How often a row of this weight is learnt from, one time after another.

        That is until its margin, which lacks ``gap`` and grows by ``gain`` each time, has passed
        what is asked for: so a large weight does not overshoot (N. Karampatziakis and J. Langford,
        "Online importance weight aware updates", UAI 2011).
        """
        if self.weight <= 1.0:
            return self.weight
        needed = max(1.0, np.floor(gap / gain) + 1.0)
        return needed if needed < self.weight else self.weight


def _needs_norm(self):  # type: ignore[no-untyped-def]
    return False


def _rest(self, trial):  # type: ignore[no-untyped-def]
    return 1.0


def _project(self, norm2):  # type: ignore[no-untyped-def]
    return 1.0


def _of(self, c):  # type: ignore[no-untyped-def]
    return self


def rule(cls: RuleClass) -> RuleClass:
    """Class decorator: complete a rule by the methods that it does not define."""
    usual = {"needs_norm": _needs_norm, "rest": _rest, "project": _project, "of": _of}
    for name, method in usual.items():
        if not hasattr(cls, name):
            setattr(cls, name, method)
    return cls


bridge("active", "asked", "needs_norm", "step", "rest", "project", "of", "repeats")
