"""The commands ``maxmargin reproduce`` and ``maxmargin demo``, which are entry points."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maxmargin.cli.errors import check_writable, misuse, nearest, one_line_errors, require


def complete(incomplete: str) -> list[str]:
    """For the shell."""
    from maxmargin_papers.reproduction import NAMES

    return [name for name in NAMES if name.startswith(incomplete)]


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", help="Experiments to run (default: all).", autocompletion=complete
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Make fewer runs; takes minutes.")] = False,
    out: Annotated[
        Path, typer.Option(help="Folder for results; those already in it are reused.")
    ] = Path("maxmargin-reproduction"),
    data: Annotated[
        Path | None, typer.Option(help="Folder with the real data (default: $MAXMARGIN_DATA).")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Number of processes (default: one per core).")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the experiments.")] = False,
) -> None:
    """Run the experiments of the papers and compare their numbers with ours on a page."""
    with one_line_errors():
        require("matplotlib", "jinja2", extra="plots")
        from maxmargin_papers import reproduction

        if listed:
            width = max(map(len, reproduction.NAMES))
            for name, title in reproduction.listing():
                typer.echo(f"{name:<{width}}  {title}")
            return
        names = names or []
        for name in names:
            if name not in reproduction.NAMES:
                known = list(reproduction.NAMES)
                misuse(f"there is no experiment {name!r}: {nearest(name, known)}")
        typer.echo(reproduction.reproduce(names, quick=quick, out=out, data=data, jobs=jobs))
        typer.echo(f"The page is {out / 'index.html'}.")


def demo(
    out: Annotated[Path, typer.Option(help="HTML page to write.")] = Path("maxmargin-demo.html"),
    files: Annotated[
        bool, typer.Option("--files", help="Only write customers.csv, a raw table to try fit on.")
    ] = False,
) -> None:
    """Compare learners on small data sets: tables here, and an HTML page with plots."""
    with one_line_errors():
        if files:
            from maxmargin_papers.data.customers_file import write_customers

            customers = Path("customers.csv")
            write_customers(customers)
            typer.echo(f"Try: maxmargin fit {customers} --label churned --drop id")
            return
        require("rich", extra="cli")
        require("matplotlib", "jinja2", extra="plots")
        check_writable(out)
        from maxmargin_papers.demo import run

        run(out)
