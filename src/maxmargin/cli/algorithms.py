"""``maxmargin algorithms``: the table of all learners, made from the classes themselves."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

import maxmargin
from maxmargin.cli.errors import one_line_errors, require

COLUMNS = (
    "learner",
    "reaches at least",
    "updates, at most",
    "cost of an update",
    "certificate",
    "p-norms",
    "kernels",
    "moving targets",
    "paper",
)
LEGEND = (
    "R: largest norm of a row, γ: best margin, D: largest distance between the classes, d: nonzero "
    "entries of a row (with a kernel: support vectors)"
)
WIDTH_OF_TABLE = 150


def algorithms(
    markdown: Annotated[bool, typer.Option(help="Print a Markdown table.")] = False,
) -> None:
    """List all learners: guarantee, updates, certificate, p-norms, kernels, drift, paper."""
    with one_line_errors():
        if markdown:
            typer.echo(as_markdown())
        else:
            require("rich", extra="cli")
            show()


def learners() -> list[Any]:
    """All public learners, by name."""
    public = (getattr(maxmargin, name) for name in sorted(maxmargin.__all__))
    return [thing for thing in public if inspect.isclass(thing) and hasattr(thing, "facts")]


def rows() -> list[tuple[str, ...]]:
    """One row per learner, in the order of `COLUMNS`."""
    return [
        (
            cls.__name__,
            cls.facts.guarantee,
            cls.facts.updates,
            cls.facts.cost,
            _yes(cls.facts.certificate),
            _yes("p" in cls._parameter_constraints),
            _yes(cls.facts.kernel),
            _yes(cls.facts.drift),
            cls.facts.paper,
        )
        for cls in learners()
    ]


def _yes(answer: bool) -> str:
    return "yes" if answer else ""


def as_markdown() -> str:
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *rows()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def show() -> None:
    """On the terminal: a table if it is wide enough, else a paragraph per learner."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if console.width < WIDTH_OF_TABLE:
        for row in rows():
            console.print(_paragraph(row), highlight=False)
        console.print(LEGEND, style="dim", highlight=False)
        return
    table = Table(title=LEGEND)
    for column in COLUMNS:
        table.add_column(column, no_wrap=column == "learner")
    for row in rows():
        table.add_row(*row)
    console.print(table)


def _paragraph(row: tuple[str, ...]) -> str:
    name, guarantee, updates, cost, *answers, paper = row
    kinds = [kind for kind, answer in zip(COLUMNS[4:-1], answers, strict=True) if answer]
    return (
        f"[bold]{name}[/bold] ({paper})\n  reaches {guarantee}\n"
        f"  updates: {updates}; cost of an update: {cost}\n  {', '.join(kinds)}\n"
    )
