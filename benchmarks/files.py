"""One pass over files: ours as a user would start it, against the peers' readers and learners."""

from __future__ import annotations

import gzip
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.data import sparse_data
from benchmarks.harness import Comparison, Floor, Key, Report, Scale, Values, ratios

NAME = "files"
QUESTION = "How fast is a pass over a file?"

SIZES = (0.25e9, 1e9)
# The files repeat a piece of so many rows.
ROWS_OF_PIECE = 20_000
ROUNDS = 3
COMMAND = "maxmargin fit, the whole command"
LEARNING = "maxmargin fit_stream, in a process that runs"
READING = "maxmargin, reading only"
ONE_CORE = "maxmargin, reading only, on one core"
LOADER = "scikit-learn: load_svmlight_file, Perceptron.partial_fit"
VOWPAL = "Vowpal Wabbit, hinge"
WORDS = {LOADER: "scikit-learn", VOWPAL: "Vowpal Wabbit"}

# Each peer in a process of its own, timed without its start.
SKLEARN = """
import sys, time
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import Perceptron
path, width, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
chunk, clf = 16 * 2**20, Perceptron()
began = time.perf_counter()
for offset in range(0, size, chunk):
    X, y = load_svmlight_file(
        path, n_features=width, zero_based=False, offset=offset, length=chunk
    )
    for name in ("indices", "indptr"):  # the learner takes no others than 32-bit integers
        setattr(X, name, getattr(X, name).astype("int32"))
    if y.size:
        clf.partial_fit(X, y, classes=[-1, 1])
print(time.perf_counter() - began)
"""
VW = """
import sys, time
from vowpalwabbit import Workspace
began = time.perf_counter()
Workspace(f"--quiet --loss_function hinge -b 18 --no_stdin -d {sys.argv[1]}").finish()
print(time.perf_counter() - began)
"""
DECOMPRESS = """
import gzip, sys, time
began = time.perf_counter()
with gzip.open(sys.argv[1]) as file:
    while file.read(2**21):
        pass
print(time.perf_counter() - began)
"""
FIT = """
import sys, time
from maxmargin import Perceptron, streams
Perceptron().fit_stream(sys.argv[2])  # a small file first, to load the compiled code
began = time.perf_counter()
Perceptron().fit_stream(sys.argv[1])
print(time.perf_counter() - began)
"""
READ = """
import os, sys, time
from maxmargin import streams
def read(path):
    source = streams.open(path)
    source.glance()
    for block in source.blocks():
        pass
read(sys.argv[2])
if len(sys.argv) > 3:
    os.sched_setaffinity(0, {int(sys.argv[3])})
began = time.perf_counter()
read(sys.argv[1])
print(time.perf_counter() - began)
"""
PARQUET = """
import sys, time
import pyarrow.parquet as parquet
from maxmargin import Perceptron
Perceptron().fit_stream(sys.argv[2])
size = parquet.read_table(sys.argv[1]).nbytes
began = time.perf_counter()
Perceptron().fit_stream(sys.argv[1])
print((time.perf_counter() - began) / size)
"""


def run(scale: Scale) -> Report:
    with tempfile.TemporaryDirectory() as name:
        return run_in(Path(name), scale)


