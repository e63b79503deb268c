"""Compiled functions on disk, one file for each function and the types of its arguments.

Numba's own cache keeps an index for each function. Two processes that add to it at once lose an
entry, or give two functions the same file. And it runs what it reads: of a damaged file it raises
anything, or crashes. Here no file is shared, each appears as a whole or not at all, and none is
unpickled unless it is what was written.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import pickle
import tempfile
import zlib
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

from maxmargin.core.numba_backend import cache

# A file begins with this and the SHA-256 of what follows.
MAGIC = b"maxmargin: compiled code, version 2\n"
# Compressed at all, code takes a quarter of the space; the level matters little.
QUICKLY = 1
HEAD = len(MAGIC) + hashlib.sha256().digest_size


class Store(NullCache):
    """What Numba asks for compiled code before it compiles, and gives it to afterwards.

    Parameters
    ----------
    function : callable
        The function that is compiled.
    folder : callable
        Returns the folder to keep code in, or ``None``. It is asked when code is first needed:
        looking for a folder takes time, and may warn.
    """

    def __init__(self, function: Callable[..., Any], folder: Callable[[], Path | None]) -> None:
        self._function = function
        self._folder = folder

    @property
    def cache_path(self) -> str | None:
        return None if (folder := self._folder()) is None else str(folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The function compiled for ``sig``; ``None`` if it is not there or not as it was.

        Numba would load all that it knows of lowering first, and compile its reference counting:
        machine code that is there already needs neither, and loops count no references.
        """
        if (folder := self._folder()) is None:
            return None
        key = self._key(sig, target_context.codegen())
        try:
            content = zlib.decompress(read_checked(folder / self._file_name(key)))
            found, parts = pickle.loads(content)
            return CompileResult._rebuild(target_context, *parts) if found == key else None
        except Exception:  # unpickling raises anything; the function is compiled and saved again
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        folder = self._folder()
        if folder is None or data.library.has_dynamic_globals:  # addresses in this process
            return
        key = self._key(sig, data.codegen)
        content = zlib.compress(dumps((key, data._reduce())), QUICKLY)
        with contextlib.suppress(OSError):  # the disk is full, or can only be read
            write_checked(folder / self._file_name(key), content)

    def _key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (self._identity, sig, codegen.magic_tuple())

    @cached_property
    def _identity(self) -> tuple[str, str, str]:
        """The function, and the file it is from, which may be none of `cache.source_hash`."""
        source = Path(inspect.getfile(self._function)).read_bytes()
        digest = hashlib.sha256(source).hexdigest()
        return self._function.__module__, self._function.__qualname__, digest

    def _file_name(self, key: tuple[Any, ...]) -> str:
        """Names of types need not differ where types do, so the key is in the file as well."""
        digest = hashlib.sha256(str(key).encode()).hexdigest()[:32]
        return f"{self._function.__name__}-{digest}{cache.SUFFIX}"


def read_checked(path: Path) -> bytes:
    """What `write_checked` wrote; raises if this is anything else, or if others could write it."""
    with open(path, "rb") as file:
        if danger := cache.why_unsafe(os.fstat(file.fileno())):
            raise ValueError(danger)
        head, content = file.read(HEAD), file.read()
    if head != MAGIC + hashlib.sha256(content).digest():
        raise ValueError("it is not what was written")
    return content


def write_checked(path: Path, content: bytes) -> None:
    """Write a file that appears at once; its reader notices if it changes."""
    # `mkstemp` lets no other user read or write it.
    descriptor, temporary = tempfile.mkstemp(suffix=path.suffix, dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(MAGIC + hashlib.sha256(content).digest() + content)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
