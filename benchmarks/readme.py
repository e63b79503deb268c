"""The speeds in README and in pages of docs, from the reports that were kept of full-size runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks import events, exact, tables
from benchmarks.harness import Key
from benchmarks.page import shown
from benchmarks.store import Kept

BEGIN, END = "<!-- measured -->", "<!-- end -->"


class Number(NamedTuple):
    """A comparison that a document quotes, in a sentence with {} for how many times as fast."""

    benchmark: str
    ours: Key
    peer: Key
    sentence: str


NUMBERS = {
    "README.md": (
        Number(
            exact.NAME,
            Key("Adult, λ = 1", exact.OURS),
            Key("Adult, λ = 1", exact.SCIKIT_LEARN),
            "Adult: `MaxMargin`, proof included, **{} times** as fast as `LinearSVC(dual=False)`.",
        ),
        Number(
            tables.NAME,
            Key(tables.CUSTOMERS, tables.OURS),
            Key(tables.CUSTOMERS, tables.SKLEARN),
            "A raw table: **{} times** as fast as scikit-learn's `ColumnTransformer` and "
            "`LinearSVC`.",
        ),
        Number(
            events.NAME,
            Key("both", "maxmargin"),
            Key("both", "river"),
            "Single events: **{} times** as fast as river's `PAClassifier`.",
        ),
    ),
    "docs/tables.md": (
        Number(
            tables.NAME,
            Key(tables.CUSTOMERS, tables.OURS),
            Key(tables.CUSTOMERS, tables.SKLEARN),
            "**{} times** as fast as pandas, a `ColumnTransformer` and "
            '`LinearSVC(class_weight="balanced")`',
        ),
        Number(
            tables.NAME,
            Key(tables.CUSTOMERS, tables.OURS),
            Key(tables.CUSTOMERS, tables.RIVER),
            "**{} times** as fast as a pipeline of river with the same columns, by its rate on "
            f"{tables.RIVER_ROWS:,} rows",
        ),
    ),
}


def sentences(numbers: Sequence[Number], kept: Kept) -> list[str]:
    """Of those numbers that a run of full size has found."""
    found = []
    for number in numbers:
        report = kept.get(number.benchmark, {"share": 0.0})
        if report["share"] == 1.0:
            pair = [list(number.ours), list(number.peer)]
            found += [
                number.sentence.format(shown(one["median"]))
                for one in report["comparisons"]
                if [one["ours"], one["peer"]] == pair
            ]
    return found


def missing(kept: Kept) -> list[str]:
    """Benchmarks that documents quote, and of which no full-size run was kept."""
    quoted = dict.fromkeys(number.benchmark for each in NUMBERS.values() for number in each)
    return [name for name in quoted if kept.get(name, {"share": 0.0})["share"] < 1.0]


def filled(text: str, numbers: Sequence[Number], kept: Kept) -> str:
    """The text of a document, with the numbers that were kept in place of others."""
    body = "".join(f"- {sentence}\n" for sentence in sentences(numbers, kept))
    section = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}\n", re.DOTALL)
    return section.sub(lambda _: f"{BEGIN}\n{body}{END}\n", text)
