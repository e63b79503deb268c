"""Where compiled code is kept between processes: a folder that only we can write to.

Whatever lies in that folder is run. So its path is absolute, and no other user can write to it, nor
to a folder above it; else there is no cache on disk.

Loops are compiled together with rules and spaces that live in other files, so an edited rule must
not find the old code. The folder is therefore named by a hash of every source that can end up in a
loop, and of the versions of what compiles them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import sys
import time
import warnings
from functools import cache
from pathlib import Path

import numba
import numpy as np

COMPILED_PACKAGES = ("core", "spaces", "experts", "certificates", "algorithms", "streams/text")
STALE_AFTER_SECONDS = 30 * 24 * 3600

# What the names of files with compiled code end with.
SUFFIX = ".compiled"

# Proves that a folder is ours. By its first line (https://bford.info/cachedir/) backups skip it.
TAG_NAME = "CACHEDIR.TAG"
TAG = b"""Signature: 8a477f597d28d172789f06886806bc55
# Compiled code of maxmargin, which makes it again whenever this folder is deleted.
"""

# Says of which installation the code is; see `_installation`.
OWNER_NAME = "INSTALLATION"


class UnsafeFolderError(Exception):
    """Others could put code into the folder that we would run."""


def options() -> str:
    """Options of Numba that change compiled code, as NUMBA_BOUNDSCHECK and NUMBA_OPT set them."""
    return f"bounds checked: {numba.config.BOUNDSCHECK}, optimization: {numba.config.OPT}"


def source_hash() -> str:
    """Hash of all sources that are compiled into the loops, and of the compiler.

    Without sources, as in a program that is one file, old code could not be told from new: it
    raises an `OSError`.
    """
    package = Path(__file__).parents[2]
    versions = (sys.version, numba.__version__, np.__version__, options())
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
        parent = _user_folder()
        if not parent.is_absolute():
            raise UnsafeFolderError(f"{str(parent)!r} depends on the current folder")
        chosen = parent.resolve() / source_hash()
        if _make_safely(chosen):
            (chosen / TAG_NAME).touch(mode=0o600)
            (chosen / TAG_NAME).write_bytes(TAG)
            (chosen / OWNER_NAME).touch(mode=0o600)
            (chosen / OWNER_NAME).write_text(json.dumps(_installation()))
            _forget_stale(chosen.parent, keep=chosen)
        return chosen
    except UnsafeFolderError as reason:
        warnings.warn(
            f"Compiled code is not kept on disk, where others could change it: {reason}. Set "
            "MAXMARGIN_CACHE_DIR to the absolute path of a folder to which only you can write.",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    except (OSError, RuntimeError):  # RuntimeError: no home folder can be found
        return None


def _user_folder() -> Path:
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


def _make_safely(path: Path) -> bool:
    """Make a folder, and those it lies in, for us alone; returns whether it was not there.

    From the root downwards, each is checked before anything is made in it.
    """
    for place in (*reversed(path.parents), path):
        made = False
        if not place.is_dir():
            with contextlib.suppress(FileExistsError):  # another process was quicker
                place.mkdir(mode=0o700)
                made = True
        found = place.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(place)
        # In a sticky folder, such as /tmp, others can add something but not replace what is ours.
        sticky = place != path and bool(found.st_mode & stat.S_ISVTX)
        if danger := why_unsafe(found, others_may_add=sticky):
            raise UnsafeFolderError(f"{place} {danger}")
    return made


def why_unsafe(found: os.stat_result, others_may_add: bool = False) -> str:
    """How others could change a file or folder; empty if they cannot."""
    if sys.platform == "win32":  # where what a user makes is closed to others by default
        return ""
    if found.st_uid not in (0, os.geteuid()):
        return "belongs to another user"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not others_may_add:
        return "can be written to by others"
    return ""


def _forget_stale(parent: Path, keep: Path) -> None:
    """Drop the folders of versions that are no longer installed, or were edited long ago."""
    for other in parent.iterdir():
        if re.fullmatch("[0-9a-f]{16}", other.name) and other != keep:
            with contextlib.suppress(OSError):  # another process drops it too
                _drop_if_stale(other)


def _drop_if_stale(other: Path) -> None:
    found, tag = other.lstat(), other / TAG_NAME
    if not stat.S_ISDIR(found.st_mode) or tag.read_bytes() != TAG:
        return
    is_old = time.time() - found.st_mtime >= STALE_AFTER_SECONDS
    if why_unsafe(found) or not (is_old or _is_replaced(other / OWNER_NAME)):
        return
    for file in other.glob(f"*{SUFFIX}"):
        file.unlink()
    if {path.name for path in other.iterdir()} <= {TAG_NAME, OWNER_NAME}:
        (other / OWNER_NAME).unlink(missing_ok=True)
        tag.unlink()
        other.rmdir()


def _installation() -> list[str]:
    """This package in this environment, of which there is one version at a time."""
    return [str(Path(__file__).parents[2]), sys.prefix, options()]


def _is_replaced(owner: Path) -> bool:
    """Has its installation another version by now, or is it gone?"""
    try:
        package, prefix, checked = json.loads(owner.read_text())
        gone = not (Path(package).is_dir() and Path(prefix).is_dir())
    except (OSError, ValueError, TypeError):
        return False
    return gone or [package, prefix, checked] == _installation()
