"""Which kind of source reads something: by its type, its first bytes, its name or first line."""

from __future__ import annotations

import importlib
import io
import os
from collections.abc import Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.streams.addresses import is_address, local_path
from maxmargin.streams.compression import Bytes, opener_of, plain_suffix
from maxmargin.streams.files import Folder, LocalFile, Stored
from maxmargin.streams.pipes import Peeked, looks_like_csv, opened_once
from maxmargin.streams.source import StreamError

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
    **dict.fromkeys((".npy", ".npz"), "numpy"),
}
JSON = (".json", ".jsonl", ".ndjson")
SEQUENTIAL = ("svmlight", "csv")  # can be read from a pipe


def opened(path: Any) -> Stored | Folder | Peeked:
    """The file or files at ``path``; a pipe ("-" is standard input) with its first line."""
    if is_address(path):
        if (local := local_path(path)) is None:
            return importlib.import_module("maxmargin.streams.folders").remote(path)
        path = local
    if path != "-" and not os.path.isfile(path):
        folders = importlib.import_module("maxmargin.streams.folders")
        if (folder := folders.local_folder(os.fspath(path))) is not None:
            return folder
    pipe = opened_once(path)
    return LocalFile(Path(path)) if pipe is None else Peeked(pipe)


def kind_of(
    source: Any, format: str | None, family: str | None, is_svmlight: bool, is_table: bool
) -> tuple[str, Any]:
    """The kind of source that reads ``source``, and what it reads.

    ``family`` is the format in the schema, ``is_svmlight`` says that there are options of svmlight
    text, and ``is_table`` that a recipe reads dicts as a table.
    """
    if isinstance(source, Folder):
        if format not in (None, "parquet"):
            raise ValueError(f"{source}: only Parquet files can be read together, not {format}.")
        return "parquet", source
    if isinstance(source, Stored) or hasattr(source, "read"):
        if isinstance(source, io.TextIOBase):
            raise ValueError("Files must be opened in binary mode, open(path, 'rb').")
        is_file = isinstance(source, Stored)
        kind = format or ("csv" if family == "table" and not is_file else "")
        if not kind:
            source = source if is_file or isinstance(source, Peeked) else Peeked(source)
            kind = format_of(source)
            is_sure = is_file and plain_suffix(source.path).lower() in SUFFIXES
            if kind == "csv" and (is_svmlight or family == "svmlight") and not is_sure:
                kind = "svmlight"
        if not is_file and kind not in SEQUENTIAL:
            raise ValueError(f"{kind} cannot be read from a pipe or an open file: pass a path.")
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


def format_of(source: Stored | Folder | Peeked) -> str:
    """The format of a file, by its first bytes, its name or its first line."""
    if isinstance(source, Folder):
        return "parquet"
    if isinstance(source, Peeked):
        return _format_of_line(source.first_line, source.name)
    with source.open() as file:
        head = file.read(16)
        for magic, kind in MAGICS.items():
            if head.startswith(magic):
                return kind
        suffix = plain_suffix(source.path).lower()
        if suffix in SUFFIXES:
            return SUFFIXES[suffix]
        if suffix in JSON:
            raise _json_error(source.name, head[:1] != b"[")
        file.seek(0)
        try:
            first = Peeked(Bytes(file, source.name))
        except StreamError:
            return "svmlight"  # whose reader reports the damage
        return _format_of_line(first.first_line, source.name)


def _format_of_line(line: bytes, name: str) -> str:
    if line.lower().startswith(b"@relation"):
        raise StreamError(f"{name} is ARFF, which is not supported; the lines after @data are CSV.")
    if line.startswith((b'{"', b"[{")):
        raise _json_error(name, line.startswith(b"{"))
    return "csv" if opener_of(line) is None and looks_like_csv(line) else "svmlight"


def _json_error(name: str, lines: bool) -> StreamError:
    """The error for JSON, with an object per line or as a list."""
    file = name if os.path.exists(name) else "rows.json"
    how = f"{file!r}, lines=True" if lines else repr(file)
    return StreamError(
        f"{name} is JSON, which is not supported; convert it to Parquet or CSV, in Python by "
        f"pandas.read_json({how}).to_parquet('rows.parquet')."
    )
