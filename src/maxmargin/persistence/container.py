"""The bytes of a file: a JSON header, arrays, and a checksum; see ``docs/files.md``.

A file is written beside its place and moved there when it is complete and on the disk, so a
reader finds the old file or the new one. Reading checks the sum of all bytes before it believes any
of them, and what the header says about arrays before it allocates them.
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
from typing import IO, Any

import numpy as np

StrPath = str | os.PathLike[str]

# As in PNG files: transfers that change line ends or cut the eighth bit are found at once.
MAGIC = b"\x89MXM\r\n\x1a\n"
VERSION = 2
# Of files with numbers that are written in single precision, which earlier readers do not know.
VERSION_WITH_SINGLES = 3
READABLE = (VERSION, VERSION_WITH_SINGLES)
DOUBLE, SINGLE = "<f8", "<f4"
# Arrays of at least so many bytes are stored in single precision where that loses nothing.
LEAST_FOR_SINGLES = 2**16
PREAMBLE = struct.Struct("<8sII")  # magic, version, length of the header
ALIGNMENT = 64
DIGEST = 32
CHUNK = 2**20

MOST_COLUMNS = 64
# An array without items takes no bytes in a file, but one line of it may take much in memory.
LARGEST_EMPTY_LINE = 2**26
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
    """A file that is not a whole and sound file of this library; says which, and why."""


# ------------------------------------------------------------------------------------------ writing
def write_container(
    path: StrPath,
    header: dict[str, Any],
    arrays: list[np.ndarray],
    like: StrPath | None = None,
    new_mode: int | None = None,
) -> None:
    """Write ``header`` and ``arrays`` to ``path``, all or nothing; the rest as of `replacing`."""
    entries = [_entry(array) for array in arrays]
    text = json.dumps(
        {**header, "arrays": entries}, sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode("ascii")
    with replacing(path, like, new_mode) as file:
        sum_of_all, written = hashlib.sha256(), 0

        def put(data: bytes | memoryview) -> None:
            nonlocal written
            file.write(data)
            sum_of_all.update(data)
            written += len(data)

        has_singles = any("stored" in entry for entry in entries)
        version = VERSION_WITH_SINGLES if has_singles else VERSION
        put(PREAMBLE.pack(MAGIC, version, len(text)))
        put(text)
        for entry, array in zip(entries, arrays, strict=True):
            put(bytes(-written % ALIGNMENT))
            put(_bytes_of(array, entry.get("stored")))
        put(bytes(-written % ALIGNMENT))
        file.write(sum_of_all.digest())


def _entry(array: np.ndarray) -> dict[str, Any]:
    entry = {"dtype": _name_of(array.dtype), "shape": list(array.shape)}
    if (axes := _axes(array)) != list(range(array.ndim)):
        entry["axes"] = axes
    if entry["dtype"] == DOUBLE and array.nbytes >= LEAST_FOR_SINGLES and _are_singles(array):
        entry["stored"] = SINGLE
    return entry


def _are_singles(array: np.ndarray) -> bool:
    """Does no bit get lost in single precision? Grey values, counts, and what was single before."""
    lines = max(1, CHUNK // array[:1].nbytes)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, array.shape[0], lines):
            some = np.ascontiguousarray(array[start : start + lines])
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
    """The axes, that of the largest steps through memory first: sums depend on this order."""
    if array.flags.c_contiguous:
        return list(range(array.ndim))
    return sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))


def _bytes_of(array: np.ndarray, stored: str | None = None) -> bytes | memoryview:
    in_order = array.view(np.ndarray).transpose(_axes(array))
    dtype = in_order.dtype.newbyteorder("<") if stored is None else np.dtype(stored)
    return np.ascontiguousarray(in_order, dtype=dtype).reshape(-1).view(np.uint8).data


@contextlib.contextmanager
def replacing(
    path: StrPath, like: StrPath | None = None, new_mode: int | None = None
) -> Iterator[IO[bytes]]:
    """A file to write to, which takes the place of ``path`` when the block ends without error.

    A link stays, and what it points at is replaced or made. Permissions are those of the file that
    is there, or of ``like``, if it is; else ``new_mode``, or those that the umask leaves.
    """
    target = os.path.realpath(os.fspath(path))
    folder, name = os.path.split(target)
    mode = _mode_of(target if like is None else os.fspath(like))
    mode = new_mode if mode is None else mode
    temporary = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(8)}.tmp")

    def opener(path: str, flags: int) -> int:
        # Whoever opens it in the first moment can read all that comes later.
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
    """The permissions of a file that is there; only plain files can be replaced."""
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
    """Let the new name survive a loss of power, where folders can be synchronised."""
    if os.name == "nt":
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


# ------------------------------------------------------------------------------------------ reading
def read_header(path: StrPath) -> tuple[dict[str, Any], int]:
    """The header of a sound file, with its ``format``, and the number of its bytes."""
    with _opened(path) as file:
        header, _ = _checked_header(file, path)
        return header, os.fstat(file.fileno()).st_size


def read_container(path: StrPath) -> tuple[dict[str, Any], list[np.ndarray]]:
    """The header and the arrays of a sound file; anything else raises `ModelFileError`."""
    with _opened(path) as file:
        header, stop = _checked_header(file, path)
        with explained(path):
            layout = [_array_of(entry) for entry in header.pop("arrays")]
            at, places = stop, []
            most = max(LARGEST_EMPTY_LINE, os.fstat(file.fileno()).st_size)
            for dtype, _, shape, _ in layout:
                if 0 in shape and dtype.itemsize * math.prod(filter(None, shape)) > most:
                    raise ValueError(f"an array of shape {tuple(shape)} has too long lines")
                at += -at % ALIGNMENT
                places.append(at)
                at += dtype.itemsize * math.prod(shape)
            size = at + -at % ALIGNMENT + DIGEST
            if size != os.fstat(file.fileno()).st_size:
                raise ValueError("the arrays that it lists do not fill it")
            arrays = []
            for (stored, dtype, shape, axes), place in zip(layout, places, strict=True):
                file.seek(place)
                arrays.append(_read_array(file, stored, dtype, shape, axes))
    return header, arrays


def _opened(path: StrPath) -> IO[bytes]:
    """A file to read; pipes, which may never say anything, and devices are refused unopened."""
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # folders have an error of their own
        raise ModelFileError(f"{os.fspath(path)}: not a plain file, but a pipe or a device.")
    return open(path, "rb")


def begins_like_ours(path: StrPath) -> bool:
    """Is it a plain file, and no link, with the first bytes of ours, as many as there are?"""
    if not stat.S_ISREG(os.lstat(path).st_mode):
        return False
    with open(path, "rb") as file:
        return MAGIC.startswith(file.read(len(MAGIC)))


@contextlib.contextmanager
def explained(path: StrPath) -> Iterator[None]:
    """Whatever goes wrong with what is in a file is the file's fault.

    Not so a disk that fails, or memory that runs out: the file may well be sound.
    """
    try:
        yield
    except (OSError, MemoryError):
        raise
    except (Exception, RecursionError) as problem:
        what = str(problem) or type(problem).__name__
        if isinstance(problem, KeyError):
            what = f"{what} is missing"
        raise ModelFileError(f"{os.fspath(path)}: the file is inconsistent: {what}.") from problem


def _checked_header(file: IO[bytes], path: StrPath) -> tuple[dict[str, Any], int]:
    """The header, and where it ends; the sum of all bytes is right."""
    name, size = os.fspath(path), os.fstat(file.fileno()).st_size
    start = file.read(PREAMBLE.size)
    if not start:
        raise ModelFileError(f"{name}: the file is empty.")
    if start[: len(MAGIC)] != MAGIC[: len(start)]:
        what = next((what for magic, what in FOREIGN.items() if start.startswith(magic)), "")
        raise ModelFileError(f"{name}: not a maxmargin file{what and f', but {what}'}.")
    if size < PREAMBLE.size + DIGEST:
        raise ModelFileError(f"{name}: the file is truncated, it has only {size} bytes.")
    _, version, length = PREAMBLE.unpack(start)
    sound = _sum_is_right(file, size)
    if version not in READABLE:
        if sound and version < VERSION:
            hint = "it is too old to be read: fit the model again, and save it"
        elif sound:
            hint = "update maxmargin to read it"
        else:
            hint = "it is newer than this library, or damaged"
        raise ModelFileError(f"{name}: unknown format version {version}; {hint}.")
    if not sound:
        raise ModelFileError(f"{name}: the file is damaged or truncated: its checksum is wrong.")
    stop = PREAMBLE.size + length
    with explained(path):
        if stop > size - DIGEST:
            raise ValueError("its header is longer than the file")
        file.seek(PREAMBLE.size)
        header = json.loads(file.read(length).decode("ascii"), parse_constant=_refuse)
        if not isinstance(header, dict):
            raise ValueError("its header is not a JSON object")
        header["format"] = version
    return header, stop


def _sum_is_right(file: IO[bytes], size: int) -> bool:
    file.seek(0)
    sum_of_all, left = hashlib.sha256(), size - DIGEST
    while left > 0 and (chunk := file.read(min(CHUNK, left))):
        sum_of_all.update(chunk)
        left -= len(chunk)
    return left == 0 and file.read() == sum_of_all.digest()


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a valid JSON number")


def _array_of(entry: dict[str, Any]) -> tuple[np.dtype, np.dtype, list[int], list[int]]:
    """Data types of an array in the file and in memory, and its shape and axes in memory."""
    dtype, shape = _dtype_of(entry["dtype"]), entry["shape"]
    stored = _dtype_of(entry.get("stored", entry["dtype"]))
    if stored != dtype and (stored.str, dtype.str) != (SINGLE, DOUBLE):
        raise ValueError(f"{stored} does not stand for {dtype}")
    axes = entry.get("axes", list(range(len(shape))))
    if not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError(f"{shape} is not the shape of an array")
    if sorted(axes) != list(range(len(shape))) or len(shape) > 3:
        raise ValueError(f"{axes} are not the axes of an array")
    return stored, dtype, [shape[axis] for axis in axes], axes


def _dtype_of(name: object) -> np.dtype:
    if isinstance(name, list):
        return _table_of(name)
    if isinstance(name, str) and name[1:2] in PLAIN_KINDS:
        dtype = np.dtype(name)
        if dtype.str == name and dtype.itemsize > 0 and dtype.byteorder != ">":
            return dtype
    raise ValueError(f"{name!r} is not a data type of its arrays")


def _table_of(columns: list[Any]) -> np.dtype:
    """The data type of a table of numbers of eight bytes, which needs no gaps."""
    names = [name for name, _ in columns]
    if not 0 < len(names) <= MOST_COLUMNS or not all(isinstance(each, str) for each in names):
        raise ValueError("a table has columns without names")
    if not all(kind in ("<i8", "<f8") for _, kind in columns) or len(set(names)) < len(names):
        raise ValueError(f"{columns!r} are not the columns of a table")
    return np.dtype([(str(name), kind) for name, kind in columns], align=True)


def _read_array(
    file: IO[bytes], stored: np.dtype, dtype: np.dtype, shape: list[int], axes: list[int]
) -> np.ndarray:
    """The array that begins here, in memory of its own that starts at a cache line."""
    count = math.prod(shape)
    memory = np.empty(dtype.itemsize * count + ALIGNMENT, dtype=np.uint8)
    first = -memory.ctypes.data % ALIGNMENT
    own = memory[first : first + dtype.itemsize * count].view(dtype)
    read = own if stored == dtype else np.empty(count, stored)
    if file.readinto(read.view(np.uint8).data) != read.nbytes:  # type: ignore[attr-defined]
        raise ValueError("it has changed while it was read")
    if read is not own:
        own[:] = read
    array = own.reshape(shape).transpose(np.argsort(axes))
    return array.view(np.recarray) if dtype.names else array
