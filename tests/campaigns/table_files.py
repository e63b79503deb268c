"""Random raw tables, in all formats: their features are those of a naive reference, row by row.

python tests/campaigns/table_files.py 20000 --seed 1
"""

from __future__ import annotations

import argparse
import csv
import datetime
import gzip
import io
import math
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer

from maxmargin import Perceptron, load, save, streams
from maxmargin.streams import Recipe
from maxmargin.streams.spellings import MISSING

try:
    import polars as pl
except ModuleNotFoundError:
    pl = None

Chance = random.Random
NAMES = ("x", "X", "x ", "x=1", "a b", "é", "q'q", "x,y", 'say "x"', "", "漢", "x*z", "x.1", "0")
WORDS = ("Rome", "ulm", "Łódź", "a b", "x,y", 'say "no"', "two\nlines", "1", "1.0", "true", "漢 字")
SENTENCES = ("good", "Bad", "grüße", "so", "late;", "a", '"b"', "x\ny", "don't", "12", "_u", "İ")
DAY = datetime.datetime(1970, 1, 1)
FORMATS = ("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%Y/%m/%d %H:%M", "%d-%m-%y", "%Y-%m-%d %H:%M:%S")
ZONE = datetime.timezone(datetime.timedelta(hours=2))
SMALL = 1e-150  # squares of smaller deviations are 0


class Column(NamedTuple):
    """A column in all the ways in which it is written.

    Attributes
    ----------
    name : str
    said : str
        The kind that the recipe is told.
    meant : list
        None where it is missing; a float, a bool, a text, a time.
    texts : list of str
        In CSV, and wherever all is text.
    typed : pyarrow.Array
        In files and frames with types.
    objects : list
        In dicts.
    """

    name: str
    said: str
    meant: list[Any]
    texts: list[str]
    typed: pa.Array
    objects: list[Any]


class Table(NamedTuple):
    columns: list[Column]
    labels: list[str]
    decimal: str
    recipe: Recipe

    @property
    def rows(self) -> int:
        return len(self.labels)


# ----------------------------------------------------------------------------------------- columns
def number(chance: Chance, gaps: list[bool], decimal: str) -> tuple[Any, ...]:
    style = chance.choice(tuple(NUMBERS))
    draw = NUMBERS[style]
    same = draw(chance) if chance.random() < 0.1 else None
    drawn = [same if same is not None else draw(chance) for _ in gaps]
    values = [None if gap else value for gap, value in zip(gaps, drawn, strict=True)]
    meant = [None if value is None else float(value) for value in values]
    kinds = {"whole": pa.int64(), "large": pa.int64(), "short": pa.float32(), "byte": pa.uint8()}
    kinds["exact"] = pa.decimal128(12, 3)
    if style == "amount":
        amount = [_amount(chance, value, decimal) for value in values]
        return "number", meant, amount, pa.array(amount), list(amount)
    texts = [_spelled(chance, value, decimal) for value in values]
    typed = pa.array(values, kinds.get(style, pa.float64()))
    if chance.random() < 0.1:
        typed = typed.dictionary_encode()
    return "number", meant, texts, typed, values


NUMBERS: dict[str, Callable[[Chance], Any]] = {
    "plain": lambda chance: round(chance.gauss(5.0, 3.0), chance.choice((1, 3, 12))),
    "wide": lambda chance: chance.gauss(0.0, 1.0) * 10.0 ** chance.randint(-90, 90),
    "near": lambda chance: 1e6 + chance.random(),
    "tiny": lambda chance: chance.choice((4.9e-324, -1e-310, 1e-200, 0.0, -0.0)),
    "whole": lambda chance: chance.randint(-100, 100),
    "large": lambda chance: chance.choice((-1, 1)) * (2**53 + chance.randint(0, 2**62)),
    "byte": lambda chance: chance.randint(0, 255),
    "short": lambda chance: float(np.float32(chance.gauss(0.0, 1.0))),
    "exact": lambda chance: Decimal(chance.randint(-(10**9), 10**9)).scaleb(-3),
    "amount": lambda chance: round(chance.gauss(0.0, 1.0) * 10.0 ** chance.randint(0, 7), 2),
}


