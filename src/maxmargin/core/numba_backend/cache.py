"""Compiled functions on disk, one file for each function and the types of its arguments.

Numba's own cache would run old code after a change in another file, and its index of each function
loses entries of processes that write at once. Loops are compiled together with rules and spaces
from other files, so here the folder is named by a hash of every source that can end up in a loop,
and of the versions of what compiles them. What lies in the folder is run: only we may write to it.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import pickle
import re
import stat
import sys
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core.caching import NullCache
from numba.core.compiler import CompileResult
from numba.core.serialize import dumps

COMPILED_PACKAGES = ("core", "spaces", "experts", "certificates", "algorithms", "streams/text")
STALE_AFTER_SECONDS = 30 * 24 * 3600

# What the names of files with compiled code end with.
SUFFIX = ".compiled"


def source_hash() -> str:
    """Hash of all sources that are compiled into the loops, and of the compiler.

    Without sources, as in a program that is one file, old code could not be told from new: it
    raises an `OSError`.
    """
    package = Path(__file__).parents[2]
    options = f"{numba.config.BOUNDSCHECK} {numba.config.OPT}"
    versions = (sys.version, numba.__version__, np.__version__, options)
    digest = hashlib.sha256("\0".join(versions).encode())
    for name in COMPILED_PACKAGES:
        sources = sorted((package / name).rglob("*.py"))
        if not sources:
            raise FileNotFoundError(f"no sources in {package / name}")
        for path in sources:
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


@cache
def folder() -> Path | None:
    """The folder for this version of the sources; ``None`` where there is no safe one.

    Perhaps it can only be read: the code that it holds is used all the same.
    """
    try:
        chosen = user_folder() / source_hash()
        danger = prepare(chosen)
    except (OSError, RuntimeError):  # RuntimeError: no home folder can be found
        return None
    if not danger:
        return chosen
    warnings.warn(
        f"Compiled code is not kept on disk, where others could change it: {danger}. Set "
        "MAXMARGIN_CACHE_DIR to the absolute path of a folder to which only you can write.",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


def user_folder() -> Path:
    if chosen := os.environ.get("MAXMARGIN_CACHE_DIR"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = _named_by("LOCALAPPDATA", "~/AppData/Local")
    elif sys.platform == "darwin":
        base = Path("~/Library/Caches").expanduser()
    else:
        base = _named_by("XDG_CACHE_HOME", "~/.cache")
    return base / "maxmargin"


def _named_by(variable: str, otherwise: str) -> Path:
    """What an environment variable names. The XDG specification ignores it if it is relative."""
    path = Path(os.environ.get(variable, ""))
    return path if path.is_absolute() else Path(otherwise).expanduser()


def prepare(chosen: Path) -> str:
    """Make the folder. Returns how others could put code into it; empty if they cannot."""
    if not chosen.is_absolute():
        return f"{str(chosen)!r} depends on the current folder"
    if not chosen.is_dir():
        for place in (chosen.parent, chosen):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        forget_stale(chosen)
    found = chosen.stat()
    if sys.platform == "win32":  # where what a user makes is closed to others by default
        return ""
    if found.st_uid not in (0, os.geteuid()):
        return f"{chosen} belongs to another user"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"{chosen} can be written to by others"
    return ""


def forget_stale(chosen: Path) -> None:
    """Drop the folders of other sources to which nothing was added for long."""
    for other in chosen.parent.iterdir():
        with contextlib.suppress(OSError):  # another process drops it too; it has other files
            age = time.time() - other.stat().st_mtime
            if re.fullmatch("[0-9a-f]{16}", other.name) and age > STALE_AFTER_SECONDS:
                for file in other.glob(f"*{SUFFIX}"):
                    file.unlink()
                other.rmdir()


def is_ours(kind: types.Type) -> bool:
    """Is code for it made of this package's classes only? Plain tuples are what is in them."""
    if not isinstance(kind, types.BaseTuple):
        return True
    named = isinstance(kind, types.BaseNamedTuple)
    if named and not kind.instance_class.__module__.startswith("maxmargin."):
        return False
    return all(map(is_ours, kind.types))


class Store(NullCache):
    """What Numba asks for a function's code before it compiles, and gives it to afterwards.

    A class that is not of this package may change without our noticing, so loops over it are
    compiled in each process.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The function compiled for ``sig``; ``None`` if it is not there or damaged.

        Numba would load all that it knows of lowering first, and compile its reference counting:
        machine code that is there already needs neither, and loops count no references.
        """
        if (place := self._folder_for(sig)) is None:
            return None
        key = self._key(sig, target_context.codegen())
        try:
            # zlib checks a sum of what it returns.
            content = zlib.decompress((place / self._file_name(key)).read_bytes())
            found, parts = pickle.loads(content)
            return CompileResult._rebuild(target_context, *parts) if found == key else None
        except Exception:  # unpickling raises anything; the function is compiled and saved again
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        place = self._folder_for(sig)
        if place is None or data.library.has_dynamic_globals:  # addresses in this process
            return
        key = self._key(sig, data.codegen)
        content = zlib.compress(dumps((key, data._reduce())), level=1)
        with contextlib.suppress(OSError):  # the disk is full, or can only be read
            write_at_once(place / self._file_name(key), content)

    def _folder_for(self, sig: Any) -> Path | None:
        return folder() if all(map(is_ours, sig)) else None

    def _key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (self._identity, sig, codegen.magic_tuple())

    @cached_property
    def _identity(self) -> tuple[str, str, str]:
        """The function, and the file it is from, which may be none of `source_hash`."""
        source = Path(inspect.getfile(self._function)).read_bytes()
        digest = hashlib.sha256(source).hexdigest()
        return self._function.__module__, self._function.__qualname__, digest

    def _file_name(self, key: tuple[Any, ...]) -> str:
        """Names of types need not differ where types do, so the key is in the file as well."""
        digest = hashlib.sha256(str(key).encode()).hexdigest()[:32]
        return f"{self._function.__name__}-{digest}{SUFFIX}"


def write_at_once(path: Path, content: bytes) -> None:
    """Write a file that appears as a whole or not at all."""
    descriptor, temporary = tempfile.mkstemp(suffix=path.suffix, dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
