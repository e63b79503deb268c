"""Which kind of source reads something: by its type, its first bytes, its name or first line."""

from __future__ import annotations

import codecs
import io
import os
import re
from collections.abc import Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin.streams.files import OPENERS, Files, Pipe, as_damage, is_address, pipe_at, text_of
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
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "json"),
    **dict.fromkeys((".npy", ".npz"), "numpy"),
}
OF_FOLDERS = ("csv", "parquet", "arrow", "json")
SEQUENTIAL = ("svmlight", "csv")  # can be read from a pipe
LINE = 2**16  # bytes in which the first line is looked for
SVMLIGHT = re.compile(rb"([-+.\deE:]+|\S+(\s+(qid|\d+):\S+)+)\s*(#.*)?")
DELIMITERS = (b",", b"\t", b";", b"|")


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
