"""Rows of NumPy arrays and CSR matrices, in memory or in files."""

from __future__ import annotations

import hashlib
import struct
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from maxmargin._extras import is_on_device
from maxmargin.streams.source import (
    BLOCK_SIZE,
    START,
    Block,
    Position,
    Source,
    StreamError,
    Survey,
    check_block_size,
    check_weight_array,
    check_weights,
    identity_of_file,
    sorted_labels,
)

# Of an entry of a CSR matrix: its value and its column.
ENTRY_SIZE = 12
# Of an array, so many pieces are looked at to know it again.
IDENTITY_PIECES = 64
AT_ONCE = 2**16  # labels, and starts of rows
# Of the record before a member: its length, and where it has the lengths of name and extra field.
LOCAL_HEADER, LENGTHS_AT = 30, 26
WEIGHTS = ("weight", "sample_weight")


class ArraySource(Source):
    """Rows of an array or of a CSR matrix; blocks are views of it, or read from its file.

    A file is .npy, or .npz with arrays "X" and perhaps "y" and "weight" (or "sample_weight"), or
    with a sparse matrix as `scipy.sparse.save_npz` writes it. What is not compressed is read block
    by block. ``y`` and ``weight`` may be paths of files .npy, too.
    """

    def __init__(
        self, X: Any, *, y: Any = None, weight: Any = None, block_size: int = BLOCK_SIZE
    ) -> None:
        check_block_size(block_size)
        self._block_size = block_size
        self._path = X if isinstance(X, Path) else None
        self._maps = list[np.memmap]()
        self.name = f"<{type(X).__name__}>" if self._path is None else str(X)
        if self._path is not None:
            X, y_inside, weight_inside = self._read(self._path)
            y = y_inside if y is None else y
            weight = weight_inside if weight is None else weight
        if isinstance(y, str | Path):
            y = self._read(Path(y))[0]
        if isinstance(weight, str | Path):
            weight = self._read(Path(weight))[0]
        self._X = X.tocsr() if sparse.issparse(X) else np.asanyarray(X)
        self._y = None if y is None else np.asanyarray(y)
        self._check()
        rows = self._X.shape[0]
        self._weight = None if weight is None else check_weight_array(weight, rows, self.name)
        self.total = sum(part.nbytes for part in _arrays(self._X))

    def _read(self, path: Path) -> tuple[Any, Any, Any]:
        is_array = _is_array(path)
        found: tuple[Any, Any, Any]
        try:
            if is_array:
                found = np.load(path, mmap_mode="r", allow_pickle=False), None, None
            else:
                with Archive(path) as archive:
                    found = archive.rows(), archive.labels(), archive.weights()
        except MemoryError:
            raise
        except Exception as error:  # NumPy and zipfile raise many kinds on damaged files
            raise StreamError(f"{path}: {error}") from error
        roots = (_root(part) for each in found if each is not None for part in _arrays(each))
        self._maps += [root for root in roots if isinstance(root, np.memmap)]
        return found

    def _loaded(self, part: np.ndarray) -> np.ndarray:
        """A part of an array: as it is, or read from the file that the array is in.

        The memory that such an array is mapped to is not touched: it changes with the file, behind
        the back of those who have checked it, and is gone if the file is truncated, which would end
        the process.
        """
        root = _root(part)
        if not any(root is each for each in self._maps):
            return part
        by_columns = part.ndim == 2 and not part.flags.c_contiguous
        there = list(part.T) if by_columns else [part]
        read = np.empty((len(there), *there[0].shape), part.dtype)
        with open(root.filename, "rb", buffering=0) as file:
            for piece, to in zip(there, read, strict=True):
                file.seek(root.offset + _address(piece) - _address(root))
                left: Any = memoryview(to.reshape(-1).view(np.uint8).data)
                while left and (count := file.readinto(left)):
                    left = left[count:]
                if left:
                    raise StreamError(f"{root.filename}: it ended {len(left):,} bytes too early.")
        return read.T if by_columns else read[0]

    def _check(self) -> None:
        if self._X.ndim != 2:
            raise StreamError(f"{self.name}: expected two dimensions, found {self._X.ndim}.")
        if self._X.dtype.kind not in "fiub":
            raise StreamError(f"{self.name}: expected numbers, found {self._X.dtype}.")
        if self._y is not None and self._y.shape != self._X.shape[:1]:
            raise StreamError(
                f"{self.name}: {self._X.shape[0]} rows, but labels of shape {self._y.shape}."
            )
        if sparse.issparse(self._X):
            last = 0
            sound = int(self._loaded(self._X.indptr[:1])[0]) == 0
            for begin in range(0, self._X.indptr.size, AT_ONCE):
                starts = self._loaded(self._X.indptr[begin : begin + AT_ONCE])
                sound = sound and int(starts[0]) >= last and not np.any(np.diff(starts) < 0)
                last = int(starts[-1])
            if not sound or last > self._X.data.size:
                raise StreamError(f"{self.name}: the rows of the sparse matrix are damaged.")

    def survey(self) -> Survey:
        classes = None
        if self._y is not None:
            classes = sorted_labels(self._y[:0])
            for start in range(0, self._y.size, AT_ONCE):
                labels = np.unique(self._loaded(self._y[start : start + AT_ONCE]))
                classes = sorted_labels(np.concatenate([classes, labels]) if start else labels)
        return Survey(classes, self._X.shape[1], self._X.shape[0])

    def blocks(self, start: Position = START) -> Iterator[Block]:
        rows = self._X.shape[0]
        begin = start.offset
        while begin < rows:
            end = self._end(begin)
            X = self._rows(begin, end)
            y = None if self._y is None else self._loaded(self._y[begin:end])
            weight = None
            if self._weight is not None:
                weight = check_weights(self._loaded(self._weight[begin:end]), self.name, begin)
            done = int(self.total or 0) * end // rows
            yield Block(X, y, Position(end, end, 0), done, weight)
            begin = end

    def _end(self, begin: int) -> int:
        rows, width = self._X.shape
        if not sparse.issparse(self._X):
            return min(rows, begin + max(1, self._block_size // max(1, width * self._X.itemsize)))
        most = self._block_size // ENTRY_SIZE
        # Rows without entries take memory as well.
        starts = self._loaded(self._X.indptr[begin : begin + most + 1])
        end = begin + int(np.searchsorted(starts, int(starts[0]) + most, side="right")) - 1
        return min(rows, max(begin + 1, end))

    def _rows(self, begin: int, end: int) -> Any:
        if not sparse.issparse(self._X):
            return _floats(self._loaded(self._X[begin:end]))
        starts = self._loaded(self._X.indptr[begin : end + 1])
        first, last = int(starts[0]), int(starts[-1])
        values = _floats(self._loaded(self._X.data[first:last]))
        columns = self._loaded(self._X.indices[first:last])
        shape = (end - begin, self._X.shape[1])
        # Compiled code trusts columns.
        if columns.size and not 0 <= columns.min() <= columns.max() < shape[1]:
            raise StreamError(f"{self.name}: there is a column outside of the matrix.")
        block = sparse.csr_matrix(shape, dtype=values.dtype)
        # Given to the constructor, views of large arrays would be copied.
        block.data, block.indices, block.indptr = values, columns, starts - first
        return block

    def identity(self) -> str:
        if self._path is not None:
            with open(self._path, "rb") as file:
                rows = identity_of_file(file, self._path.stat().st_size)
            if self._y is None and self._weight is None:
                return rows
            beside = hashlib.sha256(rows.encode())
            if self._y is not None:
                labels = self._loaded(self._y)
                labels = labels.astype(str) if labels.dtype.kind == "O" else labels
                beside.update(labels.tobytes())
            if self._weight is not None:
                beside.update(b"weight" + self._loaded(self._weight).tobytes())
            return beside.hexdigest()
        hashed = hashlib.sha256(f"{self._X.shape} {self._X.dtype}".encode())
        rows, end = self._X.shape[0], 0
        for begin in np.linspace(0, max(rows - 1, 0), IDENTITY_PIECES).astype(int).tolist():
            if begin >= end:
                for block in islice(self.blocks(Position(begin, begin, 0)), 1):
                    hashed.update(content_of(block))
                    end = block.end.offset
        return hashed.hexdigest()

    def schema(self) -> dict[str, Any]:
        return {"format": "numpy"}


class Archive:
    """The arrays of a file .npz: rows "X" or a CSR matrix of scipy, labels "y" and weights."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._zip = zipfile.ZipFile(path)
        self._members = {info.filename.removesuffix(".npy"): info for info in self._zip.infolist()}

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def rows(self) -> Any:
        if "X" in self._members:
            return self._array("X")
        if "format" not in self._members:
            raise ValueError("there is neither an array X nor a sparse matrix in the file")
        if self._array("format").item() != b"csr":
            return sparse.load_npz(self._path).tocsr()
        parts = (self._array("data"), self._array("indices"), self._array("indptr"))
        shape = tuple(self._array("shape").tolist())
        return sparse.csr_matrix(parts, shape=shape, copy=False)

    def labels(self) -> np.ndarray | None:
        return self._array("y") if "y" in self._members else None

    def weights(self) -> np.ndarray | None:
        names = [name for name in WEIGHTS if name in self._members]
        if len(names) > 1:
            raise ValueError(f"there are two arrays of weights, {' and '.join(names)}")
        return self._array(names[0]) if names else None

    def _array(self, name: str) -> np.ndarray:
        info, format = self._members[name], np.lib.format
        with self._zip.open(info) as member:
            if info.compress_type != zipfile.ZIP_STORED:
                return format.read_array(member, allow_pickle=False)
            is_first = format.read_magic(member) == (1, 0)
            read = format.read_array_header_1_0 if is_first else format.read_array_header_2_0
            shape, by_columns, dtype = read(member)
            header = member.tell()
        if dtype.hasobject or 0 in shape or not shape:
            with self._zip.open(info) as member:
                return format.read_array(member, allow_pickle=False)
        offset = self._offset(info) + header
        array = np.memmap(self._path, dtype, "r", offset, shape[::-1] if by_columns else shape)
        return array.T if by_columns else array

    def _offset(self, info: zipfile.ZipInfo) -> int:
        """Where the content of a member begins."""
        with open(self._path, "rb") as file:
            file.seek(info.header_offset + LENGTHS_AT)
            name, extra = struct.unpack("<HH", file.read(4))
        return info.header_offset + LOCAL_HEADER + name + extra


def _is_array(path: Path) -> bool:
    """Is it a file .npy, and not .npz?"""
    magic = np.lib.format.MAGIC_PREFIX
    with open(path, "rb") as file:
        return file.read(len(magic)) == magic


def _root(array: np.ndarray) -> Any:
    """The array that one is a view of."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def _floats(values: np.ndarray) -> np.ndarray:
    """As they are if they are of a type that is learned from, else as float64."""
    kept = values.dtype in (np.float32, np.float64) and values.dtype.isnative
    return values if kept else values.astype(np.float64)


def _arrays(X: Any) -> list[Any]:
    """The arrays that an array or a CSR matrix is made of."""
    return [X.data, X.indices, X.indptr] if sparse.issparse(X) else [X]


def content_of(block: Block) -> bytes:
    """All values of a block, to know it again."""
    parts = _arrays(block.X)
    if block.y is not None:
        parts.append(np.asarray(block.y, np.str_) if block.y.dtype == object else block.y)
    if block.weight is not None:
        parts.append(block.weight)
    return b"".join((part.get() if is_on_device(part) else part).tobytes() for part in parts)
