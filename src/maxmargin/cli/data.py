"""Options that say how data are read, and sources made from them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from maxmargin.cli.errors import misuse

Data = Annotated[str, typer.Argument(metavar="DATA", help="A file, or - for standard input.")]
Format = Annotated[
    str | None,
    typer.Option(help="svmlight, csv, parquet, arrow or numpy; else as the file itself says."),
]
Label = Annotated[
    str | None, typer.Option(help="Name or position of the column with the labels (tables).")
]
Categorical = Annotated[
    str | None, typer.Option(help="Columns of words: one-hot, or hash (tables).")
]
Features = Annotated[int | None, typer.Option(help="Number of columns, if it is known (svmlight).")]
ZeroBased = Annotated[
    bool | None,
    typer.Option("--zero-based/--one-based", help="Number of the first column (svmlight)."),
]
SkipErrors = Annotated[
    bool, typer.Option("--skip-errors", help="Count and leave out rows that cannot be read.")
]


def open_source(
    data: str,
    *,
    format: str | None = None,
    label: str | None = None,
    categorical: str | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    skip_errors: bool = False,
    schema: dict[str, Any] | None = None,
) -> Any:
    """The source that the options describe."""
    from maxmargin import streams

    options: dict[str, Any] = {
        "label": int(label) if label and label.lstrip("-").isdigit() else label,
        "categorical": categorical,
        "n_features": n_features,
        "zero_based": zero_based,
        "on_error": "skip" if skip_errors else None,
    }
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return streams.open(data, format=format, schema=schema, **given)
    except streams.StreamError:
        raise
    except ValueError as error:
        misuse(str(error))


def open_alike(data: str, learner: Any, format: str | None, skip_errors: bool) -> Any:
    """Rows as ``learner`` knows them, from another file."""
    schema = dict(getattr(learner, "schema_", None) or {"format": "svmlight"})
    if schema["format"] == "svmlight":
        schema["least_width"] = learner.n_features_in_
    return open_source(data, format=format, skip_errors=skip_errors, schema=schema)


def classes_of(text: str | None) -> list[Any] | None:
    """Labels separated by commas; numbers if all of them are."""
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    try:
        return [int(word) for word in words]
    except ValueError:
        pass
    try:
        return [float(word) for word in words]
    except ValueError:
        return list(words)
