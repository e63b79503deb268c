"""The bytes of a file: a JSON header, arrays, and a checksum; see ``docs/files.md``.

A file is written under another name and renamed when it is complete and on the disk, so a reader
finds the old file or the new one. Reading verifies the checksum before it uses any other byte, and
the shapes and data types in the header before it allocates arrays.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
import stat
import struct
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import numpy as np

StrPath = str | os.PathLike[str]

# As in PNG files: reveals transfers that change line ends or clear the eighth bit.
MAGIC = b"\x89MXM\r\n\x1a\n"
VERSION = 3
DOUBLE, SINGLE = "<f8", "<f4"
# Arrays of at least this size are stored in single precision if all values fit in it exactly.
LEAST_FOR_SINGLES = 2**16
PREAMBLE = struct.Struct("<8sII")  # magic, version, length of the header
ALIGNMENT = 64
DIGEST = 32
CHUNK = 2**20

MOST_COLUMNS, MOST_AXES = 64, 3
# An empty array takes no bytes in a file, but one row of it may need much memory.
LARGEST_EMPTY_ROW = 2**26
PLAIN_KINDS = "biufS"
FOREIGN = {
    b"PK\x03\x04": "a zip archive, as skops and NumPy write them",
    b"\x1f\x8b": "a gzip file",
    b"\x80\x02": "a pickle",
    b"\x80\x03": "a pickle, as joblib writes them",
    b"\x80\x04": "a pickle, as joblib writes them",
    b"\x80\x05": "a pickle, as joblib writes them",
    b"\x93NUMPY": "a NumPy array",
}


class ModelFileError(ValueError):
    """A file that is not a complete and consistent file of this library."""


class Layout(NamedTuple):
    """An array as it lies in the file: its items in C order."""

    stored: np.dtype  # data type in the file
    dtype: np.dtype  # data type in memory
    shape: list[int]
    axes: list[int]  # which axis of the array in memory each of these is

    @property
    def size(self) -> int:
        return math.prod(self.shape)


# ------------------------------------------------------------------------------------------ writing
def write_container(
    path: StrPath | IO[bytes],
    header: dict[str, Any],
    arrays: list[np.ndarray],
    like: StrPath | None = None,
    new_mode: int | None = None,
) -> None:
    """Write a header and arrays; the other parameters are those of `replacing`."""
    entries = [_entry(array) for array in arrays]
    text = json.dumps(
        {**header, "arrays": entries}, sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode("ascii")
    with replacing(path, like, new_mode) as file:
        checksum, written = hashlib.sha256(), 0

        def put(data: bytes | memoryview) -> None:
            nonlocal written
            file.write(data)
            checksum.update(data)
            written += len(data)

        put(PREAMBLE.pack(MAGIC, VERSION, len(text)) + text)
        for entry, array in zip(entries, arrays, strict=True):
            put(bytes(-written % ALIGNMENT))
            put(_bytes_of(array, entry.get("stored")))
        put(bytes(-written % ALIGNMENT))
        file.write(checksum.digest())


def _entry(array: np.ndarray) -> dict[str, Any]:
    entry = {"dtype": _name_of(array.dtype), "shape": list(array.shape)}
    if (axes := _axes(array)) != list(range(array.ndim)):
        entry["axes"] = axes
    if entry["dtype"] == DOUBLE and array.nbytes >= LEAST_FOR_SINGLES and _are_singles(array):
        entry["stored"] = SINGLE
    return entry


def _are_singles(array: np.ndarray) -> bool:
    """Whether all values fit in single precision exactly, as grey values and counts do."""
    rows = max(1, CHUNK // array[:1].nbytes)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, array.shape[0], rows):
            some = np.ascontiguousarray(array[start : start + rows])
            again = some.astype(SINGLE).astype(DOUBLE)
            if not np.array_equal(again.view(np.int64), some.view(np.int64)):
                return False
    return True


def _name_of(dtype: np.dtype) -> str | list[list[str]]:
    dtype = dtype.newbyteorder("<")
    if dtype.names is None:
        return dtype.str
    return [[name, dtype[name].str] for name in dtype.names]


def _axes(array: np.ndarray) -> list[int]:
    """The axes by decreasing stride: results of sums depend on the order in memory."""
    if array.flags.c_contiguous:
        return list(range(array.ndim))
    return sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))


def _bytes_of(array: np.ndarray, stored: str | None = None) -> bytes | memoryview:
    in_order = array.view(np.ndarray).transpose(_axes(array))
    dtype = in_order.dtype.newbyteorder("<") if stored is None else np.dtype(stored)
    return np.ascontiguousarray(in_order, dtype=dtype).reshape(-1).view(np.uint8).data


@contextlib.contextmanager
def replacing(
    path: StrPath | IO[bytes], like: StrPath | None = None, new_mode: int | None = None
) -> Iterator[IO[bytes]]:
    """A file to write to, which replaces ``path`` when the block ends without an error.

    An open file is written to as it is. A symbolic link is followed. The file gets the permissions
    of the old one, or of ``like``; of a new file they are ``new_mode``, or those that the umask
    leaves.
    """
    if not isinstance(path, str | os.PathLike):
        yield path
        return
    target = os.path.realpath(os.fspath(path))
    folder, name = os.path.split(target)
    mode = _mode_of(target if like is None else os.fspath(like))
    mode = new_mode if mode is None else mode
    temporary = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(8)}.tmp")

    def opener(path: str, flags: int) -> int:
        # A process that opens the file now could read all that is written later.
        return os.open(path, flags, 0o666 if mode is None else 0o600)

    try:
        with open(temporary, "xb", opener=opener) as file:
            if mode is not None:
                os.chmod(temporary, mode)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    sync_folder(folder)


def _mode_of(target: str) -> int | None:
    """The permissions of an existing file; only regular files can be replaced."""
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{target} is a folder.")
    if not stat.S_ISREG(mode):
        raise OSError(f"{target} is not a plain file: it cannot be replaced.")
    return stat.S_IMODE(mode)


def sync_folder(folder: StrPath) -> None:
    """Make a rename survive a loss of power, where folders can be synchronized."""
    if os.name == "nt":
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


# ------------------------------------------------------------------------------------------ reading
def read_header(path: StrPath | IO[bytes]) -> tuple[dict[str, Any], int]:
    """The header of a valid file, with its ``format``, and the size of the file."""
    with _opened(path) as file:
        header, _ = _checked_header(file, path)
        return header, _size(file)


def read_container(path: StrPath | IO[bytes]) -> tuple[dict[str, Any], list[np.ndarray]]:
    """The header and the arrays of a valid file; anything else raises `ModelFileError`."""
    with _opened(path) as file:
        header, at = _checked_header(file, path)
        with explained(path):
            size, places = _size(file), []
            layouts = [_layout(entry) for entry in header.pop("arrays")]
            for each in layouts:
                row = each.stored.itemsize * math.prod(filter(None, each.shape))
                if each.size == 0 and row > max(LARGEST_EMPTY_ROW, size):
                    raise ValueError(f"the rows of an array of shape {tuple(each.shape)} are huge")
                at += -at % ALIGNMENT
                places.append(at)
                at += each.stored.itemsize * each.size
            if at + -at % ALIGNMENT + DIGEST != size:
                raise ValueError("the arrays that it lists do not fill it")
            arrays = []
            for each, place in zip(layouts, places, strict=True):
                file.seek(place)
                arrays.append(_read_array(file, each))
    return header, arrays


def name_of(path: StrPath | IO[bytes]) -> str:
    """The name of a file in messages."""
    return (
        os.fspath(path)
        if isinstance(path, str | os.PathLike)
        else str(getattr(path, "name", "The file"))
    )


def _size(file: IO[bytes]) -> int:
    return file.seek(0, os.SEEK_END)


def _opened(path: StrPath | IO[bytes]) -> contextlib.AbstractContextManager[IO[bytes]]:
    """A file to read; pipes, which may block forever, and devices are refused unopened."""
    if not isinstance(path, str | os.PathLike):
        return contextlib.nullcontext(path)
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # `open` has an error for folders
        raise ModelFileError(f"{os.fspath(path)}: not a plain file, but a pipe or a device.")
    return open(path, "rb")


def begins_like_ours(path: StrPath) -> bool:
    """Whether it is a regular file that begins like ours, as far as it has been written."""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        return False
    with open(path, "rb") as file:
        return MAGIC.startswith(file.read(len(MAGIC)))


@contextlib.contextmanager
def explained(path: StrPath | IO[bytes]) -> Iterator[None]:
    """Turn all errors about the content of a file into `ModelFileError`.

    A failing disk and a lack of memory are not the fault of the file.
    """
    try:
        yield
    except (OSError, MemoryError):
        raise
    except (Exception, RecursionError) as problem:
        what = str(problem) or type(problem).__name__
        if isinstance(problem, KeyError):
            what = f"{what} is missing"
        raise ModelFileError(f"{name_of(path)}: the file is inconsistent: {what}.") from problem


def _checked_header(file: IO[bytes], path: StrPath | IO[bytes]) -> tuple[dict[str, Any], int]:
    """The header, and where it ends; the checksum has been verified."""
    name, size = name_of(path), _size(file)
    file.seek(0)
    start = file.read(PREAMBLE.size)
    if not start:
        raise ModelFileError(f"{name}: the file is empty.")
    if start[: len(MAGIC)] != MAGIC[: len(start)]:
        what = next((what for magic, what in FOREIGN.items() if start.startswith(magic)), "")
        raise ModelFileError(f"{name}: not a maxmargin file{what and f', but {what}'}.")
    if size < PREAMBLE.size + DIGEST:
        raise ModelFileError(f"{name}: the file is truncated, it has only {size} bytes.")
    _, version, length = PREAMBLE.unpack(start)
    is_intact = _is_intact(file, size)
    if version != VERSION:
        hint = "it is newer than this library, or damaged"
        if is_intact and version < VERSION:
            hint = "it is too old to be read: fit the model again, and save it"
        elif is_intact:
            hint = "update maxmargin to read it"
        raise ModelFileError(f"{name}: unknown format version {version}; {hint}.")
    if not is_intact:
        raise ModelFileError(f"{name}: the file is damaged or truncated: its checksum is wrong.")
    with explained(path):
        if PREAMBLE.size + length > size - DIGEST:
            raise ValueError("its header is longer than the file")
        file.seek(PREAMBLE.size)
        header = json.loads(file.read(length).decode("ascii"), parse_constant=_refuse)
        if not isinstance(header, dict):
            raise ValueError("its header is not a JSON object")
    return {**header, "format": version}, PREAMBLE.size + length


def _is_intact(file: IO[bytes], size: int) -> bool:
    """Whether the checksum is right."""
    file.seek(0)
    checksum, left = hashlib.sha256(), size - DIGEST
    while left > 0 and (chunk := file.read(min(CHUNK, left))):
        checksum.update(chunk)
        left -= len(chunk)
    return left == 0 and file.read() == checksum.digest()


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a valid JSON number")


def _layout(entry: dict[str, Any]) -> Layout:
    """The layout of an array by its entry in the header."""
    dtype, shape = _dtype_of(entry["dtype"]), entry["shape"]
    stored = _dtype_of(entry.get("stored", entry["dtype"]))
    if stored != dtype and (stored.str, dtype.str) != (SINGLE, DOUBLE):
        raise ValueError(f"{stored} does not stand for {dtype}")
    axes = entry.get("axes", list(range(len(shape))))
    if not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError(f"{shape} is not the shape of an array")
    if sorted(axes) != list(range(len(shape))) or len(shape) > MOST_AXES:
        raise ValueError(f"{axes} are not the axes of an array")
    return Layout(stored, dtype, [shape[axis] for axis in axes], axes)


def _dtype_of(name: object) -> np.dtype:
    """A data type of numbers or bytes, or of a table of 64-bit numbers, which has no gaps."""
    if isinstance(name, list):
        columns = [(str(column), kind) for column, kind in name if isinstance(column, str)]
        are_numbers = all(kind in ("<i8", "<f8") for _, kind in columns)
        if are_numbers and len(name) == len(dict(columns)) and 0 < len(name) <= MOST_COLUMNS:
            return np.dtype(columns, align=True)
        raise ValueError(f"{name!r} are not the columns of a table")
    if isinstance(name, str) and name[1:2] in PLAIN_KINDS:
        dtype = np.dtype(name)
        if dtype.str == name and dtype.itemsize > 0 and dtype.byteorder != ">":
            return dtype
    raise ValueError(f"{name!r} is not a data type of its arrays")


def _read_array(file: IO[bytes], layout: Layout) -> np.ndarray:
    """The array that begins here, in memory of its own that starts at a cache line."""
    stored, dtype, shape, axes = layout
    memory = np.empty(dtype.itemsize * layout.size + ALIGNMENT, dtype=np.uint8)
    first = -memory.ctypes.data % ALIGNMENT
    own = memory[first : first + dtype.itemsize * layout.size].view(dtype)
    read = own if stored == dtype else np.empty(layout.size, stored)
    if file.readinto(read.view(np.uint8).data) != read.nbytes:  # type: ignore[attr-defined]
        raise ValueError("it has changed while it was read")
    if read is not own:
        own[:] = read
    array = own.reshape(shape).transpose(np.argsort(axes))
    return array.view(np.recarray) if dtype.names else array
