"""The page of the demo: one HTML file that needs nothing else."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template

import numba
import numpy as np

import maxmargin
from maxmargin.demo import plots
from maxmargin.demo.problems import Problem
from maxmargin.demo.table import HEADINGS, cells, settings_text, what_is_proved
from maxmargin.demo.training import Outcome
from maxmargin.pages import base_style

RUN_KEY = (
    '<p class="key">Against the number of updates: the <b class="margin">margin reached</b> and '
    'the <b class="bound">proved bound</b>. The best possible margin is somewhere in the shaded '
    "part; the dotted line is the smallest bound of all runs.</p>"
)
PLANE_KEY = (
    '<p class="key">The boundary, and the strip without training points on both sides of it. The '
    "wider, the better.</p>"
)
# A test error of this size or more fills its bar.
FULL_BAR_ERROR = 0.1


def render(outcomes: Mapping[Problem, Sequence[Outcome]]) -> str:
    """The page, given the outcomes of each problem, best first."""
    template = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(
        style=base_style(),
        **_example(outcomes),
        sections="\n".join(_section(problem, each) for problem, each in outcomes.items()),
        versions=_versions(),
    )


def _example(outcomes: Mapping[Problem, Sequence[Outcome]]) -> dict[str, str]:
    """The best of the runs that are drawn, to explain how to read them."""
    for problem, each in outcomes.items():
        if problem.picture == "run":
            text = f"{each[0].name} on {problem.name}: {each[0].clf.certificate_}."
            text = escape(text).replace(" %", "&nbsp;%")
            return {"example": text, "figure": plots.explained_run_plot(each[0])}
    return {"example": "", "figure": ""}


def _section(problem: Problem, outcomes: Sequence[Outcome]) -> str:
    return f"""
<section>
<h2>{escape(problem.name)}</h2>
<p>{escape(problem.about)} <span class="muted">{problem.size}.
{what_is_proved(outcomes)}</span></p>
{_pictures(problem, outcomes)}
{_table(outcomes)}
</section>"""


def _pictures(problem: Problem, outcomes: Sequence[Outcome]) -> str:
    if problem.picture == "run":
        panels = [_panel(one, plots.run_plot(one, outcomes)) for one in outcomes]
        return RUN_KEY + _grid(panels)
    if problem.picture == "plane":
        panels = [_panel(one, plots.plane_plot(one, problem)) for one in outcomes]
        return PLANE_KEY + _grid(panels)
    return ""


def _grid(panels: Sequence[str]) -> str:
    return '<div class="panels">' + "\n".join(panels) + "</div>"


def _panel(one: Outcome, svg: str) -> str:
    ratio = one.clf.certificate_.ratio
    proved = f"{100 * ratio:.1f} % certified" if ratio > 0.0 else "not separated"
    caption = f"<b>{one.name}</b> {proved}"
    return f"<figure><figcaption>{caption}</figcaption>{svg}</figure>"


def _table(outcomes: Sequence[Outcome]) -> str:
    headings = "".join(f"<th>{heading}</th>" for heading in ("learner", *HEADINGS))
    rows = "\n".join(_row(one) for one in outcomes)
    return f"""<div class="table"><table>
<thead><tr>{headings}</tr></thead>
<tbody>
{rows}
</tbody></table></div>"""


def _row(one: Outcome) -> str:
    bars = {
        "certified": _bar("margin", one.clf.certificate_.ratio),
        "test error": _bar("bound", min(one.test_error / FULL_BAR_ERROR, 1.0)),
    }
    numbers = "".join(
        f"<td>{number}{bars.get(heading, '')}</td>"
        for heading, number in zip(HEADINGS, cells(one), strict=True)
    )
    breakable = re.sub(r"(?<=[a-z])(?=[A-Z])", "<wbr>", one.name)
    settings = f"<small>{escape(settings_text(one) or 'defaults')}</small>"
    return f"<tr><th>{breakable}{settings}</th>{numbers}</tr>"


def _bar(color: str, part: float) -> str:
    return f'<i class="{color}" style="--part: {100 * part:.1f}%"></i>'


def _versions() -> str:
    return (
        f"maxmargin {maxmargin.__version__}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}, Numba {numba.__version__}"
    )
