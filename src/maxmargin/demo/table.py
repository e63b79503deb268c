"""What the terminal shows: one table per problem, plain text in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from maxmargin.demo.problems import Problem
from maxmargin.demo.training import Outcome, best_margin

PIPE_WIDTH = 100
HEADINGS = ("margin", "at most", "certified", "test error", "passes", "updates", "time")
FOOTNOTES = """\
margin      Distance to the nearest training row, negative if one is on the wrong side.
certified   The margin is proved to be at least this part of the best possible one, which is "at
            most" the bound that the same run has proved. Where not all is separated: how many
            classes are.
*           Stopped by the limit on passes, not by a pass without an update.
"""


def print_tables(outcomes: Mapping[Problem, Sequence[Outcome]], summary: str) -> None:
    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)
    for problem, each in outcomes.items():
        console.print(f"\n[bold]{problem.name}[/]: {problem.size}\n{what_is_proved(each)}")
        console.print(_table(each))
    console.print(FOOTNOTES)
    console.print(summary, markup=False, soft_wrap=True)


def _table(outcomes: Sequence[Outcome]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, header_style="bold")
    table.add_column("learner", min_width=32, no_wrap=True)
    for heading in HEADINGS:
        table.add_column(heading, justify="right", min_width=8, no_wrap=True)
    for one in outcomes:
        table.add_row(f"[bold]{one.name}[/]({settings_text(one)})", *cells(one))
    return table


def settings_text(one: Outcome) -> str:
    return ", ".join(f"{name}={value}" for name, value in one.settings.items())


def cells(one: Outcome) -> tuple[str, ...]:
    """The numbers of a learner, one for each of `HEADINGS`."""
    certificate = one.clf.certificate_
    return (
        f"{certificate.margin:#.4g}",
        f"{certificate.bound:#.4g}",
        certified_text(one),
        f"{100 * one.test_error:.1f} %",
        f"{one.clf.n_iter_}{'' if one.clf.converged_ else '*'}",
        f"{one.clf.n_updates_:,}",
        f"{1000 * one.seconds:.0f} ms",
    )


def certified_text(one: Outcome) -> str:
    """The certified ratio, or how many problems are separated if not all are."""
    separated, problems = sum(c.margin > 0.0 for c in one.certificates), len(one.certificates)
    if separated == problems:
        return f"{100 * one.clf.certificate_.ratio:.1f} %"
    return "-" if problems == 1 else f"{separated} of {problems}"


def what_is_proved(outcomes: Sequence[Outcome]) -> str:
    low, high = best_margin(outcomes)
    which = "" if len(outcomes[0].certificates) == 1 else " of the weakest class"
    if low > 0.0:
        return f"The best possible margin{which} is between {low:.4g} and {high:.4g}."
    return f"The best possible margin{which} is at most {high:.4g}."