def _spelled(chance: Chance, value: Any, decimal: str) -> str:
    if value is None:
        return chance.choice(MISSING)
    text = str(value) if not isinstance(value, float) else repr(value)
    text = chance.choice((text, text, text, f" {text}", f"{text} ", text.upper()))
    return text.replace(".", decimal)


def _amount(chance: Chance, value: float | None, decimal: str) -> str:
    if value is None:
        return chance.choice(MISSING)
    digits = f"{abs(value):,.2f}" if chance.random() < 0.7 else f"{abs(value):.2f}"
    if decimal == ",":
        digits = digits.translate(str.maketrans(",.", ".,"))
    elif chance.random() < 0.3:
        digits = digits.replace(",", chance.choice(("'", " ", "\u00a0", "\u202f")))
    before, behind = chance.choice((("$", ""), ("€ ", ""), ("", " %"), ("", " EUR"), ("USD ", "")))
    if value < 0 and chance.random() < 0.3:
        return f"({before}{digits}{behind})"
    sign = "-" if value < 0 else chance.choice(("", "", "+"))
    return f"{sign}{before}{digits}{behind}" if chance.random() < 0.7 else f"{sign}{digits}"


def boolean(chance: Chance, gaps: list[bool], decimal: str) -> tuple[Any, ...]:
    meant = [None if gap else chance.random() < 0.4 for gap in gaps]
    words = chance.choice((("false", "true"), ("False", "True"), ("FALSE", "TRUE"), ("0", "1")))
    texts = [chance.choice(MISSING) if each is None else words[each] for each in meant]
    typed = pa.array(meant, pa.bool_())
    return "boolean", meant, texts, typed if words[0] != "0" else typed.cast(pa.int8()), meant


def category(chance: Chance, gaps: list[bool], decimal: str) -> tuple[Any, ...]:
    many = [f"v{k}" for k in range(40)]
    values = chance.choice((WORDS[:2], WORDS, many, WORDS[:1]))
    meant = [None if gap else chance.choice(values) for gap in gaps]
    texts = [chance.choice(MISSING) if each is None else each for each in meant]
    padded = [f" {each} " if chance.random() < 0.1 else each for each in texts]
    typed = pa.array(meant, chance.choice((pa.string(), pa.large_string())))
    if chance.random() < 0.4:
        typed = typed.dictionary_encode()
    return chance.choice(("category", "category", "hashed")), meant, padded, typed, padded


def coded(chance: Chance, gaps: list[bool], decimal: str) -> tuple[Any, ...]:
    """Whole numbers and truth values that are names."""
    numbers = [None if gap else chance.randint(0, 4) for gap in gaps]
    meant = [None if each is None else str(each) for each in numbers]
    texts = [chance.choice(MISSING) if each is None else each for each in meant]
    kind = chance.choice((pa.int64(), pa.float64(), pa.uint8()))
    floats = [None if each is None else float(each) for each in numbers]
    return "category", meant, texts, pa.array(numbers, kind), chance.choice((numbers, floats))


def text(chance: Chance, gaps: list[bool], decimal: str) -> tuple[Any, ...]:
    meant = [
        None
        if gap
        else chance.choice(" \n,").join(chance.choices(SENTENCES, k=chance.randint(0, 9)))
        for gap in gaps
    ]
    # Nothing is told from no words.
    meant = [None if each is None or each.strip() in MISSING else each for each in meant]
    texts = ["" if each is None else each for each in meant]
    return "text", meant, texts, pa.array(meant, pa.string()), meant


def date(chance: Chance, gaps: list[bool], decimal: str) -> tuple[Any, ...]:
    format = chance.choice(FORMATS)
    has_time = "%H" in format
    values = [None if gap else _time(chance, format, has_time) for gap in gaps]
    texts = [chance.choice(MISSING) if each is None else each.strftime(format) for each in values]
    said = "date" if format.startswith("%Y-%m-%d") else f"date:{format}"
    if not has_time and chance.random() < 0.5:
        typed = pa.array(values, pa.timestamp("s")).cast(chance.choice((pa.date32(), pa.date64())))
        days = [None if each is None else each.date() for each in values]
        return said, values, texts, typed, days
    zone = chance.choice((None, None, "+02:00"))
    typed = pa.array(values, pa.timestamp(chance.choice(("s", "ms", "us"))))
    objects = list(values)
    if zone is not None:
        here = [None if each is None else each.replace(tzinfo=ZONE) for each in values]
        typed, objects = pa.array(here, pa.timestamp("us", zone)), here
    return said, values, texts, typed, objects


