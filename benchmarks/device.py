"""``python -m benchmarks.device NAME ... [--rows N] [--seed N] [--device cpu] [--set NAME=VALUE]``

Kernel learners on a GPU. Each of these prints lines of JSON:

- ``rates``: what the device's matrix products reach.
- ``mnist``: four passes over MNIST from host arrays, in each precision.
- ``endless``: one pass over 8.1 million deformed digits, with the rate of its products.
- ``budget``: one pass over a million rows of 54 features, 20,000 of them kept.
- ``predict``: 10,000 digits by some 8,000 supports, beside the host.
- ``agree``: updates and outputs beside those of the host, on USPS and some of MNIST.
- ``exact``: MaxMargin with the rbf kernel on MNIST, ten classes, from host arrays.
- ``linear``: MaxMargin on 10 million dense rows of 100 features, which are on the device.
- ``curved``: MaxMargin with the rbf kernel on 200,000 rows of 54 features with a curved boundary,
  whose kernel matrix is never held.
- ``laplacian``: MaxMargin with a laplacian kernel and learned scales of columns on 60,000 rows of
  54 features.
- ``table``: MaxMargin(kernel="auto") with landmarks on 300,000 rows of 20 columns, beside
  HistGradientBoosting.

Times are by the clock, when the device has done its work. It is no part of ``python -m
benchmarks``, which compares with other libraries on any machine. With ``--device cpu`` all but
``rates`` run on the host, to be tried there on few rows.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks.budgets import stream
from benchmarks.harness import wall_seconds
from benchmarks.mnist import learner as mnist_learner
from benchmarks.passes import fit_quietly
from maxmargin import AMIRA, MaxMargin, Perceptron
from maxmargin.datasets import load_mnist, load_usps, make_endless_digits
from maxmargin.kernels.cuda import cupy_library
from maxmargin_papers.experiments.one_pass import one_pass

BLOCK = 65_536
BUDGET = 20_000
ROUNDS = 5


class Machine:
    """The device, or the host in its place."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.xp = cupy_library().xp if device == "cuda" else np

    def wait(self) -> None:
        if self.device == "cuda":
            self.xp.cuda.Stream.null.synchronize()

    def seconds(self, work: Callable[[], object]) -> float:
        self.wait()
        return wall_seconds(lambda: (work(), self.wait()))

    def words(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"device": self.device, "cores": len(os.sched_getaffinity(0))}
        if self.device == "cuda":
            name = self.xp.cuda.runtime.getDeviceProperties(0)["name"].decode()
            facts |= {"gpu": name, "cupy": self.xp.__version__}
        return facts


Lines = Iterator[dict[str, Any]]


# ------------------------------------------------------------------------------------------- rates
def rates(machine: Machine, options: argparse.Namespace) -> Lines:
    for kind in ("tf32", "bfloat16", "float32"):
        yield {"kind": kind, "tflops": gemm_rate(machine, kind)}


