"""The page: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from maxmargin import pages
from maxmargin_papers.reproduction import figures, provenance
from maxmargin_papers.reproduction.experiment import NotMeasured, Printed, Scale
from maxmargin_papers.reproduction.runner import Outcome
from maxmargin_papers.reproduction.verdicts import (
    FAILED,
    NOT_COMPARED,
    REPRODUCED,
    UNDECIDED,
    Line,
    score,
    shown,
)

SCALES = {
    "full": "",
    "quick": "This is the quick version, with fewer runs than the papers made, so that more stays "
    "undecided; each section says what was run.",
    "tiny": "This is a tiny stand-in that shows that everything works; nothing is compared.",
}


def render(outcomes: Sequence[Outcome], scale: Scale) -> str:
    """The page of all experiments that were asked for."""
    return pages.render(
        "reproduction/reproduction.html.jinja",
        package="maxmargin_papers",
        outcomes=outcomes,
        scale=SCALES[scale],
        total=score(line for one in outcomes for line in one.lines),
        failures=[
            (one.experiment.name, line)
            for one in outcomes
            for line in one.lines
            if line.verdict == FAILED
        ],
        made=_made(),
        score=score,
        pictures=_pictures,
        stand_ins={one.results.stand_in for one in outcomes},
        runs_of=partial(_runs, scale=scale),
        claims=sum(
            line.is_claim and line.verdict != NOT_COMPARED for one in outcomes for line in one.lines
        ),
        quick=scale == "quick",
        by_row=_by_row,
        reasons=_reasons,
        spread=_spread,
        looks={REPRODUCED: "margin", FAILED: "bound", UNDECIDED: "", NOT_COMPARED: "muted"},
        NOT_COMPARED=NOT_COMPARED,
    )


def _pictures(outcome: Outcome) -> list[tuple[str, str]] | None:
    """Captions and pictures; None where runs are missing."""
    if outcome.experiment.panels is None or not outcome.records:
        return []
    try:
        panels = outcome.experiment.panels(outcome.results)
        svgs = figures.as_svgs(panels)
    except NotMeasured:
        return None
    return [(panel.caption, svg) for panel, svg in zip(panels, svgs, strict=True)]


def _runs(outcome: Outcome, scale: Scale) -> str:
    """What was run on this scale, and how many runs the paper made, if it prints numbers."""
    one, made = outcome.experiment, len(outcome.records)
    ours = {
        "full": f"Full run: {made} measurements.",
        "quick": f"Quick run: {made} of the {len(one.cells('full'))} measurements of a full one.",
        "tiny": f"Tiny stand-in: {made} measurements.",
    }[scale]
    if outcome.results.stand_in or not any(isinstance(each, Printed) for each in one.compared):
        return ours
    papers = "single runs" if one.runs == 1 else f"means of {one.runs} runs"
    return f"{ours} The paper’s numbers are {papers}."


def _by_row(lines: Sequence[Line]) -> dict[str, list[Line]]:
    groups: dict[str, list[Line]] = {}
    for line in lines:
        groups.setdefault(line.row, []).append(line)
    return groups


def _reasons(lines: Sequence[Line]) -> list[str]:
    """What the tolerances allow for, each once."""
    return list(dict.fromkeys(line.why for line in lines if line.verdict != NOT_COMPARED))


def _spread(line: Line) -> str:
    """With as many decimals as the mean."""
    assert line.spread is not None
    return shown(line.spread, len(line.ours.partition(".")[2]))


def _made() -> str:
    versions = ", ".join(f"{name} {number}" for name, number in provenance.versions().items())
    machine = provenance.machine()
    where = f"{machine['cores']} cores of {machine['processor']}"
    return f"Made on {provenance.today_and_commit()} with {versions}; {where}."
