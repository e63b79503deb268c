"""Paper against ours: verdicts that follow from stated tolerances and nothing else."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace

from maxmargin.experiments.experiment import (
    Claim,
    Experiment,
    NotMeasured,
    NoVerdict,
    Printed,
    Results,
    Scale,
    Tolerance,
)

REPRODUCED, FAILED, NOT_COMPARED = "reproduced", "not reproduced", "not compared"
NOT_RUN = "not part of this run"


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
        As of the number or claim.
    """

    row: str
    column: str
    paper: str
    where: str
    note: str
    ours: str = ""
    mean: float | None = None
    spread: float | None = None
    runs: int = 0
    verdict: str = NOT_COMPARED
    tolerance: str = ""
    why: str = ""


@dataclass(frozen=True)
class Count:
    """How many of the compared numbers were reproduced."""

    reproduced: int
    compared: int
    all: int

    def __str__(self) -> str:
        return f"{self.reproduced} of {self.compared}"


def count(lines: Iterable[Line]) -> Count:
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
            line = replace(line, verdict=NOT_COMPARED, tolerance="", why=stand_in)
        lines.append(line)
    return lines


def _number(printed: Printed, results: Results) -> Line:
    rule = printed.tolerance
    paper = shown(printed.value, printed.decimals)
    line = Line(printed.row, printed.column, paper, printed.where, printed.note)
    try:
        values = [float(value) for value in printed.ours(results)]
    except NotMeasured:
        return replace(line, why=rule.why if isinstance(rule, NoVerdict) else NOT_RUN)
    mean, verdict = statistics.fmean(values), NOT_COMPARED
    if isinstance(rule, Tolerance):
        verdict = REPRODUCED if rule.allows(mean, printed.value) else FAILED
    return replace(
        line,
        # “0.1” is a rounded number of the paper, but nobody wants ours rounded so much.
        ours=shown(mean, max(printed.decimals, 2) if printed.decimals else 0),
        mean=mean,
        spread=statistics.stdev(values) if len(values) > 1 else None,
        runs=len(values),
        verdict=verdict,
        tolerance=str(rule),
        why=rule.why,
    )


def _claim(claim: Claim, results: Results) -> Line:
    line = Line(claim.row, "", claim.text, claim.where, claim.note)
    try:
        holds, ours = claim.holds(results)
    except NotMeasured:
        return replace(line, why=NOT_RUN)
    verdict = REPRODUCED if holds else FAILED
    return replace(line, ours=ours, runs=len(results.records), verdict=verdict)


def shown(value: float, decimals: int) -> str:
    """With the printed digits, and thin spaces between thousands."""
    return f"{value:,.{decimals}f}".replace(",", "\N{THIN SPACE}").replace("-", "\N{MINUS SIGN}")