def _time(chance: Chance, format: str, has_time: bool) -> datetime.datetime:
    years = (1970, 2065) if "%y" in format else (1900, 2200)
    day = datetime.datetime(chance.randint(*years), 1, 1)
    day += datetime.timedelta(days=chance.randint(0, 364))
    if not has_time or chance.random() < 0.1:
        return day
    seconds = chance.randint(0, 59) if "%S" in format else 0
    return day.replace(hour=chance.randint(0, 23), minute=chance.randint(0, 59), second=seconds)


MAKERS = (number, number, number, boolean, category, category, coded, text, date)


def random_table(chance: Chance) -> Table:
    rows = chance.choice((1, 2, 3, 5, 12, 12, 40))
    width = chance.choice((1, 2, 3, 5, 8)) if chance.random() < 0.99 else 300
    decimal = "," if chance.random() < 0.15 else "."
    if width > len(NAMES):
        names = [f"c{k}" for k in range(width)]
    else:
        names = list(dict.fromkeys(name.strip() for name in chance.sample(NAMES, width)))
    columns = []
    for name in names:
        share = chance.choice((0.0, 0.0, 0.2, 0.6, 1.0))
        gaps = [chance.random() < share for _ in range(rows)]
        columns.append(Column(name, *chance.choice(MAKERS)(chance, gaps, decimal)))
    labels = [chance.choice(("no", "yes")) for _ in range(rows)]
    crossable = [column.name for column in columns if column.said != "text"]
    pairs = [tuple(chance.sample(crossable, 2))] if len(crossable) > 1 else []
    recipe = Recipe(
        {column.name: column.said for column in columns},
        scale=chance.random() < 0.8,
        max_categories=chance.choice((1, 3, 50)),
        hash_bits=chance.choice((1, 4, 10)),
        seed=chance.choice((0, 7)),
        categories=chance.choice(("one-hot", "one-hot", "hash")),
        interactions=pairs if chance.random() < 0.3 else [],
        decimal=decimal,
    )
    return Table(columns, labels, decimal, recipe)


