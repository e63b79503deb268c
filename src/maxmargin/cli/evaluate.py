"""``maxmargin evaluate``: predict each row, then learn from it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from maxmargin.cli import data as reading
from maxmargin.cli import learners
from maxmargin.cli.errors import check_writable, one_line_errors, require
from maxmargin.cli.fit import Classes, Json, Settings
from maxmargin.cli.output import show


def evaluate(
    data: reading.Data,
    algorithm: Annotated[
        list[str],
        typer.Option(
            "--algorithm",
            "-a",
            help="The learner; several can be compared.",
            autocompletion=learners.complete,
        ),
    ] = ["amira"],  # noqa: B006
    settings: Settings = [],  # noqa: B006
    plot: Annotated[
        Path | None, typer.Option(help="File to draw mistakes and accuracy into (png, svg, pdf).")
    ] = None,
    delay: Annotated[int, typer.Option(min=0, help="Rows after which a label gets known.")] = 0,
    classes: Classes = None,
    format: reading.Format = None,
    label: reading.Label = None,
    categorical: reading.Categorical = None,
    n_features: reading.Features = None,
    zero_based: reading.ZeroBased = None,
    skip_errors: reading.SkipErrors = False,
    as_json: Json = False,
) -> None:
    """Let learners predict each row of DATA before they learn from it."""
    with one_line_errors():
        contestants = [learners.make(name, settings) for name in algorithm]
        if plot is not None:
            require("matplotlib", extra="plots")
            check_writable(plot)
        source = reading.open_source(
            data,
            format=format,
            label=label,
            categorical=categorical,
            n_features=n_features,
            zero_based=zero_based,
            skip_errors=skip_errors,
        )
        survey = source.survey()
        from maxmargin.evaluate import progressive

        known = reading.classes_of(classes) or survey.classes
        began = time.perf_counter()
        results = progressive(contestants, shown(source), classes=known, delay=delay)
        seconds = time.perf_counter() - began
        for learner, result in zip(contestants, results, strict=True):
            show(report(learner, result, seconds), as_json)
        if plot is not None:
            draw(results, plot)


def shown(source: Any) -> Iterator[tuple[Any, Any]]:
    """The blocks of a source, with a bar."""
    from maxmargin.progress import bar

    total, done = source.total, 0
    with bar("evaluate", total and total / 1e6, "MB") as advance:
        for block in source.blocks():
            yield block.X, block.y
            advance((block.done - done) / 1e6, note=f"{block.end.row:,} rows")
            done = block.done


def report(learner: Any, result: Any, seconds: float) -> dict[str, Any]:
    return {
        "algorithm": result.name,
        "rows": int(result.wrong.size),
        "mistakes": int(result.wrong.sum()),
        "accuracy": result.accuracy,
        "recent": float(result.recent_accuracy()[-1]) if result.wrong.size else None,
        "updates": int(result.updates[-1]) if result.updates.size else None,
        "seconds": round(seconds, 3),
    }


def draw(results: list[Any], path: Path) -> None:
    """Mistakes and recent accuracy of all learners."""
    axes = None
    for result in results:
        axes = result.plot(axes)
    assert axes is not None
    axes[0].figure.savefig(path)
