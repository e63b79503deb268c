"""A file: a zip archive of a JSON header and arrays in NumPy's format; see ``docs/files.md``.

A file is written under another name and renamed when it is complete and on the disk, so a reader
finds the old file or the new one. What is read has the size that the archive states, and arrays are
read one by one, after their shape and data type have been checked.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import math
import os
import secrets
import stat
import sys
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

import numpy as np

StrPath = str | os.PathLike[str]

VERSION = 5
HEADER = "maxmargin.json"  # the first entry of the archive

# Arrays of at most so many bytes are in the header, where they take no time of their own.
LARGEST_IN_HEADER = 4096

# Compression is worth its time for large arrays of which pieces shrink to this share: then it is as
# fast as disks are.
LEVEL, LEAST_TO_COMPRESS, LARGEST_SHARE = 1, 2**16, 0.06
PIECES, PIECE_BYTES = 16, 512
# No deflated entry expands by more than this.
LARGEST_EXPANSION, FREE_EXPANSION = 1032, 1024
# An empty array takes no bytes in a file, but one row of it may need much memory.
LARGEST_EMPTY_ROW = 2**26
PLAIN_KINDS = "biufSU"
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
    """Write a header, and arrays by their names."""
    content = {**header, "format": VERSION}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    with (
        replacing(path) as file,
        zipfile.ZipFile(file, "w", compresslevel=LEVEL) as archive,
    ):
        archive.writestr(zipfile.ZipInfo(HEADER), text)
        for name, array in arrays.items():
            plain = array.view(np.ndarray)
            archive.compression = zipfile.ZIP_DEFLATED if _shrinks(plain) else zipfile.ZIP_STORED
            with archive.open(f"{name}.npy", "w", force_zip64=plain.nbytes >= 2**31) as entry:
                np.lib.format.write_array(entry, plain, allow_pickle=False)


def described(array: np.ndarray) -> dict[str, Any]:
    """The shape and the data type of an array as JSON."""
    dtype = array.dtype
    columns = [[name, dtype[name].str] for name in dtype.names or ()]
    found = {"dtype": columns or dtype.str, "shape": list(array.shape)}
    is_fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    return {**found, "order": "F"} if is_fortran else found


def as_text(array: np.ndarray) -> str:
    """The bytes of a small array, in the order of `described`."""
    is_fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    return base64.b64encode(array.tobytes("F" if is_fortran else "C")).decode()


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
        yield _open_file(path, "write")
        return
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    if not os.path.exists(folder):
        raise FileNotFoundError(errno.ENOENT, "The folder does not exist", os.fspath(path))
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
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.filename in (None, temporary):
            error.filename = os.fspath(path)  # a full disk is met by calls that know no name
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
    """An array in an open file, which `numpy.asarray` reads."""

    archive: zipfile.ZipFile
    entry: str
    shape: tuple[int, ...]
    dtype: np.dtype
    order: str  # "C", or "F" if the first index is the fastest
    content: bytes | None = None  # its bytes, if they are in the header

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The array, in memory of its own that starts at a cache line."""
        memory = np.empty(self.size() + ALIGNMENT, np.uint8)
        first = -memory.ctypes.data % ALIGNMENT
        own = memory[first : first + self.size()]
        if self.content is None:
            self._read_into(own)
        else:
            own[:] = np.frombuffer(self.content, np.uint8)
        array: np.ndarray = own.view(self.dtype).reshape(self.shape, order=self.order)  # type: ignore[call-overload]
        if self.dtype.kind == "U" and array.size and own.view(np.uint32).max() > sys.maxunicode:
            raise ValueError(f"{self.entry} has characters that do not exist")
        return array

    def size(self) -> int:
        """The number of bytes."""
        return self.dtype.itemsize * math.prod(self.shape)

    def _read_into(self, own: np.ndarray) -> None:
        info, at = self.archive.getinfo(self.entry), 0
        with self.archive.open(info) as file:
            fits = file.read(info.file_size - own.size).startswith(ARRAY_START)
            while at < own.size and (some := file.readinto(own.data[at : at + CHUNK])):  # type: ignore[attr-defined]
                at += some
            if not fits or at < own.size or file.read(1):  # at the end, the checksum is compared
                raise ValueError(f"{self.entry} has another size than it states")


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
    """The content of an open file; `unused` are the names of arrays not yet read."""

    header: dict[str, Any]
    archive: zipfile.ZipFile
    size: int
    unused: set[str]

    def array(self, tree: dict[str, Any]) -> StoredArray:
        """An array as `described` by the header, which also names it or has its bytes."""
        name, shape, dtype = tree.get("array", "an array"), tree["shape"], _dtype_of(tree["dtype"])
        order = tree.get("order", "C")
        if not all(type(length) is int and length >= 0 for length in shape) or order not in "CF":
            raise ValueError(f"{name}: {shape} is not the shape of an array")
        row = dtype.itemsize * math.prod(filter(None, shape))
        if 0 in shape and row > max(LARGEST_EMPTY_ROW, LARGEST_EXPANSION * self.size):
            raise ValueError(f"the rows of the empty array {name} are huge")
        stored = StoredArray(self.archive, f"{name}.npy", tuple(shape), dtype, order)
        if "bytes" in tree:
            content = base64.b64decode(tree["bytes"], validate=True)
            if len(content) != stored.size():
                raise ValueError(f"{len(content)} bytes are not those of the shape {shape}")
            return stored._replace(content=content)
        self.unused.remove(name)
        info = self.archive.getinfo(stored.entry)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{info.filename} is compressed by another method")
        if info.file_size > LARGEST_EXPANSION * info.compress_size + FREE_EXPANSION:
            raise ValueError(f"{info.filename} is smaller than it states")
        if info.file_size <= stored.size():
            raise ValueError(f"{name} is too small for the shape {shape}")
        return stored


