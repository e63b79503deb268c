"""Commands and options by the names that they have elsewhere: what may have been meant."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

COMMANDS = {
    "classify": "predict",
    "learn": "fit",
    "score": "evaluate",
    "test": "evaluate",
    "train": "fit",
    "validate": "evaluate",
}
# Of several, those that the command has.
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


class SuggestingGroup(TyperGroup):
    """Commands, of which one with another name is suggested."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        meant = COMMANDS.get(args[0]) if args[0] not in self.commands else None
        if meant is not None:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {meant!r}?")
        return super().resolve_command(ctx, args)


class SuggestingCommand(TyperCommand):
    """A command, of which an option with another name is suggested."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # The class of the error has moved between versions of typer.
            known = [option for parameter in self.params for option in parameter.opts]
            meant = OPTIONS.get(getattr(error, "option_name", None) or "", ())
            if there := [option for option in meant if option in known]:
                error.possibilities = there  # type: ignore[attr-defined]
            raise