def gemm_rate(machine: Machine, kind: str, size: int = 8192, width: int = 784) -> float:
    """TFLOP/s of products of 8192 rows of 784 numbers with as many others, as learners make them.

    The best of some products, by cuBLAS.
    """
    from cupy_backends.cuda.libs import cublas

    xp = machine.xp
    rows = xp.random.default_rng(0).integers(0, 256, (2 * size, width)).astype(np.float32)
    real, brain, fast = 0, 14, 77  # CUDA_R_32F, CUDA_R_16BF, CUBLAS_COMPUTE_32F_FAST_TF32
    type_, compute = (brain, 68) if kind == "bfloat16" else (real, fast if kind == "tf32" else 68)
    if kind == "bfloat16":
        rows = (rows.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    some, others = rows[:size], rows[size:]
    out = xp.empty((size, size), np.float32)
    numbers = np.array([1.0, 0.0], np.float32)
    one, zero = numbers.ctypes.data, numbers.ctypes.data + 4

    def multiply() -> None:
        cublas.gemmEx(
            xp.cuda.device.get_cublas_handle(),
            *(cublas.CUBLAS_OP_T, cublas.CUBLAS_OP_N, size, size, width),
            *(one, others.data.ptr, type_, width, some.data.ptr, type_, width),
            *(zero, out.data.ptr, real, size, compute, -1),
        )

    def many() -> None:
        for _ in range(20):
            multiply()

    best = min(machine.seconds(many) for _ in range(ROUNDS)) / 20
    return 2.0 * size * size * width / best / 1e12


# ------------------------------------------------------------------------------------------- mnist
def mnist(machine: Machine, options: argparse.Namespace) -> Lines:
    X, y, X_test, y_test = digits(options.rows)
    for pixels, divisor, gamma in (("0 to 255", 1, 255.0**-2), ("0 to 1", 255, 1.0)):
        rows, tests = X / np.float32(divisor), X_test / np.float32(divisor)
        clf = mnist_learner(4).set_params(gamma=gamma, device=machine.device)
        first = machine.seconds(lambda clf=clf, rows=rows: fit_quietly(clf, rows, y))
        second = machine.seconds(lambda clf=clf, rows=rows: fit_quietly(clf, rows, y))
        yield {
            "pixels": pixels,
            "rows": len(y),
            "first fit, s": first,
            "second fit, s": second,
            "test error, %": error(clf, tests, y_test),
            "updates": int(clf.n_updates_),
            "supports": len(clf.support_),
        }


# ----------------------------------------------------------------------------------------- endless
def endless(machine: Machine, options: argparse.Namespace) -> Lines:
    X, y, X_test, y_test = digits(None)
    rows = options.rows or 8_100_000
    block = min(BLOCK, -(-rows // 16))
    deformations, changes = split(options.set)
    made = make_endless_digits(
        X,
        y,
        n_samples=rows,
        block_size=block,
        random_state=options.seed,
        device=machine.device,
        **deformations,
    )
    settings = {"epsilon": 0.5, "kernel": "rbf", "gamma": 0.04 / 255.0**2, "fit_intercept": False}
    clf = AMIRA(**{**settings, "device": machine.device, **changes})
    tests = machine.xp.asarray(X_test[: options.tests])
    curves = one_pass(clf, made, np.arange(10), tests, y_test[: options.tests], wait=machine.wait)
    seen, supports = [0, *curves["seen"]], [0, *curves["supports"]]
    # Each block is multiplied with the supports before it; what it adds itself is not counted.
    counts = [b - a for a, b in pairwise(seen)]
    flop = 2.0 * X.shape[1] * sum(a * b for a, b in zip(supports[:-1], counts, strict=True))
    rate = flop / curves["learning"][-1] / 1e12
    line: dict[str, Any] = {
        "seed": options.seed,
        "digits": seen[-1],
        "block": block,
        "set": options.set,
        "seconds, making and learning": curves["making"][-1] + curves["learning"][-1],
        **{f"seconds, {part}": curves[part][-1] for part in ("making", "learning", "testing")},
        "error of the last, %": curves["last"][-1],
        "error of the average, %": curves["averaged"][-1],
        "updates": int(clf.n_updates_),
        "supports": supports[-1],
        "products, TFLOP": flop / 1e12,
        "products, TFLOP/s": rate,
    }
    if machine.device == "cuda":
        for kind in ("tf32", "bfloat16"):
            peak = gemm_rate(machine, kind)
            line |= {f"{kind} GEMM, TFLOP/s": peak, f"share of {kind} GEMM": rate / peak}
    yield line | {"curves": curves}


def split(given: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """``NAME=VALUE``, for the deformations and for the learner."""
    changes = {name: as_number(value) for name, _, value in (one.partition("=") for one in given)}
    names = {"rotation", "shift", "scale", "shear", "elastic", "smoothness"} & changes.keys()
    return {name: changes.pop(name) for name in names}, changes


def as_number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return {"True": True, "False": False}.get(text, text)


# ------------------------------------------------------------------------------------------ budget
def budget(machine: Machine, options: argparse.Namespace) -> Lines:
    rows = options.rows or 1_000_000
    slots = min(BUDGET, rows // 50)
    X, y = stream(rows, 54)
    for on_full in ("oldest", "random"):
        clf = Perceptron(
            kernel="rbf", gamma=1.0 / 54, budget=slots, on_full=on_full, random_state=0
        )
        facts = {"on_full": on_full, "rows": rows, "budget": slots}
        if machine.device == "cuda":
            there = clone(clf).set_params(device=machine.device)
            there.partial_fit(X[:BLOCK], y[:BLOCK], classes=[0, 1])  # compile
            there = clone(there)
            spent = machine.seconds(lambda there=there: in_blocks(there, X, y))
            yield {**facts, "where": "device", "seconds": spent, "updates": int(there.n_updates_)}
        yield {**facts, "where": "host", **on_the_host(clf, X, y, slots)}


def in_blocks(clf: Any, X: np.ndarray, y: np.ndarray, size: int = BLOCK) -> None:
    for start in range(0, len(y), size):
        clf.partial_fit(X[start : start + size], y[start : start + size], classes=[0, 1])


def on_the_host(clf: Any, X: np.ndarray, y: np.ndarray, slots: int) -> dict[str, Any]:
    """Until all slots are taken, and for some rows more; the rest is extrapolated."""
    clone(clf).partial_fit(X[:1000], y[:1000], classes=[0, 1])  # compile
    began, size, seen = time.perf_counter(), 4096, 0
    while seen < len(y) and (seen == 0 or len(clf.support_) < slots):
        in_blocks(clf, X[seen : seen + size], y[seen : seen + size], size)
        seen += size
    filled = time.perf_counter() - began
    more = min(4 * size, len(y) - seen)
    if more <= 0:
        return {"seconds": filled, "measured rows": len(y), "updates": int(clf.n_updates_)}
    some = slice(seen, seen + more)
    rate = wall_seconds(lambda: in_blocks(clf, X[some], y[some], size)) / more
    return {
        "seconds": filled + rate * (len(y) - seen),
        "how": "extrapolated from the rows measured, the last of them with all slots taken",
        "measured rows": seen + more,
        "measured seconds": filled + rate * more,
        "seconds for a row when full": rate,
    }


# ----------------------------------------------------------------------------------------- predict
def predict(machine: Machine, options: argparse.Namespace) -> Lines:
    X, y, X_test, y_test = digits(options.rows)
    clf = mnist_learner(4).set_params(device=machine.device)
    fit_quietly(clf, X, y)
    facts = {"digits": len(y_test), "supports": len(clf.support_)}
    if machine.device == "cuda":
        for where, tests in (("host", X_test), ("device", machine.xp.asarray(X_test))):
            spent = best(machine, lambda tests=tests: clf.predict(tests))
            wrong = error(clf, tests, y_test)
            yield {**facts, "by": "device", "rows on": where, "seconds": spent, "error, %": wrong}
    clf.set_params(device="cpu")
    spent = best(machine, lambda: clf.predict(X_test))
    wrong = error(clf, X_test, y_test)
    yield {**facts, "by": "host", "rows on": "host", "seconds": spent, "error, %": wrong}


def best(machine: Machine, work: Callable[[], object]) -> float:
    work()
    return min(machine.seconds(work) for _ in range(ROUNDS))


# ------------------------------------------------------------------------------------------- agree
def agree(machine: Machine, options: argparse.Namespace) -> Lines:
    sets = {"usps": (load_usps, None, 1.0 / 128), "mnist": (load_mnist, 1000, 0.04 / 255.0**2)}
    for name, (load, most, gamma) in sets.items():
        (X, y), (X_test, _) = load(), load("test")
        rows = min(filter(None, (most, options.rows, len(y))))
        for kind in ("float32", "float64"):
            settings = {"kernel": "rbf", "gamma": gamma, "kernel_dtype": kind, "max_iter": 5}
            host = AMIRA(epsilon=0.9, random_state=0, fit_intercept=False, **settings)
            there = clone(host).set_params(device=machine.device)
            both = [fit_quietly(clf, X[:rows], y[:rows]) for clf in (host, there)]
            ours, theirs = (clf.decision_function(X_test) for clf in both)
            updates = [int(clf.n_updates_) for clf in both]
            yield {
                "data": name,
                "rows": rows,
                "kernel_dtype": kind,
                "updates, host and device": updates,
                "largest difference of outputs": float(np.abs(ours - theirs).max()),
                "largest output": float(np.abs(ours).max()),
            }


# --------------------------------------------------------------------------------------------------
# ---------------------------------------------------------------------------------- exact margins
def exact(machine: Machine, options: argparse.Namespace) -> Lines:
    X, y, X_test, y_test = digits(options.rows)
    X, X_test = X / np.float32(255.0), X_test / np.float32(255.0)
    clf = MaxMargin(
        kernel="rbf", gamma=0.025, soft_margin=0.1, cache_size=24_000, device=machine.device
    )
    yield measured(machine, clf, X, y) | {"test error, %": error(clf, X_test, y_test)}


def linear(machine: Machine, options: argparse.Namespace) -> Lines:
    random, rows, width = np.random.default_rng(0), options.rows or 10_000_000, 100
    X = machine.xp.empty((rows, width), np.float32)
    w, f = random.normal(size=width).astype(np.float32), np.empty(rows, np.float32)
    for start in range(0, rows, 1_000_000):
        some = random.standard_normal((min(1_000_000, rows - start), width), np.float32)
        X[start : start + len(some)] = machine.xp.asarray(some)
        f[start : start + len(some)] = some @ w
    noise = 0.3 * np.sqrt(width) * random.standard_normal(rows, np.float32)
    clf = MaxMargin(soft_margin=1.0, device=machine.device)
    yield measured(machine, clf, X, (f + noise > 0.0).astype(np.int64))


def curved(machine: Machine, options: argparse.Namespace) -> Lines:
    random, rows, width = np.random.default_rng(0), options.rows or 200_000, 54
    X = random.standard_normal((rows, width), np.float32)
    f = (X[:, :10] ** 2).sum(axis=1) - 10.0 + 3.0 * X[:, 10] * X[:, 11]
    y = (f + random.standard_normal(rows) > 0.0).astype(np.int64)
    clf = MaxMargin(
        kernel="rbf", gamma=0.01, soft_margin=1.0, cache_size=16_000, device=machine.device
    )
    yield measured(machine, clf, X, y)


def generated_table(rows: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """A curved boundary in eight columns; the others are noise. Units differ."""
    random = np.random.default_rng(0)
    X = random.standard_normal((rows, width))
    f = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3] ** 2 + np.abs(X[:, 4])
    f += 0.7 * X[:, 5] - np.cos(X[:, 6] + X[:, 7]) + 0.5 * random.standard_normal(rows)
    return X * 10.0 ** (np.arange(width) % 5 - 2.0), (f > np.median(f)).astype(np.int64)


def laplacian(machine: Machine, options: argparse.Namespace) -> Lines:
    X, y = generated_table(options.rows or 60_000, 54)
    clf = MaxMargin(kernel="auto", cache_size=40_000, device=machine.device)
    yield measured(machine, clf, X, y)
    clf = MaxMargin(kernel="auto", soft_margin=1.0, cache_size=40_000, device=machine.device)
    yield {"soft_margin": 1.0, **measured(machine, clf, X, y)}


def table(machine: Machine, options: argparse.Namespace) -> Lines:
    rows = options.rows or 300_000
    X, y = generated_table(rows + 100_000, 20)
    clf = MaxMargin(kernel="auto", device=machine.device, n_landmarks=1000)
    tracemalloc.start()
    line = measured(machine, clf, X[:rows], y[:rows])
    line["peak above the rows, MB"] = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    trees = HistGradientBoostingClassifier(random_state=0)
    spent = wall_seconds(lambda: trees.fit(X[:rows], y[:rows]))
    yield {
        **line,
        "error, %": error(clf, X[rows:], y[rows:]),
        "HistGradientBoosting, s": spent,
        "HistGradientBoosting, error, %": error(trees, X[rows:], y[rows:]),
    }


def measured(machine: Machine, clf: MaxMargin, X: Any, y: np.ndarray) -> dict[str, Any]:
    """Two fits, and what came of them."""
    times = [machine.seconds(lambda: fit_quietly(clf, X, y)) for _ in range(2)]
    found = {
        "rows": len(y),
        "first fit, s": times[0],
        "second fit, s": times[1],
        "certified": clf.certificate_.ratio,
        "steps": clf.n_iter_,
    }
    if clf.kernel != "linear":
        found["supports"] = len(clf.support_)
        found["active rows, most of a class"] = int((clf.dual_coef_ != 0.0).sum(axis=1).max())
    if machine.device == "cuda":
        found["memory, GB"] = machine.xp.get_default_memory_pool().total_bytes() / 1e9
    return found


def digits(rows: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    (X, y), (X_test, y_test) = load_mnist(), load_mnist("test")
    return X[:rows], y[:rows], X_test, y_test


def error(clf: Any, X: Any, y: np.ndarray) -> float:
    return 100.0 * float(np.mean(clf.predict(X) != y))


BENCHMARKS = {
    each.__name__: each
    for each in (
        rates,
        mnist,
        endless,
        budget,
        predict,
        agree,
        exact,
        linear,
        curved,
        laplacian,
        table,
    )
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.device", description=__doc__)
    parser.add_argument("names", nargs="+", choices=BENCHMARKS, metavar="NAME")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--rows", type=int, help="of the rows or digits, so many only")
    parser.add_argument("--tests", type=int, help="of the test digits of endless, so many only")
    parser.add_argument("--seed", type=int, default=0, help="of endless")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="of endless: a deformation, or a parameter of the learner",
    )
    options = parser.parse_args(arguments)
    machine = Machine(options.device)
    print(json.dumps(machine.words()), flush=True)
    for name in options.names:
        for line in BENCHMARKS[name](machine, options):
            print(json.dumps({"benchmark": name, **line}), flush=True)


if __name__ == "__main__":
    main()