def run_in(folder: Path, scale: Scale) -> Report:
    values: Values = {}
    floors: list[Floor] = []
    skipped: dict[str, str] = {}
    piece, rows, width = written_piece(folder, scale)
    quality: dict[Key, float] = {}
    pairs = []
    for size in SIZES:
        times = max(1, int(scale.share * size / len(piece)))
        path = folder / "rows.svm"
        with path.open("wb") as file:
            file.writelines(piece for _ in range(times))
        case = f"{path.stat().st_size / 1e9:.2g} GB"
        small, other, memory = folder / "small.svm", folder / "rows.vw", list[float]()

        def whole_command(path: Path = path, memory: list[float] = memory) -> float:
            run = command(path)
            memory.append(run.peak / 1e6)
            return run.seconds

        contenders: dict[str, Callable[[], float]] = {
            COMMAND: whole_command,
            LEARNING: partial(child, FIT, path, small),
            READING: partial(child, READ, path, small),
            LOADER: partial(child, SKLEARN, path, width, path.stat().st_size),
        }
        if hasattr(os, "sched_setaffinity") and len(cores := os.sched_getaffinity(0)) > 1:
            contenders[ONE_CORE] = partial(child, READ, path, small, min(cores))
        if importlib.util.find_spec("vowpalwabbit") is None:
            skipped[VOWPAL] = "pip install vowpalwabbit"
        else:
            with other.open("wb") as file:
                file.writelines(as_vw(piece) for _ in range(times))
            contenders[VOWPAL] = partial(child, VW, other)
        os.sync()  # or writing goes on while others read
        for _ in range(min(ROUNDS, scale.rounds)):
            for name, measure in contenders.items():
                values.setdefault(Key(case, name), []).append(rows * times / measure())
        other.unlink(missing_ok=True)
        floors.append(Floor(f"{case}: peak of memory, MB", "<=", 400.0, memory))
        quality[Key(case, "peak of memory of the command, MB")] = floors[-1].measured
        floors.append(compared(values, case, LEARNING, LOADER, 8.0))
        if VOWPAL in contenders:
            floors.append(compared(values, case, LEARNING, VOWPAL, 2.0))
        if VOWPAL in contenders and size == SIZES[-1]:
            floors.append(compared(values, case, COMMAND, VOWPAL, 1.5))
        if ONE_CORE in contenders:
            floors.append(compared(values, case, READING, ONE_CORE, 1.6))
        main = f"file of {case}" if size == SIZES[-1] else ""
        pairs += [
            Comparison(Key(case, LEARNING), Key(case, peer), words, main)
            for peer, words in WORDS.items()
            if Key(case, peer) in values
        ]
    floors += [gzipped(folder, piece, scale), from_parquet(folder, scale)]
    gzip_share, parquet_rate = (floor.measured for floor in floors[-2:])
    quality[Key("svmlight, gzip", "rate, % of that of decompressing alone")] = 100.0 * gzip_share
    quality[Key("Parquet, 50 columns", "MB of Arrow data a second")] = parquet_rate
    data = f"svmlight text, {rows:,} rows of {len(piece) / rows:.0f} bytes, repeated"
    how = (
        "One pass, by the clock, in processes that run; the whole command has its imports and "
        "compiled code to load as well."
    )
    return Report(NAME, data, "rows/s", values, floors, skipped, how, pairs, quality)


def written_piece(folder: Path, scale: Scale) -> tuple[bytes, int, int]:
    """svmlight text, its number of rows, and of columns."""
    X, y = sparse_data(scale.rows(ROWS_OF_PIECE))
    lines = []
    for row, label in zip(X, y.tolist(), strict=True):
        entries = zip((row.indices + 1).tolist(), row.data.tolist(), strict=True)
        lines.append(f"{label} " + " ".join(f"{column}:{value:.6g}" for column, value in entries))
    piece = ("\n".join(lines) + "\n").encode()
    (folder / "small.svm").write_bytes(piece[: piece.index(b"\n", len(piece) // 8) + 1])
    return piece, y.size, X.shape[1]


def as_vw(piece: bytes) -> bytes:
    return b"\n".join(line.replace(b" ", b" | ", 1) for line in piece.split(b"\n"))


class Run(NamedTuple):
    """Seconds of the whole command, and its memory at the peak."""

    seconds: float
    peak: float


def command(path: Path) -> Run:
    arguments = [sys.executable, "-m", "maxmargin", "fit", str(path), "-a", "perceptron", "--json"]
    began = time.perf_counter()
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed")
    return Run(time.perf_counter() - began, 1024.0 * usage.ru_maxrss)


def child(program: str, *arguments: object) -> float:
    """The number that the program prints."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return float(subprocess.run(command, capture_output=True, check=True).stdout)


def compared(values: Values, case: str, ours: str, peer: str, floor: float) -> Floor:
    ratio = ratios(values, Key(case, ours), Key(case, peer))
    return Floor(f"{case}: {ours}, rows a second / {peer}", ">=", floor, ratio)


def gzipped(folder: Path, piece: bytes, scale: Scale) -> Floor:
    path = folder / "rows.svm.gz"
    times = max(1, int(scale.share * SIZES[0] / len(piece)))
    with gzip.open(path, "wb", compresslevel=6) as file:
        file.write(piece * times)
    os.sync()
    small = folder / "small.svm"
    found = [
        child(DECOMPRESS, path) / child(FIT, path, small) for _ in range(min(ROUNDS, scale.rounds))
    ]
    return Floor("gzip: rate of learning / of decompressing", ">=", 0.8, found)


def from_parquet(folder: Path, scale: Scale) -> Floor:
    import pyarrow as arrow
    from pyarrow import parquet

    rows, columns = scale.rows(500_000), 50
    random = np.random.default_rng(0)
    X = random.standard_normal((rows, columns))
    table = arrow.table(
        {**{f"x{i}": X[:, i] for i in range(columns)}, "label": (X[:, 0] > 0.0).astype(int)}
    )
    path, small = folder / "rows.parquet", folder / "small.parquet"
    parquet.write_table(table, path)
    parquet.write_table(table[:1000], small)
    found = [1e-6 / child(PARQUET, path, small) for _ in range(min(ROUNDS, scale.rounds))]
    return Floor("Parquet, MB of Arrow data a second", ">=", 100.0, found)