# --------------------------------------------------------------------------------------- reference
class Features:
    """The features of one row after another, by their names, as the docstring of Recipe has it."""

    def __init__(self, table: Table) -> None:
        self.recipe, self.columns = table.recipe, table.columns
        self.flagged = {c.name for c in table.columns if any(v is None for v in c.meant)}
        self.seen: dict[str, list[float]] = {column.name: [] for column in table.columns}
        self.values: dict[str, list[str]] = {column.name: [] for column in table.columns}
        self.hour = {c.name for c in table.columns if self._has_hour(c)}
        self.words = HashingVectorizer().build_analyzer()
        self.hashed_name = self._hashed_name()
        # How far numbers may be off, because deviations are small beside the numbers.
        self.slack: dict[str, float] = {}

    def _hashed_name(self) -> str:
        kinds = {column.name: column.said.partition(":")[0] for column in self.columns}
        hashed = ("hashed", "category") if self.recipe.categories == "hash" else ("hashed",)
        others = [name for name, kind in kinds.items() if kind in hashed]
        others += [f"{one}*{other}" for one, other in self.recipe.interactions]
        words = [name for name, kind in kinds.items() if kind == "text"]
        return f"{', '.join(words + others)}: hashed {'value' if others else 'word'}"

    def _has_hour(self, column: Column) -> bool:
        if not column.said.startswith("date"):
            return False
        days = [each for each in column.meant if each is not None]
        return "%H" in column.said or any(each.time() != datetime.time() for each in days)

    def of_row(self, i: int) -> tuple[dict[str, float], dict[str, float]]:
        """Features, and by how much they may be off."""
        row, slack, hashed = dict[str, float](), dict[str, float](), Counter[str]()
        shown: dict[str, tuple[str, float]] = {}
        off = dict.fromkeys((column.name for column in self.columns), 0.0)
        for column in self.columns:
            name, value = column.name, column.meant[i]
            kind = column.said.partition(":")[0]
            if kind in ("number", "boolean", "date"):
                number = self._days(value) if kind == "date" else value
                row[name], off[name] = self._number(name, number, kind != "boolean")
                slack[name], shown[name] = off[name], (name, row[name])
                if name in self.flagged:
                    row[f"{name} is missing"] = float(value is None)
                if kind == "date" and value is not None:
                    row[f"{name} month {value.month}"] = 1.0
                    row[f"{name} weekday {value.isoweekday()}"] = 1.0
                    if name in self.hour:
                        row[f"{name} hour {value.hour}"] = 1.0
            elif kind == "text":
                self._add_words(hashed, name, value or "")
            else:
                shown[name] = (f"{name}={value or ''}", 1.0)
                if kind == "hashed" or self.recipe.categories == "hash":
                    hashed[shown[name][0]] += 1.0
                else:
                    row[self._value(name, value)] = 1.0
        for one, other in self.recipe.interactions:
            (first, x), (second, z) = shown[one], shown[other]
            hashed[f"{first}*{second}"] += x * z
            off["hash"] = off.get("hash", 0.0) + off[one] * (1 + abs(z)) + off[other] * (1 + abs(x))
        self._add_hashed(row, hashed)
        slack.update(
            (name, off.get("hash", 0.0)) for name in row if name.startswith(f"{self.hashed_name} ")
        )
        return row, slack

    def _days(self, value: datetime.datetime | None) -> float | None:
        return None if value is None else (value - DAY).total_seconds() / 86400

    def _number(self, name: str, value: Any, scaled: bool) -> tuple[float, float]:
        seen = self.seen[name]
        if value is not None:
            seen.append(float(value))
        mean = math.fsum(seen) / len(seen) if seen else 0.0
        largest = max(map(abs, seen), default=0.0)
        if not (scaled and self.recipe.scale):
            return (mean, 1e-13 * largest) if value is None else (float(value), 0.0)
        if value is None or len(set(seen)) == 1:
            return 0.0, 0.0
        deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in seen) / len(seen))
        if deviation < SMALL:
            return 0.0, math.inf
        return (value - mean) / deviation, 1e-13 * largest / deviation

    def _value(self, name: str, value: str | None) -> str:
        known = self.values[name]
        if value is None:
            return f"{name} is missing"
        if value not in known and len(known) < self.recipe.max_categories:
            known.append(value)
        return f"{name}={value}" if value in known else f"{name} is another"

    def _add_words(self, hashed: Counter[str], name: str, value: str) -> None:
        """Words that meet in a column are added before the row gets length 1."""
        places = Counter(self._place(f"{name}={word}") for word in self.words(value))
        length = math.sqrt(sum(count**2 for count in places.values()))
        for place, count in places.items():
            hashed[f"\0{place}"] += count / length

    def _add_hashed(self, row: dict[str, float], hashed: Counter[str]) -> None:
        for key, value in hashed.items():
            place = int(key[1:]) if key.startswith("\0") else self._place(key)
            name = f"{self.hashed_name} {place}"
            row[name] = row.get(name, 0.0) + value

    def _place(self, key: str) -> int:
        return murmur(key.encode(), self.recipe.seed) % 2**self.recipe.hash_bits


def murmur(data: bytes, seed: int) -> int:
    """MurmurHash3 (x86, 32 bits) by A. Appleby, and of that the size as a signed number."""
    h, mask = seed, 0xFFFFFFFF
    whole = len(data) // 4 * 4
    for at in range(0, len(data), 4):
        k = int.from_bytes(data[at : at + 4], "little") * 0xCC9E2D51 & mask
        k = (k << 15 | k >> 17) * 0x1B873593 & mask
        h ^= k & mask
        if at < whole:
            h = (h << 13 | h >> 19) & mask
            h = h * 5 + 0xE6546B64 & mask
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return 2**32 - h if h >= 2**31 else h


# ----------------------------------------------------------------------------------------- formats
def in_polars(column: Any) -> Any:
    """Of dictionaries, polars knew those of words first."""
    try:
        return pl.from_arrow(column)
    except pl.exceptions.ComputeError:
        return pl.from_arrow(column.cast(column.type.value_type))


