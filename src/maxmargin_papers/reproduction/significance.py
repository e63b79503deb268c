"""What chance alone does to means of a few runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, stdev

from scipy.special import stdtrit

CONFIDENCE = 0.95


def reach(runs: int, *errors: float) -> float:
    """How far a sum is from the truth by chance, at most, with a confidence of 95 %.

    Its parts have these standard errors, which were estimated from so many runs.
    """
    return float(stdtrit(runs - 1, 0.5 + CONFIDENCE / 2.0) * math.hypot(*errors))


def less(ours: Sequence[float], theirs: Sequence[float]) -> bool | None:
    """Whether the mean of the first is the smaller one; None if chance may have decided.

    Runs are compared one by one, as far as both go: they have rows and order in common.
    """
    gaps = [b - a for a, b in zip(ours, theirs, strict=False)]
    if len(gaps) < 2:
        return None
    mean = fmean(gaps)
    beyond_chance = abs(mean) > reach(len(gaps), stdev(gaps) / math.sqrt(len(gaps)))
    return mean > 0.0 if beyond_chance else None


def alike(ours: Sequence[float], theirs: Sequence[float]) -> bool | None:
    """Whether the means differ by less than single runs do; None for one run."""
    if min(len(ours), len(theirs)) < 2:
        return None
    return abs(fmean(ours) - fmean(theirs)) < max(stdev(ours), stdev(theirs))


def always(answers: Sequence[bool]) -> bool | None:
    """Whether it is so in every run: not if one run contradicts; one run alone does not decide."""
    return False if not all(answers) else None if len(answers) < 2 else True


def all_hold(answers: Iterable[bool | None]) -> bool | None:
    """Whether all are true: not if one is false, and undecided if one of the others is."""
    found = set(answers)
    return False if False in found else None if None in found else True
