"""Arrays inside a file .npz, mapped into memory where they are not compressed."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

# Of the record before a member: its length, and where it has the lengths of name and extra field.
LOCAL_HEADER, LENGTHS_AT = 30, 26
WEIGHTS = ("weight", "sample_weight")


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
        info = self._members[name]
        with self._zip.open(info) as member:
            if info.compress_type != zipfile.ZIP_STORED:
                return np.lib.format.read_array(member, allow_pickle=False)
            version = np.lib.format.read_magic(member)
            if version == (1, 0):
                shape, by_columns, dtype = np.lib.format.read_array_header_1_0(member)
            else:
                shape, by_columns, dtype = np.lib.format.read_array_header_2_0(member)
            header = member.tell()
        if dtype.hasobject or 0 in shape or not shape:
            with self._zip.open(info) as member:
                return np.lib.format.read_array(member, allow_pickle=False)
        offset = self._offset(info) + header
        array = np.memmap(self._path, dtype, "r", offset, shape[::-1] if by_columns else shape)
        return array.T if by_columns else array

    def _offset(self, info: zipfile.ZipInfo) -> int:
        """Where the content of a member begins."""
        with open(self._path, "rb") as file:
            file.seek(info.header_offset + LENGTHS_AT)
            name, extra = struct.unpack("<HH", file.read(4))
        return info.header_offset + LOCAL_HEADER + name + extra
