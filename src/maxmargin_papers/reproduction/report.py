"""What a run leaves behind beside its cells: CSV, JSON, the page, and a table for documents."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from maxmargin_papers.reproduction import provenance
from maxmargin_papers.reproduction.cell_files import file_name, write_whole
from maxmargin_papers.reproduction.experiment import Scale
from maxmargin_papers.reproduction.reproduction_page import Section, kept, render, sections_of
from maxmargin_papers.reproduction.runner import Outcome
from maxmargin_papers.reproduction.verdicts import FAILED, UNDECIDED, Line, chance, score


def write_all(outcomes: Sequence[Outcome], scale: Scale, out: Path) -> None:
    write_whole(out / "results.csv", as_csv(outcomes))
    write_whole(out / "results.json", as_json(outcomes, scale))
    sections = sections_of(outcomes)
    write_whole(out / "summary.md", as_markdown(sections, scale))
    write_whole(out / "page.json", kept(sections, scale))
    write_whole(out / "index.html", render(sections, scale))


def as_csv(outcomes: Sequence[Outcome]) -> str:
    """One line for each measured number."""
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow(["experiment", "cell", "number", "value"])
    for outcome in outcomes:
        for record in outcome.records:
            for number, value in _flat(record["numbers"]):
                name = outcome.experiment.name
                table.writerow([name, file_name(record["cell"]), number, value])
    return file.getvalue()


def _flat(numbers: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in numbers.items():
        if isinstance(value, list):
            yield from _flat({f"{name}[{n}]": one for n, one in enumerate(value)})
        else:
            yield name, value


def as_json(outcomes: Sequence[Outcome], scale: Scale) -> str:
    """Everything: each number beside the printed one, each cell, and where it comes from."""
    everything = {
        "date": provenance.today(),
        "commit": provenance.commit(),
        "scale": scale,
        "versions": provenance.versions(),
        "machine": provenance.machine(),
        "experiments": {
            one.experiment.name: {
                "paper": one.experiment.origin,
                "lines": [vars(line) for line in one.lines],
                "found": list(one.found),
                "cells": one.records,
                "missing": one.missing,
            }
            for one in outcomes
        },
    }
    return json.dumps(everything, indent=1, ensure_ascii=False) + "\n"


def as_markdown(sections: Sequence[Section], scale: Scale) -> str:
    """A table of all experiments, for documents."""
    lines = [line for one in sections for line in one.lines]
    summary = f"Reproduced: {score(lines)}."
    if (test := chance(lines)) is not None:
        summary += f" {test}"
    command = "maxmargin reproduce --quick" if scale == "quick" else "maxmargin reproduce"
    kinds = " | ".join(score(lines).counts)
    rows = "\n".join(_row(one) for one in sections)
    return f"""<!-- made by: {command} -->
| experiment | paper | {kinds} | not reproduced | undecided | not comparable | measured on |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
{rows}

{fill(summary, 100)}
<!-- end -->
"""


def _row(section: Section) -> str:
    one = section.experiment
    total = score(section.lines)
    counts = [str(each) if each.decided else "" for each in total.counts.values()]
    if not total.compared:
        counts[0] = "not compared"
    origin = re.sub(", “[^”]*”(, [0-9]{4})?", "", one.origin)  # without the paper's title
    names = (
        "; ".join(_name(line) for line in section.lines if line.verdict == verdict)
        for verdict in (FAILED, UNDECIDED)
    )
    not_comparable, measured_on = str(total.not_comparable or ""), "; ".join(section.measured_on)
    cells = (f"`{one.name}`", origin, *counts, *names, not_comparable, measured_on)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _name(line: Line) -> str:
    return f"{line.row} (claim)" if line.is_claim else f"{line.row}, {line.column}"


def in_words(outcomes: Sequence[Outcome]) -> str:
    """What was reproduced, for the terminal."""
    width = max(len(one.experiment.name) for one in outcomes)
    lines = []
    for one in outcomes:
        said = " ".join(one.found) or str(score(one.lines))
        if not one.records:
            said = "skipped: " + " ".join(one.missing)
        lines.append(f"{one.experiment.name:<{width}}  {said}")
    if len(outcomes) > 1:
        lines.append(f"{'all':<{width}}  {score(line for one in outcomes for line in one.lines)}")
    return "\n".join(lines)
