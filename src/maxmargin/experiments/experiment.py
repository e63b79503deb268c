"""What an experiment is: cells to measure, and what the paper prints to compare with."""

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


class NotMeasured(LookupError):
    """No cell that was run has the number."""


@dataclass(frozen=True)
class Tolerance:
    """How far a measured mean may be from the printed number.

    Attributes
    ----------
    amount : float
        In units of the number, or as a part of the printed one.
    why : str
        What the amount allows for.
    relative : bool
    """

    amount: float
    why: str
    relative: bool = False

    def allows(self, ours: float, printed: float) -> bool:
        unit = abs(printed) if self.relative else 1.0
        return abs(ours - printed) <= self.amount * unit

    def __str__(self) -> str:
        return f"± {100 * self.amount:g} %" if self.relative else f"± {self.amount:g}"


@dataclass(frozen=True)
class NoVerdict:
    """In place of a tolerance: a number that is shown only, and why."""

    why: str

    def __str__(self) -> str:
        return ""


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
    """

    row: str
    column: str
    text: str
    ours: Measure
    tolerance: Tolerance | NoVerdict
    where: str
    note: str = ""

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
        From the results: whether it is true, and our numbers in words.
    where : str
        The place in the paper.
    """

    row: str
    text: str
    holds: Callable[[Results], tuple[bool, str]]
    where: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table or figure of a paper.

    Attributes
    ----------
    name : str
        As on the command line.
    title : str
        What it shows, in a line.
    paper, place : str
        Authors and title; table or figure.
    claim : str
        What the paper concludes, in a sentence.
    runs : int
        The paper's number of runs behind a number.
    cells : callable
        The cells of a scale. Those of the quick scale are some of those of the full one.
    measure : callable
        From a cell, whether to use the tiny stand-in, and the folder of data, to its numbers.
        Raises FileNotFoundError where data are missing.
    compared : sequence of Printed or Claim
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
    panels: Callable[[Results], Sequence[Any]] | None = None
    cells_of: str = ""
    choices: Sequence[str] = ()
    differences: Sequence[str] = ()