def written(chance: Chance, table: Table, format: str, folder: Path) -> tuple[Any, dict[str, Any]]:
    """What `streams.open` takes, and its options."""
    options: dict[str, Any] = {"label": "label", "block_size": chance.choice((1, 300, 2000, 2**22))}
    typed = pa.table(
        [*(column.typed for column in table.columns), pa.array(table.labels)],
        names=[*(column.name for column in table.columns), "label"],
    )
    if format in ("csv", "csv.gz"):
        path = folder / f"table.{format}"
        # Of a header such as "x,y;label" nobody could tell.
        options["delimiter"] = ";" if table.decimal == "," else ","
        return csv_file(chance, table, path), options | {"decimal": table.decimal, "header": True}
    if format == "parquet":
        rows = chance.choice((1, 3, 100))
        pyarrow.parquet.write_table(typed, folder / "table.parquet", row_group_size=rows)
        return folder / "table.parquet", options
    if format == "arrow":
        pyarrow.feather.write_feather(
            typed, folder / "table.arrow", chunksize=chance.choice((1, 9))
        )
        return folder / "table.arrow", options
    if format == "texts":
        texts = {column.name: pd.Series(column.texts, dtype=str) for column in table.columns}
        return pd.DataFrame({**texts, "label": table.labels}), options
    if format == "dicts":
        return dicts(chance, table), {}
    if format == "polars" and pl is not None:
        # A table at once would get other names for columns without one.
        return pl.DataFrame({n: in_polars(typed[n]) for n in typed.column_names}), options
    return typed if format == "table" else typed.to_pandas(types_mapper=pd.ArrowDtype), options


FORMATS_OF_TABLES = (
    "csv",
    "csv.gz",
    "parquet",
    "arrow",
    "texts",
    "dicts",
    "polars",
    "table",
    "pandas",
)


def csv_file(chance: Chance, table: Table, path: Path) -> Path:
    delimiter = ";" if table.decimal == "," else ","
    file = io.StringIO(newline="")
    quoting = chance.choice((csv.QUOTE_ALL, csv.QUOTE_MINIMAL))
    writer = csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator="\r\n")
    writer.writerow([*(column.name for column in table.columns), "label"])
    for i in range(table.rows):
        writer.writerow([*(column.texts[i] for column in table.columns), table.labels[i]])
    content = file.getvalue().encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def dicts(chance: Chance, table: Table) -> list[tuple[dict[str, Any], str]]:
    rows = []
    for i in range(table.rows):
        row = {column.name: column.objects[i] for column in table.columns}
        for name in [name for name, value in row.items() if value is None]:
            row[name] = chance.choice((None, math.nan, pd.NA))
            if i and chance.random() < 0.3:  # the first row has all names
                del row[name]
        rows.append((row, table.labels[i]))
    return rows


def features_of(source: Any) -> sparse.csr_matrix:
    return prepared(source)[0]


def prepared(source: Any) -> tuple[sparse.csr_matrix, Any]:
    """All rows, and what the recipe knows behind them."""
    blocks = list(source.blocks())
    X = sparse.vstack([sparse.csr_matrix(block.X) for block in blocks]).tocsr()
    return X, blocks[-1].recipe


def same(X: Any, Z: Any) -> None:
    X, Z = sparse.csr_matrix(X), sparse.csr_matrix(Z)
    assert X.shape == Z.shape, (X.shape, Z.shape)
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(X, name), getattr(Z, name))


# ------------------------------------------------------------------------------------------ checks
def check_said(chance: Chance, table: Table, folder: Path) -> None:
    """Kinds are said: features are those of the reference, whatever the format and the blocks."""
    formats = chance.sample(FORMATS_OF_TABLES, 2)
    first = None
    for format in formats:
        rows, options = written(chance, table, format, folder)
        source = streams.open(rows, recipe=table.recipe, **options)
        X, known = prepared(source)
        if first is None:
            first = X
            recipe = source.schema()["recipe"]
            check_reference(table, X, recipe.at(recipe.plan_, known))
        try:
            same(X, first)
        except AssertionError as error:
            raise AssertionError(f"{format} with {options}, and {formats[0]}") from error


