"""Blocks of rows from files of any size, pipes, tables and iterators."""

from __future__ import annotations

import importlib
import inspect
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxmargin.streams.files import Files, UnchangedSource
from maxmargin.streams.formats import format_of as format_of
from maxmargin.streams.formats import kind_of
from maxmargin.streams.formats import opened as opened
from maxmargin.streams.option_errors import Option, OptionError, OptionWarning
from maxmargin.streams.source import Block, Source, StreamError, Surprise, Survey

if TYPE_CHECKING:
    from maxmargin.streams.recipe import Recipe

__all__ = [
    "Block",
    "Option",
    "OptionError",
    "OptionWarning",
    "Recipe",
    "Source",
    "StreamError",
    "Surprise",
    "Survey",
    "open",
]

# Each source is imported when it is needed, with its libraries. All other kinds are tables.
SOURCES = {
    "svmlight": ("svmlight", "SvmlightSource"),
    "numpy": ("arrays", "ArraySource"),
    "iterator": ("iterators", "IteratorSource"),
}
FORMATS = ("svmlight", "csv", "parquet", "arrow", "json", "numpy")


def open(
    source: Any,
    y: Any = None,
    *,
    format: str | None = None,
    schema: dict[str, Any] | None = None,
    recipe: Any = None,
    frozen: bool = False,
    **options: Any,
) -> Source:
    """Open a source of blocks of rows.

    Parameters
    ----------
    source : path, address, "-", binary file, frame, stream of Arrow, array, or iterable
        "-" is standard input. Text may be compressed with gzip, bzip2, xz or zstd. A folder, or a
        pattern such as ``data/year=*/*.parquet``, means all its tables. URLs are those of fsspec
        ("s3://...", "https://...", "zip://rows.csv::https://..."). Frames are from pandas,
        polars or pyarrow, or any object with ``__arrow_c_stream__``, such as a DuckDB relation, or
        Hugging Face datasets; arrays may be memory maps. An iterable yields blocks (X, y), or pairs
        of a dict and its label, or triples with weights.
    y : array of shape (n_rows,), default=None
        The labels, if ``source`` is an array.
    format : {"svmlight", "csv", "parquet", "arrow", "json", "numpy"}, default=None
        By default detected from the first bytes or the name of the file; otherwise svmlight.
    schema : dict, default=None
        Schema of another source (`Source.schema`), to read the columns in the same way.
    recipe : Recipe, default=None
        Prepares the columns of a table, of dicts or of a matrix. It is not changed: the learner
        stores a copy.
    frozen : bool, default=False
        Use the recipe of the schema without updating it.
    **options
        Options of the kind of source:

        - all: ``block_size`` (approximate number of bytes per block; at most 1 GiB);
        - svmlight: ``zero_based`` (True, False or "auto"), ``n_features``;
        - arrays: ``weight`` (of each row);
        - tables: ``label`` and ``weight`` (name or position of the columns with the labels and the
          sample weights), ``columns`` (the features; without a recipe, numbers and truth values),
          ``kinds`` ("number", "boolean" or, of labels, "category" by name), ``needs_label``,
          ``na_values`` (further spellings of missing values); CSV also ``header``, ``delimiter``,
          ``encoding`` and ``decimal``;
        - text: ``on_error`` ("raise", or "skip" to skip and count unreadable rows).

    Examples
    --------
    >>> import io
    >>> from maxmargin import streams
    >>> source = streams.open(io.BytesIO(b"+1 1:0.5 3:2\\n-1 2:1 # a comment\\n"))
    >>> for block in source.blocks():
    ...     print(block.X.toarray().tolist(), block.y.tolist())
    [[0.5, 0.0, 2.0], [0.0, 1.0, 0.0]] [1.0, -1.0]
    """
    if isinstance(source, Source):
        if recipe is not None:
            raise ValueError("recipe must be passed to streams.open, with what the rows are in.")
        return source
    if format is not None and format not in FORMATS:
        raise ValueError(f"format must be one of {', '.join(FORMATS)}; got {format!r}.")
    known = dict(schema or {})
    family = known.pop("format", None)
    recipe = known.pop("recipe", recipe)
    known.pop("prepared", None)
    if recipe is not None and not _is_recipe(recipe):
        raise TypeError(
            f"recipe must be a maxmargin.streams.Recipe, got {type(recipe).__name__}; transform "
            "the rows first, and pass an iterable of blocks (X, y)."
        )
    if y is not None:
        options["y"] = y
    if isinstance(source, str | os.PathLike):
        source = opened(source)
    is_svmlight = bool(options.keys() & {"zero_based", "n_features"})
    kind, source = kind_of(source, format, family, is_svmlight, recipe is not None)
    is_table = kind not in SOURCES
    if family == "table" and not is_table:
        raise StreamError(
            f"{source}: the schema is that of a table, whose columns have names; here they have "
            "none."
        )
    if family not in (None, "table") and is_table:
        raise StreamError(
            f"{source}: the schema has columns without names; those of a table have names."
        )
    files = _files_of(source, kind, options)
    if kind == "numpy" and isinstance(source, Files):
        source = Path(source.paths[0])
    if family not in ("table", kind):
        known = {}  # columns without names are the same in all kinds of sources
    given = {**known, **options}
    if family == "table":
        given.setdefault("header", True)  # whatever the first line of another file looks like
    if is_table and recipe is not None:
        given["recipe"] = recipe = recipe.with_na_values(given.pop("na_values", ()))
    if is_table and y is not None:
        raise OptionError(
            "The labels of a table are one of its columns: name it by ", Option("label", ""), "."
        )
    module, name = SOURCES.get(kind, ("tables", "TableSource"))
    make = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    make = partial(make, format=kind) if is_table else make
    takes = inspect.signature(make).parameters
    if unknown := [name for name in given if name not in takes]:
        raise OptionError(Option(unknown[0]), f" is not an option of {kind} sources.")
    if files:
        rows: Source = UnchangedSource(lambda: make(source, **given), files)
    else:
        rows = make(source, **given)
    if recipe is None:
        return rows
    recipe_source = importlib.import_module(f"{__name__}.recipe_source")
    return recipe_source.PreparedSource(rows, recipe, frozen=frozen)


def _files_of(source: Any, kind: str, options: dict[str, Any]) -> list[Files]:
    """The files of a source, which must not change while they are read."""
    files = [source] if isinstance(source, Files) else []
    if kind == "numpy":
        if files and files[0].system is not None:
            raise StreamError(
                f"{source}: arrays must be in a file of this machine: copy it there first."
            )
        beside = (options.get("y"), options.get("weight"))
        files += [Files(os.fspath(each)) for each in beside if isinstance(each, str | os.PathLike)]
    return files


def _is_recipe(recipe: Any) -> bool:
    from maxmargin.streams.recipe import Recipe

    return isinstance(recipe, Recipe)


if not TYPE_CHECKING:  # or type checkers would accept any name

    def __getattr__(name: str) -> Any:
        """`Recipe` is imported on first use, with the libraries that it needs."""
        if name != "Recipe":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return importlib.import_module(f"{__name__}.recipe").Recipe
