"""Messages for people: one line, the right exit code, no traceback."""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import re
import shlex
import sys
import warnings
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

import typer

from maxmargin.cli.output import printable

MISSING = "maxmargin: this command needs {module}: pip install 'maxmargin[{extra}]'"
# Exit codes: something went wrong with the data or the files, the command was not understood, and
# Ctrl-C.
FAILED, MISUSED, INTERRUPTED = 1, 2, 130
# With this set, mistakes show where in the code they were found.
DEBUG = "MAXMARGIN_DEBUG"
# Options of the library that have one here, of flags for true and false; all others are parameters
# of learners.
SAME = (
    *("class-weight", "classes", "columns", "decimal", "delimiter", "drop", "encoding"),
    *("interactions", "label", "missing", "n-features", "passes", "weight"),
)
OPTIONS = {name.replace("-", "_"): f"--{name}" for name in SAME} | {
    "categories": "--categorical",
    "header": "--header/--no-header",
    "kinds": "--kind",
    "na_values": "--na",
    "on_error": "--skip-errors",
    "scale": "--scale/--no-scale",
    "y": "--label",
    "zero_based": "--zero-based/--one-based",
}
# Messages of the library name options as in Python, "label=", those of sources and of learners.
NAMES = (*OPTIONS, "C", "gamma", "intercept_scaling", "soft_margin", "tol")
LITERAL = r"""("[^"]*"|'[^']*'|\[[^]]*]|{[^}]*}|[-\w.]*\w)?"""
OPTION = re.compile(rf"(?<![\w.])({'|'.join(NAMES)})={LITERAL}")


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """No traceback for what is not a bug: trouble with files and input, and Ctrl-C."""
    try:
        if sys.stdout is None:
            raise OSError("There is no standard output.")
        with warnings.catch_warnings():
            # The hook that the module documents for this; it is put back in the end.
            warnings.showwarning = lambda message, *_, **__: complain(in_words(message))
            yield
    except BrokenPipeError:
        # The reader of our output has closed the pipe.
        _give_up_output()
        raise typer.Exit(FAILED) from None
    except (OSError, ValueError, MemoryError) as error:
        if os.environ.get(DEBUG):
            raise
        _give_up_output()
        complain(in_words(error))
        raise typer.Exit(FAILED) from None
    except KeyboardInterrupt:
        _give_up_output()
        fail("interrupted", code=INTERRUPTED)


@contextlib.contextmanager
def one_line_usage() -> Iterator[None]:
    """What typer says about a command that is not understood, on one line without a box."""
    try:
        yield
    except Exception as error:  # of typer, whose classes for these depend on its version
        if not hasattr(error, "format_message"):
            raise
        message, context = error.format_message(), getattr(error, "ctx", None)
        if not message:  # the help has been printed instead
            raise SystemExit(MISUSED) from None
        message = message[:1].lower() + message[1:].rstrip(".")
        if context is not None and not message.endswith("?"):
            message += f"; see {context.command_path} {context.help_option_names[0]}"
        complain(message)
        raise SystemExit(MISUSED) from None


def _give_up_output() -> None:
    """What cannot be written any more: Python would try again in the end, and complain."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def in_words(error: Exception | str) -> str:
    """What has happened, or what a warning says, in the words of the command."""
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f"{error.filename}: "
        return f"{where}{error.strerror}"
    if isinstance(error, MemoryError):
        return ": ".join(filter(None, ("not enough memory", str(error))))
    return OPTION.sub(_spelled, str(error)) or type(error).__name__


def _spelled(found: re.Match[str]) -> str:
    """An option as on the command line."""
    name, text = found.groups(default="")
    value: Any = text
    with contextlib.suppress(ValueError, SyntaxError):
        value = ast.literal_eval(text)
    text = str(value)
    if isinstance(value, dict):
        text = ",".join(f"{key}={each}" for key, each in value.items())
    if isinstance(value, list):
        text = " ".join(map(shlex.quote, value))
    if name in OPTIONS:
        yes, _, no = OPTIONS[name].partition("/")
        if isinstance(value, bool):
            return yes if value else no
        return f"{yes} {text}".rstrip()
    return f"--set {name}" + (f"={text.lower()}" if text else "")


def complain(message: str) -> None:
    typer.echo(f"maxmargin: {printable(message)}", err=True)


def fail(message: str, code: int = FAILED) -> NoReturn:
    typer.echo(printable(message), err=True)
    raise typer.Exit(code)


def misuse(message: str) -> NoReturn:
    fail(f"maxmargin: {message}", code=MISUSED)


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint at what may have been meant."""
    name, cases = name.lower(), {each.lower(): each for each in names}
    begun = [name] if name in cases else [each for each in cases if each.startswith(name)]
    if close := begun or get_close_matches(name, cases, n=3, cutoff=0.6):
        return f"did you mean {' or '.join(cases[each] for each in close[:3])}?"
    return f"there are {', '.join(cases.values())}."


def require(*modules: str, extra: str) -> None:
    """Say which extra to install if one of the ``modules`` is missing."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError:
            fail(MISSING.format(module=module, extra=extra))


def check_writable(path: Path, *, unlike: Iterable[Any] = ()) -> None:
    """Fail now rather than after the work; an old file stays as it is.

    ``unlike`` are the other files of the command, which must not be overwritten.
    """
    if str(path) == "-":
        misuse("only rows go through pipes: pass the name of a file to write, not -.")
    for other in unlike:
        if other is not None and _same(path, other):
            misuse(f"{path} is read or written as something else: it would be overwritten.")
    target = Path(os.path.realpath(path))  # a link stays, also one to a file that is not there yet
    existed = target.exists()
    if existed and not target.is_file():
        fail(f"maxmargin: cannot write {path}: it is not a file")
    try:
        target.open("ab").close()
    except OSError as error:
        fail(f"maxmargin: cannot write {path}: {error.strerror}")
    if not existed:
        target.unlink()


def _same(path: Any, other: Any) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)
