"""Numbers of each contender on each table, measured one after the other and kept in one file."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.arena.batch import certified
from benchmarks.arena.cells import Kept, write
from benchmarks.keel.contenders import PACKAGES, Contender
from benchmarks.keel.tables import VARIANTS, KeelTable, Split, is_report, raw, splits, table
from benchmarks.machine import commit, facts, installed, load
from maxmargin_papers.reproduction.provenance import today

WARM_UP = 10  # rows of each class


class Timed(NamedTuple):
    """What work returned, and its seconds: of the processor and by the clock."""

    result: Any
    processor: float
    clock: float


class Extent(NamedTuple):
    """What is to be measured, and with how many threads."""

    variants: Sequence[str]
    tables: Sequence[str]
    contenders: Sequence[Contender]
    threads: int


def read(file: Path) -> Kept:
    """``{"sessions": [...], "data": {...}, VARIANT: {TABLE: {CONTENDER: numbers}}, ...}``; numbers
    are lists over the folds."""
    empty: Kept = {"sessions": [], "data": {}, **{name: {} for name in VARIANTS}}
    return json.loads(file.read_text("utf-8")) if file.exists() else empty


def measure(extent: Extent, files: dict[str, Path], file: Path, again: bool = False) -> None:
    """Measure what is not kept yet, or all of the extent again; failures are told, not kept."""
    kept = read(file)
    session = {
        "date": today(),
        "commit": commit(),
        "machine": facts() | installed(PACKAGES),
        "load": load(),
        "threads": extent.threads,
    }
    kept["sessions"].append(session)
    for variant in extent.variants:
        for name in extent.tables:
            kept["data"].setdefault(name, described(name, files))
            cells = kept[variant].setdefault(name, {})
            jobs = [one for one in extent.contenders if again or one.name not in cells]
            rows = table(files[name], VARIANTS[variant]) if jobs else None
            for one in jobs:
                began = time.perf_counter()
                try:
                    with threadpool_limits(extent.threads):
                        cells[one.name] = measured(one, rows, splits(variant, rows.y))
                except Exception as error:
                    reason = f"{type(error).__name__}: {error}"
                    print(f"{variant}, {name}, {one.name} failed: {reason}", file=sys.stderr)
                    continue
                cells[one.name] |= {"rows": rows.y.size, "session": len(kept["sessions"]) - 1}
                write(kept, file)
                took = time.perf_counter() - began
                print(f"{variant}, {name}, {one.name}: {took:.1f} s", flush=True)


def described(name: str, files: dict[str, Path]) -> dict[str, Any]:
    frame = raw(files[name])
    return {
        "rows": len(frame),
        "columns": frame.shape[1] - 1,
        "classes": int(frame.iloc[:, -1].nunique()),
        "is_report": is_report(name, files),
    }


def measured(one: Contender, data: KeelTable, folds: Iterator[Split]) -> dict[str, Any]:
    """Errors in %, log losses, seconds, and certified parts of the best margin, by folds."""
    found: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for train, test in folds:
            if one.is_ours and not found:
                warm_up(one, data, train)
            for number, value in on_split(one, data, train, test).items():
                found.setdefault(number, []).append(value)
    return found


def on_split(
    one: Contender, data: KeelTable, train: np.ndarray, test: np.ndarray
) -> dict[str, float]:
    # Some contenders take codes from 0 without gaps only, and a class may be in the test rows only.
    classes, codes = np.unique(data.y[train], return_inverse=True)
    model = prepared(one)
    fit = timed(lambda: model.fit(data.X[train], codes))
    predict = timed(lambda: model.predict(data.X[test]))
    predicted = classes[np.ravel(predict.result).astype(int)]
    chances = np.zeros((test.size, int(data.y.max()) + 1))
    chances[:, classes] = model.predict_proba(data.X[test])
    chances /= chances.sum(axis=1, keepdims=True)  # those in single precision sum to nearly 1
    found = {
        "error": round(100.0 * float(np.mean(predicted != data.y[test])), 4),
        "log_loss": round(float(log_loss(data.y[test], chances, labels=np.unique(data.y))), 5),
        "fit": round(fit.processor, 4),
        "fit_clock": round(fit.clock, 4),
        "predict": round(predict.processor, 5),
        "predict_clock": round(predict.clock, 5),
    }
    part = certified(model)
    return found if part is None else found | {"certified": round(part, 5)}


def prepared(one: Contender) -> Any:
    return make_pipeline(StandardScaler(), one.make()) if one.is_scaled else one.make()


def warm_up(one: Contender, data: KeelTable, train: np.ndarray) -> None:
    """Compile, or load what was compiled, by a fit to few rows of each class."""
    y = data.y[train]
    few = np.concatenate([train[y == label][:WARM_UP] for label in np.unique(y)])
    model = prepared(one).fit(data.X[few], data.y[few])
    model.predict(data.X[few])
    model.predict_proba(data.X[few])


def timed(work: Callable[[], Any]) -> Timed:
    processor, clock = time.process_time(), time.perf_counter()
    result = work()
    return Timed(result, time.process_time() - processor, time.perf_counter() - clock)
