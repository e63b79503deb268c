"""Shards of rows, in memory or in files that are read in each round, in constant memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from maxmargin import streams
from maxmargin.streams.files import paths_like, shown
from maxmargin.training import inputs
from maxmargin.training.protocol import trainer_of
from maxmargin.training.sample_weights import check_weights
from maxmargin.training.state import Features


class ShardError(ValueError):
    """An error of a shard, which the message names."""

    @classmethod
    def naming(cls, name: str, error: BaseException) -> ShardError:
        """An error whose message begins with the name of the shard."""
        message = str(error) or type(error).__name__
        return cls(message if message.startswith(name) else f"{name}: {message}")


class Held(NamedTuple):
    """A shard in memory, one block."""

    number: int  # its place among all shards, from 0 on
    name: str  # for messages
    X: Any
    y: Any
    weight: Any = None

    def blocks(self) -> Iterator[Held]:
        if not np.shape(self.X):
            raise TypeError(f"X must be rows, got {type(self.X).__name__}.")
        if np.shape(self.X)[0]:
            yield self


class File(NamedTuple):
    """A file, which is read where its rows are needed."""

    # See `Held`.
    number: int
    name: str
    path: str  # as `maxmargin.streams.open` takes it
    options: dict[str, Any]  # for `maxmargin.streams.open`
    schema: dict[str, Any] | None = None  # of all files, see `maxmargin.streams.Source.schema`

    def __repr__(self) -> str:
        return f"File({self.number}, {self.name!r})"  # an address may have credentials

    def source(self) -> streams.Source:
        return streams.open(self.path, schema=self.schema, **self.options)

    def read_by(self, schema: dict[str, Any]) -> File:
        """The file, to be read by this schema."""
        return self._replace(schema=schema)

    def blocks(self) -> Iterator[streams.Block]:
        return self.source().blocks()


def files(paths: Any, **options: Any) -> list[File]:
    """A shard for each file.

    ``paths`` is a path, an address, a pattern such as ``data/part-*.parquet``, or a list of these.
    """
    found = list[str]()
    if "recipe" in options:
        raise ValueError("Files on many machines cannot be prepared by a recipe, which learns.")
    for path in [paths] if isinstance(paths, str | os.PathLike) else paths:
        path = os.fspath(path)
        matching = paths_like(path)
        if not matching:
            raise FileNotFoundError(f"There is no file {shown(path)}.")
        found += matching
    if not found:
        raise ValueError("There are no files to learn from.")
    return [File(k, shown(path), path, options) for k, path in enumerate(found)]


# ---------------------------------------------------------------------------------- encoded shards
class Rows(NamedTuple):
    """Rows of positive weight with class codes."""

    X: Any
    codes: np.ndarray
    sample_weight: np.ndarray


class Columns(NamedTuple):
    """What a survey has found about columns and labels."""

    learner: BaseEstimator  # unfitted
    features: Features
    classes: np.ndarray  # sorted labels
    class_weight: np.ndarray
    multilabel: bool  # can a row have several labels?

    def rows(self, shard: Held | File) -> Iterator[Rows]:
        """The rows of positive weight of a shard."""
        options = trainer_of(self.learner).options
        for block in shard.blocks():
            X, _ = inputs.check_X(options, block.X, self.features)
            y = inputs.check_y(block.y, X.shape[0], multilabel=self.multilabel)
            sample_weight = check_weights(block.weight, X.shape[0])
            if not sample_weight.all():
                counts = sample_weight > 0.0
                X, y, sample_weight = X[counts], y[counts], sample_weight[counts]
            codes = inputs.class_codes(y, self.classes)
            if not self.multilabel:
                sample_weight = sample_weight * self.class_weight[codes]
            if codes.size:
                yield Rows(X, codes, sample_weight)


class Encoded(NamedTuple):
    """A shard with class codes instead of labels; a file is read and encoded in each round."""

    number: int
    name: str
    content: tuple[Rows, ...] | File
    columns: Columns

    def rows(self) -> Iterable[Rows]:
        content = self.content
        return self.columns.rows(content) if isinstance(content, File) else content


def encoded(shard: Held | File, columns: Columns) -> Encoded:
    content = shard if isinstance(shard, File) else tuple(columns.rows(shard))
    return Encoded(shard.number, shard.name, content, columns)


# ----------------------------------------------------------------------------- columns of all files
class Schemas(NamedTuple):
    """The question about the schema of files."""

    def answer(self, shard: File) -> dict[str, Any]:
        source, options = shard.source(), shard.options
        if source.format != "svmlight":
            return source.schema()
        base, width = options.get("zero_based", "auto"), options.get("n_features")
        if base == "auto" or width is None:
            raise ValueError(
                "The columns of svmlight text are known only from all of its files: pass "
                "zero_based=True or False, and n_features=."
            )
        return {"format": "svmlight", "zero_based": bool(base), "least_width": int(width)}

    def merged(self, answers: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """The schema of the first file."""
        return next(iter(answers))
