"""From the columns of a table to rows of numbers.

Numbers and booleans are one column each. Of text, each value has a column of its own, by a fixed
vocabulary or by a hash.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import murmurhash3_32

from maxmargin.streams.arrow import arrow
from maxmargin.streams.option_errors import Message, Option
from maxmargin.streams.source import StreamError

NOWHERE = -1
ROWS_IN_CACHE = 1024
# Labels of a block are an array in which each has the room of the longest.
LONGEST_LABEL = 256
# From here on two whole numbers may be the same in double precision.
LARGEST_WHOLE = 2.0**53
# Of a column of a block, in bytes.
LARGEST_TEXT = 2**30


class OneHot:
    """A column for each value of ``vocabulary``; none for other values."""

    def __init__(self, vocabulary: Mapping[str, Sequence[str]]) -> None:
        self._known = {
            name: {value: place for place, value in enumerate(dict.fromkeys(values))}
            for name, values in vocabulary.items()
        }

    def layout(self, kinds: Mapping[str, str]) -> tuple[dict[str, int], int]:
        """Where each column of the table begins in a row, in their order, and how long a row is."""
        starts, width = {}, 0
        for name, kind in kinds.items():
            starts[name] = width
            width += len(self._known[name]) if kind == "text" else 1
        return starts, width

    def places(self, name: str, values: Sequence[str]) -> list[int]:
        known = self._known[name]
        return [known.get(value, NOWHERE) for value in values]


class Hashed(NamedTuple):
    """2**bits columns for all text together, behind those of the numbers.

    The column is that of scikit-learn's ``FeatureHasher(2**bits, alternate_sign=False)`` for
    ``{name: value}``: MurmurHash3 of "name=value" in UTF-8, here with a seed. Values that meet in a
    column are added.
    """

    bits: int
    seed: int

    def options(self) -> dict[str, int]:
        return {"hash_bits": self.bits, "seed": self.seed}

    def layout(self, kinds: Mapping[str, str]) -> tuple[dict[str, int], int]:
        numbers = [name for name, kind in kinds.items() if kind != "text"]
        starts = {name: place for place, name in enumerate(numbers)}
        starts.update((name, len(numbers)) for name, kind in kinds.items() if kind == "text")
        return starts, len(numbers) + 2**self.bits

    def places(self, name: str, values: Sequence[str]) -> list[int]:
        mask = 2**self.bits - 1
        texts = (f"{name}={value}".encode() for value in values)
        return [abs(murmurhash3_32(text, self.seed)) & mask for text in texts]


class Encoder:
    """Rows of numbers from tables.

    Parameters
    ----------
    kinds : dict of str
        "number", "boolean" or "text" for each column of the table, in the order of the features.
    spread : OneHot or Hashed
        Where the values of text go.
    na_values : collection of str, default=()
        Values of text that are missing, beside the empty one.

    Attributes
    ----------
    width : int
        Number of features.
    """

    def __init__(
        self, kinds: Mapping[str, str], spread: OneHot | Hashed, na_values: Collection[str] = ()
    ) -> None:
        self._spread, self._na = spread, frozenset(na_values)
        self._starts, self.width = spread.layout(kinds)
        # In ascending order of their features, so that the entries of a row are sorted.
        self._kinds = {name: kinds[name] for name in self._starts}
        self._is_dense = "text" not in self._kinds.values()

    def encode(self, table: Any) -> tuple[Any, np.ndarray | None, None]:
        """The rows, and which of them have a number that is missing or infinite (None if none).

        None of them is to be left out without a word.
        """
        values = np.empty((table.num_rows, len(self._kinds)))
        numbers = [
            1.0 if kind == "text" else numbers_of(table[name]) for name, kind in self._kinds.items()
        ]
        side_by_side(numbers, values)
        # A sum is finite only if all its terms are; the other way round it may overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            may_be_bad = not np.isfinite(values.sum())
        bad: Any = ~np.isfinite(values).all(axis=1) if may_be_bad else np.zeros(0, bool)
        X = values if self._is_dense else self._sparse(table, values)
        return X, bad if bad.any() else None, None

    def _sparse(self, table: Any, values: np.ndarray) -> sparse.csr_matrix:
        columns = np.empty(values.shape, np.int32)
        for place, (name, kind) in enumerate(self._kinds.items()):
            columns[:, place] = self._starts[name]
            if kind == "text":
                columns[:, place] = self._columns_of_text(name, table[name])
        present = (columns != NOWHERE) & (values != 0.0)
        starts = np.zeros(len(values) + 1, np.int32)
        np.cumsum(present.sum(axis=1), out=starts[1:])
        shape = (len(values), self.width)
        X = sparse.csr_matrix((values[present], columns[present], starts), shape=shape, copy=False)
        X.sum_duplicates()
        return X

    def _columns_of_text(self, name: str, column: Any) -> np.ndarray:
        codes, texts = coded(column)
        places = np.array([*self._spread.places(name, texts), NOWHERE], np.int64)
        places[:-1][[not text or text.strip() in self._na for text in texts]] = NOWHERE
        return np.where(places == NOWHERE, NOWHERE, places + self._starts[name])[codes]

    def trouble(self, table: Any, row: int) -> tuple[str, tuple[str]]:
        """The first column whose number in ``row`` cannot be used, and why."""
        for name, kind in self._kinds.items():
            if kind != "text":
                value = numbers_of(table[name].slice(row, 1))[0]
                if not np.isfinite(value):
                    what = "missing" if np.isnan(value) else "infinite"
                    return name, (f"the number is {what}",)
        raise AssertionError("the row has no trouble")


def side_by_side(columns: Sequence[np.ndarray | float], out: np.ndarray) -> None:
    """Write columns into the first ones of a matrix; a few rows at a time stay in the cache."""
    for begin in range(0, out.shape[0], ROWS_IN_CACHE):
        rows = slice(begin, begin + ROWS_IN_CACHE)
        for place, column in enumerate(columns):
            out[rows, place] = column[rows] if isinstance(column, np.ndarray) else column


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
