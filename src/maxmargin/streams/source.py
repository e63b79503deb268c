"""Sources of rows: blocks, one after another, from any row on."""

from __future__ import annotations

import abc
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral
from typing import Any, BinaryIO, NamedTuple

import numpy as np

# In bytes of text or arrays: a few blocks stay in the cache, and overhead per block is negligible.
BLOCK_SIZE = 2**22
# Positions in a block are 32-bit integers.
LARGEST_BLOCK = 2**30
# The parts of a large file that identify it.
IDENTITY_PIECES, IDENTITY_PIECE = 64, 2**20
# The squares of weights in this range do not over- or underflow.
SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-50, 1e50
OTHERWISE = "{name}: columns or labels were read differently before, with other options."


class StreamError(ValueError):
    """Input that cannot be read; the message names file, line and column."""


class ChangedError(StreamError):
    """A file is not the one that was opened."""

    def __init__(self, name: str, how: str) -> None:
        super().__init__(
            f"{name} changed while it was being read ({how}). Read it again from the start, or "
            "copy it first."
        )


class Surprise(StreamError):
    """A row contradicts the `Source.glance` at the first rows."""


class Block(NamedTuple):
    """Rows that were read together.

    Attributes
    ----------
    X : array or CSR matrix of shape (n_rows, n_features)
    y : array of shape (n_rows,), or None without labels
    end : number of rows read so far, also those that were skipped
    done : number of bytes read so far, as stored on disk
    weight : array of float64 of shape (n_rows,), or None if each row weighs 1
    recipe : state of the recipe after these rows, if one has prepared them
    lost : indices of rows that were skipped since the last block because they could not be read
    """

    X: Any
    y: np.ndarray | None
    end: int
    done: int
    weight: np.ndarray | None = None
    recipe: Any = None
    lost: Sequence[int] = ()


class Survey(NamedTuple):
    """Classes and width of a source, before learning.

    Attributes
    ----------
    classes : sorted labels, None without labels
    width : number of features
    rows : number of rows, None if unknown
    """

    classes: np.ndarray | None
    width: int
    rows: int | None


class Source(abc.ABC):
    """Rows from a file, a pipe or an iterator.

    A position is a number of rows: a run goes on from there, whatever the blocks before it were.

    Attributes
    ----------
    name : str
        For messages.
    total : int or None
        Total size in bytes on disk, if known.
    repeatable : bool
        Whether it can be read more than once.
    skipped : int
        Number of unreadable rows skipped so far (``on_error="skip"``).
    format : str
        The format in its schema.
    """

    name: str
    total: int | None = None
    repeatable: bool = True
    skipped: int = 0
    format: str = ""
    plan: Any = None  # of a table that is read for a recipe, see `recipe_plan.Plan`

    @abc.abstractmethod
    def survey(self) -> Survey:
        """Find labels and width of all rows, or of the first block if the source is read once.

        `blocks` yields these rows as well.
        """

    def glance(self) -> Survey:
        """A quick `survey` of the first rows; a row that contradicts it raises a `Surprise`."""
        return self.survey()

    @abc.abstractmethod
    def blocks(self, start: int = 0) -> Iterator[Block]:
        """The rows after the first ``start`` ones."""

    def begin(self) -> None:  # noqa: B027
        """Learning starts at the first row: a recipe is reset."""

    def reach(self, block: Block) -> None:  # noqa: B027
        """This block has been learned; `schema` describes the state after it."""

    def end_pass(self) -> None:  # noqa: B027
        """All blocks have been learned once."""

    @abc.abstractmethod
    def identity(self) -> str:
        """A hash of the content."""

    @abc.abstractmethod
    def schema(self) -> dict[str, Any]:
        """How columns are read, as JSON; with it `streams.open` reads other files in this way."""

    def restore(self, schema: dict[str, Any]) -> None:
        """Continue with the ``schema`` of an earlier process; the options must agree with it."""
        self.survey()
        if self.schema() != schema:
            raise StreamError(OTHERWISE.format(name=self.name))


