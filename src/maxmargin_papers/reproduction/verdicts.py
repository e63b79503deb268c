"""Paper against ours: verdicts that follow from spread and print, and nothing else."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from maxmargin_papers.reproduction.experiment import (
    Claim,
    Experiment,
    NotMeasured,
    NoVerdict,
    Printed,
    Results,
    Scale,
)
from maxmargin_papers.reproduction.significance import reach

REPRODUCED, FAILED, UNDECIDED = "reproduced", "not reproduced", "undecided"
NOT_COMPARED = "not compared"
NOT_RUN = "not part of this run"
MOST_BY_CHANCE = 0.1
"""A number that chance may move by a larger part agrees with too much to be evidence."""


@dataclass(frozen=True)
class Line:
    """A line of the comparison.

    Attributes
    ----------
    row, column : str
        What the number is; claims have no column.
    paper, ours : str
        The printed number or claim, and what was measured, as shown. No number is shown beside
        those of a stand-in.
    mean, spread : float or None
        Of our runs; the spread is their standard deviation.
    runs : int
        How many runs were made.
    verdict : {"reproduced", "not reproduced", "undecided", "not compared"}
    tolerance, why : str
        How far ours may be from the paper's, and what that allows for; or why there is no verdict.
    where, note, fitted
        As of the number or claim.
    """

    row: str
    column: str
    paper: str
    where: str
    note: str
    fitted: bool
    ours: str = ""
    mean: float | None = None
    spread: float | None = None
    runs: int = 0
    verdict: str = NOT_COMPARED
    tolerance: str = ""
    why: str = ""

    @property
    def is_claim(self) -> bool:
        """Whether it is a sentence of the paper and not a printed number."""
        return not self.column


class Count(NamedTuple):
    """How many numbers and claims were reproduced, compared and left undecided.

    As text: the reproduced ones of those that were decided.
    """

    reproduced: int
    compared: int
    undecided: int

    @property
    def decided(self) -> int:
        return self.compared - self.undecided

    def __str__(self) -> str:
        return f"{self.reproduced} of {self.decided}" if self.decided else "none decided"


class Score(NamedTuple):
    """Counts of what was compared strictly, and where missing details were fitted."""

    strictly: Count
    fitted: Count
    not_compared: int

    def __str__(self) -> str:
        strictly, fitted = self.strictly, self.fitted
        parts = [f"{strictly} strictly"] if strictly.compared else []
        parts += [f"{fitted} where missing details were fitted"] if fitted.compared else []
        said = ", ".join(parts) or "nothing compared"
        undecided = strictly.undecided + fitted.undecided
        return f"{said}; {undecided} undecided" if undecided else said


def score(lines: Iterable[Line]) -> Score:
    lines = list(lines)
    compared = [line for line in lines if line.verdict != NOT_COMPARED]
    strictly, fitted = (
        count([line.verdict for line in compared if line.fitted == kind]) for kind in (False, True)
    )
    return Score(strictly, fitted, len(lines) - len(compared))


def count(verdicts: list[str]) -> Count:
    return Count(verdicts.count(REPRODUCED), len(verdicts), verdicts.count(UNDECIDED))


def judge(experiment: Experiment, results: Results, scale: Scale) -> list[Line]:
    """Every number and claim of the experiment beside what was measured."""
    stand_in = "a tiny stand-in was measured" if scale == "tiny" else results.stand_in
    lines = []
    for one in experiment.compared:
        if isinstance(one, Printed):
            line = _number(one, results, experiment.runs)
        else:
            line = _claim(one, results)
        if stand_in and line.runs:
            line = replace(line, verdict=NOT_COMPARED, tolerance="", why=stand_in)
            if not line.is_claim:
                line = replace(line, paper="")  # numbers of other data do not belong beside it
        lines.append(line)
    return lines


def _number(printed: Printed, results: Results, papers_runs: int) -> Line:
    rule = printed.tolerance
    line = _line(printed, printed.column, shown(printed.value, printed.decimals))
    try:
        values = [float(value) for value in printed.ours(results)]
    except NotMeasured:
        return replace(line, why=rule.why if isinstance(rule, NoVerdict) else NOT_RUN)
    mean = statistics.fmean(values)
    line = replace(
        line,
        # “0.1” is a rounded number of the paper, but nobody wants ours rounded so much.
        ours=shown(mean, max(printed.decimals, 2) if printed.decimals else 0),
        mean=mean,
        spread=statistics.stdev(values) if len(values) > 1 else None,
        runs=len(values),
        why=rule.why,
    )
    if isinstance(rule, NoVerdict):
        return line
    if rule.by_chance and line.spread is None:
        return replace(line, verdict=UNDECIDED)
    chance = by_chance(printed, line, papers_runs) if rule.by_chance else 0.0
    allowed = 0.5 * 10.0**-printed.decimals + chance + rule.part * abs(printed.value)
    part = f" ({100 * rule.part:g} %)" if rule.part else ""
    amount = f"{allowed:.2g}" if allowed < 10.0 else shown(allowed, 0)
    line = replace(line, tolerance=f"± {amount}{part}")
    if not abs(mean - printed.value) <= allowed:  # nor if it is no number
        return replace(line, verdict=FAILED)
    telling = chance <= MOST_BY_CHANCE * abs(printed.value)
    return replace(line, verdict=REPRODUCED if telling else UNDECIDED)


def by_chance(printed: Printed, line: Line, papers_runs: int) -> float:
    """How far the means may be apart; the paper's runs differ as ours do, if it does not say."""
    assert line.spread is not None
    theirs = float(printed.deviation) if printed.deviation else line.spread
    return reach(line.runs, line.spread / math.sqrt(line.runs), theirs / math.sqrt(papers_runs))


def _claim(claim: Claim, results: Results) -> Line:
    line = _line(claim, "", claim.text)
    try:
        holds, ours = claim.holds(results)
    except NotMeasured:
        return replace(line, why=NOT_RUN)
    verdict = {True: REPRODUCED, False: FAILED, None: UNDECIDED}[holds]
    return replace(line, ours=ours, runs=len(results.records), verdict=verdict)


def _line(one: Printed | Claim, column: str, paper: str) -> Line:
    return Line(one.row, column, paper, one.where, one.note, one.fitted)


def shown(value: float, decimals: int) -> str:
    """With the printed digits, and thin spaces between thousands."""
    return f"{value:,.{decimals}f}".replace(",", "\N{THIN SPACE}").replace("-", "\N{MINUS SIGN}")
