"""The page: one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from importlib.resources import files
from string import Template

from maxmargin.experiments import provenance
from maxmargin.experiments.experiment import NotMeasured, Scale
from maxmargin.experiments.runner import Outcome
from maxmargin.experiments.verdicts import (
    FAILED,
    NOT_COMPARED,
    REPRODUCED,
    Count,
    Line,
    count,
    shown,
)
from maxmargin.pages import base_style

SCALES = {
    "full": "",
    "quick": "This is the quick version, with fewer runs than the papers made; the tables say how "
    "many.",
    "tiny": "This is a tiny stand-in that shows that everything works; nothing is compared.",
}
CLASSES = {REPRODUCED: "reproduced", FAILED: "failed", NOT_COMPARED: "none"}


def render(outcomes: Sequence[Outcome], scale: Scale) -> str:
    """The page of all experiments that were asked for."""
    template = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(
        style=base_style(),
        scale=SCALES[scale],
        total=_total(sum((count(one.lines) for one in outcomes), Count(0, 0, 0))),
        failures=_failures(outcomes),
        overview=_overview(outcomes),
        sections="\n".join(_section(one) for one in outcomes),
        made=_made(),
    )


# ----------------------------------------------------------------------------------- summary
def _total(total: Count) -> str:
    if not total.compared:
        return '<p class="total"><b>Nothing compared</b></p>'
    share = 100 * total.reproduced / total.compared
    return f"""<p class="total"><b>{total}</b> <span>compared numbers and claims reproduced
({share:.0f}&nbsp;%); {total.all - total.compared} more are shown without a verdict.</span></p>
<div class="part" style="--part: {share:.1f}%"></div>"""


def _failures(outcomes: Sequence[Outcome]) -> str:
    items = [
        f'<li><a href="#{one.experiment.name}">{one.experiment.name}</a>: {_in_words(line)}</li>'
        for one in outcomes
        for line in one.lines
        if line.verdict == FAILED
    ]
    return f"<h3>Not reproduced</h3><ul>{''.join(items)}</ul>" if items else ""


def _in_words(line: Line) -> str:
    what = ", ".join(escape(part) for part in (line.row, line.column) if part)
    if line.mean is None:
        return f"{what}: “{escape(line.paper)}” ({escape(line.ours)})"
    return f"{what}: {line.ours}, printed {line.paper}"


def _overview(outcomes: Sequence[Outcome]) -> str:
    rows = "\n".join(
        f'<tr><th><a href="#{one.experiment.name}">{one.experiment.name}</a>'
        f"<small>{escape(one.experiment.title)}</small></th><td>{_score(one)}</td></tr>"
        for one in outcomes
    )
    return f"""<h3>All experiments</h3>
<div class="table summary"><table>
<thead><tr><th>experiment</th><th>reproduced</th></tr></thead>
<tbody>{rows}</tbody></table></div>"""


def _score(outcome: Outcome) -> str:
    if not outcome.records:
        return "skipped"
    total = count(outcome.lines)
    if not total.compared:
        return "not compared"
    share = 100 * total.reproduced / total.compared
    return f'{total}<i class="part small" style="--part: {share:.1f}%"></i>'


# ---------------------------------------------------------------------------------- experiments
def _section(outcome: Outcome) -> str:
    one = outcome.experiment
    return f"""
