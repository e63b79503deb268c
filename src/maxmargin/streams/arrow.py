"""What all tables have in common: pyarrow, pieces of tables, and kinds of columns."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from maxmargin.streams.source import StreamError

KINDS = ("number", "boolean", "text")
WEIGHT = "weight"  # of the column with the weights of the rows, which are numbers
WRITTEN = "written"  # of numbers in text, with more than digits, or in columns of numbers


class Piece(NamedTuple):
    """Rows of a table that were read together.

    Attributes
    ----------
    table : pyarrow.Table
    end : where the piece ends, in the reader's unit
    line : number of lines read so far, 0 where there are no lines
    done : bytes read so far, as they lie on the disk
    lost : rows left out because they could not be read, by their numbers among all of the piece
    place : says where row i of the table is, for messages
    error : what is wrong with the row behind the table, where reading has to end
    """

    table: Any
    end: int
    line: int
    done: int
    lost: Sequence[int]
    place: Callable[[int], str]
    error: StreamError | None = None


def arrow(module: str = "pyarrow") -> Any:
    """pyarrow or a module of it, which is loaded only where a table is read."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise StreamError(
            "tables and recipes need pyarrow: pip install 'maxmargin[streams]'"
        ) from None


def place_behind(rows: int) -> Callable[[int], str]:
    """Names row i of a piece with so many rows before it."""
    return lambda row: f"row {rows + row + 1}"


def kind_of(column_type: Any) -> str | None:
    """The kind of a column by its Arrow type; None for dates, lists and other things."""
    types = arrow("pyarrow.types")
    if types.is_boolean(column_type):
        return "boolean"
    if any(
        is_such(column_type)
        for is_such in (types.is_integer, types.is_floating, types.is_decimal, types.is_null)
    ):
        return "number"
    if any(
        is_such(column_type)
        for is_such in (types.is_dictionary, types.is_string, types.is_large_string)
    ):
        return "text"
    return "text" if str(column_type) == "string_view" else None
