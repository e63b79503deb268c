"""Raw tables: ours in one pass, against scikit-learn in memory and river row by row.

And what a recipe costs beside the same file read without one.
"""

from __future__ import annotations

import csv
import tempfile
import time
from collections.abc import Callable
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.customers import write
from benchmarks.harness import (
    Comparison,
    Contender,
    Floor,
    Key,
    Report,
    Scale,
    Values,
    race,
    ratios,
)
from maxmargin import PassiveAggressive, Perceptron, streams
from maxmargin.streams import Recipe

NAME = "tables"
QUESTION = "How fast is a raw table learned, and how well?"

ROWS, TEST_ROWS, PLAIN_ROWS = 200_000, 50_000, 1_000_000
RIVER_ROWS = 2_000
ROUNDS = 5
OURS, SKLEARN, RIVER = "maxmargin", "scikit-learn, in memory", "river"
BARE, PREPARED = "without a recipe", "with a recipe"
CUSTOMERS, PARQUET, CSV = "customers", "Parquet, 20 numbers", "CSV, 10 numbers and 5 categories"
NUMBERS = ("age", "tenure_months", "monthly_spend", "calls", "usage_gb")
CATEGORIES = ("city", "plan", "channel", "currency")


def run(scale: Scale) -> Report:
    with tempfile.TemporaryDirectory() as name:
        return run_in(Path(name), scale)


def run_in(folder: Path, scale: Scale) -> Report:
    rows = scale.rows(ROWS)
    train = write(folder / "customers.csv", rows, seed=0)
    test = write(folder / "new.csv", scale.rows(TEST_ROWS), seed=1)
    skipped: dict[str, str] = {}
    areas: dict[str, float] = {}
    ours(train, test)  # so that all is compiled
    rounds = min(ROUNDS, scale.rounds)
    timed = [ours(train, test) for _ in range(rounds)]
    areas[OURS] = timed[0][1]
    values: Values = {Key(CUSTOMERS, OURS): [rows / seconds for seconds, _ in timed]}
    # It takes minutes: once is enough beside a ratio of five.
    seconds, areas[SKLEARN] = in_memory(train, test)
    values[Key(CUSTOMERS, SKLEARN)] = [rows / seconds] * rounds
    floors = [
        Floor("AUC above that of scikit-learn", ">=", -0.005, [areas[OURS] - areas[SKLEARN]]),
        compared(values, SKLEARN, 5.0),
    ]
    try:
        values[Key(CUSTOMERS, RIVER)] = [row_by_row(train) for _ in range(rounds)]
        floors.append(compared(values, RIVER, 30.0))
    except ImportError as error:
        skipped[RIVER] = str(error)
    for case, least, make in ((PARQUET, 0.75, plain_parquet), (CSV, 0.6, plain_csv)):
        path = make(folder, scale.rows(PLAIN_ROWS))
        values |= race([*passes(case, path, scale.rows(PLAIN_ROWS))], rounds)
        shares = ratios(values, Key(case, PREPARED), Key(case, BARE))
        floors.append(Floor(f"{case}: rate with a recipe / without", ">=", least, shares))
    pairs = [
        Comparison(Key(CUSTOMERS, OURS), Key(CUSTOMERS, peer), words, "raw table of customers")
        for peer, words in ((SKLEARN, "scikit-learn, in memory"), (RIVER, "river"))
        if Key(CUSTOMERS, peer) in values
    ]
    data = f"{rows:,} customers: numbers, amounts, dates, categories and free text, with gaps"
    how = (
        "By the clock, from the file to the model, with its threads, one contender after the "
        "other; scikit-learn's pipeline of a ColumnTransformer and LinearSVC ran once, river "
        f"learned {RIVER_ROWS:,} rows. AUC is that on other customers."
    )
    quality = {Key(f"customers, {name}", "AUC"): area for name, area in areas.items()}
    return Report(NAME, data, "rows/s", values, floors, skipped, how, pairs, quality)


def compared(values: Values, peer: str, least: float) -> Floor:
    found = ratios(values, Key(CUSTOMERS, OURS), Key(CUSTOMERS, peer))
    return Floor(f"rows a second / {peer}", ">=", least, found)


def ours(train: Path, test: Path) -> tuple[float, float]:
    """Seconds from the file to the model, and the area under its curve."""
    clf = PassiveAggressive(C=0.01, average=True, class_weight="balanced")
    began = time.perf_counter()
    clf.fit_stream(streams.open(train, label="churned", recipe=Recipe()))
    seconds = time.perf_counter() - began
    truth, scores = [], []
    bare = clf.without_recipe()
    for block in streams.open(test, schema=clf.schema_, frozen=True).blocks():
        truth.append(block.y == "yes")
        scores.append(bare.decision_function(block.X))
    return seconds, float(roc_auc_score(np.concatenate(truth), np.concatenate(scores)))


