"""How tables write numbers, truth values and missing values as text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from maxmargin.streams.option_errors import Message, Option

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


def remedies(name: str, value: str) -> Message:
    """The options that help with a value that is not of the kind of its column."""
    as_words, as_missing = Option("kinds", {name: "category"}), Option("na_values", [value[:40]])
    return " (", as_words, " takes the column as words, ", as_missing, " such values as missing)"


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
