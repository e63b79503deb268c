"""Paper against ours: verdicts that follow from stated tolerances and nothing else."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from maxmargin.experiments.experiment import (
    Claim,
    Experiment,
    NotMeasured,
    NoVerdict,
    Printed,
    Results,
    Scale,
)

REPRODUCED, FAILED, NOT_COMPARED = "reproduced", "not reproduced", "not compared"


@dataclass(frozen=True)
class Line:
    """A line of the comparison.

    Attributes
    ----------
    row, column : str
        What the number is.
    paper, ours : str
        The printed number or claim, and what was measured, as shown.
    mean, spread : float or None
        Of our runs; the spread is their standard deviation.
    runs : int
        How many runs were made.
    verdict : {"reproduced", "not reproduced", "not compared"}
    tolerance, why : str
        How far ours may be from the paper's, and what that allows for; or why there is no verdict.
    where, note : str
    """

    row: str
    column: str
    paper: str
    ours: str
    mean: float | None
    spread: float | None
    runs: int
    verdict: str
    tolerance: str
    why: str
    where: str
    note: str


@dataclass(frozen=True)
class Count:
    """How many of the compared numbers were reproduced."""

    reproduced: int
    compared: int
    all: int

    def __add__(self, other: Count) -> Count:
        return Count(
            self.reproduced + other.reproduced,
            self.compared + other.compared,
            self.all + other.all,
        )

    def __str__(self) -> str:
        return f"{self.reproduced} of {self.compared}"


def count(lines: Sequence[Line]) -> Count:
    verdicts = [line.verdict for line in lines]
    compared = len(verdicts) - verdicts.count(NOT_COMPARED)
    return Count(verdicts.count(REPRODUCED), compared, len(verdicts))


def judge(experiment: Experiment, results: Results, scale: Scale) -> list[Line]:
    """Every number and claim of the experiment beside what was measured."""
    stand_in = "a tiny stand-in was measured" if scale == "tiny" else results.stand_in
    lines = []
    for one in experiment.compared:
        line = _number(one, results) if isinstance(one, Printed) else _claim(one, results)
        if stand_in and line.runs:
            line = _without_verdict(line, stand_in)
        lines.append(line)
    return lines


def _number(printed: Printed, results: Results) -> Line:
    paper = shown(printed.value, printed.decimals)
    try:
        values = [float(value) for value in printed.ours(results)]
    except NotMeasured:
        return _not_measured(printed.row, printed.column, paper, printed)
    mean = statistics.fmean(values)
    spread = statistics.stdev(values) if len(values) > 1 else None
    verdict = _verdict(printed, mean)
    return Line(
        row=printed.row,
        column=printed.column,
        paper=paper,
        # “0.1” is a rounded number of the paper, but nobody wants ours rounded so much.
        ours=shown(mean, max(printed.decimals, 2) if printed.decimals else 0),
        mean=mean,
        spread=spread,
        runs=len(values),
        verdict=verdict,
        tolerance=str(printed.tolerance),
        why=printed.tolerance.why,
        where=printed.where,
        note=printed.note,
    )


def _verdict(printed: Printed, mean: float) -> str:
    if isinstance(printed.tolerance, NoVerdict):
        return NOT_COMPARED
    return REPRODUCED if printed.tolerance.allows(mean, printed.value) else FAILED


def _claim(claim: Claim, results: Results) -> Line:
    try:
        holds, ours = claim.holds(results)
    except NotMeasured:
        return _not_measured(claim.row, "", claim.text, claim)
    return Line(
        row=claim.row,
        column="",
        paper=claim.text,
        ours=ours,
        mean=None,
        spread=None,
        runs=len(results.records),
        verdict=REPRODUCED if holds else FAILED,
        tolerance="",
        why="",
        where=claim.where,
        note=claim.note,
    )


def _not_measured(row: str, column: str, paper: str, one: Printed | Claim) -> Line:
    why = "not part of this run"
    if isinstance(one, Printed) and isinstance(one.tolerance, NoVerdict):
        why = one.tolerance.why
    return Line(row, column, paper, "", None, None, 0, NOT_COMPARED, "", why, one.where, one.note)


def _without_verdict(line: Line, why: str) -> Line:
    return replace(line, verdict=NOT_COMPARED, tolerance="", why=why)


def shown(value: float, decimals: int) -> str:
    """With the printed digits, and thin spaces between thousands."""
    return f"{value:,.{decimals}f}".replace(",", "\N{THIN SPACE}").replace("-", "\N{MINUS SIGN}")
