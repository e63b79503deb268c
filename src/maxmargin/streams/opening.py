"""Open a source by its kind: by its type, its first bytes, its name or first line."""

from __future__ import annotations

import codecs
import importlib
import inspect
import io
import os
import re
from collections.abc import Mapping
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.streams.files import (
    OPENERS,
    Files,
    Pipe,
    UnchangedSource,
    as_damage,
    is_address,
    pipe_at,
    text_of,
)
from maxmargin.streams.source import Source, StreamError

# By the first bytes of a file, and by the suffix of its name; other files are svmlight text.
MAGICS = {
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\x93NUMPY": "numpy",
    b"PK\x03\x04": "numpy",
}
SUFFIXES = {
    **dict.fromkeys((".svm", ".svmlight", ".libsvm"), "svmlight"),
    **dict.fromkeys((".csv", ".tsv"), "csv"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), "arrow"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
    **dict.fromkeys((".npy", ".npz"), "numpy"),
}
OF_FOLDERS = ("csv", "parquet", "arrow", "json")
SEQUENTIAL = ("svmlight", "csv")  # can be read from a pipe
LINE = 2**16  # bytes in which the first line is looked for
SVMLIGHT = re.compile(rb"([-+.\deE:]+|\S+(\s+(qid|\d+):\S+)+)\s*(#.*)?")
DELIMITERS = (b",", b"\t", b";", b"|")
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
        raise ValueError("The labels of a table are one of its columns: name it by label=.")
    module, name = SOURCES.get(kind, ("tables", "TableSource"))
    make = getattr(importlib.import_module(f"maxmargin.streams.{module}"), name)
    make = partial(make, format=kind) if is_table else make
    takes = inspect.signature(make).parameters
    if unknown := [name for name in given if name not in takes]:
        raise ValueError(f"{unknown[0]}= is not an option of {kind} sources.")
    if files:
        rows: Source = UnchangedSource(lambda: make(source, **given), files)
    else:
        rows = make(source, **given)
    if recipe is None:
        return rows
    recipe_source = importlib.import_module("maxmargin.streams.recipe_source")
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


def opened(path: Any) -> Files | Pipe:
    """The file or files at a path or an address, or a pipe ("-" is standard input)."""
    place = os.fspath(path)
    if is_address(place):
        return Files(place)
    return pipe_at(place) or Files(place)


def kind_of(
    source: Any, format: str | None, family: str | None, is_svmlight: bool, is_table: bool
) -> tuple[str, Any]:
    """The kind of source that reads ``source``, and what it reads.

    ``family`` is the format in the schema, ``is_svmlight`` says that there are options of svmlight
    text, and ``is_table`` that a recipe reads dicts as a table.
    """
    if isinstance(source, io.TextIOBase):
        raise ValueError("Files must be opened in binary mode, open(path, 'rb').")
    if hasattr(source, "read") and not isinstance(source, Pipe):
        source = Pipe(source)
    if isinstance(source, Files | Pipe):
        is_file = isinstance(source, Files)
        kind = format or ("csv" if family == "table" and not is_file else "")
        if not kind:
            kind = format_of(source)
            is_sure = isinstance(source, Files) and source.suffix() in SUFFIXES
            if kind == "csv" and (is_svmlight or family == "svmlight") and not is_sure:
                kind = "svmlight"
        if not is_file and kind not in SEQUENTIAL:
            raise ValueError(f"{kind} cannot be read from a pipe or an open file: pass a path.")
        if isinstance(source, Files) and source.is_folder:
            if kind not in OF_FOLDERS:
                raise ValueError(f"{source}: files of the format {kind} cannot be read together.")
            source.only(tuple(suffix for suffix, each in SUFFIXES.items() if each == kind))
        return kind, source
    if isinstance(source, np.ndarray) or sparse.issparse(source):
        return "numpy", source
    if (table := _kind_of_table(source)) is not None:
        return table, source
    if not hasattr(source, "__iter__"):
        raise TypeError(f"Cannot read rows from {type(source).__name__}.")
    if not is_table:
        return "iterator", source
    from maxmargin.streams.iterators import as_row

    iterator = iter(source)
    first = list(islice(iterator, 1))
    again = source if iterator is not source else chain(first, iterator)
    return ("dicts" if first and as_row(first[0]) else "iterator"), again


def _kind_of_table(source: Any) -> str | None:
    from maxmargin.streams.table_readers import gives_batches, is_frame

    if is_frame(source):
        return "frame"
    if gives_batches(source):
        if isinstance(source, Mapping):
            names = ", ".join(map(repr, source))
            raise TypeError(f"{type(source).__name__} has several tables: choose one of {names}.")
        return "batches"
    if type(source).__name__ == "LazyFrame":
        raise TypeError("A lazy frame of this version has no rows yet: collect() it first.")
    return None


def format_of(source: Files | Pipe) -> str:
    """The format of a file, by its first bytes, its name or its first line."""
    if isinstance(source, Pipe):
        return _format_of_line(source.first_line, source.source)
    if source.is_folder:
        formats = (SUFFIXES.get(Path(path).suffix.lower(), "") for path in source.paths)
        common = next((each for each in formats if each in OF_FOLDERS), None)
        if common is None:
            raise StreamError(
                f"{source}: there are no files of tables, whose names end with "
                f"{', '.join(suffix for suffix, each in SUFFIXES.items() if each in OF_FOLDERS)}."
            )
        return common
    with source.open() as file, as_damage(source.name):
        head = file.read(max(map(len, MAGICS)))
        for magic, kind in MAGICS.items():
            if head.startswith(magic):
                return kind
        named = SUFFIXES.get(source.suffix())
        if named not in (None, "json"):
            return str(named)
        file.seek(0)
        found = _format_of_line(text_of(file).read(LINE).partition(b"\n")[0], source.name)
        return named or found


def _format_of_line(line: bytes, name: str) -> str:
    if line.lower().startswith(b"@relation"):
        raise StreamError(f"{name} is ARFF, which is not supported; the lines after @data are CSV.")
    if line.startswith(b"[{"):
        raise StreamError(
            f"{name} is a list of JSON objects, and must have one object in each line: convert it "
            f"by pandas.read_json({name!r}).to_json('rows.jsonl', orient='records', lines=True)."
        )
    if line.startswith(b'{"'):
        return "json"
    is_packed = any(line.startswith(magic) for magic in OPENERS)
    line = line.removeprefix(codecs.BOM_UTF8).strip()
    is_table = SVMLIGHT.fullmatch(line) is None and any(each in line for each in DELIMITERS)
    return "csv" if is_table and not is_packed else "svmlight"
