"""A file: a zip archive of a JSON header and arrays in NumPy's format; see ``docs/files.md``.

A file is written under another name and renamed when it is complete and on the disk, so a reader
finds the old file or the new one. What is read has the size that the archive states, and arrays are
read one by one, after their shape and data type have been checked.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import secrets
import stat
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import numpy as np

StrPath = str | os.PathLike[str]

VERSION = 4
HEADER = "maxmargin.json"  # the first entry of the archive
# A zip archive begins with the header of its first entry, in which its name begins here.
ZIP_START, NAME_START = b"PK\x03\x04", 30
OLD_START = b"\x89MXM"  # of format versions up to 3

# Compression is worth its time for large arrays of which pieces shrink to this share: then it is as
# fast as disks are.
LEVEL, LEAST_TO_COMPRESS, LARGEST_SHARE = 1, 2**16, 0.06
PIECES, PIECE_BYTES = 16, 512
# No deflated entry expands by more than this. JSON takes much more memory than its text.
LARGEST_EXPANSION, FREE_EXPANSION = 1032, 1024
LARGEST_HEADER_EXPANSION = 20
# An empty array takes no bytes in a file, but one row of it may need much memory.
LARGEST_EMPTY_ROW = 2**26
PLAIN_KINDS = "biufS"
ARRAY_START = b"\x93NUMPY"
ALIGNMENT, CHUNK = 64, 2**20


class ModelFileError(ValueError):
    """A file that is not a complete and consistent file of this library."""


# ------------------------------------------------------------------------------------------ writing
def write_container(
    path: StrPath | IO[bytes],
    header: dict[str, Any],
    arrays: dict[str, np.ndarray],
) -> None:
    """Write a header and arrays by their names."""
    content = {**header, "format": VERSION}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    compress = LARGEST_HEADER_EXPANSION * len(zlib.compress(text, LEVEL)) >= len(text)
    with (
        replacing(path) as file,
        zipfile.ZipFile(file, "w", compresslevel=LEVEL) as archive,
    ):
        with _new_entry(archive, HEADER, len(text), compress) as entry:
            entry.write(text)
        for name, array in arrays.items():
            plain = array.view(np.ndarray)
            with _new_entry(archive, f"{name}.npy", plain.nbytes, _shrinks(plain)) as entry:
                np.lib.format.write_array(entry, plain, allow_pickle=False)


def _new_entry(archive: zipfile.ZipFile, name: str, size: int, compress: bool) -> IO[bytes]:
    archive.compression = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    return archive.open(name, "w", force_zip64=size >= 2**31)


def _shrinks(array: np.ndarray) -> bool:
    """Whether compression is worth its time, by pieces of the array."""
    if array.nbytes < LEAST_TO_COMPRESS:
        return False
    flat = array.reshape(-1, order="A")
    step, length = flat.size // PIECES, max(1, PIECE_BYTES // flat.itemsize)
    pieces = [flat[k * step : k * step + length].tobytes() for k in range(PIECES)]
    whole = b"".join(pieces)
    return len(zlib.compress(whole, LEVEL)) <= LARGEST_SHARE * len(whole)


@contextlib.contextmanager
def replacing(path: StrPath | IO[bytes]) -> Iterator[IO[bytes]]:
    """A file to write to, which replaces ``path`` when the block ends without an error.

    An open file is written to as it is. A symbolic link is followed. The file gets the permissions
    of the old one, or those that the umask leaves.
    """
    if not isinstance(path, str | os.PathLike):
        yield path
        return
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    mode = _mode_of(target)
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
    _sync_folder(folder)


def _mode_of(target: StrPath) -> int | None:
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


def _sync_folder(folder: StrPath) -> None:
    """Make a rename survive a loss of power, where folders can be synchronized."""
    if os.name == "nt":
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


# ------------------------------------------------------------------------------------------ reading
class StoredArray(NamedTuple):
    """An array in an open file, which has not been read yet."""

    archive: zipfile.ZipFile
    entry: str
    shape: tuple[int, ...]
    dtype: np.dtype
    order: str  # "C", or "F" if the first index is the fastest

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.read()

    def read(self) -> np.ndarray:
        """The array, in memory of its own that starts at a cache line."""
        info, size = self.archive.getinfo(self.entry), self.nbytes
        memory = np.empty(size + ALIGNMENT, np.uint8)
        first = -memory.ctypes.data % ALIGNMENT
        own, at = memory[first : first + size], 0
        with self.archive.open(info) as file:
            fits = file.read(info.file_size - size).startswith(ARRAY_START)
            while at < size and (some := file.readinto(own.data[at : at + CHUNK])):  # type: ignore[attr-defined]
                at += some
            if not fits or at < size or file.read(1):  # at the end, the checksum is compared
                raise ValueError(f"{self.entry} has another size than it states")
        return own.view(self.dtype).reshape(self.shape, order=self.order)  # type: ignore[call-overload]


def described(array: np.ndarray) -> dict[str, Any]:
    """The shape and the data type of an array as JSON, for `Container.array`."""
    dtype = array.dtype.newbyteorder("<")
    columns = [[name, dtype[name].str] for name in dtype.names or ()]
    found = {"dtype": columns or dtype.str, "shape": list(array.shape)}
    is_fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    return {**found, "order": "F"} if is_fortran else found


def _dtype_of(name: object) -> np.dtype:
    """A data type of numbers or bytes, or of a table of 64-bit numbers, which has no gaps."""
    if isinstance(name, list):
        columns = [(str(column), kind) for column, kind in name]
        are_numbers = all(kind in ("<i8", "<f8") for _, kind in columns)
        if are_numbers and 0 < len(name) == len(dict(columns)):
            return np.dtype(columns, align=True)
        raise ValueError(f"{name!r} are not the columns of a table")
    if isinstance(name, str) and name[1:2] in PLAIN_KINDS:
        dtype = np.dtype(name)
        if dtype.str == name and dtype.itemsize > 0 and dtype.byteorder != ">":
            return dtype
    raise ValueError(f"{name!r} is not a data type of its arrays")


class Container(NamedTuple):
    """The content of an open file."""

    header: dict[str, Any]
    archive: zipfile.ZipFile
    size: int

    def names(self) -> set[str]:
        """The names of all arrays."""
        entries = self.archive.namelist()
        return {name.removesuffix(".npy") for name in entries if name != HEADER}

    def array(self, name: str, tree: dict[str, Any]) -> StoredArray:
        """The array of this name, as `described` by the header."""
        shape, dtype, order = tree["shape"], _dtype_of(tree["dtype"]), tree.get("order", "C")
        if not all(type(length) is int and length >= 0 for length in shape) or order not in "CF":
            raise ValueError(f"{name}: {shape} is not the shape of an array")
        row = dtype.itemsize * math.prod(filter(None, shape))
        if 0 in shape and row > max(LARGEST_EMPTY_ROW, LARGEST_EXPANSION * self.size):
            raise ValueError(f"the rows of the empty array {name} are huge")
        stored = StoredArray(self.archive, f"{name}.npy", tuple(shape), dtype, order)
        info = self.archive.getinfo(stored.entry)
        check_size(info, LARGEST_EXPANSION)
        if info.file_size <= stored.nbytes:
            raise ValueError(f"{name} is too small for the shape {shape}")
        return stored

    def check_sums(self) -> None:
        """Raise unless the checksums of all entries are right."""
        if (damaged := self.archive.testzip()) is not None:
            raise zipfile.BadZipFile(f"the checksum of {damaged} is wrong")


@contextlib.contextmanager
def opened(path: StrPath | IO[bytes]) -> Iterator[Container]:
    """The content of a file; errors about it, also in the block, become `ModelFileError`."""
    with _file(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        start = file.read(NAME_START + len(HEADER))
        if not _is_start_of_ours(start):
            raise ModelFileError(f"{name_of(path)}: {_what_it_is(start)}")
        with explained(path), zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            if sum(entry.compress_size for entry in entries) > size:
                raise zipfile.BadZipFile("its entries overlap")
            yield Container(_header(archive), archive, size)


def _file(path: StrPath | IO[bytes]) -> contextlib.AbstractContextManager[IO[bytes]]:
    """A file to read; pipes, which may block forever, and devices are refused unopened."""
    if not isinstance(path, str | os.PathLike):
        return contextlib.nullcontext(path)
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # `open` has an error for folders
        raise ModelFileError(f"{os.fspath(path)}: not a plain file, but a pipe or a device.")
    return open(path, "rb")


def name_of(path: StrPath | IO[bytes]) -> str:
    """The name of a file in messages."""
    if isinstance(path, str | os.PathLike):
        return os.fspath(path)
    return str(getattr(path, "name", "The file"))


def _is_start_of_ours(start: bytes) -> bool:
    """Whether a file that begins so is one of this library."""
    return start.startswith(ZIP_START) and start[NAME_START:].startswith(HEADER.encode())


def is_model_file(path: StrPath) -> bool:
    """Whether it is a regular file that begins like a model or a checkpoint."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return _is_start_of_ours(file.read(NAME_START + len(HEADER)))