@contextlib.contextmanager
def opened(path: StrPath | IO[bytes]) -> Iterator[Container]:
    """The content of a file; errors about it, also in the block, become `ModelFileError`."""
    with _file(path) as file, explained(path):
        size = file.seek(0, os.SEEK_END)
        if not zipfile.is_zipfile(file):
            raise ModelFileError(f"{name_of(path)}: not a maxmargin file, or truncated.")
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            if sum(entry.compress_size for entry in entries) > size:
                raise zipfile.BadZipFile("its entries overlap")
            names = {entry.filename.removesuffix(".npy") for entry in entries}
            if HEADER not in names:
                raise ModelFileError(f"{name_of(path)}: not a maxmargin file.")
            yield Container(_header(archive), archive, size, names - {HEADER})


def _file(path: StrPath | IO[bytes]) -> contextlib.AbstractContextManager[IO[bytes]]:
    """A file to read; pipes, which may block forever, and devices are refused unopened."""
    if not isinstance(path, str | os.PathLike):
        return contextlib.nullcontext(_open_file(path, "read"))
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # `open` has an error for folders
        raise ModelFileError(f"{os.fspath(path)}: not a plain file, but a pipe or a device.")
    return open(path, "rb")


def _open_file(file: IO[bytes], method: str) -> IO[bytes]:
    """An open file, which must have this method."""
    if not hasattr(file, method):
        raise TypeError(f"expected a path or an open binary file, got {type(file).__name__}.")
    return file


def name_of(path: StrPath | IO[bytes]) -> str:
    """The name of a file in messages."""
    if isinstance(path, str | os.PathLike):
        return os.fspath(path)
    return str(getattr(path, "name", "The file"))


def is_model_file(path: StrPath) -> bool:
    """Whether it is a regular file with the header of a model or a checkpoint."""
    if not (os.path.isfile(path) and zipfile.is_zipfile(path)):
        return False
    with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
        return HEADER in archive.namelist()
    return False


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
    # JSON takes much more memory than its text, so the text must not expand as well.
    if archive.getinfo(HEADER).compress_type != zipfile.ZIP_STORED:
        raise ValueError("its header is compressed")
    header = json.loads(archive.read(HEADER), parse_constant=_refuse)
    if not isinstance(header, dict):
        raise ValueError("its header is not a JSON object")
    if (version := header["format"]) != VERSION:
        raise ValueError(
            f"it is of format version {version}, and this version of maxmargin reads {VERSION}: "
            "load it with the version that wrote it, or fit the model again"
        )
    return header


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a valid JSON number")
