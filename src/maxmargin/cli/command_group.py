"""The group of all commands: those that other packages add, and suggestions for mistyped names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

ENTRY_POINTS = "maxmargin.commands"
# Commands and options under the names that they have in other programs.
COMMANDS = {
    "classify": "predict",
    "learn": "fit",
    "score": "evaluate",
    "test": "evaluate",
    "train": "fit",
    "validate": "evaluate",
}
# If there are several, those that the command has.
OPTIONS = {
    "--class": ("--label",),
    "--delim": ("--delimiter",),
    "--epochs": ("--passes",),
    "--features": ("--columns", "--n-features"),
    "--iterations": ("--passes",),
    "--learner": ("--algorithm",),
    "--max-iter": ("--passes",),
    "--out": ("--model",),
    "--output": ("--model",),
    "--param": ("--set",),
    "--sep": ("--delimiter",),
    "--separator": ("--delimiter",),
    "--target": ("--label",),
    "--y": ("--label",),
}


class CommandGroup(TyperGroup):
    """The commands of the library, and those that installed packages add by entry points.

    Entry points are looked up for the help and for commands that are not the library's own, so that
    the others start without reading the metadata of packages.
    """

    _looked_up = False

    def list_commands(self, ctx: Any) -> list[str]:
        self._add_entry_points()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            self._add_entry_points()
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands and args[0] in COMMANDS:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {COMMANDS[args[0]]!r}?")
        return super().resolve_command(ctx, args)

    def _add_entry_points(self) -> None:
        if self._looked_up:
            return
        self._looked_up = True
        from importlib.metadata import entry_points

        for found in entry_points(group=ENTRY_POINTS):
            if found.name not in self.commands:
                self.commands[found.name] = _as_command(found.name, found.load())


class SuggestingCommand(TyperCommand):
    """A command that suggests an option for one of another name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # The class of the error has moved between versions of typer.
            existing = [option for parameter in self.params for option in parameter.opts]
            suggested = OPTIONS.get(getattr(error, "option_name", None) or "", ())
            if possible := [option for option in suggested if option in existing]:
                error.possibilities = possible  # type: ignore[attr-defined]
            raise


def _as_command(name: str, function: Callable[..., Any]) -> Any:
    app = typer.Typer(add_completion=False)
    app.command(name, cls=SuggestingCommand)(function)
    return typer.main.get_command(app)
