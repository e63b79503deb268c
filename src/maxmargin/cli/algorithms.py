"""``maxmargin algorithms``: the table of all learners, made from the classes themselves."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

import maxmargin
from maxmargin.cli.errors import one_line_errors
from maxmargin.cli.output import print_report

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


def algorithms(
    markdown: Annotated[bool, typer.Option(help="Print a Markdown table.")] = False,
) -> None:
    """List all learners: guarantee, updates, certificate, p-norms, kernels, drift, paper."""
    with one_line_errors():
        typer.echo(as_markdown()) if markdown else show()


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
    """A paragraph per learner."""
    for name, guarantee, updates, cost, *answers, paper in rows():
        kinds = [kind for kind, answer in zip(COLUMNS[4:-1], answers, strict=True) if answer]
        lines = {
            "reaches": guarantee,
            "updates": f"{updates}; cost of an update: {cost}",
            "has": ", ".join(kinds),
        }
        print_report(f"{name} ({paper})", lines)
    typer.echo(LEGEND)
