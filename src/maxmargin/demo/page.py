"""The page of the demo: one HTML file that needs nothing else."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence

import numba
import numpy as np
from markupsafe import Markup

import maxmargin
from maxmargin import pages
from maxmargin.demo import plots
from maxmargin.demo.problems import Problem
from maxmargin.demo.table import HEADINGS, cells, settings_text, what_is_proved
from maxmargin.demo.training import Outcome


def render(outcomes: Mapping[Problem, Sequence[Outcome]]) -> str:
    """The page, given the outcomes of each problem, best first."""
    return pages.render(
        "demo/page.html.jinja",
        problems=outcomes,
        example=_example(outcomes),
        pictures=_pictures,
        headings=HEADINGS,
        cells=cells,
        settings_text=settings_text,
        what_is_proved=what_is_proved,
        zip=zip,
        versions=f"maxmargin {maxmargin.__version__}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}, Numba {numba.__version__}",
    )


def _example(outcomes: Mapping[Problem, Sequence[Outcome]]) -> dict[str, str] | None:
    """The best of the runs that are drawn, to explain how to read them."""
    for problem, (best, *_) in outcomes.items():
        if problem.picture == "run":
            text = f"{best.name} on {problem.name}: {best.clf.certificate_}."
            text = text.replace(" %", "\N{NO-BREAK SPACE}%")
            return {"text": text, "svg": plots.explained_run_plot(best)}
    return None


def _pictures(problem: Problem, outcomes: Sequence[Outcome]) -> Iterator[tuple[Markup, str]]:
    """Captions and pictures, one of each learner."""
    for one in outcomes:
        ratio = one.clf.certificate_.ratio
        proved = f"{100 * ratio:.1f} % certified" if ratio > 0.0 else "not separated"
        run = problem.picture == "run"
        svg = plots.run_plot(one, outcomes) if run else plots.plane_plot(one, problem)
        yield Markup("<b>{}</b> {}").format(pages.breakable(one.name), proved), svg
