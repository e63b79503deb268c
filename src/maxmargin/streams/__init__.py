"""Blocks of rows from files of any size, pipes, tables and iterators."""

from __future__ import annotations

import importlib
import inspect
import io
import os
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from maxmargin.streams.addresses import is_address, local_path
from maxmargin.streams.compression import Bytes, opener_of, plain_suffix
from maxmargin.streams.files import Folder, LocalFile, Stored, UnchangedSource
from maxmargin.streams.option_errors import Option, OptionError, OptionWarning
from maxmargin.streams.pipes import Peeked, looks_like_csv, opened_once
from maxmargin.streams.source import START, Block, Position, Source, StreamError, Surprise, Survey

if TYPE_CHECKING:
    from maxmargin.streams.recipe import Recipe

__all__ = [
    "START",
    "Block",
    "Option",
    "OptionError",
    "OptionWarning",
    "Position",
    "Recipe",
    "Source",
    "StreamError",
    "Surprise",
    "Survey",
    "open",
]

# By the bytes that a file begins with, and by the suffix of its name; else it is svmlight text.
MAGICS = {
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\x93NUMPY": "numpy",
    b"PK\x03\x04": "numpy",
}
SUFFIXES = {
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".npy": "numpy",
    ".npz": "numpy",
}
# Where the sources are: each is imported when it is needed, with the libraries that it needs. All
# other kinds are tables.
SOURCES = {
    "svmlight": ("svmlight", "SvmlightSource"),
    "numpy": ("arrays", "ArraySource"),
    "iterator": ("iterators", "IteratorSource"),
}
# Names of what is not read.
JSON = (".json", ".jsonl", ".ndjson")
FORMATS = ("svmlight", "csv", "parquet", "arrow", "numpy")
FROM_FRONT_TO_BACK = ("svmlight", "csv")


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
        pattern such as ``data/year=*/*.parquet``, means all its Parquet files. URLs are those of
        fsspec ("s3://...", "https://...", "zip://rows.csv::https://..."). Frames are from pandas,
        polars or pyarrow, or any object with ``__arrow_c_stream__``, such as a DuckDB relation, or
        Hugging Face datasets; arrays may be memory maps. An iterable yields blocks (X, y), or pairs
        of a dict and its label, or triples with weights.
    y : array of shape (n_rows,), default=None
        The labels, if ``source`` is an array.
    format : {"svmlight", "csv", "parquet", "arrow", "numpy"}, default=None
        By default detected from the first bytes or the name of the file; otherwise svmlight.
    schema : dict, default=None
        Schema of another source (`Source.schema`), to read the columns in the same way.
    recipe : Recipe, or scikit-learn transformer, default=None
        Prepares the rows. A `Recipe` prepares the columns of a table, of dicts or of a matrix; a
        transformer, or a pipeline of them, must have `partial_fit` or be stateless. It is not
        changed: the learner stores a copy.
    frozen : bool, default=False
        Use the recipe of the schema without updating it.
    **options
        Options of the kind of source:

        - all: ``block_size`` (approximate number of bytes per block; at most 1 GiB);
        - svmlight: ``zero_based`` (True, False or "auto"), ``n_features``;
        - arrays: ``weight`` (of each row);
        - tables: ``label`` and ``weight`` (name or position of the columns with the labels and the
          sample weights), ``columns`` (the features), ``kinds`` ("number", "boolean" or "category"
          by name), ``vocabulary`` (the values of categories, without a recipe), ``needs_label``,
          ``na_values`` (further spellings of missing values); CSV also
          ``header``, ``delimiter``, ``encoding`` and ``decimal``;
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
    if y is not None:
        options["y"] = y
    if isinstance(source, str | os.PathLike):
        source = opened(source)
    kind, source = _kind_of(source, format, family, recipe, options)
    is_table = kind not in SOURCES
    _check_family(source, family, is_table)
    files = _files_of(source, kind, options)
    if kind == "numpy" and isinstance(source, LocalFile):
        source = source.path
    if family not in ("table", kind):
        known = {}  # columns without names are the same in sources of all kinds
    given = {**known, **options}
    if family == "table":
        given.setdefault("header", True)  # whatever the first line of another file looks like
    if is_table and _is_recipe(recipe):
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


def _kind_of(
    source: Any, format: str | None, family: str | None, recipe: Any, options: dict[str, Any]
) -> tuple[str, Any]:
    """The kind of source that reads ``source``, and what it reads."""
    if isinstance(source, Folder):
        if format not in (None, "parquet"):
            raise ValueError(f"{source}: only Parquet files are read many at a time, not {format}.")
        return "parquet", source
    if isinstance(source, Stored):
        return format or _guess(source, family, options), source
    if hasattr(source, "read"):
        return _kind_of_open_file(source, format, family, options)
    if isinstance(source, np.ndarray) or sparse.issparse(source):
        return "numpy", source
    if (kind := _kind_of_table(source)) is not None:
        return kind, source
    if hasattr(source, "__iter__"):
        return _kind_of_iterable(source, recipe)
    raise TypeError(f"Cannot read rows from {type(source).__name__}.")


def _kind_of_open_file(
    file: Any, format: str | None, family: str | None, options: dict[str, Any]
) -> tuple[str, Any]:
    """The format of a pipe or an open file, which can be read only once, and that file."""
    if isinstance(file, io.TextIOBase):
        raise ValueError("Files must be opened in binary mode, open(path, 'rb').")
    kind = format or ("csv" if family == "table" else "")
    if not kind:
        file = file if isinstance(file, Peeked) else Peeked(file)
        kind = _guess(file, family, options)
    if kind not in FROM_FRONT_TO_BACK:
        raise ValueError(f"{kind} cannot be read from a pipe or an open file: pass a path.")
    return kind, file


def _check_family(source: Any, family: str | None, is_table: bool) -> None:
    """Raise if the columns of the schema have names and those of the source do not, or reversed."""
    if family == "table" and not is_table:
        raise StreamError(
            f"{source}: the schema is that of a table, whose columns have names; here they have "
            "none."
        )
    if family not in (None, "table") and is_table:
        raise StreamError(
            f"{source}: the schema has columns without names; those of a table have names."
        )


def _files_of(source: Any, kind: str, options: dict[str, Any]) -> Sequence[Stored]:
    """The files behind a source, which must not change while they are read."""
    files = [source] if isinstance(source, Stored) else []
    if isinstance(source, Folder):
        files = list(source.stored)
    if kind == "numpy":
        if files and not isinstance(source, LocalFile):
            raise StreamError(
                f"{source}: arrays must be in a file of this machine: copy it there first."
            )
        beside = (options.get("y"), options.get("weight"))
        files += [LocalFile(Path(each)) for each in beside if isinstance(each, str | os.PathLike)]
    return files


def _is_recipe(recipe: Any) -> bool:
    if recipe is None:
        return False
    from maxmargin.streams.recipe import Recipe

    return isinstance(recipe, Recipe)


def _kind_of_iterable(rows: Any, recipe: Any) -> tuple[str, Any]:
    """Dicts that a recipe prepares are a table."""
    if not _is_recipe(recipe):
        return "iterator", rows
    from maxmargin.streams.iterators import as_row

    iterator = iter(rows)
    first = list(islice(iterator, 1))
    again = rows if iterator is not rows else chain(first, iterator)
    return ("dicts" if first and as_row(first[0]) else "iterator"), again


if not TYPE_CHECKING:  # a type checker would believe that there is every name

    def __getattr__(name: str) -> Any:
        """`Recipe`, which needs more than reading does, when it is asked for."""
        if name != "Recipe":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return importlib.import_module(f"{__name__}.recipe").Recipe


def _kind_of_table(source: Any) -> str | None:
    from maxmargin.streams.batches import gives_batches
    from maxmargin.streams.frames import is_frame

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


def _guess(source: Stored | Peeked, family: str | None, options: dict[str, Any]) -> str:
    """The format of a file, unless the options contradict a guess by its first line."""
    kind = format_of(source)
    is_sure = isinstance(source, Stored) and plain_suffix(source.path).lower() in SUFFIXES
    is_svmlight = family == "svmlight" or bool(options.keys() & {"zero_based", "n_features"})
    return "svmlight" if kind == "csv" and is_svmlight and not is_sure else kind


def opened(path: Any) -> Stored | Folder | Peeked:
    """The file at ``path``, or the files; a pipe ("-" is standard input) with its first line."""
    if is_address(path):
        if (local := local_path(path)) is None:
            return importlib.import_module(f"{__name__}.folders").remote(path)
        path = local
    if path != "-" and not os.path.isfile(path):
        folders = importlib.import_module(f"{__name__}.folders")
        if (folder := folders.local_folder(os.fspath(path))) is not None:
            return folder
    pipe = opened_once(path)
    return LocalFile(Path(path)) if pipe is None else Peeked(pipe)


def no_json(name: str, lines: bool) -> str:
    """The message for JSON, with one object per line or as a list."""
    file = name if os.path.exists(name) else "rows.json"
    how = f"{file!r}, lines=True" if lines else repr(file)
    return (
        f"{name} is JSON, which is not supported; convert it to Parquet or CSV, in Python by "
        f"pandas.read_json({how}).to_parquet('rows.parquet')."
    )


def format_of(source: Stored | Folder | Peeked) -> str:
    """As the first bytes of a file say, or its name, or its first line."""
    if isinstance(source, Peeked):
        if source.first_line.lower().startswith(b"@relation"):
            raise StreamError(
                f"{source.name} is ARFF, which is not supported; the lines after @data are CSV."
            )
        if source.first_line.startswith((b'{"', b"[{")):
            raise StreamError(no_json(source.name, source.first_line.startswith(b"{")))
        is_text = opener_of(source.first_line) is None
        return "csv" if is_text and looks_like_csv(source.first_line) else "svmlight"
    if isinstance(source, Folder):
        return "parquet"
    with source.open() as file:
        head = file.read(16)
        for magic, kind in MAGICS.items():
            if head.startswith(magic):
                return kind
        suffix = plain_suffix(source.path).lower()
        if suffix in SUFFIXES:
            return SUFFIXES[suffix]
        if suffix in JSON:
            raise StreamError(no_json(source.name, head[:1] != b"["))
        file.seek(0)
        try:
            first = Peeked(Bytes(file, source.name))
        except StreamError:
            return "svmlight"  # whose reader knows what to say about it
        first.name = source.name
        return format_of(first)
