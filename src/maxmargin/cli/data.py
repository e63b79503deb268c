"""Options that say how data are read, and sources made from them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from maxmargin.cli.errors import in_words, misuse

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


class Kind(str, Enum):
    svmlight = "svmlight"
    csv = "csv"
    parquet = "parquet"
    arrow = "arrow"
    numpy = "numpy"


class Words(str, Enum):
    onehot = "one-hot"
    hash = "hash"


Data = Annotated[str, typer.Argument(metavar="DATA", help="A file, or - for standard input.")]
Format = Annotated[
    Kind | None,
    typer.Option(help="By default as the file says; - is svmlight, for models of tables CSV."),
]
Label = Annotated[
    str | None,
    typer.Option(help="Column with the labels, by name or position; of .npy, the file with them."),
]
Weight = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="Column with the weights of rows, by name or position; of .npy, the file with them.",
    ),
]
Header = Annotated[
    bool, typer.Option("--header/--no-header", help="Does CSV begin with names of columns?")
]
Categorical = Annotated[
    Words | None, typer.Option(help="How words in tables become numbers; by default one-hot.")
]
Features = Annotated[
    int | None, typer.Option(min=1, help="Number of columns, if it is known (svmlight).")
]
ZeroBased = Annotated[
    bool | None,
    typer.Option("--zero-based/--one-based", help="Number of the first column (svmlight)."),
]
SkipErrors = Annotated[
    bool, typer.Option("--skip-errors", help="Count and leave out rows that cannot be read.")
]


def open_source(
    data: str,
    format: Kind | None,
    label: str | None,
    header: bool,
    categorical: Words | None,
    n_features: int | None,
    zero_based: bool | None,
    skip_errors: bool,
    weight: str | None = None,
) -> Any:
    """The source that the options describe."""
    from maxmargin import streams

    options: dict[str, Any] = {
        "header": None if header else False,
        "categorical": categorical and categorical.value,
        "n_features": n_features,
        "zero_based": zero_based,
        "on_error": "skip" if skip_errors else None,
    }
    if label is not None and label.endswith(".npy"):
        options["y"] = label
    elif label is not None:
        options["label"] = column_of(label)
    if weight is not None:
        options["weight"] = weight if weight.endswith(".npy") else column_of(weight)
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return streams.open(data, format=format and format.value, **given)
    except streams.StreamError:
        raise
    except ValueError as error:
        misuse(in_words(error))


def column_of(text: str) -> str | int:
    """A column by its name or position."""
    return int(text) if text.lstrip("-").isdigit() else text


def open_alike(
    data: str, learner: BaseEstimator, *, format: Kind | None, skip_errors: bool, labelled: bool
) -> Any:
    """Rows as ``learner`` knows them, from another file, which need no weights."""
    from maxmargin import streams

    schema = dict(getattr(learner, "schema_", None) or {"format": "numpy"})
    if schema["format"] == "svmlight":
        schema["least_width"] = learner.n_features_in_
    schema.pop("weight", None)
    if schema["format"] == "table" and not labelled:
        schema["needs_label"] = False
    skipping: dict[str, Any] = {"on_error": "skip"} if skip_errors else {}
    return streams.open(data, format=format and format.value, schema=schema, **skipping)


def with_bar(source: Any, title: str, enabled: bool = True) -> Iterator[Any]:
    """The blocks of a source, with a bar on a terminal."""
    from maxmargin._terminal import bar

    total, done = source.total, 0
    with bar(title, total and total / 1e6, "MB", enabled=enabled) as advance:
        for block in source.blocks():
            yield block
            advance((block.done - done) / 1e6, note=f"{block.end.row:,} rows")
            done = block.done


def classes_of(text: str | None) -> list[Any] | None:
    """Labels separated by commas; numbers if all of them are."""
    if text is None:
        return None
    return numbers_or_words([word.strip() for word in text.split(",")])


def numbers_or_words(texts: list[str]) -> list[Any]:
    """Numbers, if all of them are."""
    for number in (int, float):
        with suppress(ValueError):
            return [number(text) for text in texts]
    return list(texts)