class DelegatingSource(Source):
    """A source that wraps another one."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self.name, self.total, self.repeatable = source.name, source.total, source.repeatable
        self.format, self.plan = source.format, source.plan

    @property
    def skipped(self) -> int:  # type: ignore[override]
        return self._source.skipped

    def survey(self) -> Survey:
        return self._source.survey()

    def glance(self) -> Survey:
        return self._source.glance()

    def begin(self) -> None:
        self._source.begin()

    def reach(self, block: Block) -> None:
        self._source.reach(block)

    def end_pass(self) -> None:
        self._source.end_pass()

    def rows_at(self, places: Sequence[int]) -> Any:
        return self._source.rows_at(places)  # type: ignore[attr-defined]

    def identity(self) -> str:
        return self._source.identity()

    def schema(self) -> dict[str, Any]:
        return self._source.schema()

    def restore(self, schema: dict[str, Any]) -> None:
        self._source.restore(schema)


def check_block_size(size: Any) -> None:
    if not (isinstance(size, Integral) and 1 <= int(size) <= LARGEST_BLOCK):
        raise ValueError(
            f"block_size must be a whole number from 1 to {LARGEST_BLOCK:,} bytes, got {size!r}."
        )


def identity_of_file(file: BinaryIO, size: int, pieces: int = IDENTITY_PIECES) -> str:
    """A hash of the size and content of a file, or of evenly spaced pieces of a large one."""
    hashed = hashlib.sha256(str(size).encode())
    if size <= pieces * IDENTITY_PIECE:
        starts = np.arange(0, size, IDENTITY_PIECE)
    else:
        starts = np.linspace(0, size - IDENTITY_PIECE, pieces).astype(np.int64)
    for start in starts.tolist():
        file.seek(start)
        hashed.update(file.read(IDENTITY_PIECE))
    return hashed.hexdigest()


def after(blocks: Iterable[Block], start: int) -> Iterator[Block]:
    """The rows of some blocks after the first ``start`` ones."""
    for block in blocks:
        begin = block.end - block.X.shape[0]
        if begin >= start:
            yield block
        elif block.end > start:
            rows = slice(start - begin, None)
            y, weight = (None if each is None else each[rows] for each in (block.y, block.weight))
            yield block._replace(X=block.X[rows], y=y, weight=weight)


def sorted_labels(labels: np.ndarray) -> np.ndarray:
    """The distinct labels; integers where all of them are."""
    distinct = np.unique(labels)
    whole = distinct.dtype.kind == "f" and np.all(distinct == np.round(distinct))
    return distinct.astype(np.int64) if whole and np.all(np.abs(distinct) < 2**53) else distinct


def check_weight_array(weight: Any, rows: int, where: str) -> Any:
    """The weights, if they are a number for each row; the values are not checked."""
    if weight.dtype.kind not in "fiub":
        raise StreamError(f"{where}: expected numbers as weights, found {weight.dtype}.")
    if weight.shape != (rows,):
        raise StreamError(f"{where}: {rows} rows, but weights of shape {weight.shape}.")
    return weight


def check_weights(weight: np.ndarray, name: str, before: int) -> np.ndarray:
    """The weights of rows, after ``before`` others, as float64; raises if one is invalid."""
    weight = np.asarray(weight, np.float64)
    if (invalid := invalid_weights(weight)).any():
        row = int(np.argmax(invalid))
        reason = why_invalid(weight[row])
        raise StreamError(f"{name}, row {before + row + 1}: the weight is {reason}.")
    return weight


def invalid_weights(weight: np.ndarray) -> np.ndarray:
    """Which weights are negative, infinite, missing, too small or too large."""
    return ~((weight == 0.0) | ((weight >= SMALLEST_WEIGHT) & (weight <= LARGEST_WEIGHT)))


def why_invalid(weight: float) -> str:
    """What is wrong with an invalid weight."""
    if np.isnan(weight):
        return "missing"
    if weight < 0.0:
        return "negative"
    if weight == np.inf:
        return "infinite"
    return f"{weight:g}, beyond {SMALLEST_WEIGHT:g} to {LARGEST_WEIGHT:g}"
