"""The demo: `MaxMargin`, `LinearSVC` and every online learner on small data.

It ends as tables in the terminal and as one page of plots.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

try:
    from maxmargin._terminal import bar
    from maxmargin_papers.demo.demo_page import render
    from maxmargin_papers.demo.demo_problems import Problem, all_problems
    from maxmargin_papers.demo.demo_tables import print_tables
    from maxmargin_papers.demo.demo_training import SOLVERS, all_learners, train
except ModuleNotFoundError as missing:
    if missing.name is None or missing.name.partition(".")[0] not in (
        "rich",
        "matplotlib",
        "jinja2",
    ):
        raise
    raise ImportError(
        f"the demo needs {missing.name}: pip install 'maxmargin[cli,plots]'"
    ) from None

__all__ = ["run"]


def run(
    out: Path,
    problems: Sequence[Problem] | None = None,
    learners: Sequence[str] | None = None,
) -> None:
    """Train, write the page ``out``, and print the tables.

    Parameters
    ----------
    out : Path
    problems : sequence of Problem, default=None
        None means `all_problems`.
    learners : sequence of str, default=None
        Names of online learners; None means all of them.
    """
    began = time.perf_counter()
    problems = all_problems() if problems is None else problems
    learners = all_learners() if learners is None else learners
    trained = len(problems) * (len(SOLVERS) + len(learners))
    with bar("demo", trained, "learners") as advance:
        outcomes = {problem: train(problem, learners, advance) for problem in problems}
        advance(0, note="drawing the page")
        page = render(outcomes)
    out.write_text(page, encoding="utf-8")
    seconds = time.perf_counter() - began
    print_tables(outcomes, f"{trained} learners in {seconds:.0f} s. The plots are in {out}")
