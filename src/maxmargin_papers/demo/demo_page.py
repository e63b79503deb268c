"""The page of the demo: one HTML file that needs nothing else."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version

import numpy as np
import sklearn
from markupsafe import Markup

import maxmargin
from maxmargin_papers import pages
from maxmargin_papers.demo import demo_plots
from maxmargin_papers.demo.demo_problems import Problem
from maxmargin_papers.demo.demo_tables import (
    HEADINGS,
    cells,
    certified_text,
    grouped,
    settings_text,
    what_is_proved,
)
from maxmargin_papers.demo.demo_training import SOLVERS, Outcome


def render(outcomes: Mapping[Problem, Sequence[Outcome]]) -> str:
    """The page, given the outcomes of each problem: the solvers, and then the best first."""
    return pages.render(
        "demo/demo.html.jinja",
        problems=outcomes,
        passes=max(problem.passes for problem in outcomes),
        hero=_hero(outcomes),
        champions=_champions,
        short=_short,
        example=_example(outcomes),
        pictures=_pictures,
        grouped=grouped,
        headings=HEADINGS,
        cells=cells,
        settings_text=settings_text,
        what_is_proved=what_is_proved,
        zip=zip,
        versions=f"maxmargin {maxmargin.__version__}, scikit-learn {sklearn.__version__}, Python "
        f"{platform.python_version()}, NumPy {np.__version__}, Numba {version('numba')}",
    )


def _hero(outcomes: Mapping[Problem, Sequence[Outcome]]) -> dict[str, str]:
    """What `MaxMargin` says of itself on the first problem."""
    problem, (best, *_) = next(iter(outcomes.items()))
    return {"settings": settings_text(best), "text": _said(problem, best)}


def _said(problem: Problem, one: Outcome) -> str:
    text = f"{one.name} on {problem.name}: {one.certificate}."
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


def _champions(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The solvers, and the online learner with the best certificate."""
    return [*outcomes[: len(SOLVERS)], *outcomes[len(SOLVERS) :][:1]]


def _short(one: Outcome) -> dict[str, str]:
    """The numbers of a learner that matter most."""
    return {
        "certified": certified_text(one),
        "more": f"{1000 * one.seconds:.0f} ms, {100 * one.test_error:.1f} % test error",
    }


def _example(outcomes: Mapping[Problem, Sequence[Outcome]]) -> dict[str, str] | None:
    """The best of the runs that are drawn, to explain how to read them."""
    for problem, each in outcomes.items():
        best = next((one for one in each if one.online), None)
        if problem.picture == "run" and best:
            return {"text": _said(problem, best), "svg": demo_plots.explained_run_plot(best, each)}
    return None


def _pictures(problem: Problem, outcomes: Sequence[Outcome]) -> Iterator[tuple[Markup, str]]:
    """Captions and pictures, one of each learner; only online learners have a run."""
    run = problem.picture == "run"
    for one in outcomes:
        if run and not one.online:
            continue
        svg = demo_plots.run_plot(one, outcomes) if run else demo_plots.plane_plot(one, problem)
        caption = Markup("<b>{}</b> {} certified")
        yield caption.format(pages.breakable(one.name), certified_text(one)), svg
