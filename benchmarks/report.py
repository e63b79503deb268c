"""Reports as tables on the terminal, floors included."""

from __future__ import annotations

import sys
from typing import NamedTuple

from rich.console import Console
from rich.table import Table as RichTable

from benchmarks.harness import Report, Spread
from benchmarks.store import Kept
from benchmarks.themes import BENCHMARKS

WIDTH_OF_A_FILE = 120


class Table(NamedTuple):
    title: str
    head: list[str]
    body: list[list[str]]


def tables(report: Report) -> list[Table]:
    """The measurements, quality, the floors if any were asked for, and who was missing."""
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
    if report.quality:
        found = [[*key, f"{value:.5g}"] for key, value in report.quality.items()]
        result.append(Table(f"{report.name}: quality", ["case", "measure", "value"], found))
    if report.comparisons:
        found = []
        for one in report.comparisons:
            low, median, high = (f"{x:.3g}" for x in Spread.of(report.times_as_fast(one)))
            found.append([*one.ours, one.words, median, f"{low} to {high}"])
        head = ["case", "contender", "peer", "times as fast", "middle half"]
        result.append(Table(f"{report.name}: beside peers", head, found))
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
            return f"{value / factor:.3g} {name}{unit[1:]}"
    return f"{value / 1e-6:.3g} µs{unit[1:]}"


def listed(kept: Kept) -> None:
    """All benchmarks, and how long they took when they were last kept."""
    rows = []
    for name, module in BENCHMARKS.items():
        report = kept.get(name, {})
        took = f"{report['seconds']:,.0f} s" if "seconds" in report else "?"
        size = f"{100.0 * report['share']:g} %" if report else "never kept"
        rows.append([name, module.QUESTION, took, size])
    print_table(Table("", ["name", "question", "took", "of the full size"], rows))


def show(report: Report) -> None:
    for table in tables(report):
        print_table(table)
    console().print(report.how, highlight=False)


def console() -> Console:
    return Console(width=None if sys.stdout.isatty() else WIDTH_OF_A_FILE)


def print_table(table: Table) -> None:
    shown = RichTable(*table.head, title=table.title or None, title_justify="left")
    for line in table.body:
        shown.add_row(*line)
    console().print(shown)