def check_reference(table: Table, X: sparse.csr_matrix, recipe: Recipe) -> None:
    names = recipe.get_feature_names_out().tolist()
    if any(name.endswith(" (2)") for name in names):
        return  # of two features of one name, the reference knows one
    features = Features(table)
    for i in range(table.rows):
        row = X[i]
        assert row.has_sorted_indices
        found = {names[k]: value for k, value in zip(row.indices, row.data, strict=True)}
        expected, slack = features.of_row(i)
        for name in found.keys() | expected.keys():
            one, other = found.get(name, 0.0), expected.get(name, 0.0)
            off = 1e-9 * max(1.0, abs(other)) + slack.get(name, 0.0)
            assert abs(one - other) <= off, f"row {i}, {name!r}: {one!r}, expected {other!r}"
    for line, column in zip(recipe.columns_, table.columns, strict=True):
        missing = sum(value is None for value in column.meant)
        assert line["name"] == column.name
        assert line["missing"] == missing, (line, missing)
        assert line["values"] == table.rows - missing


def check_model(chance: Chance, table: Table, folder: Path) -> None:
    """A model that was saved predicts the same from all formats."""
    table.recipe.set_params(scale=True)  # learners refuse very long rows
    rows, options = written(chance, table, chance.choice(FORMATS_OF_TABLES), folder)
    source = streams.open(rows, recipe=table.recipe, **options)
    clf = Perceptron().fit_stream(source, classes=["no", "yes"])
    save(clf, folder / "model")
    clf = load(folder / "model")
    expected = None
    for format in chance.sample(FORMATS_OF_TABLES, 2):
        rows, options = written(chance, table, format, folder)
        if format in ("dicts", "table", "pandas", "polars", "texts") and chance.random() < 0.5:
            bare = [row for row, _ in rows] if format == "dicts" else rows
            X = clf.recipe_.transform(bare)
        else:
            options.pop("decimal", None)
            X = features_of(streams.open(rows, schema=clf.schema_, frozen=True, **options))
        expected = X if expected is None else expected
        try:
            same(X, expected)
        except AssertionError as error:
            raise AssertionError(f"predicting from {format}") from error
    row, _ = dicts(chance, table)[chance.randrange(table.rows)]
    assert clf.predict_one(row) in ("no", "yes")


def check_guessed(chance: Chance, table: Table, folder: Path) -> None:
    """Nothing is said: text is taken for the same in all formats."""
    recipe = Recipe(decimal=table.decimal, hash_bits=4, max_categories=5)
    texts = [column._replace(objects=list(column.texts)) for column in table.columns]
    table = table._replace(columns=texts)
    found = []
    for format in ("csv", "texts", "dicts"):
        rows, options = written(chance, table, format, folder)
        if format == "dicts":
            columns = {column.name: column.texts for column in texts}
            rows = [
                ({name: each[i] for name, each in columns.items()}, table.labels[i])
                for i in range(table.rows)
            ]
        try:
            source = streams.open(rows, recipe=recipe, **options)
            X = features_of(source)
        except ValueError as error:
            found.append(re.sub(r"^.*?: |^.*, (line|row) \d+, ", "", str(error)))
            check_message(error, source_of(rows))
        else:
            kinds = [(line["name"], line["kind"]) for line in source.schema()["recipe"].columns_]
            found.append((kinds, X.toarray().tolist()))
    assert found[0] == found[1] == found[2], found


def check_message(error: Exception, *parts: str) -> None:
    for part in parts:
        assert part in str(error), (str(error), part)


def source_of(rows: Any) -> str:
    return str(rows) if isinstance(rows, Path) else "<"


