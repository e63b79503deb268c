"""The numbers of README, from the reports that were kept of runs of full size."""

from __future__ import annotations

import re
from typing import NamedTuple

from benchmarks import events, exact, tables
from benchmarks.harness import Key
from benchmarks.page import shown
from benchmarks.store import Kept

BEGIN, END = "<!-- measured -->", "<!-- end -->"


class Number(NamedTuple):
    """A comparison that README tells of, in a sentence with {} for how many times as fast."""

    benchmark: str
    ours: Key
    peer: Key
    sentence: str


NUMBERS = (
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
        "A raw table: **{} times** as fast as scikit-learn's `ColumnTransformer` and `LinearSVC`.",
    ),
    Number(
        events.NAME,
        Key("both", "maxmargin"),
        Key("both", "river"),
        "Single events: **{} times** as fast as river's `PAClassifier`.",
    ),
)


def sentences(kept: Kept) -> list[str]:
    """Of those numbers that a run of full size has found."""
    found = []
    for number in NUMBERS:
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
    """Benchmarks that README waits for."""
    return [
        number.benchmark
        for number in NUMBERS
        if kept.get(number.benchmark, {"share": 0.0})["share"] < 1.0
    ]


def filled(readme: str, kept: Kept) -> str:
    """README with the numbers that were kept in place of others."""
    body = "".join(f"- {sentence}\n" for sentence in sentences(kept))
    section = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}\n", re.DOTALL)
    return section.sub(lambda _: f"{BEGIN}\n{body}{END}\n", readme)
