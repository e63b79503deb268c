"""Where compiled code is kept between processes, and when it may be reused.

Numba stamps a cached function with the modification time of the file that defines it. Our loops are
compiled together with rules and spaces that live in other files, so an edited rule would give the
old answer. The folder is therefore named by a hash of every source that can end up in a loop.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numba

COMPILED_PACKAGES = ("core", "spaces", "certificates", "algorithms", "streams/text")
STALE_AFTER_SECONDS = 30 * 24 * 3600


def source_hash() -> str:
    """Hash of all sources that are compiled into the loops."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256(numba.__version__.encode())
    for name in COMPILED_PACKAGES:
        for path in sorted((package / name).glob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _user_folder() -> Path:
    if chosen := os.environ.get("MAXMARGIN_CACHE_DIR"):
        return Path(chosen)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "~/AppData/Local")
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return Path(base).expanduser() / "maxmargin"


@cache
def folder() -> Path | None:
    """The folder for this version of the sources; ``None`` where nothing can be written."""
    try:
        parent = _user_folder()
        chosen = parent / source_hash()
        if not chosen.is_dir():
            chosen.mkdir(parents=True, exist_ok=True)
            _forget_stale(parent, keep=chosen)
        with tempfile.TemporaryFile(dir=chosen):
            return chosen
    except (OSError, RuntimeError):  # RuntimeError: no home folder can be found
        return None


def discard() -> None:
    """Delete all compiled code of this version, to be compiled anew."""
    if (path := folder()) is not None:
        for file in path.rglob("*.nb[ic]"):
            file.unlink(missing_ok=True)


def _forget_stale(parent: Path, keep: Path) -> None:
    """Drop the folders of sources that were edited long ago."""
    for other in parent.iterdir():
        ours = re.fullmatch("[0-9a-f]{16}", other.name) and other != keep
        if ours and time.time() - other.stat().st_mtime > STALE_AFTER_SECONDS:
            shutil.rmtree(other, ignore_errors=True)


@contextlib.contextmanager
def caching_into(path: Path) -> Iterator[None]:
    """Functions decorated inside the block are cached below ``path``."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(path)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before
