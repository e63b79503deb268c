"""The page: one HTML file that needs nothing else.

What was measured can be kept as JSON, from which the page is made again, with the verdicts of the
code that makes it and without the run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from maxmargin_papers import pages
from maxmargin_papers.reproduction import figures, find, provenance
from maxmargin_papers.reproduction.experiment import Experiment, NotMeasured, Printed, Scale
from maxmargin_papers.reproduction.runner import Outcome
from maxmargin_papers.reproduction.verdicts import (
    FAILED,
    NOT_COMPARABLE,
    NOT_COMPARED,
    REPRODUCED,
    UNDECIDED,
    Line,
    chance,
    judge_again,
    score,
    shown,
)

SCALES = {
    "full": "",
    "quick": "This is the quick version, with fewer runs than the papers made, so that more stays "
    "undecided; each section says what was run.",
    "tiny": "This is a tiny stand-in that shows that everything works; nothing is compared.",
}


@dataclass(frozen=True)
class Section:
    """What the page shows of an experiment.

    Attributes
    ----------
    experiment : Experiment
    measurements : int
        The number of cells that were run.
    lines : sequence of Line
    measured_on : sequence of str
        Dates and commits at which the cells were run.
    missing : sequence of str
        Why cells could not be run: what is missing.
    found : sequence of str
        What came out, in sentences.
    stand_in : str or None
        What the data are, if not the paper's.
    pictures : sequence of (caption, SVG) or None
        None where runs are missing.
    """

    experiment: Experiment
    measurements: int
    lines: Sequence[Line]
    measured_on: Sequence[str] = ()
    missing: Sequence[str] = ()
    found: Sequence[str] = ()
    stand_in: str | None = None
    pictures: Sequence[tuple[str, str]] | None = ()

    @classmethod
    def of(cls, outcome: Outcome) -> Section:
        return cls(
            experiment=outcome.experiment,
            measurements=len(outcome.records),
            lines=outcome.lines,
            measured_on=outcome.measured_on,
            missing=outcome.missing,
            found=outcome.found,
            stand_in=outcome.results.stand_in,
            pictures=_pictures(outcome),
        )

    @classmethod
    def from_json(cls, name: str, kept: dict[str, Any], scale: Scale) -> Section:
        """What was kept, with the verdicts that follow from the experiment as it is."""
        experiment = find(name)
        measured = [Line(**line) for line in kept["lines"]]
        lines = judge_again(experiment, measured, scale, kept.get("stand_in"))
        return cls(**kept | {"experiment": experiment, "lines": lines})

    def as_json(self) -> dict[str, Any]:
        """What was measured, without what the code of the experiment says."""
        measured = [
            {name: value for name in KEPT if (value := getattr(line, name)) is not None}
            for line in self.lines
            if line.runs
        ]
        kept = {field.name: getattr(self, field.name) for field in fields(self)}
        del kept["experiment"]
        return kept | {"lines": measured}


KEPT = ("row", "column", "paper", "ours", "mean", "spread", "runs", "verdict")
"""What a line says of the run; the other fields are those of the experiment."""


def sections_of(outcomes: Sequence[Outcome]) -> list[Section]:
    """What the page shows, with all figures drawn."""
    return [Section.of(one) for one in outcomes]


def kept(sections: Sequence[Section], scale: Scale) -> str:
    """All that was measured and drawn, as JSON."""
    experiments = {one.experiment.name: one.as_json() for one in sections}
    everything = {"scale": scale, "made": _made(), "experiments": experiments}
    return json.dumps(everything, indent=1, ensure_ascii=False) + "\n"


def kept_sections(text: str) -> list[Section]:
    """What the page shows of a run that was `kept`."""
    found = json.loads(text)
    return [
        Section.from_json(name, each, found["scale"]) for name, each in found["experiments"].items()
    ]


def render_kept(text: str) -> str:
    """The page of a run that was `kept`."""
    found = json.loads(text)
    return render(kept_sections(text), found["scale"], found["made"])


def render(sections: Sequence[Section], scale: Scale, made: str = "") -> str:
    """The page of all experiments that were asked for.

    ``made`` says when and where they were run; empty is here and now.
    """
    return pages.render(
        "reproduction/reproduction.html.jinja",
        sections=sections,
        scale=SCALES[scale],
        total=score(line for one in sections for line in one.lines),
        chance=chance(line for one in sections for line in one.lines),
        failures=[
            (one.experiment.name, line)
            for one in sections
            for line in one.lines
            if line.verdict == FAILED
        ],
        made=made or _made(),
        score=score,
        stand_ins={one.stand_in for one in sections},
        runs_of=partial(_runs, scale=scale),
        quick=scale == "quick",
        by_row=_by_row,
        reasons=_reasons,
        spread=_spread,
        looks={
            REPRODUCED: "margin",
            FAILED: "bound",
            UNDECIDED: "undecided",
            NOT_COMPARABLE: "muted",
            NOT_COMPARED: "muted",
        },
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


def _runs(section: Section, scale: Scale) -> str:
    """What was run on this scale, and how many runs the paper made, if it prints numbers."""
    one, made = section.experiment, section.measurements
    ours = {
        "full": f"Full run: {made} measurements.",
        "quick": f"Quick run: {made} of the {len(one.cells('full'))} measurements of a full one.",
        "tiny": f"Tiny stand-in: {made} measurements.",
    }[scale]
    if section.measured_on:
        ours += f" Measured on {'; '.join(section.measured_on)}."
    if section.stand_in or not any(isinstance(each, Printed) for each in one.compared):
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
    return list(dict.fromkeys(line.why for line in lines if line.compared))


def _spread(line: Line) -> str:
    """With as many decimals as the mean."""
    assert line.spread is not None
    return shown(line.spread, len(line.ours.partition(".")[2]))


def _made() -> str:
    versions = ", ".join(f"{name} {number}" for name, number in provenance.versions().items())
    machine = provenance.machine()
    where = f"{machine['cores']} cores of {machine['processor']}"
    return f"Made on {provenance.today_and_commit()} with {versions}; {where}."
