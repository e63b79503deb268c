"""Cells of the arena (league, data set, contender): measured one by one, and kept in one file.

Each cell runs in a child process, so that its peak memory is its own, and a crash ends nothing
else. What a contender compiles is compiled before, on a few rows: it counts neither as time nor as
memory.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.arena import batch, streams
from benchmarks.arena.datasets import CHOSEN_ON, DataSet
from benchmarks.arena.streams import Missing, Outcome
from benchmarks.machine import commit, facts, load
from maxmargin_papers.reproduction.provenance import today

LEAGUES = ("streams", "batch")
LEAST_CHANCE = 1e-6
CURVE = 24  # points of a curve
WARM_UP = 40  # rows

Kept = dict[str, Any]
"""``{"sessions": [...], "data": {...}, "missing": {...}, "streams": {...}, "batch": {...}}``; a
league has data sets, each of them contenders, and each of these its numbers, a list over orders."""


class Extent(NamedTuple):
    """How much to run.

    Attributes
    ----------
    rows : of each stream, at most
    few, few_ordered : rows that slow contenders get of shuffled data and of real streams
    training, few_training : training rows of the batch league, and those of slow contenders
    orders : in which shuffled data are run, by contenders that are fast
    large, huge : numbers of rows beyond which slow and fast contenders get fewer orders
    """

    rows: int = 10**9
    few: int = 5_000
    few_ordered: int = 20_000
    training: int = 40_000
    few_training: int = 4_000
    orders: int = 5
    large: int = 3_000
    huge: int = 30_000

    def rows_of(self, data: DataSet, is_slow: bool) -> int:
        few = self.few_ordered if data.ordered else self.few
        if data.X.shape[1] == 784:  # MNIST
            few = min(few, 3_000)
        return min(self.rows, few if is_slow else 10**9, data.y.size)

    def training_of(self, data: DataSet, is_slow: bool) -> int:
        most = self.few_training if is_slow or data.X.shape[1] == 784 else self.training
        return min(most, data.y.size)

    def orders_of(self, data: DataSet, is_slow: bool) -> int:
        if data.ordered or (is_slow and data.y.size > self.large):
            return 1
        return min(self.orders, 2) if data.y.size > self.huge else self.orders


FULL = Extent()
QUICK = Extent(1_000, 300, 300, 1_000, 300, orders=1)


class Job(NamedTuple):
    league: str
    data: str
    contender: Any
    orders: int


def read(file: Path | None) -> Kept:
    empty: Kept = {"sessions": [], "data": {}, "missing": {}, "streams": {}, "batch": {}}
    return json.loads(file.read_text("utf-8")) if file and file.exists() else empty


def write(kept: Kept, file: Path | None) -> None:
    """Replace the file at once: a run can be stopped at any time, and continued."""
    if file:
        part = file.with_suffix(".part")
        part.write_text(_lines(kept) + "\n", "utf-8")
        os.replace(part, file)


def _lines(value: Any, depth: int = 3) -> str:
    """JSON with a line for each cell."""
    if depth == 0 or not isinstance(value, dict) or not value:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    pairs = (f"{json.dumps(key)}: {_lines(each, depth - 1)}" for key, each in value.items())
    return "{\n" + ",\n".join(pairs) + "\n}"


def plan(
    leagues: Sequence[str],
    names: Sequence[str],
    only: Sequence[str],
    extent: Extent,
    loaded: Callable[[str], DataSet],
) -> Iterator[Job]:
    """What there is to measure: fast contenders and small data first, further orders last."""
    for is_slow, is_last in ((False, False), (True, False), (False, True)):
        for league in leagues:
            for name in names:
                data = loaded(name)
                if league == "batch" and data.ordered:
                    continue  # the rows of a stream are no sample
                for one in contenders(league):
                    if one.is_slow != is_slow or not is_chosen(one.name, only):
                        continue
                    if extent.orders == 1 and one.family:
                        continue  # a quick run has default parameters only
                    orders = extent.orders_of(data, is_slow)
                    if league == "batch" and data.X_test is not None:
                        orders = 1
                    yield Job(league, name, one, orders if is_slow or is_last else 1)


def contenders(league: str) -> Sequence[Any]:
    return streams.contenders() if league == "streams" else batch.contenders()


def is_chosen(name: str, only: Sequence[str]) -> bool:
    return not only or any(name.lower().startswith(each.lower()) for each in only)


def measure(
    jobs: Iterator[Job],
    extent: Extent,
    loaded: Callable[[str], DataSet],
    kept: Kept,
    file: Path | None,
) -> None:
    """Measure what is not kept yet, and keep it cell by cell."""
    session = {"date": today(), "commit": commit(), "machine": facts(), "load": load()}
    if session not in kept["sessions"]:
        kept["sessions"].append(session)
    for job in jobs:
        data = loaded(job.data)
        kept["data"].setdefault(job.data, described(job.data, data, extent))
        cells = kept[job.league].setdefault(job.data, {})
        left_out = kept["missing"].setdefault(f"{job.league}, {job.data}", {})
        done = len(cells.get(job.contender.name, {}).get("seconds", []))
        if done >= job.orders or job.contender.name in left_out:
            continue
        try:
            found = measured(job, data, range(done, job.orders), extent)
        except Missing as reason:
            left_out[job.contender.name] = str(reason)
            continue
        cell = cells.setdefault(job.contender.name, {})
        for name, value in found.items():
            cell[name] = cell.get(name, []) + value if isinstance(value, list) else value
        cell["session"] = kept["sessions"].index(session)
        write(kept, file)
        told = cell.get("accuracy") or cell["error"]
        print(f"{job.league}, {job.data}, {job.contender.name}: {told}", flush=True)


def described(name: str, data: DataSet, extent: Extent) -> dict[str, Any]:
    return {
        "rows": int(min(data.y.size, extent.rows)),
        "columns": int(data.X.shape[1]),
        "classes": data.classes,
        "ordered": data.ordered,
        "few": extent.rows_of(data, is_slow=True),
        "training": extent.training_of(data, is_slow=False),
        "few_training": extent.training_of(data, is_slow=True),
        "chosen_on": name in CHOSEN_ON,
    }


def measured(job: Job, data: DataSet, seeds: range, extent: Extent) -> dict[str, Any]:
    """The numbers of the cell for these orders, found in a process of its own."""
    work = run_stream if job.league == "streams" else run_batch
    if compiles(job.contender):
        try:
            warm_up(job, data)
        except Exception as error:
            raise Missing(f"{type(error).__name__}: {error}") from error
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def child() -> None:
        warnings.simplefilter("ignore")
        try:
            before = peak_memory()
            found: Any = work(job.contender, data, seeds, extent)
            found["memory"] = max(0, peak_memory() - before)
        except Missing as reason:
            found = reason
        except Exception as error:
            found = Missing(f"{type(error).__name__}: {error}")
        sender.send(found)

    process = context.Process(target=child)
    process.start()
    sender.close()
    try:
        found = receiver.recv()
    except EOFError:
        found = Missing("its process ended")
    process.join()
    if isinstance(found, Missing):
        print(f"{job.league}, {job.data}, {job.contender.name}: {found}", file=sys.stderr)
        raise found
    return found


def peak_memory() -> int:
    """Bytes, of this process or the largest of its own children."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return 1024 * max(resource.getrusage(each).ru_maxrss for each in who)


