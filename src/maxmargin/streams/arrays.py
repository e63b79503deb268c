"""Rows of NumPy arrays and CSR matrices, in memory or in files."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse

from maxmargin._extras import is_on_device
from maxmargin.streams.source import (
    BLOCK_SIZE,
    Block,
    Source,
    StreamError,
    Survey,
    check_block_size,
    check_weight_array,
    check_weights,
    identity_of_file,
    sorted_labels,
)

ENTRY_SIZE = 12  # bytes of the value and the column of an entry
IDENTITY_PIECES = 64  # of an array
AT_ONCE = 2**16  # labels, and starts of rows
WEIGHTS = ("weight", "sample_weight")


class FileArray:
    """An array in a file, whose rows are read when they are sliced.

    A memory map would change with the file, and crash the process if the file is truncated.
    """

    def __init__(self, path: Path, mapped: np.memmap) -> None:
        self._path, self._offset = path, mapped.offset
        self._by_columns = mapped.ndim == 2 and mapped.flags.f_contiguous
        self.dtype, self.shape, self.ndim = mapped.dtype, mapped.shape, mapped.ndim
        self.size, self.nbytes = mapped.size, mapped.nbytes

    def __getitem__(self, rows: slice) -> np.ndarray:
        begin, end, _ = rows.indices(self.shape[0])
        count, row = max(end - begin, 0), self.shape[1:]
        if not self._by_columns:
            return self._read(begin * math.prod(row), count * math.prod(row)).reshape(count, *row)
        starts = range(begin, self.size + begin, self.shape[0])
        return np.stack([self._read(start, count) for start in starts]).T

    def _read(self, first: int, count: int) -> np.ndarray:
        """So many items from the first one on."""
        offset = self._offset + first * self.dtype.itemsize
        array = np.fromfile(self._path, self.dtype, count, offset=offset)
        if array.size < count:
            raise StreamError(f"{self._path}: it ended {count - array.size:,} items too early.")
        return array


Values = np.ndarray | FileArray


class ArraySource(Source):
    """Rows of an array or a CSR matrix; blocks are views of it, or read from its file.

    A file is .npy, which is read block by block, or .npz with "X" and perhaps "y" and "weight" (or
    "sample_weight"), or with a sparse matrix of `scipy.sparse.save_npz`. ``y`` and ``weight`` may
    be paths of .npy files.
    """

    format = "numpy"

    def __init__(
        self, X: Any, *, y: Any = None, weight: Any = None, block_size: int = BLOCK_SIZE
    ) -> None:
        check_block_size(block_size)
        self._block_size = block_size
        self._path = X if isinstance(X, Path) else None
        self.name = f"<{type(X).__name__}>" if self._path is None else str(X)
        if self._path is not None:
            X, y_inside, weight_inside = _read_file(self._path)
            y = y_inside if y is None else y
            weight = weight_inside if weight is None else weight
        y, weight = (
            _read_file(Path(each))[0] if isinstance(each, str | Path) else each
            for each in (y, weight)
        )
        self._X: Any = X.tocsr() if sparse.issparse(X) else _as_array(X)
        self._y: Values | None = None if y is None else _as_array(y)
        self._check()
        rows = self._X.shape[0]
        self._weight: Values | None = None
        if weight is not None:
            self._weight = check_weight_array(_as_array(weight), rows, self.name)
        is_sparse = sparse.issparse(X)
        parts = (X.data, X.indices, X.indptr) if is_sparse else (self._X,)
        self.total = sum(part.nbytes for part in parts)

    def _check(self) -> None:
        X = self._X
        if len(X.shape) != 2:
            raise StreamError(f"{self.name}: expected two dimensions, found {len(X.shape)}.")
        if X.dtype.kind not in "fiub":
            raise StreamError(f"{self.name}: expected numbers, found {X.dtype}.")
        if self._y is not None and self._y.shape != X.shape[:1]:
            raise StreamError(
                f"{self.name}: {X.shape[0]} rows, but labels of shape {self._y.shape}."
            )
        if sparse.issparse(X):  # compiled code does not check columns
            try:
                X.check_format(full_check=True)
            except ValueError as error:
                raise StreamError(f"{self.name}: the sparse matrix is damaged: {error}.") from None

    def survey(self) -> Survey:
        classes = None
        if self._y is not None:
            classes = sorted_labels(self._y[:0])
            for start in range(0, self._y.size, AT_ONCE):
                labels = np.unique(self._y[start : start + AT_ONCE])
                classes = sorted_labels(np.concatenate([classes, labels]) if start else labels)
        return Survey(classes, self._X.shape[1], self._X.shape[0])

    def blocks(self, start: int = 0) -> Iterator[Block]:
        rows = self._X.shape[0]
        begin = start
        while begin < rows:
            end = self._end(begin)
            X = self._rows(begin, end)
            y = None if self._y is None else self._y[begin:end]
            weight = None
            if self._weight is not None:
                weight = check_weights(self._weight[begin:end], self.name, begin)
            done = int(self.total or 0) * end // rows
            yield Block(X, y, end, done, weight)
            begin = end

    def _end(self, begin: int) -> int:
        rows, width = self._X.shape
        if not sparse.issparse(self._X):
            row = max(1, width * self._X.dtype.itemsize)
            return min(rows, begin + max(1, self._block_size // row))
        most = self._block_size // ENTRY_SIZE
        # Rows without entries take memory as well.
        starts = self._X.indptr[begin : begin + most + 1]
        end = begin + int(np.searchsorted(starts, int(starts[0]) + most, side="right")) - 1
        return min(rows, max(begin + 1, end))

    def _rows(self, begin: int, end: int) -> Any:
        if not sparse.issparse(self._X):
            return _floats(self._X[begin:end])
        starts = self._X.indptr[begin : end + 1]
        entries = slice(int(starts[0]), int(starts[-1]))
        values = _floats(self._X.data[entries])
        block = sparse.csr_matrix((end - begin, self._X.shape[1]), dtype=values.dtype)
        # The constructor would copy views of large arrays.
        block.data, block.indices = values, self._X.indices[entries]
        block.indptr = starts - starts[0]
        return block

    def identity(self) -> str:
        if self._path is not None:
            with open(self._path, "rb") as file:
                rows = identity_of_file(file, self._path.stat().st_size)
            if self._y is None and self._weight is None:
                return rows
            digest = hashlib.sha256(rows.encode())
            if self._y is not None:
                labels = self._y[:]
                labels = labels.astype(str) if labels.dtype.kind == "O" else labels
                digest.update(labels.tobytes())
            if self._weight is not None:
                digest.update(b"weight" + self._weight[:].tobytes())
            return digest.hexdigest()
        hashed = hashlib.sha256(f"{self._X.shape} {self._X.dtype}".encode())
        count, end = self._X.shape[0], 0
        for begin in np.linspace(0, max(count - 1, 0), IDENTITY_PIECES).astype(int).tolist():
            if begin >= end:
                for block in islice(self.blocks(begin), 1):
                    hashed.update(content_of(block))
                    end = block.end
        return hashed.hexdigest()

    def schema(self) -> dict[str, Any]:
        return {"format": "numpy"}


def _read_file(path: Path) -> tuple[Any, Any, Any]:
    """The rows, labels and weights in a file .npy or .npz."""
    try:
        with open(path, "rb") as file:
            if file.read(len(np.lib.format.MAGIC_PREFIX)) == np.lib.format.MAGIC_PREFIX:
                mapped = np.load(path, mmap_mode="r")
                return (FileArray(path, mapped) if mapped.size else mapped), None, None
            file.seek(0)
            return _read_archive(file)
    except MemoryError:
        raise
    except Exception as error:  # NumPy and zipfile raise many kinds on damaged files
        raise StreamError(f"{path}: {error}") from error


def _read_archive(file: BinaryIO) -> tuple[Any, Any, Any]:
    with np.load(file) as archive:
        weights = [name for name in WEIGHTS if name in archive]
        if len(weights) > 1:
            raise ValueError(f"there are two arrays of weights, {' and '.join(weights)}")
        if "X" in archive:
            X = archive["X"]
        elif "format" in archive:
            file.seek(0)
            X = sparse.load_npz(file)
        else:
            raise ValueError("there is neither an array X nor a sparse matrix in the file")
        y = archive.get("y")
        return X, y, archive[weights[0]] if weights else None


def _as_array(values: Any) -> Any:
    return values if isinstance(values, FileArray) else np.asanyarray(values)


def _floats(values: np.ndarray) -> np.ndarray:
    """As float64, unless they can be learned from as they are."""
    kept = values.dtype in (np.float32, np.float64) and values.dtype.isnative
    return values if kept else values.astype(np.float64)


def content_of(block: Block) -> bytes:
    """All values of a block, to identify it."""
    X = block.X
    parts = [X.data, X.indices, X.indptr] if sparse.issparse(X) else [X]
    if block.y is not None:
        parts.append(np.asarray(block.y, np.str_) if block.y.dtype == object else block.y)
    if block.weight is not None:
        parts.append(block.weight)
    return b"".join((part.get() if is_on_device(part) else part).tobytes() for part in parts)
