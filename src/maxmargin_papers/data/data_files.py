"""Where real data come from: files in a folder of the user's, else OpenML."""

from __future__ import annotations

import bz2
import gzip
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import fetch_openml
from sklearn.utils import Bunch

from maxmargin._validation import StrOptions

FOLDER_VARIABLE = "MAXMARGIN_DATA"
DATA_HOME = [str, PathLike, None]
SUBSET = [StrOptions({"train", "test"})]

Table = tuple[Any, Any]
"""X and y."""


@dataclass(frozen=True)
class OnOpenML:
    """A data set of OpenML, and how to turn it into X and y."""

    name: str
    version: int
    convert: Callable[[Bunch], Table]

    def __str__(self) -> str:
        return f"OpenML's data set {self.name!r}, version {self.version}"


@dataclass(frozen=True)
class Source:
    """One data set, or one part of it.

    Attributes
    ----------
    files : tuple of str
        Paths in the user's folder. Each file may be compressed; see ``compression``.
    parse : callable
        Turns the contents of the files into X and y.
    n_features : int
    counts : mapping or int
        The number of rows of every class, or of all together, by which damaged and wrong files are
        recognised.
    origin : str
        Who publishes the files.
    openml : OnOpenML or None
        What to download if the files are not there: this data set, or one whose first or last rows
        are this part.
    compression : {".gz", ".bz2"}
        What the name of a compressed file ends in.
    """

    files: tuple[str, ...]
    parse: Callable[..., Table]
    n_features: int
    counts: Mapping[Any, int] | int
    origin: str
    openml: OnOpenML | None
    compression: str = ".gz"

    def load(self, data_home: str | PathLike[str] | None) -> Table:
        named = data_home if data_home is not None else os.environ.get(FOLDER_VARIABLE)
        folder = Path(named).expanduser() if named else None
        found = {file: find(folder, file, self.compression) for file in self.files}
        paths = [path for path in found.values() if path]
        if len(paths) < len(found):
            missing = [file for file, path in found.items() if not path]
            return self._download(self._not_found(missing, folder))
        with blaming(" and ".join(str(path) for path in paths)):
            X, y = self.parse(*(read(path) for path in paths))
            self._check(X, y)
        return X, y

    def _download(self, reason: str) -> Table:
        if self.openml is None:
            raise FileNotFoundError(f"{reason} There is no download for it.")
        try:
            bunch = fetch_openml(
                self.openml.name,
                version=self.openml.version,
                as_frame=False,
                parser="liac-arff",  # the other parsers need pandas
            )
        except (OSError, HTTPException, ValueError) as error:
            raise FileNotFoundError(
                f"{reason} The download of {self.openml} failed: {error!r}."
            ) from error
        with blaming(str(self.openml)):
            X, y = self.openml.convert(bunch)
            n_rows = self.counts if isinstance(self.counts, int) else sum(self.counts.values())
            if self._found(y[:n_rows]) == self.counts:
                X, y = X[:n_rows], y[:n_rows]
            else:
                X, y = X[-n_rows:], y[-n_rows:]
            self._check(X, y)
        return X, y

    def _check(self, X: Any, y: Any) -> None:
        found = self._found(y)
        if found != self.counts:
            what = "rows" if isinstance(self.counts, int) else "rows by class"
            raise ValueError(f"{what} are {found}, not {self.counts}")
        if X.shape != (y.size, self.n_features):
            raise ValueError(f"X has shape {X.shape}, not {(y.size, self.n_features)}")

    def _found(self, y: Any) -> dict[Any, int] | int:
        """What ``y`` has of what ``counts`` says."""
        return int(y.size) if isinstance(self.counts, int) else class_counts(y)

    def _not_found(self, missing: list[str], folder: Path | None) -> str:
        files = " and ".join(f"{file}[{self.compression}]" for file in missing)
        where = f" in the folder {folder}" if folder else ": no folder is named"
        return (
            f"{files} not found{where}. Get what is missing from {self.origin}, and name the "
            f"folder by data_home or by the environment variable {FOLDER_VARIABLE}."
        )


def find(folder: Path | None, file: str, compression: str) -> Path | None:
    if folder:
        for path in (folder / file, folder / f"{file}{compression}"):
            if path.is_file():
                return path
    return None


def read(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".bz2":
        try:
            return bz2.decompress(content)
        except OSError as error:  # in Python's words, damage is a failure to read
            raise ValueError(str(error)) from error
    return gzip.decompress(content) if path.suffix == ".gz" else content


@contextmanager
def blaming(culprit: str) -> Iterator[None]:
    """Say of what goes wrong inside whose fault it is."""
    try:
        yield
    except (ValueError, LookupError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{culprit}: damaged, or not what was expected: {error}") from error


def class_counts(y: Any) -> dict[Any, int]:
    labels, counts = np.unique(y, return_counts=True)
    return dict(zip(labels.tolist(), counts.tolist(), strict=True))


def cells(content: bytes, separator: str) -> np.ndarray:
    """A text table, as strings; blank lines are skipped."""
    lines = content.decode("ascii").splitlines()
    return np.array([line.split(separator) for line in lines if line.strip()])


def numbers_and_label(content: bytes) -> Table:
    """A comma separated table of numbers, with the label last."""
    table = cells(content, ",")
    return table[:, :-1].astype(float), names(table[:, -1])


def names(labels: np.ndarray) -> np.ndarray:
    """The labels as an array of strings of their own length."""
    return np.array(labels.tolist(), dtype=str)


def named_values(bunch: Bunch) -> np.ndarray:
    """The table of OpenML with the names of nominal values, '?' if missing, in place of codes."""
    table = bunch.data.astype(object)
    for column, name in enumerate(bunch.feature_names):
        if name in bunch.categories:
            names = np.array([*bunch.categories[name], "?"], dtype=object)
            codes = np.nan_to_num(bunch.data[:, column], nan=-1).astype(int)
            table[:, column] = names[codes]
    return table
