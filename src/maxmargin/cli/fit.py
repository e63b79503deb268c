"""``maxmargin fit``: learn from a file or a pipe."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from maxmargin.cli import data as reading
from maxmargin.cli import learners
from maxmargin.cli.errors import check_writable, one_line_errors
from maxmargin.cli.output import show
from maxmargin.cli.predict import score

Algorithm = Annotated[
    str,
    typer.Option("--algorithm", "-a", help="The learner.", autocompletion=learners.complete),
]
Settings = Annotated[
    list[str],
    typer.Option("--set", "-s", metavar="NAME=VALUE", help="A parameter of the learner."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Classes = Annotated[
    str | None,
    typer.Option(help="All labels, with commas; of a pipe, else those in its first block."),
]


def fit(
    data: reading.Data,
    algorithm: Algorithm = "amira",
    settings: Settings = [],  # noqa: B006
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="File to write the model to.")
    ] = None,
    passes: Annotated[int, typer.Option(min=1, help="Times that all rows are presented.")] = 1,
    checkpoint: Annotated[
        Path | None, typer.Option(help="File to go on from after a crash, or Ctrl-C.")
    ] = None,
    every: Annotated[int | None, typer.Option(min=1, help="Rows between two checkpoints.")] = None,
    test: Annotated[str | None, typer.Option(help="Data to test the model on.")] = None,
    classes: Classes = None,
    format: reading.Format = None,
    label: reading.Label = None,
    categorical: reading.Categorical = None,
    n_features: reading.Features = None,
    zero_based: reading.ZeroBased = None,
    skip_errors: reading.SkipErrors = False,
    as_json: Json = False,
) -> None:
    """Learn from DATA, row by row in its order, and write the model to a file."""
    with one_line_errors():
        learner = learners.make(algorithm, settings)
        if model is not None:
            check_writable(model)
        source = reading.open_source(
            data,
            format=format,
            label=label,
            categorical=categorical,
            n_features=n_features,
            zero_based=zero_based,
            skip_errors=skip_errors,
        )
        began = time.perf_counter()
        learner.fit_stream(
            source,
            passes=passes,
            classes=reading.classes_of(classes),
            checkpoint=checkpoint,
            every=every,
            progress=True,
        )
        report = summary(learner, source, time.perf_counter() - began)
        if model is not None:
            from maxmargin.persistence import save

            save(learner, model)
            report["model"] = str(model)
        if test is not None:
            report["test"] = score(learner, reading.open_alike(test, learner, None, skip_errors))
        show(report, as_json)


def summary(learner: Any, source: Any, seconds: float) -> dict[str, Any]:
    """What was learnt, and from what."""
    report: dict[str, Any] = {
        "algorithm": type(learner).__name__,
        "data": source.name,
        "features": int(learner.n_features_in_),
        "classes": learner.classes_.tolist(),
        "passes": int(learner.n_iter_),
        "updates": getattr(learner, "n_updates_", None),
        "mistakes": int(learner.n_mistakes_),
        "skipped": source.skipped,
        "seconds": round(seconds, 3),
    }
    certificate = getattr(learner, "certificate_", None)
    if certificate is not None and certificate.margin == certificate.margin:
        report["margin"], report["certified"] = certificate.margin, certificate.ratio
    return report
