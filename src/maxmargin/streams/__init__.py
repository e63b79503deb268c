"""Blocks of rows from files of any size, pipes, tables and iterators."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from maxmargin.streams.opening import format_of as format_of
from maxmargin.streams.opening import open
from maxmargin.streams.opening import opened as opened
from maxmargin.streams.source import Block, Source, StreamError, Surprise, Survey

if TYPE_CHECKING:
    from maxmargin.streams.recipe import Recipe

__all__ = [
    "Block",
    "Recipe",
    "Source",
    "StreamError",
    "Surprise",
    "Survey",
    "open",
]

if not TYPE_CHECKING:  # or type checkers would accept any name

    def __getattr__(name: str) -> Any:
        """`Recipe` is imported on first use, with the libraries that it needs."""
        if name != "Recipe":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return importlib.import_module(f"{__name__}.recipe").Recipe
