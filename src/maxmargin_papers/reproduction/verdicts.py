"""Paper against ours: verdicts that follow from spread and print, and nothing else."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from maxmargin_papers.reproduction.experiment import (
    Claim,
    Experiment,
    Kind,
    NotComparable,
    NotMeasured,
    NoVerdict,
    Printed,
    Results,
    Scale,
    Tolerance,
)
from maxmargin_papers.reproduction.significance import CONFIDENCE, reach

REPRODUCED, FAILED, UNDECIDED = "reproduced", "not reproduced", "undecided"
NOT_COMPARABLE, NOT_COMPARED = "not comparable", "not compared"
COMPARED = (REPRODUCED, FAILED, UNDECIDED)
NOT_RUN = "not part of this run"
TINY = "a tiny stand-in was measured"
MOST_BY_CHANCE = 0.1
"""A number that chance may move by a larger part agrees with too much to be evidence."""
MOST_Z = 5.0


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
    z : float or None
        How many standard errors the means are apart, where the tolerance is that of chance.
    verdict : {"reproduced", "not reproduced", "undecided", "not comparable", "not compared"}
    tolerance, why : str
        How far ours may be from the paper's, and what that allows for; or why there is no verdict.
    where, note, kind
        As of the number or claim.
    """

    row: str
    column: str
    paper: str
    where: str = ""
    note: str = ""
    kind: Kind = "strict"
    ours: str = ""
    mean: float | None = None
    spread: float | None = None
    runs: int = 0
    z: float | None = None
    verdict: str = NOT_COMPARED
    tolerance: str = ""
    why: str = ""

    @property
    def is_claim(self) -> bool:
        """Whether it is a sentence of the paper and not a printed number."""
        return not self.column

    @property
    def compared(self) -> bool:
        """Whether runs and print were held against each other."""
        return self.verdict in COMPARED


class Count(NamedTuple):
    """How many lines were reproduced, compared and left undecided.

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
    """Counts of lines, by how much their agreement says.

    Attributes
    ----------
    numbers, claims : Count
        Printed numbers and sentences of the papers, for which nothing was fitted.
    theorems : Count
        Statements that are proved, and test the code alone.
    fitted : Count
        Numbers and claims for which details were chosen with the paper's numbers in view.
    not_comparable, not_compared : int
        Lines without a verdict.
    """

    numbers: Count
    claims: Count
    theorems: Count
    fitted: Count
    not_comparable: int
    not_compared: int

    @property
    def counts(self) -> dict[str, Count]:
        """Those of compared lines, by what they count."""
        return {
            "printed numbers": self.numbers,
            "claims": self.claims,
            "theorems": self.theorems,
            "fitted": self.fitted,
        }

    @property
    def compared(self) -> int:
        return sum(count.compared for count in self.counts.values())

    @property
    def undecided(self) -> int:
        return sum(count.undecided for count in self.counts.values())

    def __str__(self) -> str:
        decided = [f"{count} {name}" for name, count in self.counts.items() if count.decided]
        others = {"undecided": self.undecided, "not comparable": self.not_comparable}
        left = [f"{number} {name}" for name, number in others.items() if number]
        nothing = "nothing decided" if self.undecided else "nothing compared"
        return "; ".join([", ".join(decided) or nothing, *([", ".join(left)] if left else [])])


class Chance(NamedTuple):
    """Whether printed numbers differ from ours by more than chance explains.

    Of numbers for which nothing was fitted, and whose tolerance is that of chance.

    Attributes
    ----------
    numbers : int
        How many there are, except those beyond chance.
    missed : int
        How many of them are not reproduced.
    mean_square : float
        The mean of z², 1 by chance alone; a little more, as errors are estimated from few runs.
    expected_square : float
        The same by chance alone, for so many runs.
    beyond : int
        How many more have a ``|z|`` above 5, which no chance explains.
    """

    numbers: int
    missed: int
    mean_square: float
    expected_square: float
    beyond: int

    def __str__(self) -> str:
        expected = (1.0 - CONFIDENCE) * self.numbers
        verb = "is" if self.beyond == 1 else "are"
        more = f"; {self.beyond} more {verb} beyond any chance (|z| > {MOST_Z:g})"
        return (
            f"Of {self.numbers} printed numbers whose tolerance is chance, {self.missed} "
            f"are not reproduced, where {expected:.1f} are expected at {CONFIDENCE:.0%}; the mean "
            f"z² is {self.mean_square:.2f}, where {self.expected_square:.2f} is expected"
            f"{more if self.beyond else ''}."
        ).replace("%", " %")


def chance(lines: Iterable[Line]) -> Chance | None:
    """None where no line says anything about it."""
    tested = [
        (line, line.z)
        for line in lines
        if line.compared and line.kind == "strict" and line.z is not None and line.runs > 3
    ]
    within = [(line, z) for line, z in tested if abs(z) <= MOST_Z]
    if not within:
        return None
    return Chance(
        len(within),
        sum(line.verdict == FAILED for line, _ in within),
        statistics.fmean(z * z for _, z in within),
        statistics.fmean((line.runs - 1) / (line.runs - 3) for line, _ in within),
        len(tested) - len(within),
    )


def score(lines: Iterable[Line]) -> Score:
    lines = list(lines)
    verdicts = [line.verdict for line in lines]
    strict = [line for line in lines if line.kind == "strict"]
    return Score(
        numbers=count(line for line in strict if not line.is_claim),
        claims=count(line for line in strict if line.is_claim),
        theorems=count(line for line in lines if line.kind == "theorem"),
        fitted=count(line for line in lines if line.kind == "fitted"),
        not_comparable=verdicts.count(NOT_COMPARABLE),
        not_compared=verdicts.count(NOT_COMPARED),
    )


def count(lines: Iterable[Line]) -> Count:
    verdicts = [line.verdict for line in lines if line.compared]
    return Count(verdicts.count(REPRODUCED), len(verdicts), verdicts.count(UNDECIDED))


def judge(experiment: Experiment, results: Results, scale: Scale) -> list[Line]:
    """Every number and claim of the experiment beside what was measured."""
    lines = [
        _number(one, results, experiment.runs) if isinstance(one, Printed) else _claim(one, results)
        for one in experiment.compared
    ]
    return _without_stand_ins(lines, scale, results.stand_in)


def judge_again(
    experiment: Experiment, measured: Sequence[Line], scale: Scale, stand_in: str | None
) -> list[Line]:
    """The same from the lines of an earlier run, whose cells need not be there.

    Numbers are judged by their mean, spread and runs; claims keep the answer that they got.
    """
    earlier = {(line.row, line.column or line.paper): line for line in measured}
    lines = []
    for one in experiment.compared:
        line = _unmeasured(one)
        found = earlier.get((line.row, line.column or line.paper))
        if found is not None and found.runs:
            line = replace(line, mean=found.mean, spread=found.spread, runs=found.runs)
            if isinstance(one, Printed):
                line = _judged_number(one, line, experiment.runs)
            else:
                line = _judged_claim(one, replace(line, ours=found.ours), found.verdict)
        lines.append(line)
    return _without_stand_ins(lines, scale, stand_in)


def _without_stand_ins(lines: list[Line], scale: Scale, stand_in: str | None) -> list[Line]:
    """Lines that were measured on other data than the paper's have no verdict."""
    why = TINY if scale == "tiny" else stand_in
    if not why:
        return lines
    return [
        replace(
            line,
            verdict=NOT_COMPARED,
            tolerance="",
            why=why,
            paper=line.paper if line.is_claim else "",  # numbers of other data do not belong there
        )
        if line.runs
        else line
        for line in lines
    ]


