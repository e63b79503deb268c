"""Reports as tables on the terminal, as Markdown, and as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from benchmarks.harness import Report, Spread

WIDTH_OF_A_FILE = 120


class Table(NamedTuple):
    title: str
    head: list[str]
    body: list[list[str]]


def tables(report: Report) -> list[Table]:
    """The measurements, the floors if any were asked for, and who was missing."""
    rows = []
    for key, values in report.values.items():
        low, median, high = (readable(value, report.unit) for value in Spread.of(values))
        rows.append([key.case, key.contender, median, f"{low} to {high}", str(len(values))])
    result = [
        Table(
            f"{report.name}: {report.data}",
            ["case", "contender", "median", "middle half", "rounds"],
            rows,
        )
    ]
    if report.floors:
        floors = []
        for floor in report.floors:
            low, median, high = (f"{value:.4g}" for value in Spread.of(floor.values))
            met = "yes" if floor.met else "no"
            floors.append(
                [floor.what, f"{floor.sense} {floor.asked:g}", median, f"{low} to {high}", met]
            )
        head = ["floor", "asked", "measured", "middle half", "met"]
        result.append(Table(f"{report.name}: asked and measured", head, floors))
    if report.skipped:
        missing = [[name, reason] for name, reason in report.skipped.items()]
        result.append(Table(f"{report.name}: skipped", ["peer", "reason"], missing))
    return result


def readable(value: float, unit: str) -> str:
    if unit == "rows/s":
        return f"{value:,.0f} rows/s"
    if unit == "bytes":
        return f"{value / 2**20:,.1f} MiB"
    for factor, name in ((1.0, "s"), (1e-3, "ms")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {name}"
    return f"{value / 1e-6:.3g} µs"


def markdown(machine: dict[str, str], reports: Sequence[Report]) -> str:
    """A whole page: the machine, then one section per benchmark."""
    where = ", ".join(f"{name} {value}" for name, value in machine.items())
    return "\n\n".join(["# Benchmarks", where, *map(as_markdown, reports)]) + "\n"


def as_markdown(report: Report) -> str:
    parts = []
    for table in tables(report):
        lines = [table.head, ["---"] * len(table.head), *table.body]
        parts.append(f"## {table.title}")
        parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
    return "\n\n".join([*parts, *report.notes])


def as_json(machine: dict[str, str], reports: Sequence[Report]) -> str:
    """Everything, the numbers of each round included."""
    return json.dumps({"machine": machine, "reports": [_plain(one) for one in reports]}, indent=1)


def _plain(report: Report) -> dict[str, Any]:
    values = [{**key._asdict(), "values": numbers} for key, numbers in report.values.items()]
    floors = [asdict(floor) | {"met": floor.met} for floor in report.floors]
    return vars(report) | {"values": values, "floors": floors}


def show(report: Report) -> None:
    """On the terminal: by `rich` if it is installed, else as Markdown."""
    try:
        from rich.console import Console
        from rich.table import Table as RichTable
    except ModuleNotFoundError:
        print(as_markdown(report))
        return
    console = Console(width=None if sys.stdout.isatty() else WIDTH_OF_A_FILE)
    for table in tables(report):
        shown = RichTable(*table.head, title=table.title, title_justify="left")
        for line in table.body:
            shown.add_row(*line)
        console.print(shown)
    for note in report.notes:
        console.print(note, highlight=False)
