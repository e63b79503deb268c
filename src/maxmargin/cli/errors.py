"""Messages for people: one line, the right exit code, no traceback."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

import typer

MISSING = "maxmargin: this command needs {module}: pip install 'maxmargin[{extra}]'"
# Exit codes: something went wrong with the data or the files, the command was not understood, and
# Ctrl-C.
FAILED, MISUSED, INTERRUPTED = 1, 2, 130
# With this set, mistakes show where in the code they were found.
DEBUG = "MAXMARGIN_DEBUG"


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """No traceback for what is not a bug: trouble with files and input, and Ctrl-C."""
    try:
        yield
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(FAILED) from None
    except (OSError, ValueError, MemoryError) as error:
        if os.environ.get(DEBUG):
            raise
        fail(f"maxmargin: {error or type(error).__name__}")
    except KeyboardInterrupt:
        fail("interrupted", code=INTERRUPTED)


def fail(message: str, code: int = FAILED) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(code)


def misuse(message: str) -> NoReturn:
    fail(f"maxmargin: {message}", code=MISUSED)


def nearest(name: str, known: list[str]) -> str:
    """A hint at what may have been meant."""
    by_lower = {each.lower(): each for each in known}
    close = get_close_matches(name.lower(), by_lower, n=3, cutoff=0.5)
    if close:
        return f"did you mean {' or '.join(by_lower[each] for each in close)}?"
    return f"there are {', '.join(known)}."


def require(module: str, *, extra: str) -> None:
    """Say which extra to install if ``module`` is missing."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError:
        fail(MISSING.format(module=module, extra=extra))


def check_writable(path: Path) -> None:
    """Fail now rather than after the work; an old file stays as it is."""
    existed = path.exists()
    try:
        path.open("ab").close()
    except OSError as error:
        fail(f"maxmargin: cannot write {path}: {error.strerror}")
    if not existed:
        path.unlink()