ODD: tuple[tuple[Any, Any], ...] = (
    ([{"a": 1}, None], None),
    ([[1, 2], None], None),
    ([b"ab", b"\xff"], None),
    ([datetime.time(1, 2), None], None),
    ([datetime.timedelta(1), None], None),
    ([math.inf, 1.0], None),
    ([-math.inf, math.nan], None),
    ([None, None], pa.null()),
    ([1e300, 1.0], None),
    ([10**18, None], pa.timestamp("s")),
    ([-(10**18), 5], pa.timestamp("ns")),
    ([1, 2], pa.uint64()),
    (["abc", "1"], None),
    (["2020-02-30", "2020-02-28"], None),
    (["31.02.2021", "01.02.2021"], None),
    ([True, None], None),
    ([2**63, 2**64 - 1], pa.uint64()),
)
if hasattr(pa, "string_view"):  # from pyarrow 16 on
    ODD = (*ODD, (["a", "b"], pa.string_view()))


def check_odd(chance: Chance, folder: Path) -> bool:
    """Whatever is in a table, it is read, or refused by its name and its column's; was it?"""
    name = chance.choice(("odd", "", "o d", "odd=1"))
    values, kind = chance.choice(ODD)
    said = chance.choice(("", "number", "boolean", "category", "hashed", "text", "date", "date:%Y"))
    typed = pa.table({name: pa.array(values, kind), "n": [1.0, 2.5], "label": ["no", "yes"]})
    recipe = Recipe({name: said} if said else None, hash_bits=4)
    path = folder / "odd.parquet"
    source: Any = typed
    if chance.random() < 0.5:
        try:
            pyarrow.parquet.write_table(typed, path)
            source = path
        except pa.ArrowException:  # there are types that such files do not have
            pass
    try:
        opened = streams.open(source, recipe=recipe, block_size=chance.choice((1, 2**20)))
        X = features_of(opened)
    except ValueError as error:
        # Of what nothing is said, columns that cannot be read are left out.
        check_message(error, repr(name), source_of(source), "" if said else "too large")
        return True
    assert np.isfinite(X.data).all(), X.data
    return False


def check_bad_cell(chance: Chance, table: Table, folder: Path) -> bool:
    """A value that is not of its kind is refused by its place, and nothing is learned."""
    table.recipe.set_params(scale=True)
    able = [c for c in table.columns if c.said.startswith(("number", "boolean", "date"))]
    if not able:
        return False
    column, at = chance.choice(able), chance.randrange(table.rows)
    wrong = chance.choice(("abc", "1 2", "--1", "1e999", "$", "12.13.14", "2020-13-01", "2"))
    if wrong == "2" and column.said == "number":
        wrong = "1e101"
    texts = [*column.texts[:at], wrong, *column.texts[at + 1 :]]
    columns = [one._replace(texts=texts) if one is column else one for one in table.columns]
    table = table._replace(columns=columns)
    format = chance.choice(("csv", "csv.gz", "texts"))
    rows, options = written(chance, table, format, folder)
    clf = Perceptron()
    try:
        clf.fit_stream(streams.open(rows, recipe=table.recipe, **options), classes=["no", "yes"])
    except ValueError as error:
        place = f"row {at + 1}, " if format == "texts" else ""
        is_large = "too large" in str(error)
        told = f"{place}column {column.name!r}: {'the number is ' if is_large else 'expected a '}"
        check_message(error, told, source_of(rows), "" if is_large else repr(wrong))
        return not hasattr(clf, "classes_")
    raise AssertionError(f"{wrong!r} was taken for a {column.said}")


def fuzz_tables(count: int, seed: int, folder: Path) -> Counter[str]:
    """Check ``count`` tables, of which an assertion names a wrong one; what was checked."""
    done = Counter[str]()
    for number in range(count):
        if number and number % 500 == 0:
            print(f"{number} of {count} tables, seed {seed}", file=sys.stderr, flush=True)
        chance = Chance(f"{seed} {number}")
        try:
            if chance.random() < 0.15:
                done["odd and refused" if check_odd(chance, folder) else "odd"] += 1
                continue
            table = random_table(chance)
            check_said(chance, table, folder)
            done["said"] += 1
            what = chance.random()
            if what < 0.4:
                check_model(chance, table, folder)
                done["model"] += 1
            elif what < 0.7:
                check_guessed(chance, table, folder)
                done["guessed"] += 1
            else:
                done["bad cell"] += check_bad_cell(chance, table, folder)
        except Exception as error:
            raise AssertionError(f"table {number} of seed {seed}") from error
    return done


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        print(dict(fuzz_tables(given.count, given.seed, Path(place))))
