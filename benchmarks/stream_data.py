"""Real streams and tables: rows to be predicted and then learned from, one pass."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import io
import os
import zipfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

HASHED_WORDS = 2**18
MOST_DRIFTING = 40_000


class DataSet(NamedTuple):
    """Rows as they come.

    Attributes
    ----------
    X : array or CSR matrix, as read: nothing is scaled
    y : codes of the classes, from 0
    ordered : is the order that of time? Otherwise rows are shuffled.
    """

    X: Any
    y: np.ndarray
    ordered: bool

    def classes(self) -> int:
        return int(self.y.max()) + 1

    def shuffled(self, seed: int) -> DataSet:
        """The same rows in another order, unless theirs is that of time."""
        if self.ordered:
            return self
        order = np.random.default_rng(seed).permutation(self.y.size)
        return DataSet(self.X[order], self.y[order], ordered=False)


def folder() -> Path:
    home = os.environ.get("MAXMARGIN_DATA")
    if not home:
        raise FileNotFoundError("MAXMARGIN_DATA must name the folder of the data sets.")
    return Path(home)


def coded(labels: Any) -> np.ndarray:
    return np.unique(np.asarray(labels), return_inverse=True)[1].astype(np.int64)


def text_of(*parts: str) -> str:
    return gzip.decompress(folder().joinpath(*parts).read_bytes()).decode("utf-8", "replace")


def a9a() -> DataSet:
    X, y = load_svmlight_file(str(folder() / "a9a" / "a9a.gz"), n_features=123)
    return DataSet(X, coded(y), ordered=False)


def electricity() -> DataSet:
    lines = text_of("electricity", "elecNormNew.arff.gz").splitlines()
    first = next(i for i, line in enumerate(lines) if line.lower().startswith("@data")) + 1
    rows = [line.split(",") for line in lines[first:] if line.strip()]
    X = np.array([row[:-1] for row in rows], dtype=float)
    return DataSet(X, coded([row[-1] for row in rows]), ordered=True)


def words(texts: list[str], weighted: bool) -> sparse.csr_matrix:
    """Hashed words as counts, or weighted by tf-idf and of length 1."""
    X = HashingVectorizer(n_features=HASHED_WORDS, alternate_sign=False, norm=None).transform(texts)
    X = sparse.csr_matrix(TfidfTransformer().fit_transform(X) if weighted else X)
    X.sort_indices()
    return X


def sms_spam(weighted: bool) -> DataSet:
    lines = text_of("sms-spam", "SMSSpamCollection.gz").split("\n")
    pairs = [line.split("\t", 1) for line in lines if "\t" in line]
    return DataSet(words([p[1] for p in pairs], weighted), coded([p[0] for p in pairs]), False)


def movie_reviews(weighted: bool) -> DataSet:
    sides = [
        text_of("rt-polarity", f"rt-polarity.{side}.gz").split("\n") for side in ("neg", "pos")
    ]
    sides = [[line for line in side if line.strip()] for side in sides]
    labels = np.repeat([0, 1], [len(side) for side in sides])
    return DataSet(words(sides[0] + sides[1], weighted), labels, ordered=False)


def usps() -> DataSet:
    table = np.loadtxt(folder() / "usps" / "zip.train.gz")
    return DataSet(table[:, 1:].copy(), coded(table[:, 0]), ordered=False)


def mnist() -> DataSet:
    def read(name: str, offset: int) -> np.ndarray:
        data = gzip.decompress((folder() / "mnist" / name).read_bytes())
        return np.frombuffer(data, np.uint8, offset=offset)

    X = read("train-images-idx3-ubyte.gz", 16).reshape(-1, 784).astype(float)
    return DataSet(X, coded(read("train-labels-idx1-ubyte.gz", 8)), ordered=False)


def drifting(name: str) -> DataSet:
    table = np.loadtxt(folder() / "drift" / f"{name}.gz", max_rows=MOST_DRIFTING)
    return DataSet(table[:, :-1].copy(), coded(table[:, -1]), ordered=True)


def of_river(file: str, label: str) -> DataSet:
    """A table that river's package brings along."""
    found = importlib.util.find_spec("river.datasets")
    if found is None or found.origin is None:
        raise FileNotFoundError(f"{file} is part of river: pip install river")
    data = (Path(found.origin).parent / file).read_bytes()
    if file.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            data = archive.read(archive.namelist()[0])
    else:
        data = gzip.decompress(data)
    rows = list(csv.DictReader(io.StringIO(data.decode())))
    names = [name for name in rows[0] if name != label]
    X = np.array([[float(row[name]) for name in names] for row in rows])
    return DataSet(X, coded([row[label] for row in rows]), ordered=False)


def bananas() -> DataSet:
    """In river's package in svmlight form, with labels -1 and 1."""
    found = importlib.util.find_spec("river.datasets")
    if found is None or found.origin is None:
        raise FileNotFoundError("banana.zip is part of river: pip install river")
    with zipfile.ZipFile(Path(found.origin).parent / "banana.zip") as archive:
        X, y = load_svmlight_file(io.BytesIO(archive.read(archive.namelist()[0])))
    return DataSet(X.toarray(), coded(y), ordered=False)


DATA: dict[str, Callable[[], DataSet]] = {
    "a9a": a9a,
    "electricity": electricity,
    "sms, counts": lambda: sms_spam(weighted=False),
    "sms, tf-idf": lambda: sms_spam(weighted=True),
    "reviews, counts": lambda: movie_reviews(weighted=False),
    "reviews, tf-idf": lambda: movie_reviews(weighted=True),
    "phishing": lambda: of_river("phishing.csv.gz", "is_phishing"),
    "bananas": bananas,
    "shuttle": lambda: of_river("shuttle.csv.gz", "anomaly"),
    "usps": usps,
    "mnist": mnist,
    "segments": lambda: of_river("segment.csv.zip", "category"),
    "outdoor": lambda: drifting("outdoor"),
    "chess": lambda: drifting("transient-chessboard"),
    "rbf": lambda: drifting("interchanging-rbf"),
}


@lru_cache(maxsize=4)
def load(name: str) -> DataSet:
    return DATA[name]()
