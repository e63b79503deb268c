"""What an experiment is: cells to measure, and what a paper prints to compare with."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal

Scale = Literal["full", "quick", "tiny"]
"""All runs; some of them; or a stand-in of the same shape that takes no time and no data."""

Cell = Mapping[str, str | int | float]
"""An independent piece of work: which data, which learner, which run."""

Numbers = Mapping[str, Any]
"""What a cell gives: names and numbers, or lists of numbers for curves.

The name ``stand_in``, with a text, says that the data are not those of the paper.
"""

DataHome = str | PathLike[str] | None

Kind = Literal["strict", "fitted", "theorem"]
"""How much agreement says.

strict: the paper prints or describes all that the experiment needs. fitted: details that it leaves
out were chosen, or allowed for, with its numbers in view. theorem: it is proved, so that a run
tests the code and not the paper.
"""


class NotMeasured(LookupError):
    """No cell that was run has the number."""


class Missing(RuntimeError):
    """A cell needs something else than data that is not there, such as a device."""


@dataclass(frozen=True)
class Tolerance:
    """How far a measured mean may be from the printed number, beside half its last digit.

    Attributes
    ----------
    why : str
        What it allows for.
    by_chance : bool
        Whether runs differ by chance; then by as much as that can move the means.
    part : float
        What else is known beforehand, as a part of the printed number.
    """

    why: str
    by_chance: bool = True
    part: float = 0.0


BY_CHANCE = Tolerance(
    "half the last printed digit, and what chance does to the means of our runs and of the "
    "paper’s (95 %); undecided where there is one run, or where that is more than a tenth of the "
    "number"
)
EXACT = Tolerance("half the last printed digit; there is no chance in it", by_chance=False)


@dataclass(frozen=True)
class NoVerdict:
    """In place of a tolerance: a number or claim that is shown only, and why."""

    why: str


class NotComparable(NoVerdict):
    """No run can be compared with it: it is quoted, misprinted, or of a learner not described."""


@dataclass(frozen=True)
class Results:
    """The measured cells of an experiment, in the order of its cells."""

    records: Sequence[tuple[Cell, Numbers]]

    def values(self, number: str, **where: str | int | float) -> list[Any]:
        """The number of each cell that agrees with ``where``."""
        found = [
            numbers[number]
            for cell, numbers in self.records
            if number in numbers and all(cell.get(name) == one for name, one in where.items())
        ]
        if not found:
            raise NotMeasured(f"{number} of {where}")
        return found

    def mean(self, number: str, **where: str | int | float) -> float:
        values = self.values(number, **where)
        return math.fsum(values) / len(values)

    def curve(self, number: str, **where: str | int | float) -> list[float]:
        """The mean, place by place, of lists of the same length."""
        columns = zip(*self.values(number, **where), strict=True)
        return [math.fsum(column) / len(column) for column in columns]

    @property
    def stand_in(self) -> str | None:
        """What the data are, if not the paper's."""
        return next((n["stand_in"] for _, n in self.records if "stand_in" in n), None)


Measure = Callable[[Results], Sequence[float]]
"""One value for each run."""


Answer = tuple[bool | None, str]
"""Whether a claim is true, None if runs do not suffice; and our numbers in words."""


def measured(number: str, **where: str | int | float) -> Measure:
    """The number of all cells that agree with ``where``."""
    return lambda results: results.values(number, **where)


def at(number: str, place: int, **where: str | int | float) -> Measure:
    """The same for one place of a list."""
    return lambda results: [each[place] for each in results.values(number, **where)]


def in_runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"


@dataclass(frozen=True)
class Printed:
    """A number of the paper, and how to measure it.

    Attributes
    ----------
    row, column : str
        What the number is: the line of the paper's table, and the quantity.
    text : str
        The number with its printed digits.
    ours : callable
    tolerance : Tolerance or NoVerdict
    where : str
        The place in the paper.
    note : str
        What there is to know about this number.
    deviation : str
        That between the paper's runs, if it is printed.
    kind : {"strict", "fitted", "theorem"}
    """

    row: str
    column: str
    text: str
    ours: Measure
    tolerance: Tolerance | NoVerdict
    where: str
    note: str = ""
    deviation: str = ""
    kind: Kind = "strict"

    @property
    def value(self) -> float:
        return float(self.text)

    @property
    def decimals(self) -> int:
        return len(self.text.partition(".")[2])


@dataclass(frozen=True)
class Claim:
    """A statement of the paper without a number, and how to test it.

    Attributes
    ----------
    row : str
        What it is about.
    text : str
        The statement.
    holds : callable
        From the results: whether it is true, None if runs do not suffice, and our numbers in words.
    where : str
        The place in the paper.
    note, kind
        As of a number.
    no_verdict : NoVerdict or None
        Why there is no verdict, if there is none.
    """

    row: str
    text: str
    holds: Callable[[Results], Answer]
    where: str
    note: str = ""
    kind: Kind = "strict"
    no_verdict: NoVerdict | None = None


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table or figure of a paper, or an experiment of our own.

    Attributes
    ----------
    name : str
        As on the command line.
    title : str
        What it shows, in a line.
    paper, place : str
        Authors and title; table or figure. Empty where there is no paper.
    claim : str
        What the paper concludes, or what there is to see, in a sentence.
    runs : int
        The paper's number of runs behind a number.
    cells : callable
        The cells of a scale. Those of the quick scale are some of those of the full one.
    measure : callable
        From a cell, whether to use the tiny stand-in, and the folder of data, to its numbers.
        Raises FileNotFoundError where data are missing, and Missing where something else is.
    compared : sequence of Printed or Claim
    found : callable
        From the results to sentences on what came out, where there is no paper to compare with.
    panels : callable
        From the results to the panels of the figure; None for no figure.
    cells_of : str
        Another experiment that has the same cells and measures them in the same way, if any.
    choices : sequence of str
        What the paper leaves open, what was chosen, and why.
    differences : sequence of str
        What comes out otherwise than printed, and why.
    """

    name: str
    title: str
    paper: str
    place: str
    claim: str
    runs: int
    cells: Callable[[Scale], Sequence[Cell]]
    measure: Callable[[Cell, bool, DataHome], Numbers]
    compared: Sequence[Printed | Claim]
    found: Callable[[Results], Sequence[str]] | None = None
    panels: Callable[[Results], Sequence[Any]] | None = None
    cells_of: str = ""
    choices: Sequence[str] = ()
    differences: Sequence[str] = ()

    @property
    def origin(self) -> str:
        """Where it is printed."""
        return f"{self.paper}, {self.place}" if self.paper else "an experiment of this library"
