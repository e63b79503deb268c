"""What all tables have in common: pyarrow, pieces of tables, and values of its columns."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from maxmargin.streams.option_errors import Message, Option
from maxmargin.streams.source import StreamError

KINDS = ("number", "boolean", "text")
WEIGHT = "weight"  # of the column with the weights of the rows, which are numbers
WRITTEN = "written"  # of numbers in text, with more than digits, or in columns of numbers
NOWHERE = -1
# Labels of a block are an array of strings, each as wide as the longest.
LONGEST_LABEL = 256
# From here on two whole numbers may be the same in double precision.
LARGEST_WHOLE = 2.0**53
# Of a column of a block, in bytes.
LARGEST_TEXT = 2**30


class Piece(NamedTuple):
    """Rows of a table that were read together."""

    table: Any  # pyarrow.Table
    end: int  # where the piece ends, in the reader's unit
    line: int  # number of lines read so far, 0 where there are no lines
    done: int  # bytes read so far, as they lie on the disk
    # Rows left out because they could not be read, by their numbers among all of the piece.
    lost: Sequence[int]
    place: Callable[[int], str]  # says where row i of the table is, for messages
    # What is wrong with the row behind the table, where reading has to end.
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
    if is_numeric(column_type) or types.is_null(column_type):
        return "number"
    return "text" if types.is_dictionary(column_type) or is_string(column_type) else None


def is_numeric(column_type: Any) -> bool:
    types = arrow("pyarrow.types")
    numeric = (types.is_integer, types.is_floating, types.is_decimal)
    return any(is_such(column_type) for is_such in numeric)


def is_string(column_type: Any) -> bool:
    types = arrow("pyarrow.types")
    is_usual = types.is_string(column_type) or types.is_large_string(column_type)
    return is_usual or str(column_type) == "string_view"


def numbers_of(column: Any) -> np.ndarray:
    """A column as numbers, with NaN for what is missing."""
    pa = arrow()
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    elif pa.types.is_decimal(column.type):  # rounded once, as text is
        column = column.cast(pa.string()).cast(pa.float64())
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


def coded(column: Any) -> tuple[np.ndarray, list[str]]:
    """Text as numbers of its distinct values; the next number stands for what is missing."""
    if arrow().types.is_dictionary(column.type):
        return _recoded(column)
    encoded = as_text(column).combine_chunks().dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    return encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False), texts


def _recoded(column: Any) -> tuple[np.ndarray, list[str]]:
    """The same for codes of another order: each value that occurs is looked at once."""
    known: dict[str, int] = {}
    parts = [np.empty(0, np.int64)]
    for chunk in column.chunks:
        used = chunk.indices.dictionary_encode()
        words = as_text(chunk.dictionary.take(used.dictionary)).to_pylist()
        numbers = [
            NOWHERE if word is None else known.setdefault(word, len(known)) for word in words
        ]
        places = used.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
        parts.append(np.array([*numbers, NOWHERE], np.int64)[places])
    codes = np.concatenate(parts)
    return np.where(codes == NOWHERE, len(known), codes), list(known)


def as_text(column: Any) -> Any:
    """Text, written out; of a few long values that occur very often that may be too much."""
    pa, pc = arrow(), arrow("pyarrow.compute")
    if pa.types.is_dictionary(column.type):
        if pa.types.is_string(column.type.value_type):
            parts = getattr(column, "chunks", None) or [column]
            lengths = (pc.binary_length(part.dictionary).take(part.indices) for part in parts)
            total = sum(pc.sum(each.cast(pa.int64())).as_py() or 0 for each in lengths)
            if total > LARGEST_TEXT:
                raise StreamError(
                    f"a few rows would take {total:,} bytes of text: its values are too long."
                )
        column = column.cast(column.type.value_type)
    return column if pa.types.is_string(column.type) else column.cast(pa.large_string())


def labels_of(
    column: Any, kind: str, na_values: Collection[str] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """A column as labels, and which of them cannot be used; see `label_trouble`."""
    if kind == "text":
        codes, texts = coded(column)
        stripped = [text.strip() for text in texts]
        unusable = [not text or text in na_values or len(text) > LONGEST_LABEL for text in stripped]
        words = ["" if bad else text for text, bad in zip(stripped, unusable, strict=True)]
        return np.array([*words, ""], dtype=np.str_)[codes], np.array([*unusable, True])[codes]
    pa = arrow()
    if not pa.types.is_boolean(column.type) and not pa.types.is_integer(column.type):
        labels = numbers_of(column)
        return labels, ~(np.abs(labels) < LARGEST_WHOLE)
    missing = column.is_null().to_numpy(zero_copy_only=False)
    filled = column.fill_null(pa.scalar(0).cast(column.type))
    return filled.to_numpy(zero_copy_only=False), missing


def label_trouble(column: Any, kind: str) -> Message:
    """Why the label in a column of one row cannot be used."""
    if kind == "text":
        letters = len((as_text(column)[0].as_py() or "").strip())
        if letters > LONGEST_LABEL:
            return (
                f"a label has {letters:,} letters, and labels have at most {LONGEST_LABEL}; name "
                "the column with the labels by ",
                Option("label", ""),
            )
    elif np.isfinite(label := numbers_of(column)[0]):
        return (
            f"a label is {label:.17g}, and numbers from 2**53 on cannot be told apart in double "
            "precision; read the labels as text: name the column a category by ",
            Option("kinds", ""),
        )
    return ("there is no label",)