def compiles(contender: Any) -> bool:
    make = getattr(contender, "make", None)
    made = getattr(make, "func", make)
    return getattr(made, "__module__", "").startswith("maxmargin")


def warm_up(job: Job, data: DataSet) -> None:
    """Compile, or load what was compiled: a child process inherits it."""
    few = data.first(max(WARM_UP, 2 * data.classes))
    few = few._replace(y=np.arange(few.y.size) % data.classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if job.league == "streams":
            job.contender.run(few)
        else:
            job.contender.run(batch.Split(few.X, few.y, few.X, few.y))


def run_stream(
    contender: streams.Contender, data: DataSet, seeds: range, extent: Extent
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    rows, few = (extent.rows_of(data, is_slow) for is_slow in (contender.is_slow, True))
    for seed in seeds:
        given = data.shuffled(seed).first(rows)._replace(n_classes=data.classes)
        outcome = contender.run(given)
        for name, value in scores(outcome, given, few).items():
            found.setdefault(name, []).append(value)
        if seed == 0:
            pieces = np.array_split(outcome.predicted == given.y, CURVE)
            found["curve"] = [round(100.0 * float(piece.mean()), 2) for piece in pieces]
    return found | {"rows": rows}


def scores(outcome: Outcome, data: DataSet, few: int) -> dict[str, float]:
    """All in the units of the page: % and seconds."""
    right, y = outcome.predicted == data.y, data.y
    accuracy, size = float(right.mean()), data.classes
    shares = np.bincount(y, minlength=size) / y.size
    by_chance = float(shares @ (np.bincount(outcome.predicted, minlength=size) / y.size))
    same = float((y[1:] == y[:-1]).sum() / y.size)
    found = {
        "accuracy": round(100.0 * accuracy, 3),
        "first": round(100.0 * float(right[:few].mean()), 3),
        "kappa": round(100.0 * (accuracy - by_chance) / max(1.0 - by_chance, 1e-9), 2),
        "kappa_temporal": round(100.0 * (accuracy - same) / max(1.0 - same, 1e-9), 2),
        "seconds": round(outcome.seconds, 4),
    }
    if outcome.probability is not None:
        own = outcome.probability[np.arange(y.size), y]
        found["log_loss"] = round(float(-np.log(np.maximum(own, LEAST_CHANCE)).mean()), 4)
    return found


def run_batch(
    contender: batch.Contender, data: DataSet, seeds: range, extent: Extent
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    most = extent.training_of(data, contender.is_slow)
    for seed in seeds:
        rows = batch.split(data, seed, most)
        fitted = contender.run(rows)
        found.setdefault("error", []).append(round(fitted.error, 3))
        found.setdefault("seconds", []).append(round(fitted.seconds, 4))
        if fitted.certified is not None:
            found.setdefault("certified", []).append(round(fitted.certified, 5))
    return found | {"rows": int(rows.y.size), "tuning": contender.tuning}