<section id="{one.name}">
<h2>{escape(one.title)}</h2>
<p class="place">{escape(one.paper)}, {escape(one.place)}<br>
<code>maxmargin reproduce {one.name}</code></p>
<p class="claim">{escape(one.claim)}</p>
{_missing(outcome)}
{_panels(outcome)}
{_tables(outcome)}
{_list("What differs, and why", one.differences)}
{_list("Choices that the paper leaves open", one.choices)}
</section>"""


def _missing(outcome: Outcome) -> str:
    if not outcome.missing:
        return ""
    what = "Partly skipped" if outcome.records else "Skipped"
    reasons = " ".join(escape(reason) for reason in outcome.missing)
    return f'<p class="notice"><b>{what}.</b> {reasons}</p>'


def _panels(outcome: Outcome) -> str:
    if outcome.experiment.panels is None or not outcome.records:
        return ""
    try:
        panels = outcome.experiment.panels(outcome.results)
        drawn = "\n".join(
            f"<figure><figcaption>{escape(panel.caption)}</figcaption>{panel.as_svg()}</figure>"
            for panel in panels
        )
    except NotMeasured:
        return '<p class="muted">No figure: some of its runs are missing.</p>'
    return f'<div class="panels">{drawn}</div>'


def _tables(outcome: Outcome) -> str:
    compared = [line for line in outcome.lines if line.verdict != NOT_COMPARED]
    others = [line for line in outcome.lines if line.verdict == NOT_COMPARED]
    runs = outcome.experiment.runs
    tables = _numbers_and_claims(compared, runs)
    if not others:
        return tables
    name = f"{len(others)} without a verdict"
    opened = "" if compared else " open"
    hidden = _numbers_and_claims(others, runs)
    return f"{tables}<details{opened}><summary>{name}</summary>{hidden}</details>"


def _numbers_and_claims(lines: Sequence[Line], runs: int) -> str:
    numbers = [line for line in lines if line.column]
    claims = [line for line in lines if not line.column]
    return _numbers(numbers, runs) + _claims(claims)


def _numbers(lines: Sequence[Line], runs: int) -> str:
    headings = ("", "paper", "ours", "", "verdict", "runs", "tolerance")
    if lines and lines[0].verdict == NOT_COMPARED:
        headings = (*headings[:-1], "why there is none")
    return _table("numbers", headings, lines, partial(_number_cells, runs=runs)) + _reasons(lines)


def _claims(lines: Sequence[Line]) -> str:
    return _table("claims", ("the paper says", "ours", "verdict", ""), lines, _claim_cells)


def _table(
    kind: str, headings: Sequence[str], lines: Sequence[Line], cells: Callable[[Line], str]
) -> str:
    if not lines:
        return ""
    groups: dict[str, list[str]] = {}
    for line in lines:
        groups.setdefault(line.row, []).append(f"<tr>{cells(line)}</tr>")
    head = "".join(f"<th>{heading}</th>" for heading in headings)
    bodies = "\n".join(
        f'<tbody><tr><th colspan="{len(headings)}">{escape(row)}</th></tr>{"".join(each)}</tbody>'
        for row, each in groups.items()
    )
    return f"""<div class="table {kind}"><table>
<thead><tr>{head}</tr></thead>
{bodies}
</table></div>"""


def _number_cells(line: Line, runs: int) -> str:
    numbers = "".join(
        f'<td class="number">{number}</td>'
        for number in (line.paper, line.ours or "–", _spread(line))
    )
    why = line.tolerance or f"{line.why}."
    return (
        f"<td>{escape(line.column)}</td>{numbers}{_verdict(line)}"
        f'<td class="number">{_runs(line.runs, runs)}</td>{_remark(line, why)}'
    )


def _claim_cells(line: Line) -> str:
    return (
        f'<td class="words">{escape(line.paper)}</td><td class="words">{escape(line.ours)}</td>'
        f"{_verdict(line)}{_remark(line, f'{line.why}.' if line.why else '')}"
    )


def _verdict(line: Line) -> str:
    return f'<td class="verdict"><span class="{CLASSES[line.verdict]}">{line.verdict}</span></td>'


def _remark(line: Line, text: str) -> str:
    said = " ".join(part for part in (text, line.note) if part)
    return f'<td class="why" title="{escape(line.where)}">{escape(said)}</td>'


def _reasons(lines: Sequence[Line]) -> str:
    """What the tolerances allow for, each once."""
    reasons = dict.fromkeys((line.tolerance, line.why) for line in lines if line.tolerance)
    return "".join(
        f'<p class="key"><b>{tolerance}</b>: {escape(why)}.</p>' for tolerance, why in reasons
    )


def _spread(line: Line) -> str:
    if line.spread is None:
        return ""
    decimals = len(line.ours.partition(".")[2])
    return f"<small>± {shown(line.spread, decimals)}</small>"


def _runs(made: int, wanted: int) -> str:
    return f"{made}" if made in (0, wanted) else f"{made} <small>of {wanted}</small>"


def _list(title: str, items: Sequence[str]) -> str:
    if not items:
        return ""
    return f"<h3>{title}</h3><ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>"


def _made() -> str:
    versions = ", ".join(f"{name} {number}" for name, number in provenance.versions().items())
    machine = provenance.machine()
    commit = provenance.commit()
    at = f", commit {commit}" if commit else ""
    return escape(
        f"Made on {provenance.today()}{at} with {versions}; "
        f"{machine['cores']} cores of {machine['processor']}."
    )