# ------------------------------------------------------------------------------------------- peers
def in_memory(train: Path, test: Path) -> tuple[float, float]:
    """The same by a `ColumnTransformer` and LIBLINEAR."""
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    from sklearn.svm import LinearSVC

    began = time.perf_counter()
    table = as_frame(train)
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    columns = ColumnTransformer(
        [
            ("numbers", numbers, [*NUMBERS, "autopay", "days"]),
            ("words", OneHotEncoder(handle_unknown="ignore"), [*CATEGORIES, "month", "weekday"]),
            ("comment", HashingVectorizer(n_features=2**18), "comment"),
        ]
    )
    clf = LinearSVC(class_weight="balanced")
    clf.fit(columns.fit_transform(table), table.churned)
    seconds = time.perf_counter() - began
    new = as_frame(test)
    scores = clf.decision_function(columns.transform(new))
    return seconds, float(roc_auc_score(new.churned == "yes", scores))


def as_frame(path: Path) -> Any:
    import pandas as pd

    table = pd.read_csv(path)
    table["monthly_spend"] = table.monthly_spend.str.replace("[$,]", "", regex=True).astype(float)
    when = pd.to_datetime(table.signed_up)
    table["month"], table["weekday"] = when.dt.month, when.dt.day_of_week
    table["days"] = (when - pd.Timestamp("1970-01-01")).dt.days
    table["autopay"] = table.autopay.astype(float)
    return table


def row_by_row(path: Path) -> float:
    """Rows a second of river with the same columns, on as many rows as it needs to be told."""
    from river import compose, feature_extraction, linear_model, preprocessing, stats

    numbers = (
        compose.Select(*NUMBERS, "autopay", "days")
        | preprocessing.StatImputer(*((name, stats.Mean()) for name in NUMBERS))
        | preprocessing.StandardScaler()
    )
    words = compose.Select(*CATEGORIES, "month", "weekday") | preprocessing.OneHotEncoder()
    comment = feature_extraction.BagOfWords(on="comment") | preprocessing.Normalizer()
    model = (numbers + words + comment) | linear_model.PAClassifier(C=0.01, mode=1)
    with path.open(newline="") as file:
        began, rows = time.perf_counter(), 0
        for raw in islice(csv.DictReader(file), RIVER_ROWS):
            label = raw.pop("churned") == "yes"
            model.learn_one(as_dict(raw), label)
            rows += 1
        return rows / (time.perf_counter() - began)


def as_dict(raw: dict[str, str]) -> dict[str, Any]:
    when = date.fromisoformat(raw["signed_up"])
    missing = {"", "NA"}
    return {
        **{name: raw[name] for name in (*CATEGORIES, "comment")},
        **{
            name: None if raw[name] in missing else float(raw[name].strip("$").replace(",", ""))
            for name in NUMBERS
        },
        "autopay": float(raw["autopay"] == "true"),
        "days": float(when.toordinal()),
        "month": str(when.month),
        "weekday": str(when.weekday()),
    }


# ----------------------------------------------------------------------------- what a recipe costs
def plain_parquet(folder: Path, rows: int) -> Path:
    import pyarrow as arrow
    from pyarrow import parquet

    X = np.random.default_rng(0).standard_normal((rows, 20))
    columns = {f"x{k}": X[:, k] for k in range(20)}
    path = folder / "plain.parquet"
    parquet.write_table(arrow.table({**columns, "label": (X[:, 0] > 0.0).astype(int)}), path)
    return path


def plain_csv(folder: Path, rows: int) -> Path:
    import pyarrow as arrow
    from pyarrow import csv as arrow_csv

    random = np.random.default_rng(0)
    X = random.standard_normal((rows, 10)).round(4)
    words = np.array([f"value {k}" for k in range(20)])
    columns = {f"x{k}": X[:, k] for k in range(10)}
    columns |= {f"c{k}": words[random.integers(0, 20, rows)] for k in range(5)}
    path = folder / "plain.csv"
    arrow_csv.write_csv(arrow.table({**columns, "label": (X[:, 0] > 0.0).astype(int)}), path)
    return path


def passes(case: str, path: Path, rows: int) -> list[Contender]:
    def rate(recipe: Any) -> Callable[[], float]:
        def measure() -> float:
            began = time.perf_counter()
            Perceptron().fit_stream(streams.open(path, recipe=recipe))
            return rows / (time.perf_counter() - began)

        return measure

    return [
        Contender(Key(case, BARE), rate(None)),
        Contender(Key(case, PREPARED), rate(Recipe())),
    ]
