"""What the terminal shows: one table per problem, plain text in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

from rich import box
from rich.console import Console
from rich.table import Table

from maxmargin_papers.demo.demo_problems import Problem
from maxmargin_papers.demo.demo_training import Outcome, best_margin

PIPE_WIDTH = 100
HEADINGS = ("margin", "at most", "certified", "test error", "passes", "updates", "time")
FOOTNOTES = """\
margin      Distance from the hyperplane to the nearest training row. For a soft margin, each row
            has an additional coordinate of its own, sqrt(λ), which makes the rows separable.
certified   The margin is proved to be at least this fraction of the best possible one, which is at
            most the bound proved in the same run (for LinearSVC, by maxmargin.certify).
passes      Online learners make at most the same number of passes (*), or stop when a pass makes
            no update. MaxMargin and LinearSVC use all rows at once and stop by themselves.

Of the few settings that were tried, the one with the best certificate is shown.
"""


def print_tables(outcomes: Mapping[Problem, Sequence[Outcome]], summary: str) -> None:
    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)
    for problem, each in outcomes.items():
        title = f"{problem.name}: {problem.size}, {problem.kind}"
        console.print(f"\n[bold]{title}[/]\n{what_is_proved(each)}")
        console.print(_table(each))
    console.print(FOOTNOTES)
    console.print(summary, markup=False, soft_wrap=True)


def _table(outcomes: Sequence[Outcome]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, header_style="bold")
    table.add_column("learner", min_width=32, no_wrap=True)
    for heading in HEADINGS:
        table.add_column(heading, justify="right", min_width=8, no_wrap=True)
    for group in grouped(outcomes).values():
        for one in group:
            table.add_row(f"[bold]{one.name}[/]({settings_text(one)})", *cells(one))
        table.add_section()
    return table


def grouped(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """Those that had all rows at once, and those that saw one row at a time."""
    return {
        "all rows at once": [one for one in outcomes if not one.online],
        "one row at a time": [one for one in outcomes if one.online],
    }


def settings_text(one: Outcome) -> str:
    return ", ".join(f"{name}={value:g}" for name, value in one.settings.items())


def cells(one: Outcome) -> tuple[str, ...]:
    """The numbers of a learner, one for each of `HEADINGS`."""
    passes = f"{one.clf.n_iter_}{'' if one.clf.converged_ else '*'}" if one.online else "-"
    return (
        f"{rounded(one.certificate.margin, ROUND_FLOOR):#.4g}",
        f"{rounded(one.certificate.bound, ROUND_CEILING):#.4g}",
        certified_text(one),
        f"{100 * one.test_error:.1f} %",
        passes,
        f"{one.clf.n_updates_:,}" if one.online else "-",
        f"{1000 * one.seconds:.0f} ms",
    )


def certified_text(one: Outcome) -> str:
    """The certified ratio, or how many problems are separated if not all are."""
    separated, problems = sum(c.margin > 0.0 for c in one.certificates), len(one.certificates)
    if separated == problems:
        return f"{100.0 * rounded(one.certificate.ratio, ROUND_FLOOR):.2f} %"
    return "-" if problems == 1 else f"{separated} of {problems}"


def rounded(value: float, direction: str) -> float:
    """With four digits, and still true: bounds are rounded up, margins and ratios down."""
    return float(Context(prec=4, rounding=direction).create_decimal(repr(float(value))))


def what_is_proved(outcomes: Sequence[Outcome]) -> str:
    low, high = best_margin(outcomes)
    low, high = rounded(low, ROUND_FLOOR), rounded(high, ROUND_CEILING)
    which = "" if len(outcomes[0].certificates) == 1 else " of the weakest class"
    if low > 0.0:
        said = f"between {low:.4g} and {high:.4g}" if low < high else f"{low:.4g}"
        return f"The best possible margin{which} is {said}."
    return f"The best possible margin{which} is at most {high:.4g}."
