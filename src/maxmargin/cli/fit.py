"""``maxmargin fit``: learn from a file or a pipe."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxmargin.cli import data, learner_options
from maxmargin.cli.errors import INTERRUPTED, check_writable, fail, misuse, one_line_errors
from maxmargin.cli.output import (
    count,
    duration,
    listed,
    margin_text,
    percent,
    print_columns,
    print_json,
    print_report,
    score_lines,
    size,
)
from maxmargin.cli.predict import score

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

Algorithm = Annotated[
    str,
    typer.Option("--algorithm", "-a", help="Learner.", autocompletion=learner_options.complete),
]
Settings = Annotated[
    list[str],
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="Parameter of the learner; repeatable."),
]
ModelFile = Annotated[
    Path | None, typer.Option("--model", "-m", help="File to write the model to.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
Classes = Annotated[
    str | None,
    typer.Option(
        help="All labels, comma-separated (default for a pipe: those in its first block)."
    ),
]
ClassWeight = Annotated[
    str | None,
    typer.Option(
        metavar="WEIGHTS",
        help="Class weights: label=number, comma-separated, or balanced.",
    ),
]

Coverage = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        help="Make prediction sets that have the label of this share of the rows, such as 0.9.",
    ),
]


@data.with_reading
def fit(
    rows: data.Data,
    algorithm: Algorithm = learner_options.DEFAULT,
    settings: Settings = [],  # noqa: B006
    model: ModelFile = None,
    start_from: Annotated[
        Path | None,
        typer.Option(help="Model file to continue from, with its learner, columns and classes."),
    ] = None,
    passes: Annotated[int, typer.Option(min=1, help="Passes over the data.")] = 1,
    checkpoint: Annotated[
        Path | None, typer.Option(help="File from which an interrupted run continues.")
    ] = None,
    every: Annotated[int | None, typer.Option(min=1, help="Rows between two checkpoints.")] = None,
    test: Annotated[str | None, typer.Option(help="Test data.")] = None,
    classes: Classes = None,
    class_weight: ClassWeight = None,
    coverage: Coverage = None,
    as_json: Json = False,
    *,
    reading: data.Reading,
) -> None:
    """Learn from DATA, row by row in its order, and write the model to a file."""
    with one_line_errors():
        if start_from is None:
            learner, schema = learner_options.make(algorithm, settings, streams=False), None
        else:
            learner, schema = continued(start_from, algorithm, settings, reading)
        if every is not None and checkpoint is None:
            misuse("--every needs --checkpoint.")
        others = (rows, test, reading.label, reading.weight)
        if model is not None:
            check_writable(model, unlike=(*others, checkpoint))
        if checkpoint is not None:
            check_writable(checkpoint, unlike=others)
        if test is not None:
            data.check_is_there(test)
        from maxmargin.cli.counted import Counted
        from maxmargin.persistence import save

        source = Counted(reading.open(rows, schema))
        whole = not hasattr(learner, "fit_stream")
        streaming = {"--passes": passes > 1, "--checkpoint": checkpoint, "--classes": classes}
        if whole and (given := [name for name, value in streaming.items() if value]):
            misuse(f"{type(learner).__name__} learns from all rows at once: leave out {given[0]}.")
        if passes > 1 and not source.repeatable:
            misuse(f"{source.name} can be read only once: --passes {passes} needs a file.")
        labels = data.classes_of(classes)
        learner_options.give_class_weights([learner], class_weight)
        if coverage is not None and whole:
            misuse(f"--coverage is for streams, and {type(learner).__name__} learns from none.")
        learner = learner_options.covering(learner, coverage)
        began = time.perf_counter()
        try:
            if whole:
                fit_all_rows(learner, source)
            else:
                learner.fit_stream(
                    source,
                    passes=passes,
                    classes=labels,
                    checkpoint=checkpoint,
                    every=every,
                    progress=True,
                )
        except KeyboardInterrupt:
            if checkpoint is None:
                raise
            same = f"run the same command to continue from {checkpoint}"
            fail(f"interrupted; {same}", code=INTERRUPTED)
        report = summary(learner, source, time.perf_counter() - began)
        if model is not None:
            save(learner, model)
            report["model"] = str(model)
        if test is not None:
            skips = reading.skip_errors
            source = data.open_alike(test, learner, format=None, skip_errors=skips, labelled=True)
            report["test"] = score(learner, source)
        (print_json if as_json else show)(report)


def fit_all_rows(learner: Any, source: Any) -> None:
    """Fit a learner that needs all rows in memory, prepared by the statistics of all of them."""
    import numpy as np
    from scipy import sparse

    from maxmargin.streams.source import sorted_labels
    from maxmargin.training.protocol import put_state, state_of

    source.begin()
    if "recipe" in source.schema():
        if not source.repeatable:
            misuse(f"{source.name} can be read only once: {type(learner).__name__} needs a file.")
        for block in source.uncounted():
            source.reach(block)
        source.end_pass()
    blocks = list(data.with_bar(source, "read"))
    if not blocks or blocks[0].y is None:
        raise ValueError(f"{source.name} has no {'labels' if blocks else 'rows'}.")
    width = max(block.X.shape[1] for block in blocks)
    for block in blocks:
        if block.X.shape[1] < width:  # of sparse rows, which lack the last columns
            block.X.resize(block.X.shape[0], width)
    matrices, y = [block.X for block in blocks], np.concatenate([block.y for block in blocks])
    is_sparse, labels = sparse.issparse(matrices[0]), sorted_labels(y)
    X = sparse.vstack(matrices, "csr") if is_sparse else np.vstack(matrices)
    weight = None if blocks[0].weight is None else np.concatenate([b.weight for b in blocks])
    learner.fit(X, labels[np.searchsorted(labels, y)], weight)
    state = state_of(learner)
    assert state is not None
    put_state(learner, state._replace(schema=source.schema()))


def continued(
    path: Path, algorithm: str, settings: list[str], reading: data.Reading
) -> tuple[Any, dict[str, Any]]:
    """The learner of a file, and how it reads columns."""
    from maxmargin.persistence import load

    if algorithm != learner_options.DEFAULT or settings:
        misuse("--start-from takes the learner of the file: leave out --algorithm and --set.")
    reading.check_no_columns("--start-from reads columns as the model has learned them")
    learner = load(path)
    if not hasattr(learner, "fit_stream"):
        misuse(f"{path} has a {type(learner).__name__}, which cannot continue.")
    return learner, getattr(learner, "schema_", None) or {"format": "numpy"}


def summary(learner: BaseEstimator, source: Any, seconds: float) -> dict[str, Any]:
    found = getattr(learner, "estimator_", learner)
    report: dict[str, Any] = {
        "algorithm": type(found).__name__,
        "data": source.name,
        "rows": source.rows or None,  # nothing was left to read
        "skipped": source.skipped,
        "columns": getattr(getattr(learner, "recipe_", None), "columns_", None),
        "left_out": source.left_out,
        "features": features_of(learner),
        "classes": learner.classes_.tolist(),
        "passes": int(learner.n_iter_),
        "converged": bool(getattr(found, "converged_", False)),
        "mistakes": getattr(learner, "n_mistakes_", None),
        "updates": getattr(found, "n_updates_", None),
        "seconds": round(seconds, 3),
        "rows_per_second": round(source.rows_read / seconds),
    }
    certificate = getattr(found, "certificate_", None)
    if certificate is not None and certificate.margin == certificate.margin:
        report["margin"], report["certified"] = certificate.margin, certificate.ratio
    if hasattr(learner, "coverage_"):
        report["coverage"] = asdict(learner.coverage_)
    return report


def features_of(learner: BaseEstimator) -> int:
    """The features in use, without those reserved for categories that have not occurred."""
    recipe = getattr(learner, "recipe_", learner)
    return int(getattr(recipe, "n_features_in_use_", learner.n_features_in_))


def show(report: dict[str, Any]) -> None:
    if report["columns"]:
        print_columns(report["columns"])
    rows, passes, rate = report["rows"], report["passes"], report["rows_per_second"]
    mistakes = report["mistakes"]
    lines: dict[str, str | None] = {
        "rows": f"{rows:,} in {duration(report['seconds'])}, {rate:,} rows/s" if rate else None,
        "skipped": report["skipped"] and f"{report['skipped']:,} unreadable rows",
        "left out": report["left_out"] and f"{report['left_out']:,} rows of weight 0",
        "features": count(report["features"]),
        "classes": listed(report["classes"]),
        "passes" if mistakes is not None else "steps": f"{passes:,}"
        + (", converged" if report["converged"] else ""),
        "mistakes": count(mistakes),
        "updates": count(report["updates"]),
    }
    if mistakes is not None and rows and (counting := rows * passes - report["left_out"]):
        lines["mistakes"] = f"{mistakes:,} ({percent(mistakes / counting)})"
    if "margin" in report:
        lines["margin"] = margin_text(report["margin"], report["certified"])
    if "coverage" in report:
        from maxmargin.certificates.coverage_bounds import Coverage

        lines["sets"] = str(Coverage(**report["coverage"]))
    if "test" in report:
        lines |= score_lines(report["test"])
    model = report.get("model")
    lines["model"] = "discarded: --model FILE saves it"
    if model:
        lines["model"] = f"{model}, {size(Path(model).stat().st_size)}"
    hint = f"maxmargin predict {model} DATA" if model else ""
    print_report(f"{report['algorithm']}, learned from {report['data']}", lines, hint)
