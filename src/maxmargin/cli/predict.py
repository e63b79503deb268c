"""``maxmargin predict``: labels, and scores, one line per row."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from maxmargin.cli import data as reading
from maxmargin.cli.errors import one_line_errors

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A file written by maxmargin.")]


def predict(
    model: Model,
    data: reading.Data,
    scores: Annotated[
        bool, typer.Option("--scores", help="The score, or that of each class, behind the label.")
    ] = False,
    format: reading.Format = None,
    skip_errors: reading.SkipErrors = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per row.")] = False,
) -> None:
    """Print the class of each row of DATA, one line each."""
    with one_line_errors():
        from maxmargin.persistence import load

        learner = load(model)
        source = reading.open_alike(data, learner, format, skip_errors)
        for block in source.blocks():
            X = known_columns(block.X, learner, source.name)
            labels, outputs = learner.predict(X), None
            if scores:
                outputs = learner.decision_function(X)
                outputs = outputs.reshape(len(labels), -1)
            sys.stdout.writelines(lines(labels.tolist(), outputs, as_json))
        sys.stdout.flush()


def lines(labels: list[Any], outputs: Any, as_json: bool) -> Iterator[str]:
    for i, label in enumerate(labels):
        numbers = [] if outputs is None else outputs[i].tolist()
        if as_json:
            row = {"label": label} if outputs is None else {"label": label, "scores": numbers}
            yield json.dumps(row, ensure_ascii=False) + "\n"
        else:
            yield "\t".join([str(label), *map(repr, numbers)]) + "\n"


def known_columns(X: Any, learner: Any, name: str) -> Any:
    """``X`` without columns that the learner has never seen, whose weights are 0."""
    width = learner.n_features_in_
    if X.shape[1] <= width:
        return X
    if getattr(learner, "kernel", None) != "linear":
        raise ValueError(f"{name} has {X.shape[1]} columns, the model knows {width}.")
    return X[:, :width]


def score(learner: Any, source: Any) -> dict[str, Any]:
    """Rows, mistakes and accuracy on labelled rows."""
    rows = mistakes = 0
    for block in source.blocks():
        if block.y is None:
            raise ValueError(f"{source.name} has no labels.")
        predicted = learner.predict(known_columns(block.X, learner, source.name))
        rows, mistakes = rows + len(predicted), mistakes + int((predicted != block.y).sum())
    return {"rows": rows, "mistakes": mistakes, "accuracy": 1.0 - mistakes / max(rows, 1)}
