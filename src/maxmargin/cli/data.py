"""Options that say how data are read and prepared, and sources made from them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from maxmargin.cli.errors import in_words, misuse

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

TABLES = ("csv", "parquet", "arrow", "json")


Kind = Literal["svmlight", "csv", "parquet", "arrow", "json", "numpy"]
Data = Annotated[
    str,
    typer.Argument(metavar="DATA", help="File, URL (s3://...), or - for standard input."),
]
Format = Annotated[
    Kind | None, typer.Option(help="File format (default: detected from the name or content).")
]
SkipErrors = Annotated[
    bool, typer.Option("--skip-errors", help="Skip rows that cannot be read, and report how many.")
]
of_tables = functools.partial(typer.Option, rich_help_panel="Tables")
of_columns = functools.partial(typer.Option, rich_help_panel="Columns of tables")


@dataclass(frozen=True)
class Reading:
    """How data are read and prepared, by the options of a command."""

    format: Format = None
    label: Annotated[
        str | None,
        typer.Option(help="Label column, by name or position; for .npy, the file with the labels."),
    ] = None
    weight: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Sample-weight column, by name or position; for .npy, a file.",
        ),
    ] = None
    n_features: Annotated[
        int | None, typer.Option(min=1, help="Number of features, if known (svmlight).")
    ] = None
    zero_based: Annotated[
        bool | None,
        typer.Option("--zero-based/--one-based", help="Index of the first feature (svmlight)."),
    ] = None
    skip_errors: SkipErrors = False
    header: Annotated[
        bool | None,
        of_tables(
            "--header/--no-header",
            help="Whether the first line of a CSV file has column names (default: detected).",
        ),
    ] = None
    delimiter: Annotated[str | None, of_tables(help="CSV delimiter (default: detected).")] = None
    decimal: Annotated[str | None, of_tables(help="Decimal separator: a point or a comma.")] = None
    encoding: Annotated[str | None, of_tables(help="CSV encoding, such as latin-1.")] = None
    na: Annotated[
        list[str],
        of_tables(
            metavar="VALUE",
            help="Also treat VALUE as missing, besides NA, n/a, null, ? and others; repeatable.",
        ),
    ] = field(default_factory=list)
    columns: Annotated[
        list[str],
        of_columns(metavar="NAME", help="Read only these columns; comma-separated or repeated."),
    ] = field(default_factory=list)
    drop: Annotated[
        list[str],
        of_columns(metavar="NAME", help="Ignore these columns; comma-separated or repeated."),
    ] = field(default_factory=list)
    kind: Annotated[
        list[str],
        of_columns(
            metavar="NAME=KIND",
            help="Kind of a column: number, boolean, category, hashed, text, date or drop.",
        ),
    ] = field(default_factory=list)
    missing: Annotated[
        Literal["mean", "error"],
        of_columns(help="How to treat missing numbers."),
    ] = "mean"
    scale: Annotated[
        bool | None,
        of_columns("--scale/--no-scale", help="Standardize numeric columns (default: for tables)."),
    ] = None
    categorical: Annotated[
        Literal["one-hot", "hash"] | None,
        of_columns(help="Encoding of categories (default: one-hot)."),
    ] = None
    interactions: Annotated[
        list[str], of_columns(metavar="A*B", help="Add the hashed products of two columns.")
    ] = field(default_factory=list)

    def open(self, data: str, schema: dict[str, Any] | None = None) -> Any:
        """The source that the options describe; ``schema`` is that of a model."""
        from maxmargin import streams

        rows = streams.opened(data)
        kind = self.format or streams.format_of(rows)
        options: dict[str, Any] = {
            "header": self.header,
            "delimiter": {"\\t": "\t", "tab": "\t"}.get(self.delimiter or "", self.delimiter),
            "encoding": self.encoding,
            "columns": _names(self.columns) or None,
            "n_features": self.n_features,
            "zero_based": self.zero_based,
            "on_error": "skip" if self.skip_errors else None,
        }
        if kind == "csv":
            options["decimal"] = self.decimal
        if self.label is not None:
            name = "y" if self.label.endswith(".npy") else "label"
            options[name] = column_of(self.label)
        if self.weight is not None:
            options["weight"] = column_of(self.weight)
        given = {name: value for name, value in options.items() if value is not None}
        try:
            recipe = self._recipe(kind) if schema is None else None
            return streams.open(rows, format=kind, schema=schema, recipe=recipe, **given)
        except streams.StreamError:
            raise
        except ValueError as error:
            misuse(in_words(error))

    def check_no_columns(self, because: str) -> None:
        """Raise if an option says how columns are prepared."""
        own = ("columns", "drop", "kind", "missing", "scale", "categorical", "interactions", "na")
        if given := [name for name in own if getattr(self, name) != getattr(Reading(), name)]:
            misuse(f"{because}: leave out --{given[0]}.")

    def _recipe(self, kind: str) -> Any:
        """Tables are always prepared, other rows if they are to be scaled."""
        if kind not in TABLES:
            for name in ("drop", "kind", "interactions", "columns", "decimal", "na", "categorical"):
                if getattr(self, name):
                    misuse(f"--{name} needs a table with column names; the format is {kind}.")
            if not self.scale:
                return None
            if kind == "svmlight":
                misuse("--scale takes no sparse rows: --algorithm automargin or arow needs none.")
        from maxmargin.streams import Recipe

        return Recipe(
            dict(_pair(text, "=", "--kind takes name=kind") for text in self.kind),
            drop=_names(self.drop),
            scale=self.scale is not False,
            missing=self.missing,
            categories=self.categorical or "one-hot",
            interactions=[
                _pair(text, "*", "--interactions takes a*b") for text in _names(self.interactions)
            ],
            na_values=self.na,
        )


def with_reading(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `Reading` in place of its parameter ``reading``."""
    hints = get_type_hints(Reading, include_extras=True)
    options = [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=[] if one.default_factory is list else one.default,
            annotation=hints[one.name],
        )
        for one in fields(Reading)
    ]
    names = [option.name for option in options]

    @functools.wraps(command)
    def called(**given: Any) -> None:
        reading = Reading(**{name: given.pop(name) for name in names})
        command(**given, reading=reading)

    own = inspect.signature(command, eval_str=True).parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    kept = [each.replace(kind=keyword) for each in own if each.name != "reading"]
    vars(called)["__signature__"] = inspect.Signature([*kept, *options])
    called.__annotations__ = {each.name: each.annotation for each in (*kept, *options)}
    return called


