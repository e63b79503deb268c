"""Learning from many places: ``python -m benchmarks.clusters WHAT``.

WHAT is rounds, coordinator, workers, kill or files; each prints a table for
``docs/clusters.md``. The last three need Dask. Times mean something only if nothing else runs. BLAS
is held to one thread by the tasks themselves.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin import MaxMargin
from maxmargin.distributed import Held, Plain, fit

SHARDS = (1, 4, 16, 64, 256, 1024)
learner = partial(MaxMargin, soft_margin=1.0)
# Times are the least of so many, taken in turns; a ratio is the median of those of neighbours.
TURNS = 5


def rows_of(seed: int, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """A part of a problem in which some 15 % of the labels are beyond any hyperplane."""
    chance, normal = np.random.default_rng(seed), np.random.default_rng(2**32).normal(size=d)
    X = chance.normal(size=(n, d)) + 3.0
    noise = chance.normal(size=n) * 0.5 * np.linalg.norm(normal)
    return X, ((X - 3.0) @ normal + noise > 0.0).astype(np.int64)


def shards_of(X: np.ndarray, y: np.ndarray, count: int) -> list[Held]:
    parts = zip(np.array_split(X, count), np.array_split(y, count), strict=True)
    return [Held(k, f"partition {k}", *part) for k, part in enumerate(parts)]


def fingerprint(clf: Any) -> str:
    return hashlib.sha256(clf.coef_.tobytes() + clf.intercept_.tobytes()).hexdigest()[:12]


# ----------------------------------------------------------------------------------- in one process
def rounds(n: int, d: int) -> None:
    """Rounds against shards, in one process."""
    X, y = rows_of(0, n, d)
    print(f"{n:,} rows of {d} features\n\n| shards | certified after each round |\n|---:|---|")
    for count in SHARDS:
        ratios = ratios_of(shards_of(X, y, count))
        print(f"| {count} | {', '.join(f'{ratio:.4f}' for ratio in ratios)} |", flush=True)


def ratios_of(shards: list[Held]) -> list[float]:
    """Certified after each round."""
    ratios: list[float] = []
    fit(learner(), shards, report=lambda progress: ratios.append(progress.ratio))
    return ratios


class Timed(Plain):
    """Takes the processor time that shards take."""

    spent = 0.0

    def ask(self, question: Any, shards: Sequence[Any]) -> Any:
        began = time.process_time()
        try:
            return super().ask(question, shards)
        finally:
            self.spent += time.process_time() - began


def coordinator(n: int, d: int) -> None:
    """The coordinator's own share of a round."""
    shards = [Held(k, f"partition {k}", *rows_of(k, n // 32, d)) for k in range(32)]
    fit(learner(), shards)
    timed, times = Timed(), list[tuple[float, float]]()
    began = time.process_time()

    def report(progress: Any) -> None:
        times.append((time.process_time() - began, timed.spent))

    fit(learner(tol=1e-8), shards, timed, report=report)
    (first, asked_first), (last, asked_last) = times[0], times[-1]
    share = 100 * (1.0 - (asked_last - asked_first) / (last - first))
    print(f"{n:,} rows of {d} features, {len(times)} rounds: {share:.2f} % of a round")


# ------------------------------------------------------------------------------------- on a cluster
def cluster_of(workers: int) -> Any:
    from distributed import Client, LocalCluster

    how: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": None}
    cluster = LocalCluster(n_workers=workers, **how)
    return cluster, Client(cluster)


def collections_of(parts: int, n: int, d: int) -> tuple[Any, Any]:
    import dask.array as da
    from dask import delayed

    made = [delayed(rows_of, nout=2)(k, n, d) for k in range(parts)]
    X = da.concatenate([da.from_delayed(each[0], (n, d), float) for each in made])
    y = da.concatenate([da.from_delayed(each[1], (n,), np.int64) for each in made])
    return X, y


def workers(n: int, d: int) -> None:
    """One and two workers against the plain executor, on rows in memory."""
    from distributed import wait

    from maxmargin.dask import DaskClassifier

    shards = [Held(k, f"partition {k}", *rows_of(k, n // 32, d)) for k in range(32)]
    X, y = (np.concatenate([shard[at] for shard in shards]) for at in (2, 3))
    whole = learner().fit(X, y)
    fit(learner(), shards)
    times, models = dict[str, list[float]](), dict[str, Any]()

    def take(name: str, work: Callable[..., Any], *given: Any) -> None:
        began = time.perf_counter()
        models[name] = work(*given)
        times.setdefault(name, []).append(time.perf_counter() - began)

    for count in (1, 2):
        cluster, client = cluster_of(count)
        with cluster, client:
            held = client.persist(list(collections_of(32, n // 32, d)))
            wait(held)
            far = DaskClassifier(learner(), client)
            far.fit(*held)  # compiled code is loaded
            for _ in range(TURNS):
                take("plain executor", fit, learner(), shards)
                take(f"Dask, {count} worker{'s' * (count > 1)}", far.fit, *held)
            models[f"Dask, {count} worker{'s' * (count > 1)}"] = far.to_local()
    plain, one, two = (np.array(each) for each in times.values())
    print(f"32 partitions of {n // 32:,} x {d}\n")
    print("| | seconds | certified | margin |\n|---|---:|---:|---:|")
    for name, clf in models.items():
        found, least = clf.certificate_, min(times[name])
        print(f"| {name} | {least:.2f} | {found.ratio:.6f} | {found.margin:.8g} |")
    print(
        f"| `MaxMargin.fit`, all rows | | {whole.certificate_.ratio:.6f} | "
        f"{whole.certificate_.margin:.8g} |"
    )
    agreeing = 100 * (whole.predict(X) == models["Dask, 2 workers"].predict(X)).mean()
    print(
        f"\nspeed-up {one.min() / two.min():.2f}; one worker against the plain executor "
        f"{np.median(one / plain[:TURNS]):.2f}; the same predictions on {agreeing:.3f} % of rows; "
        f"models {', '.join(sorted({fingerprint(clf) for clf in models.values()}))}"
    )


def kill(n: int, d: int) -> None:
    """Twenty runs, in each of which a worker dies."""
    from maxmargin.dask import DaskClassifier

    shards = [Held(k, f"partition {k}", *rows_of(k, n // 32, d)) for k in range(32)]
    wanted = fingerprint(fit(learner(), shards))
    found, usual, spent = list[str](), list[float](), list[float]()
    for seed in range(20):
        chance = random.Random(seed)
        cluster, client = cluster_of(2)
        with cluster, client:
            for times in (usual, spent):  # at first no worker dies, and compiled code is loaded
                victims = client.run(os.getpid)
                after = chance.uniform(0.0, usual[-1] if usual else 0.0)
                victim = victims[chance.choice(sorted(victims))]
                stopping = threading.Timer(after, os.kill, (victim, signal.SIGKILL))
                if times is spent:
                    stopping.start()
                began = time.perf_counter()
                far = DaskClassifier(learner(), client).fit(*collections_of(32, n // 32, d))
                times.append(time.perf_counter() - began)
            stopping.join()
        found.append(fingerprint(far))
        print(f"run {seed}: killed after {after:.2f} s, {spent[-1]:.1f} s, {found[-1]}", flush=True)
    print(
        f"\n{found.count(wanted)} of {len(found)} models are that of the plain executor, {wanted}; "
        f"{np.median(usual):.1f} s without a kill, {np.median(spent):.1f} s with one (medians)"
    )


def files(n: int, d: int) -> None:
    """Parquet in 40 parts: time, and the peak memory of each worker."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from maxmargin.dask import DaskClassifier

    with tempfile.TemporaryDirectory() as folder:
        for k in range(40):
            X, y = rows_of(k, n // 40, d)
            table = pa.table({**{f"x{j}": X[:, j] for j in range(d)}, "label": y})
            place = Path(folder) / f"{k:02}.parquet"
            pq.write_table(table, place, compression="none", use_dictionary=False)
        size = sum(place.stat().st_size for place in Path(folder).iterdir())
        cluster, client = cluster_of(2)
        with cluster, client:
            began = time.perf_counter()
            far = DaskClassifier(learner(), client).fit(f"{folder}/*.parquet")
            spent = time.perf_counter() - began
            peaks = client.run(peak_memory)
    shown = ", ".join(f"{peak / 2**20:.0f} MiB" for peak in peaks.values())
    print(
        f"{size / 1e9:.1f} GB in 40 files: {far.n_iter_} rounds, {spent:.0f} s, "
        f"certified {far.certificate_.ratio:.6f}; peak memory of workers {shown}"
    )


def peak_memory() -> int:
    """Of this program: `getrusage` knows also what its parent held when it began."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (kilobytes,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return 1024 * int(kilobytes)


SIZES = {
    rounds: (204_800, 50),
    coordinator: (320_000, 200),
    workers: (3_200_000, 50),
    kill: (320_000, 50),
    files: (25_000_000, 50),
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=[work.__name__ for work in SIZES])
    parser.add_argument("--rows", type=int)
    parser.add_argument("--features", type=int)
    given = parser.parse_args(arguments)
    work = next(work for work in SIZES if work.__name__ == given.what)
    n, d = SIZES[work]
    work(given.rows or n, given.features or d)


if __name__ == "__main__":
    sys.exit(main())
