"""What readers of tables give, values of columns of Arrow, and how text spells them."""

from __future__ import annotations

import abc
import importlib
import re
from collections import Counter
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np

from maxmargin.streams.source import StreamError

KINDS = ("number", "boolean", "text")
WEIGHT = "weight"  # the kind of a column of sample weights
NAMES = "names"  # the kind of a column of text in which numbers are an error
NOWHERE = -1
# Labels of a block are an array of strings, all as wide as the longest.
LONGEST_LABEL = 256
# From here on, integers are not exact in double precision.
LARGEST_WHOLE = 2.0**53
LARGEST_TEXT = 2**30  # of a column of a block, in bytes
MOST_NAMES = 20  # in a message
# A column is numeric if this share of its values is: the others are errors.
ENOUGH_NUMBERS = 0.9
# Leading zeros occur in zip codes and other identifiers, not in numbers.
LEADING_ZERO = re.compile(r"[+-]?0\d+", re.ASCII)
# The missing values of pandas, and the "?" of the UCI repository.
MISSING = (
    *("", "?", "NA", "N/A", "n/a", "<NA>", "#NA", "#N/A", "#N/A N/A", "null", "NULL", "None"),
    *("NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
TRUE, FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")
NUMBER = re.compile(
    r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?|nan)", re.ASCII | re.IGNORECASE
)


class Piece(NamedTuple):
    """Some rows of a table."""

    table: Any  # pyarrow.Table
    done: int = 0  # bytes read so far, as stored on disk
    lost: Sequence[int] = ()  # indices of rows that were skipped, among all rows read so far


class TableReader(abc.ABC):
    """Rows in named columns, as Arrow tables."""

    name: str  # for messages
    total: int | None = None  # size in bytes, if known
    rows: int | None = None  # number of rows, if it is known without reading them
    repeatable: bool = True  # whether it can be read more than once
    is_threaded: bool = True  # whether another thread may read it

    @abc.abstractmethod
    def kinds(self) -> dict[str, str | None]:
        """The columns and their kinds: "number", "boolean", "text", or None for other types."""

    @abc.abstractmethod
    def pieces(self, kinds: Mapping[str, str], rows: int) -> Generator[Piece, None, None]:
        """All rows, preferably so many at once; these columns, where text is of such kinds."""

    def first(self, kinds: Mapping[str, str], rows: int) -> Generator[Piece, None, None]:
        """The first rows, perhaps all of them; `pieces` has them as well."""
        return self.pieces(kinds, rows)

    @abc.abstractmethod
    def identity(self) -> str:
        """See `Source.identity`."""


def arrow(module: str = "pyarrow") -> Any:
    """pyarrow or a module of it, imported only where a table is read."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        raise StreamError(
            "tables and recipes need pyarrow: pip install 'maxmargin[streams]'"
        ) from None


def learned_as_text(name: str, found: str) -> str:
    """The message for a column of text that has turned into another kind."""
    return (
        f"column {name!r} was learned as text, and is {found} here: keep it as text when it is "
        f"read, such as by pandas.read_csv(..., dtype={ {name: 'str'}!r})"
    )


def kind_of(column_type: Any) -> str | None:
    """The kind of a column by its Arrow type; None for dates, lists and other types."""
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
    """A column as numbers, NaN where they are missing."""
    pa = arrow()
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan)
    if is_string(column.type):  # of CSV whose invalid rows are skipped
        texts = (value.strip() if value else "" for value in column.to_pylist())
        return np.array([float(each) if is_number(each) else np.nan for each in texts])
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    elif pa.types.is_decimal(column.type):  # rounded once, as text is
        column = column.cast(pa.string()).cast(pa.float64())
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


def coded(column: Any) -> tuple[np.ndarray, list[str]]:
    """Text as codes of its distinct values, and these; the next code means a missing value."""
    if arrow().types.is_dictionary(column.type):
        return _recoded(column)
    encoded = as_text(column).combine_chunks().dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    return encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False), texts


def _recoded(column: Any) -> tuple[np.ndarray, list[str]]:
    """The same for a column of codes, which are renumbered."""
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
    """A column as text; raises if frequent long values would take too much memory."""
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
    """A column as labels, and which of them are invalid; see `label_trouble`."""
    if kind == "text":
        codes, texts = coded(column)
        stripped = [text.strip() for text in texts]
        unusable = [not text or text in na_values or len(text) > LONGEST_LABEL for text in stripped]
        words = ["" if bad else text for text, bad in zip(stripped, unusable, strict=True)]
        return np.array([*words, ""], dtype=np.str_)[codes], np.array([*unusable, True])[codes]
    pa = arrow()
    if kind == "boolean" and is_string(column.type):  # of CSV whose invalid rows are skipped
        known = {**dict.fromkeys(TRUE, True), **dict.fromkeys(FALSE, False)}
        column = pa.array([known.get(text.strip()) for text in column.to_pylist()], pa.bool_())
    if not pa.types.is_boolean(column.type) and not pa.types.is_integer(column.type):
        labels = numbers_of(column)
        return labels, ~(np.abs(labels) < LARGEST_WHOLE)
    missing = column.is_null().to_numpy(zero_copy_only=False)
    filled = column.fill_null(pa.scalar(0).cast(column.type))
    return filled.to_numpy(zero_copy_only=False), missing


def label_trouble(column: Any, kind: str) -> str:
    """Why the label in a column of one row is invalid."""
    if kind == "text":
        letters = len((as_text(column)[0].as_py() or "").strip())
        if letters > LONGEST_LABEL:
            return (
                f"a label has {letters:,} letters, and labels have at most {LONGEST_LABEL}; name "
                "the column with the labels by label="
            )
    elif np.isfinite(label := numbers_of(column)[0]):
        return (
            f"a label is {label:.17g}, and numbers from 2**53 on cannot be told apart in double "
            "precision; read the labels as text: name the column a category by kinds="
        )
    return "there is no label"


@contextmanager
def as_stream_errors(name: str) -> Iterator[None]:
    """Errors of pyarrow about a damaged file, with its name."""
    try:
        yield
    except MemoryError:
        raise  # some of pyarrow's are ArrowExceptions as well
    except (arrow().ArrowException, UnicodeDecodeError) as error:
        raise StreamError(f"{name}: {error}") from error


# ---------------------------------------------------------------------------------- values as text
def remedies(name: str, value: str) -> str:
    """The options that help with a value that is not of the kind of its column."""
    kinds, missing = {name: "category"}, [value[:40]]
    return f" ({kinds=!r} takes the column as words, na_values={missing!r} such values as missing)"


def kind_of_values(
    values: Sequence[str], decimal: str = ".", missing: Sequence[str] = MISSING
) -> str:
    """The kind of a column with these values."""
    counts = Counter(value for value in map(str.strip, values) if value not in missing)
    if counts and all(value in TRUE or value in FALSE for value in counts):
        return "boolean"
    if any(LEADING_ZERO.fullmatch(value) for value in counts):
        return "text"
    numbers = [is_number(value, decimal) for value in counts]
    return "number" if are_enough(numbers, list(counts.values())) else "text"


def are_enough(fit: Sequence[bool] | np.ndarray, counts: Sequence[int] | np.ndarray) -> bool:
    """Whether nearly all values fit, or nearly all distinct ones.

    ``fit`` and ``counts`` belong to the distinct values. Errors are rare among all values, and
    spellings of missing values are few of the distinct ones.
    """
    if not len(counts):
        return True
    shares = np.mean(fit), np.average(fit, weights=counts)
    return bool(max(shares) >= ENOUGH_NUMBERS)


def is_number(value: str, decimal: str = ".") -> bool:
    if decimal == ",":
        value = value.translate(str.maketrans(",.", ".,"))
    return NUMBER.fullmatch(value) is not None


# ----------------------------------------------------------------------------------------- options
def check_na_values(values: Any) -> None:
    if isinstance(values, str) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"na_values= must be a list of texts; got {values!r}.")


def no_column(place: str | int, names: Sequence[str]) -> str:
    """The message about a missing column, with those that exist and a suggestion."""
    cases = {name.lower(): name for name in names}
    close = get_close_matches(str(place).lower(), cases, n=1, cutoff=0.5)
    hint = f" (did you mean {cases[close[0]]!r}?)" if close and isinstance(place, str) else ""
    return f"no column {place!r}; there are {listed(names)}{hint}."


def listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:MOST_NAMES]))
    return shown + (f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else "")
