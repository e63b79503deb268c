"""The command ``maxmargin``."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NoReturn

from maxmargin import __version__

MISSING = "maxmargin: this command needs {module}: pip install 'maxmargin[{extra}]'"

try:
    import typer
except ModuleNotFoundError:
    sys.exit(MISSING.format(module="typer", extra="cli"))

app = typer.Typer(
    help="Online large-margin classification, with a certificate for every fit.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Entry point of the command."""
    app()


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"maxmargin {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=show_version, is_eager=True),
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The page to write; an old one is replaced.")] = Path(
        "maxmargin-demo.html"
    ),
) -> None:
    """Train every learner on small data, print a table and write a page with plots."""
    with one_line_errors():
        require("rich", extra="cli")
        require("matplotlib", extra="plots")
        check_writable(out)
        from maxmargin.demo import run

        run(out)


@app.command()
def algorithms(
    markdown: Annotated[bool, typer.Option(help="As a table in Markdown.")] = False,
) -> None:
    """List all learners: guarantee, updates, certificate, p-norms, kernels, drift, paper."""
    from maxmargin import overview

    if markdown:
        typer.echo(overview.as_markdown())
        return
    with one_line_errors():
        require("rich", extra="cli")
        overview.show()


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """No traceback for what is not a bug: trouble with files, and Ctrl-C."""
    try:
        yield
    except OSError as error:
        fail(f"maxmargin: {error}")
    except KeyboardInterrupt:
        fail("interrupted", code=130)


def fail(message: str, code: int = 1) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(code)


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
