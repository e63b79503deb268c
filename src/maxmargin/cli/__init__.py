"""The command ``maxmargin``.

Whatever takes time to import is imported by the commands that need it.
"""

from __future__ import annotations

import gc
import sys
from typing import Annotated

from maxmargin import __version__

try:
    import typer
except ModuleNotFoundError:
    MISSING = "this command needs typer: pip install 'maxmargin[cli]'"
    if sys.argv[1:] in (["--help"], ["--version"]):
        print(f"maxmargin {__version__}: {MISSING}")
        sys.exit(0)
    sys.exit(f"maxmargin: {MISSING}")

from maxmargin.cli.algorithms import algorithms
from maxmargin.cli.command_group import CommandGroup
from maxmargin.cli.errors import one_line_usage
from maxmargin.cli.evaluate import evaluate
from maxmargin.cli.fit import fit
from maxmargin.cli.info import info
from maxmargin.cli.output import write_completely
from maxmargin.cli.predict import predict
from maxmargin.cli.replay import replay
from maxmargin.cli.report import report
from maxmargin.cli.serve import serve
from maxmargin.cli.warmup import warmup

# The default is a few hundred to a few thousand new objects.
OBJECTS_BETWEEN_COLLECTIONS = 100_000

app = typer.Typer(
    help="Online large-margin classification, with a certificate for every fit.",
    no_args_is_help=True,
    cls=CommandGroup,
    pretty_exceptions_enable=False,
)


def main() -> None:
    write_completely()
    # Imported modules are never garbage: scanning them again and again while others are imported,
    # and once more at the end, would take a fifth of the time of a short command.
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, *gc.get_threshold()[1:])
    try:
        with one_line_usage():
            code = app(prog_name="maxmargin", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    finally:
        gc.freeze()


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


for command in (fit, predict, evaluate, report, serve, replay, info, algorithms, warmup):
    app.command()(command)
