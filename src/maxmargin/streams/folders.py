"""Parquet datasets: the files of a folder, or those that match a pattern.

pyarrow.dataset reads partition keys from the names of folders (``year=2026/``). Files are read one
by one, a few pages of a row group at a time.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from maxmargin.streams.addresses import Address, is_web
from maxmargin.streams.arrow import arrow
from maxmargin.streams.columnar import ParquetFile, as_stream_errors
from maxmargin.streams.files import Folder, LocalFile, Stored
from maxmargin.streams.remote import RemoteFile
from maxmargin.streams.source import IDENTITY_PIECES, StreamError

SUFFIXES = (".parquet", ".pq")
# Prefixes of files and folders that programs keep beside the data.
HIDDEN = ("_", ".")
LOG_OF_DELTA = "_delta_log"
MAGIC = re.compile(r"[*?[]")


def local_folder(path: str) -> Folder | None:
    """The files in a folder, or those that match a pattern; None for other paths."""
    if os.path.isdir(path):
        base = str(Path(path))
        found = [str(each) for each in Path(path).rglob("*") if each.is_file()]
    elif glob.has_magic(path) and not os.path.lexists(path):
        base, found = _base(path), glob.glob(path, recursive=True)
    else:
        return None
    paths = _parquet(path, base, found)
    return Folder(path, base, paths, [LocalFile(Path(each)) for each in paths])


def remote(text: str) -> Folder | RemoteFile:
    """The file at an address, the files below it, or those that match a pattern."""
    address = Address(text)
    files, place = address.file_system()
    files.invalidate_cache()  # the files may have changed
    known: dict[str, dict[str, Any]]
    if has_magic(files, place):
        base, known = _base(place), address.tried(lambda: files.glob(place, detail=True))
    else:
        info = address.tried(lambda: files.info(place))
        if info.get("type") != "directory":
            return RemoteFile(address, files, place, info)
        base, known = place, address.tried(lambda: files.find(place, detail=True))

    def file(path: str) -> Stored:
        there, info = Address(text.replace(place, path, 1)), known[path]
        is_listed = info.get("size") is not None
        if not is_listed:
            info = there.tried(lambda: files.info(path))
        return RemoteFile(there, files, path, info, is_listed=is_listed)

    paths = _parquet(address.name, base, list(known))
    return Folder(address.name, base, paths, [file(path) for path in paths], files)


def addresses_like(text: str) -> list[str]:
    """The addresses that match a pattern, sorted; an address without a pattern itself."""
    address = Address(text)
    files, place = address.file_system()
    if not has_magic(files, place):
        return [text]
    found = address.tried(lambda: files.glob(place))
    return [text.replace(place, path, 1) for path in sorted(found)]


def has_magic(files: Any, place: str) -> bool:
    """Whether it is a pattern; in web addresses, question marks are not."""
    return "*" in place if is_web(files) else glob.has_magic(place)


def _base(pattern: str) -> str:
    """The folder that contains all matching files."""
    return MAGIC.split(pattern, maxsplit=1)[0].rpartition("/")[0]


def _parquet(name: str, base: str, found: list[str]) -> list[str]:
    """The Parquet files among those found, in the order of their names."""
    is_pattern = MAGIC.search(name) is not None
    if not found and is_pattern:
        raise FileNotFoundError(errno.ENOENT, "There is no such file", name)
    inside = {path: PurePosixPath(path.removeprefix(base)).parts for path in found}
    if any(LOG_OF_DELTA in parts for parts in inside.values()):
        raise StreamError(
            f"{name} is a table of Delta Lake, some of whose files may not count any more: read "
            "it with a library that knows."
        )
    paths = [
        path
        for path, parts in inside.items()
        if path.endswith(SUFFIXES) and not any(part.startswith(HIDDEN) for part in parts)
    ]
    if not paths and not is_pattern:
        raise IsADirectoryError(errno.EISDIR, "Is a directory without Parquet files", name)
    if not paths:
        raise StreamError(
            f"{name}: only Parquet files can be read together ({', '.join(SUFFIXES)}), and "
            "there are none."
        )
    return sorted(paths)


class ParquetFolder:
    """The rows of Parquet files, in the order of their names.

    Partition keys follow the columns of the files. All files have the columns of the first one, if
    necessary with other types that can be cast.
    """

    repeatable = True

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.name = folder.name
        self._files = folder.stored
        sizes = [file.size for file in self._files]
        self.total = None if None in sizes else sum(size or 0 for size in sizes)
        datasets = arrow("pyarrow.dataset")
        with as_stream_errors(self.name):
            found = datasets.dataset(
                list(folder.paths),
                filesystem=folder.files,
                format="parquet",
                partitioning="hive",
            )
            self._schema = found.schema
            self._keys = [
                datasets.get_partition_keys(part.partition_expression)
                for part in found.get_fragments()
            ]

    def schema(self) -> Any:
        return self._schema

    def rows(self) -> None:
        """Unknown without reading the footers of all files."""

    def tables(self, columns: list[str], first: int, rows: int) -> Iterator[tuple[Any, float]]:
        done, total = 0, self.total or 1
        for file, keys in zip(self._files, self._keys, strict=True):
            size = file.size or 0
            with as_stream_errors(file.name):
                opened = ParquetFile(file)
                if first < opened.rows():
                    names = self._columns_in(opened, file.name, columns, keys)
                    for table, share in opened.tables(names, first, rows):
                        yield self._complete(table, columns, keys), (done + share * size) / total
                first = max(0, first - opened.rows())
            done += size

    def _columns_in(
        self, opened: ParquetFile, name: str, columns: list[str], keys: dict[str, Any]
    ) -> list[str]:
        """The columns to read from a file; at least one, to count rows."""
        there = opened.schema().names
        for column in columns:
            if column not in there and column not in keys:
                raise StreamError(f"{name}: there is no column {column!r}, as in other files.")
        return [column for column in columns if column not in keys] or there[:1]

    def _complete(self, table: Any, columns: list[str], keys: dict[str, Any]) -> Any:
        pa, parts = arrow(), []
        fields = [self._schema.field(column) for column in columns]
        for field in fields:
            if field.name in keys:
                value = pa.scalar(keys[field.name], field.type)
                parts.append(pa.chunked_array([pa.repeat(value, table.num_rows)]))
            else:
                parts.append(table[field.name].cast(field.type))
        return pa.Table.from_arrays(parts, schema=pa.schema(fields))

    def identity(self) -> str:
        """A hash of the relative paths and the contents of the files."""
        pieces = max(2, IDENTITY_PIECES // len(self._files))  # includes the footer
        hashed = hashlib.sha256()
        for path, file in zip(self._folder.paths, self._files, strict=True):
            below = path.removeprefix(self._folder.base).lstrip("/")
            hashed.update(f"{below} {file.identity(pieces)} ".encode())
        return hashed.hexdigest()
