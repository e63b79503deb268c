"""``maxmargin predict``: labels, and scores, one line per row."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from maxmargin.cli import data as reading
from maxmargin.cli.errors import complain, misuse, one_line_errors
from maxmargin.cli.output import json_text, printable

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

STOP = "stop"  # what --on-error says if the first row that cannot be read is an error
MOST_REASONS = 5  # contributions of columns that are printed
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file.")]


def predict(
    model: Model,
    data: reading.Data,
    scores: Annotated[
        bool, typer.Option("--scores", help="Append the score, or the score of each class.")
    ] = False,
    proba: Annotated[
        bool,
        typer.Option("--proba", help="Append the probability of each class."),
    ] = False,
    sets: Annotated[
        bool,
        typer.Option("--sets", help="Append the prediction set, comma-separated."),
    ] = False,
    why: Annotated[
        bool, typer.Option("--why", help="Append the 5 largest contributions of columns.")
    ] = False,
    on_error: Annotated[
        str,
        typer.Option(metavar="TEXT", help="Text to print for an unreadable row, or stop."),
    ] = "",
    format: reading.Format = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per row.")] = False,
) -> None:
    """Print the predicted class of each row of DATA; an empty line if a row is unreadable."""
    with one_line_errors():
        from maxmargin.persistence import load

        learner = load(model)
        source = reading.open_alike(
            data, learner, format=format, skip_errors=on_error != STOP, labelled=False
        )
        names = names_of_columns(learner, source.schema()) if why else None
        learner = learner.without_recipe()
        if proba and not hasattr(learner, "predict_proba"):
            misuse(
                f"--proba: this {type(learner).__name__} has no probabilities; automargin has them."
            )
        if sets and not hasattr(learner, "predict_set"):
            misuse(
                f"--sets: this {type(learner).__name__} has no prediction sets; fit it with "
                "maxmargin fit --coverage 0.9."
            )
        instead = '{"label": null}\n' if as_json else f"{printable(on_error)}\n"
        to_terminal, written, lost = sys.stdout.isatty(), 0, 0
        for block in reading.with_bar(source, "predict", enabled=not to_terminal):
            check_labels(block, learner, source)
            X = with_width_of(block.X, learner, source.name)
            labels = predicted(learner, X, source.name).tolist()
            numbers = {}
            if scores:
                numbers["scores"] = learner.decision_function(X).reshape(len(labels), -1).tolist()
            if proba:
                numbers["probabilities"] = learner.predict_proba(X).tolist()
            inside = learner.predict_set(X) if sets else ()
            classes = [learner.classes_[each].tolist() for each in inside] if sets else None
            reasons = contributions(learner, X, names) if why else None
            text = text_of(labels, numbers, as_json, classes, reasons)
            if len(block.lost):
                lines = text.splitlines(keepends=True)
                for place in block.lost:
                    lines.insert(place - written, instead)
                text = "".join(lines)
            written += len(labels) + len(block.lost)
            lost += len(block.lost)
            sys.stdout.write(text)
        sys.stdout.write(instead * (source.skipped - lost))  # behind the last row
        sys.stdout.flush()
        if source.skipped:
            shown = repr(instead.strip()) if instead.strip() else "empty"
            rows = "1 row" if source.skipped == 1 else f"{source.skipped:,} rows"
            complain(f"{rows} could not be read; printed in place of each: {shown}.")


def check_labels(block: Any, learner: BaseEstimator, source: Any) -> None:
    """Raise for svmlight text without labels, whose first entries look like labels with weights."""
    if block.weight is None or source.schema()["format"] != "svmlight":
        return
    import numpy as np

    question = "do lines begin with an entry, without a label?"
    if (strange := np.setdiff1d(block.y, learner.classes_)).size:
        raise ValueError(
            f"{source.name}, before row {block.end + 1:,}: a label {strange[0]:g} with a "
            f"weight, which the model does not know; {question}"
        )
    X, shift = block.X, 0 if source.schema().get("zero_based") else 1
    filled = np.flatnonzero(np.diff(X.indptr))
    columns, labels = X.indices[X.indptr[filled]] + shift, block.y[filled]
    if filled.size and ((labels >= 0.0) & (labels < columns)).all():
        raise ValueError(
            f"{source.name}, before row {block.end + 1:,}: all labels have weights, and are "
            f"less than the first column of their row; {question} If they do not, leave out the "
            "weights, of which predictions know nothing."
        )


def predicted(learner: BaseEstimator, X: Any, name: str) -> Any:
    """The classes of rows; an error says which row, and which column."""
    try:
        return learner.predict(X)
    except ValueError as error:
        from maxmargin.training.inputs import check_values

        check_values(X)
        raise ValueError(f"{name}: {error}") from error


def text_of(
    labels: list[Any],
    numbers: dict[str, list[list[float]]],
    as_json: bool,
    sets: list[list[Any]] | None = None,
    why: list[dict[str, float]] | None = None,
) -> str:
    """The lines for a block of rows; what is the same in many lines is formatted once.

    A row is one line, whatever its label: control characters are escaped.
    """
    end = "}\n" if as_json else "\n"
    starts = {
        label: f'{{"label": {json_text(label)}' if as_json else printable(str(label))
        for label in set(labels)
    }
    if not numbers and sets is None and why is None:
        lines = {label: start + end for label, start in starts.items()}
        return "".join([lines[label] for label in labels])
    columns = [[starts[label] for label in labels]]
    for name, rows in numbers.items():
        if as_json:
            columns.append([f', "{name}": [{", ".join(map(repr, row))}]' for row in rows])
        else:
            columns.append(["\t" + "\t".join(map(repr, row)) for row in rows])
    if sets is not None and as_json:
        columns.append([f', "set": [{", ".join(map(json_text, each))}]' for each in sets])
    elif sets is not None:
        columns.append(["\t" + ",".join(printable(str(one)) for one in each) for each in sets])
    if why is not None and as_json:
        columns.append([f', "why": {json_text(each)}' for each in why])
    elif why is not None:
        shown = [[f"{printable(k)}:{value:+.3g}" for k, value in each.items()] for each in why]
        columns.append(["\t" + ",".join(each) for each in shown])
    return "".join(["".join(parts) + end for parts in zip(*columns, strict=True)])


def names_of_columns(learner: BaseEstimator, schema: dict[str, Any]) -> Any:
    """What the prepared columns are called; in svmlight, by their numbers in the file."""
    if (recipe := getattr(learner, "recipe_", None)) is not None:
        return recipe.get_feature_names_out()
    if schema["format"] == "svmlight":
        shift = 0 if schema.get("zero_based") else 1
        return range(shift, learner.n_features_in_ + shift)
    return None


def contributions(learner: BaseEstimator, X: Any, names: Any) -> list[dict[str, float]]:
    """The largest contributions of columns to the prediction for each row."""
    from maxmargin.evaluate import explain

    rows = (X[k : k + 1] for k in range(X.shape[0]))
    found = [explain(learner, row, feature_names=names).contributions for row in rows]
    return [dict(itertools.islice(each.items(), MOST_REASONS)) for each in found]


def with_width_of(X: Any, learner: BaseEstimator, name: str) -> Any:
    """``X`` with as many columns as the learner was fitted on, if that changes no prediction.

    Sparse rows may lack the last columns, and a linear learner's weights of those that it has never
    seen are 0.
    """
    width = learner.n_features_in_
    if X.shape[1] == width:
        return X
    can_drop = getattr(getattr(learner, "estimator_", learner), "kernel", None) == "linear"
    if not hasattr(X, "indptr") or (X.shape[1] > width and not can_drop):
        raise ValueError(f"{name} has {X.shape[1]:,} columns, the model knows {width:,}.")
    X.resize(X.shape[0], width)
    return X


class Judged(NamedTuple):
    """A block of labelled rows with what a model says of them; None for what it does not have."""

    block: Any
    X: Any
    labels: Any
    outputs: Any
    probabilities: Any


def judged(learner: BaseEstimator, source: Any, scores: Any) -> Iterator[Judged]:
    """Blocks of rows with their predictions, which are added to ``scores``."""
    learner = learner.without_recipe()
    has_outputs = hasattr(learner, "decision_function")
    has_probabilities = hasattr(learner, "predict_proba")
    for block in reading.with_bar(source, "test"):
        if block.y is None:
            raise ValueError(f"{source.name} has no labels.")
        X = with_width_of(block.X, learner, source.name)
        labels = predicted(learner, X, source.name)
        outputs = learner.decision_function(X) if has_outputs and scores.wants_outputs() else None
        probabilities = learner.predict_proba(X) if has_probabilities else None
        scores.add(block.y, labels, outputs, probabilities)
        yield Judged(block, X, labels, outputs, probabilities)
    if not scores.rows():
        raise ValueError(f"{source.name}: there are no rows.")


def score(learner: BaseEstimator, source: Any) -> dict[str, Any]:
    """How good the model is on labelled rows; see `evaluate.predictions.Scores`."""
    from maxmargin.evaluate.predictions import Scores

    scores = Scores(learner.classes_)
    for _ in judged(learner, source, scores):
        pass
    return {"data": source.name, **scores.report()}
