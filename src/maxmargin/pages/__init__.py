"""What the pages of the command have in common: style sheet and pictures."""

from __future__ import annotations

from importlib.resources import files


def base_style() -> str:
    """The style sheet: colours for light and dark, text, pictures, tables."""
    return files(__package__).joinpath("base.css").read_text(encoding="utf-8")
