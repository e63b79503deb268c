"""The group of all commands, with those that other packages add."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
import typer.main
from typer.core import TyperGroup

ENTRY_POINTS = "maxmargin.commands"


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

    def _add_entry_points(self) -> None:
        if self._looked_up:
            return
        self._looked_up = True
        from importlib.metadata import entry_points

        for found in entry_points(group=ENTRY_POINTS):
            if found.name not in self.commands:
                self.commands[found.name] = _as_command(found.name, found.load())


def _as_command(name: str, function: Callable[..., Any]) -> Any:
    app = typer.Typer(add_completion=False)
    app.command(name)(function)
    return typer.main.get_command(app)
