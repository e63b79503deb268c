"""``maxmargin evaluate``: predict each row, then learn from it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from maxmargin.cli import class_weights, data, learners
from maxmargin.cli.errors import check_writable, misuse, one_line_errors, require
from maxmargin.cli.fit import Classes, ClassWeight, Json
from maxmargin.cli.output import duration, percent, print_json, print_table

# Looks at the counts on the way along a file, and the most rows that "recently" means.
LOOKS, RECENT = 200, 1000
Algorithms = Annotated[
    list[str],
    typer.Option(
        "--algorithm",
        "-a",
        help="The learner; several can be compared.",
        autocompletion=learners.complete,
    ),
]
Settings = Annotated[
    list[str],
    typer.Option(
        "--set",
        "-s",
        metavar="NAME=VALUE",
        help="A parameter, of all learners that have it; norma.rate=0.1 is for one of them.",
    ),
]


@data.with_reading
def evaluate(
    rows: data.Data,
    algorithm: Algorithms = ["amira"],  # noqa: B006
    settings: Settings = [],  # noqa: B006
    plot: Annotated[
        Path | None, typer.Option(help="File to draw mistakes and accuracy into (png, svg, pdf).")
    ] = None,
    delay: Annotated[int, typer.Option(min=0, help="Rows after which a label gets known.")] = 0,
    classes: Classes = None,
    class_weight: ClassWeight = None,
    as_json: Json = False,
    *,
    reading: data.Reading,
) -> None:
    """Let learners predict each row of DATA before they learn from it."""
    with one_line_errors():
        contestants = learners.make_all(algorithm, settings)
        worths = None if class_weight is None else class_weights.parsed(class_weight)
        if plot is not None:
            check_plot(plot, rows)
        source = reading.open(rows)
        known = data.classes_of(classes) or known_classes(source)
        if worths is not None:
            class_weights.give(contestants, class_weights.of_classes(worths, source, known))
        step = max(1, (source.survey().rows or LOOKS * RECENT) // LOOKS)
        from maxmargin.evaluate import progressive

        began = time.perf_counter()
        results = progressive(contestants, shown(source), step=step, classes=known, delay=delay)
        report = summary(results, source, time.perf_counter() - began)
        if plot is not None:
            draw(results, plot, report["recent"])
            report["plot"] = str(plot)
        (print_json if as_json else show)(report)


def check_plot(path: Path, rows: str) -> None:
    """Can a picture be drawn into this file?"""
    require("matplotlib", extra="plots")
    from matplotlib.backend_bases import FigureCanvasBase

    kinds = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix.lower().lstrip(".") not in kinds:
        misuse(f"--plot {path}: the name must end with one of .{', .'.join(kinds)}.")
    check_writable(path, unlike=(rows,))


def known_classes(source: Any) -> Any:
    """All labels of a file; of a pipe those in its first block."""
    classes = source.survey().classes
    if classes is None:
        raise ValueError(f"{source.name} has no labels.")
    if classes.size == 0:
        raise ValueError(f"{source.name}: there are no rows.")
    if classes.size == 1:
        where = "" if source.repeatable else " in its first block; say --classes"
        raise ValueError(f"{source.name} has only one class, {classes.tolist()}{where}.")
    return classes


def shown(source: Any) -> Iterator[tuple[Any, Any]]:
    """Rows and labels, with a bar."""
    width = None
    for block in data.with_bar(source, "evaluate"):
        if block.weight is not None:
            raise ValueError(f"{source.name} has weights of rows, which evaluate does not take.")
        width = width or block.X.shape[1]
        if block.X.shape[1] != width:
            raise ValueError(
                f"{source.name}, before row {block.end.row:,}: rows have become wider; "
                "say the number of columns with --n-features."
            )
        yield block.X, block.y


def summary(results: list[Any], source: Any, seconds: float) -> dict[str, Any]:
    """What each learner made of the rows."""
    rows = int(results[0].wrong.size)
    recent = max(1, min(RECENT, rows // 10))
    return {
        "data": source.name,
        "rows": rows,
        "recent": recent,
        "skipped": source.skipped,
        "seconds": round(seconds, 3),
        "learners": [
            {
                "algorithm": result.name,
                "mistakes": int(result.wrong.sum()),
                "accuracy": result.accuracy,
                "recent_accuracy": float(result.recent_accuracy(recent)[-1]),
                "updates": int(result.updates[-1]),
            }
            for result in results
        ],
    }


def show(report: dict[str, Any]) -> None:
    """The report for people."""
    title = f"{report['data']}, {report['rows']:,} rows in {duration(report['seconds'])}"
    if report["skipped"]:
        title += f", {report['skipped']:,} that could not be read"
    rows = [
        (
            each["algorithm"],
            f"{each['mistakes']:,}",
            percent(each["accuracy"]),
            percent(each["recent_accuracy"]),
            f"{each['updates']:,}",
        )
        for each in report["learners"]
    ]
    heads = ("learner", "mistakes", "right", f"of the last {report['recent']:,}", "updates")
    print_table(title, heads, rows)


def draw(results: list[Any], path: Path, window: int) -> None:
    """Mistakes and recent accuracy of all learners."""
    axes = None
    for result in results:
        axes = result.plot(axes, window=window)
    assert axes is not None
    axes[0].figure.savefig(path)
