"""``maxmargin reproduce``: the tables and figures of the papers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maxmargin.cli.errors import misuse, nearest, one_line_errors, require


def complete(incomplete: str) -> list[str]:
    """For the shell."""
    from maxmargin.experiments import NAMES

    return [name for name in NAMES if name.startswith(incomplete)]


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Which; else all.", autocompletion=complete),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer runs: minutes in all.")] = False,
    out: Annotated[
        Path, typer.Option(help="Folder for the page and all numbers; what it has is not redone.")
    ] = Path("maxmargin-reproduction"),
    data: Annotated[
        Path | None, typer.Option(help="Folder with the real data; else MAXMARGIN_DATA.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes; else one for each core.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Say what there is.")] = False,
) -> None:
    """Run the experiments of the papers, and show their numbers beside ours on a page."""
    with one_line_errors():
        require("matplotlib", "jinja2", extra="plots")
        from maxmargin import experiments

        if listed:
            width = max(map(len, experiments.NAMES))
            for name, title in experiments.listing():
                typer.echo(f"{name:<{width}}  {title}")
            return
        names = names or []
        for name in names:
            if name not in experiments.NAMES:
                misuse(f"there is no experiment {name!r}: {nearest(name, list(experiments.NAMES))}")
        typer.echo(experiments.reproduce(names, quick=quick, out=out, data=data, jobs=jobs))
        typer.echo(f"The page is {out / 'index.html'}.")