def column_of(text: str) -> str | int:
    """The name of a column or file, or the position of a column."""
    return int(text) if text.lstrip("-").isdigit() else text


def _names(texts: list[str]) -> list[str]:
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def _pair(text: str, between: str, otherwise: str) -> tuple[str, str]:
    first, found, second = (part.strip() for part in text.partition(between))
    if not (first and found and second):
        misuse(f"{otherwise}; got {text!r}.")
    return first, second


def open_alike(
    data: str, learner: BaseEstimator, *, format: Kind | None, skip_errors: bool, labelled: bool
) -> Any:
    """Rows of another file, prepared as those that ``learner`` was fitted on; without weights."""
    from maxmargin import streams

    schema = dict(getattr(learner, "schema_", None) or {"format": "numpy"})
    if schema["format"] == "svmlight":
        schema["least_width"] = learner.n_features_in_
    schema.pop("weight", None)
    if schema["format"] == "table" and not labelled:
        label = schema.pop("label", None)  # whatever is in its column
        kinds = {name: kind for name, kind in schema.get("kinds", {}).items() if name != label}
        schema |= {"needs_label": False, "kinds": kinds}
    rows = streams.opened(data)
    can_skip = skip_errors and (format or streams.format_of(rows)) != "numpy"
    options = {"on_error": "skip"} if can_skip else {}
    return streams.open(rows, format=format, schema=schema, frozen=True, **options)


def check_is_there(data: str) -> None:
    """Raise if the data do not exist; a pipe stays unopened."""
    from maxmargin import streams

    if data != "-" and not Path(data).exists():
        streams.opened(data)  # an address, or a pattern


def with_bar(source: Any, title: str, enabled: bool = True) -> Iterator[Any]:
    """The blocks of a source, with a bar on a terminal."""
    from maxmargin._terminal import bar

    total, done = source.total, 0
    with bar(title, total and total / 1e6, "MB", enabled=enabled) as advance:
        for block in source.blocks():
            yield block
            advance((block.done - done) / 1e6, note=f"{block.end:,} rows")
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