def _unmeasured(one: Printed | Claim) -> Line:
    rule: Tolerance | NoVerdict | None
    if isinstance(one, Printed):
        column, paper, rule = one.column, shown(one.value, one.decimals), one.tolerance
    else:
        column, paper, rule = "", one.text, one.no_verdict
    line = Line(one.row, column, paper, one.where, one.note, one.kind, why=NOT_RUN)
    return _unjudged(line, rule) if isinstance(rule, NoVerdict) else line


def _unjudged(line: Line, rule: NoVerdict) -> Line:
    verdict = NOT_COMPARABLE if isinstance(rule, NotComparable) else NOT_COMPARED
    return replace(line, verdict=verdict, why=rule.why)


def _number(printed: Printed, results: Results, papers_runs: int) -> Line:
    line = _unmeasured(printed)
    try:
        values = [float(value) for value in printed.ours(results)]
    except NotMeasured:
        return line
    spread = statistics.stdev(values) if len(values) > 1 else None
    line = replace(line, mean=statistics.fmean(values), spread=spread, runs=len(values))
    return _judged_number(printed, line, papers_runs)


def _judged_number(printed: Printed, line: Line, papers_runs: int) -> Line:
    """The verdict on a line that has mean, spread and runs."""
    rule, mean = printed.tolerance, line.mean
    assert mean is not None
    # “0.1” is a rounded number of the paper, but ours need not be rounded as much.
    decimals = max(printed.decimals, 2) if printed.decimals else 0
    line = replace(line, ours=shown(mean, decimals))
    if isinstance(rule, NoVerdict):
        return _unjudged(line, rule)
    line = replace(line, why=rule.why)
    if rule.by_chance and line.spread is None:
        return replace(line, verdict=UNDECIDED)
    last_digit = 10.0**-printed.decimals
    by_chance = 0.0
    if rule.by_chance:
        errors = standard_errors(printed, line, papers_runs)
        by_chance = reach(line.runs, *errors)
        rounding = last_digit / math.sqrt(12.0)
        line = replace(line, z=(mean - printed.value) / math.hypot(rounding, *errors))
    allowed = 0.5 * last_digit + by_chance + rule.part * abs(printed.value)
    part = f" ({100 * rule.part:g} %)" if rule.part else ""
    amount = f"{allowed:.2g}" if allowed < 10.0 else shown(allowed, 0)
    line = replace(line, tolerance=f"± {amount}{part}")
    if not abs(mean - printed.value) <= allowed:  # true of NaN as well
        return replace(line, verdict=FAILED)
    telling = by_chance <= MOST_BY_CHANCE * abs(printed.value)
    return replace(line, verdict=REPRODUCED if telling else UNDECIDED)


def standard_errors(printed: Printed, line: Line, papers_runs: int) -> tuple[float, float]:
    """Of our mean and the paper's, whose runs differ as ours do if it does not say."""
    assert line.spread is not None
    theirs = float(printed.deviation) if printed.deviation else line.spread
    return line.spread / math.sqrt(line.runs), theirs / math.sqrt(papers_runs)


def _claim(claim: Claim, results: Results) -> Line:
    line = _unmeasured(claim)
    try:
        holds, ours = claim.holds(results)
    except NotMeasured:
        return line
    verdict = {True: REPRODUCED, False: FAILED, None: UNDECIDED}[holds]
    return _judged_claim(claim, replace(line, ours=ours, runs=len(results.records)), verdict)


def _judged_claim(claim: Claim, line: Line, verdict: str) -> Line:
    if claim.no_verdict:
        return _unjudged(line, claim.no_verdict)
    return replace(line, verdict=verdict, why="")


def shown(value: float, decimals: int) -> str:
    """With the printed digits, and thin spaces between thousands."""
    return f"{value:,.{decimals}f}".replace(",", "\N{THIN SPACE}").replace("-", "\N{MINUS SIGN}")
