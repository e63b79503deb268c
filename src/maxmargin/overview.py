"""The table of all learners, made from the classes themselves."""

from __future__ import annotations

import inspect

import maxmargin
from maxmargin.estimator import OnlineClassifier

COLUMNS = (
    "learner",
    "reaches at least",
    "with at most so many updates",
    "p-norms",
    "moving targets",
    "paper",
)


def learners() -> list[type[OnlineClassifier]]:
    """All public learners, by name."""
    public = (getattr(maxmargin, name) for name in sorted(maxmargin.__all__))
    return [
        thing for thing in public if inspect.isclass(thing) and issubclass(thing, OnlineClassifier)
    ]


def rows() -> list[tuple[str, ...]]:
    """One row per learner, in the order of `COLUMNS`."""
    return [
        (
            cls.__name__,
            cls.facts.guarantee,
            cls.facts.updates,
            "yes" if "p" in cls._parameter_constraints else "",
            "yes" if cls.facts.drift else "",
            cls.facts.paper,
        )
        for cls in learners()
    ]


def as_markdown() -> str:
    """The table for the README."""
    lines = [COLUMNS, tuple("---" for _ in COLUMNS), *rows()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def show() -> None:
    """The table on the terminal."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="R: largest norm, γ: best margin, D: largest distance of a pair")
    for column in COLUMNS:
        table.add_column(column, no_wrap=column == "learner")
    for row in rows():
        table.add_row(*row)
    Console().print(table)