def _what_it_is(start: bytes) -> str:
    if not start:
        return "the file is empty."
    if start.startswith(OLD_START):
        return (
            "the file is of an older format, which is no longer read: fit the model again and save "
            "it, or load it with the version of maxmargin that wrote it."
        )
    if ZIP_START.startswith(start[:4]) and len(start) < NAME_START + len(HEADER):
        return "the file is damaged or truncated."
    return "not a maxmargin file."


@contextlib.contextmanager
def explained(path: StrPath | IO[bytes]) -> Iterator[None]:
    """Turn all errors about the content of a file into `ModelFileError`.

    A failing disk and a lack of memory are not the fault of the file.
    """
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError) as problem:
        what = f"the file is damaged or truncated: {problem}."
        raise ModelFileError(f"{name_of(path)}: {what}") from problem
    except (MemoryError, ModelFileError):
        raise
    except (Exception, RecursionError) as problem:
        # A seek to a place before the file is an error of the system.
        if isinstance(problem, OSError) and problem.errno != errno.EINVAL:
            raise
        what = str(problem) or type(problem).__name__
        if isinstance(problem, KeyError):
            what = f"{what} is missing"
        raise ModelFileError(f"{name_of(path)}: the file is inconsistent: {what}.") from problem


def _header(archive: zipfile.ZipFile) -> dict[str, Any]:
    check_size(archive.getinfo(HEADER), LARGEST_HEADER_EXPANSION)
    header = json.loads(archive.read(HEADER), parse_constant=_refuse)
    if not isinstance(header, dict):
        raise ValueError("its header is not a JSON object")
    if (version := header["format"]) != VERSION:
        raise ValueError(f"it is of format version {version}: update maxmargin to read it")
    return header


def check_size(info: zipfile.ZipInfo, largest: int) -> None:
    """Raise if an entry states more than ``largest`` times the bytes that it has."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{info.filename} is compressed by another method")
    if info.file_size > largest * info.compress_size + FREE_EXPANSION:
        raise ValueError(f"{info.filename} is smaller than it states")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a valid JSON number")
