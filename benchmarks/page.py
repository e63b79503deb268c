"""The pages of the benchmarks, docs/benchmarks.md and one of HTML, from the reports that were kept.

A table has a row for each case and a column for each contender, or the other way round if there are
many of them. Cases stand in one table if one's contenders are among the other's.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from jinja2 import ChoiceLoader, Environment, FileSystemLoader, PackageLoader, StrictUndefined

from benchmarks.harness import Key
from benchmarks.store import Kept
from benchmarks.themes import BENCHMARKS, THEMES
from maxmargin_papers.pages.svg import STYLE, as_svg

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "docs"))

from pictures.benchmarks import drawn, shown  # noqa: E402 - found by the line above

MOST_COLUMNS = 5
MOST_RATIOS = 4  # that a sentence lists one by one
FARTHEST = 1e4  # between numbers that have one unit
SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
ALT = "How many times as fast as other libraries: one bar for each of the main comparisons."


class Cell(NamedTuple):
    text: str
    best: bool = False


class Table(NamedTuple):
    head: list[str]
    body: list[list[Cell]]


class Entry(NamedTuple):
    """The answer to one question."""

    name: str
    question: str
    report: dict[str, Any]
    tables: list[Table]
    sentences: list[str]


def markdown(kept: Kept) -> str:
    return _rendered("page.md.jinja", kept, alt=ALT)


def html(kept: Kept) -> str:
    with mpl.rc_context(STYLE):
        return _rendered("page.html.jinja", kept, picture=as_svg(drawn(kept), ALT))


def _rendered(template: str, kept: Kept, **content: Any) -> str:
    pages = Environment(
        loader=ChoiceLoader([PackageLoader("maxmargin_papers", ""), FileSystemLoader(HERE)]),
        autoescape=lambda name: name is not None and ".html" in name,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters |= {"slug": slug, "bold": bold}
    themes = {
        theme: [_entry(module.NAME, kept) for module in modules if module.NAME in kept]
        for theme, modules in THEMES.items()
    }
    content |= {"themes": themes, "machines": _machines(kept)}
    return pages.get_template(template).render(content).strip() + "\n"


def slug(heading: str) -> str:
    """The anchor that Markdown gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def bold(cell: Cell) -> str:
    return f"**{cell.text}**" if cell.best else cell.text


def _machines(kept: Kept) -> list[dict[str, str]]:
    """Each machine once, with its libraries."""
    found: list[dict[str, str]] = []
    for report in kept.values():
        if report["machine"] not in found:
            found.append(report["machine"])
    return found


def _entry(name: str, kept: Kept) -> Entry:
    report = kept[name]
    tables = [*_times(report), *_quality(report)]
    return Entry(name, BENCHMARKS[name].QUESTION, report, tables, list(sentences(report)))


# ------------------------------------------------------------------------------------------ tables
def _times(report: dict[str, Any]) -> Iterator[Table]:
    medians = {Key(one["case"], one["contender"]): one["median"] for one in report["values"]}
    best = set(_best(report, medians))
    for cases, contenders in grouped(list(medians)):
        there = {key: medians[key] for key in medians if key.case in cases}
        factor, unit = _unit(list(there.values()), report["unit"])
        cells = {
            key: Cell(three_digits(value / factor) if factor else own_unit(value), key in best)
            for key, value in there.items()
        }
        yield pivoted(cells, cases, contenders, unit)


def _quality(report: dict[str, Any]) -> Iterator[Table]:
    cells = {
        Key(one["case"], one["measure"]): Cell(number(one["value"], one["measure"]))
        for one in report["quality"]
    }
    for cases, measures in grouped(list(cells)):
        yield pivoted(cells, cases, measures, "")


def grouped(keys: Sequence[Key]) -> list[tuple[list[str], list[str]]]:
    """Cases that belong into one table, and its columns."""
    columns: dict[str, list[str]] = {}
    for key in keys:
        columns.setdefault(key.case, []).append(key.contender)
    groups: list[tuple[list[str], list[str]]] = []
    for case, own in columns.items():
        for cases, shared in groups:
            if set(own) <= set(shared) or set(shared) <= set(own):
                cases.append(case)
                shared += [name for name in own if name not in shared]
                break
        else:
            groups.append(([case], list(own)))
    return groups


def pivoted(
    cells: Mapping[Key, Cell], cases: Sequence[str], columns: Sequence[str], corner: str
) -> Table:
    nothing = Cell("")
    if len(columns) > MOST_COLUMNS and len(cases) <= MOST_COLUMNS:
        body = [
            [Cell(name), *(cells.get(Key(case, name), nothing) for case in cases)]
            for name in columns
        ]
        return Table([corner, *cases], body)
    body = [
        [Cell(case), *(cells.get(Key(case, name), nothing) for name in columns)] for case in cases
    ]
    return Table([corner, *columns], body)


def _best(report: dict[str, Any], medians: Mapping[Key, float]) -> Iterator[Key]:
    """The best of those who are compared with each other."""
    rivals: list[set[Key]] = []
    for one in report["comparisons"]:
        pair = {Key(*one["ours"]), Key(*one["peer"])}
        apart = [group for group in rivals if not group & pair]
        rivals = [*apart, pair.union(*(group for group in rivals if group & pair))]
    choose = max if report["unit"] == "rows/s" else min
    for group in rivals:
        yield choose(group, key=medians.__getitem__)


# ----------------------------------------------------------------------------------------- numbers
def _unit(values: Sequence[float], unit: str) -> tuple[float | None, str]:
    """What to divide all numbers of a table by, and its name; None if each needs its own."""
    if unit == "rows/s":
        return 1.0, "rows a second"
    if unit == "bytes":
        return 2.0**20, "MiB"
    per = unit[1:].replace("/", " a ")
    if max(values) > FARTHEST * min(values):
        return None, "time" + per
    factor, name = next((pair for pair in SECONDS if min(values) >= 0.1 * pair[0]), SECONDS[-1])
    return factor, name + per


def own_unit(seconds: float) -> str:
    factor, name = next((pair for pair in SECONDS if seconds >= pair[0]), SECONDS[-1])
    return f"{three_digits(seconds / factor)} {name}"


def three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100.0 else f"{value:#.3g}".rstrip(".")


def number(value: float, measure: str) -> str:
    """Two decimals of a percentage, four of what is below 1, all digits of a count."""
    if "%" in measure:
        return f"{round(value, 2) + 0.0:.2f}"  # a sum is never -0
    if value == round(value) or abs(value) >= 1000.0:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 1.0 else f"{value:.4f}"


def sentences(report: dict[str, Any]) -> Iterator[str]:
    """How ours compares with each peer, in words."""
    groups: dict[tuple[str, str], list[tuple[str, float]]] = {}
    for one in report["comparisons"]:
        case, contender = one["ours"]
        groups.setdefault((contender, one["words"]), []).append((case, one["median"]))
    for (contender, words), found in groups.items():
        times = [value for _, value in found]
        if len(found) > MOST_RATIOS:
            said = f"{shown(min(times))} to {shown(max(times))}"
        elif len(found) > 1:
            *before, last = (f"{shown(value)} ({case})" for case, value in found)
            said = f"{', '.join(before)} and {last}"
        else:
            said = shown(times[0])
        yield f"{contender}: {said} times as fast as {words}."
