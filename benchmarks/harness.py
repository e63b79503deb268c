"""What a benchmark is made of: contenders, rounds, and the floors that the ratios must reach.

A machine's speed wanders: other programs, clock frequencies, caches. So contenders never run one
after the other in blocks but in turns, A B C, A B C, ..., and two of them are compared round by
round: the reported ratio is the median over the rounds of the ratio within a round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np


@dataclass(frozen=True)
class Scale:
    """How much of the full size to run, and how often."""

    share: float
    rounds: int

    def rows(self, full: int) -> int:
        return max(100, int(self.share * full))


FULL = Scale(share=1.0, rounds=11)
QUICK = Scale(share=0.1, rounds=3)


class Key(NamedTuple):
    """Who was measured on what."""

    case: str
    contender: str


Values = dict[Key, list[float]]


class Contender(NamedTuple):
    """``measure()`` does the work once and returns one number about it, such as seconds."""

    key: Key
    measure: Callable[[], float]


def seconds(work: Callable[[], object]) -> float:
    """Processor time of all threads of this process: what others take meanwhile does not count."""
    began = time.process_time()
    work()
    return time.process_time() - began


def wall_seconds(work: Callable[[], object]) -> float:
    """Time by the clock, for work that keeps all cores busy."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def race(contenders: Sequence[Contender], rounds: int) -> Values:
    """Measure all contenders in turns, after a warm-up of each that does not count."""
    for contender in contenders:
        contender.measure()
    values: Values = {contender.key: [] for contender in contenders}
    for _ in range(rounds):
        for contender in contenders:
            values[contender.key].append(contender.measure())
    return values


class Spread(NamedTuple):
    """The middle of some numbers and where half of them lie."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(*map(float, np.percentile(values, [25, 50, 75])))


@dataclass
class Floor:
    """A number that was asked for, and the same number as measured, once per round."""

    what: str
    sense: str  # ">=" or "<="
    asked: float
    values: list[float]

    @property
    def measured(self) -> float:
        return Spread.of(self.values).median

    @property
    def met(self) -> bool:
        above = self.sense == ">="
        return self.measured >= self.asked if above else self.measured <= self.asked


def ratios(values: Values, above: Key, below: Key) -> list[float]:
    """The first contender's numbers divided by the second's, round by round."""
    return [a / b for a, b in zip(values[above], values[below], strict=True)]


class Comparison(NamedTuple):
    """Ours beside a peer, as a page tells it: so many times as fast as ``words``."""

    ours: Key
    peer: Key
    words: str
    headline: str = ""  # its name in the plot of the main comparisons, if it is one of them


@dataclass
class Report:
    """What a benchmark found."""

    name: str
    data: str
    unit: str  # "s", "s/row", "s/call", "rows/s" or "bytes"
    values: Values
    floors: list[Floor] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)  # contender: reason
    how: str = ""  # it was measured, in a sentence or two
    comparisons: list[Comparison] = field(default_factory=list)
    quality: dict[Key, float] = field(default_factory=dict)  # a contender here is a measure: "AUC"

    def times_as_fast(self, one: Comparison) -> list[float]:
        """How often the peer's time contains ours, round by round."""
        pair = (one.ours, one.peer) if self.unit == "rows/s" else (one.peer, one.ours)
        return ratios(self.values, *pair)
