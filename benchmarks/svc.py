"""The hinge loss and kernels: `MaxMargin`, certified 0.999, beside `LinearSVC` and `SVC`.

Objectives of the hinge loss are those of an intercept that is not penalised. With kernels
`MaxMargin` has the squared hinge loss, one class against the rest, and `SVC` the hinge loss, one
class against one other; both have the same memory for kernel values. The peak of memory is that of
a process of its own, above the rows, the model and the factor of the largest active set.

The benchmark `which-lambda` has the rest of the comparison with LinearSVC: the choice of lambda,
leave-one-out and probabilities. ``python -m benchmarks svc which-lambda`` measures all of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

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
    seconds,
)
from benchmarks.passes import fit_quietly
from maxmargin import MaxMargin
from maxmargin.datasets import load_adult, load_mnist, load_usps

NAME = "svc"
QUESTION = "How do the hinge loss and kernels compare with LinearSVC and SVC?"

HINGE, LINEAR_SVC = "MaxMargin(loss='hinge')", "LinearSVC(loss='hinge')"
KERNEL, PAIRS = "MaxMargin(kernel='rbf')", "SVC"
COSTS = (0.1, 1.0, 10.0)
DIGITS, TEST_DIGITS = 12_000, 4_000
LAMBDA, GAMMA = 0.1, 0.025
CACHE = 2000.0
ROUNDS = 3
MANY_DIGITS, LITTLE_CACHE = 30_000, 500.0
# Problems of two classes, by which objectives are compared, and the digits of USPS among them.
RANDOM_PROBLEMS, USPS_DIGITS = 20, (0, 3, 8)

CHILD = """
import json, sys
from pathlib import Path
import numpy as np
from threadpoolctl import threadpool_limits
from maxmargin import MaxMargin
from maxmargin.datasets import load_mnist

def status(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])

X, y = load_mnist()
X, y = X[:{rows}].astype(np.float32) / np.float32(255.0), y[:{rows}]
with threadpool_limits(1):
    MaxMargin(kernel="rbf", gamma={gamma}, soft_margin={penalty}).fit(X[:500], y[:500])
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    clf = MaxMargin(kernel="rbf", gamma={gamma}, soft_margin={penalty}, cache_size={cache})
    clf.fit(X, y)
found = {{"peak": status("VmHWM") - before, "ratio": clf.certificate_.ratio}}
found["model"] = clf.dual_coef_.nbytes + clf.support_vectors_.nbytes
found["factor"] = 8 * int((clf.dual_coef_ != 0.0).sum(axis=1).max()) ** 2
print(json.dumps(found))
"""


def run(scale: Scale) -> Report:
    values: Values = {}
    floors: list[Floor] = []
    quality: dict[Key, float] = {}
    skipped: dict[str, str] = {}
    rounds = min(ROUNDS, scale.rounds)
    with threadpool_limits(1):
        for work in (_hinge, _objectives, _usps, _digits, _digits_by_scale, _memory):
            try:
                values |= work(scale, rounds, floors, quality)
            except OSError as error:
                skipped[work.__name__.strip("_")] = str(error)
    cases = list(dict.fromkeys(key.case for key in values))
    pairs = []
    for case in cases:
        ours, peer = (key for key in values if key.case == case)
        pairs.append(Comparison(ours, peer, peer.contender, f"{ours.contender}, {case}"))
    data = "Adult, USPS and digits of MNIST in [0, 1]"
    how = (
        "Processor time, one thread. LinearSVC has its 1,000 iterations, SVC its own tolerance "
        "(1e-5 where objectives are compared) and C = 5, MaxMargin "
        f"lambda = {LAMBDA:g} with kernels; cache_size is {CACHE:g} for both."
    )
    return Report(NAME, data, "s", values, floors, skipped, how, pairs, quality)


def _hinge(scale: Scale, rounds: int, floors: list[Floor], quality: dict[Key, float]) -> Values:
    X, y = load_adult()
    rows = scale.rows(y.size)
    X, y = X[:rows], y[:rows]
    values: Values = {}
    for C in COSTS:
        case = f"Adult, C = {C:g}"
        works: dict[str, Callable[[], Any]] = {
            HINGE: lambda C=C: fit_quietly(MaxMargin(loss="hinge", soft_margin=0.5 / C), X, y),
            LINEAR_SVC: lambda C=C: fit_quietly(LinearSVC(C=C, loss="hinge", random_state=0), X, y),
        }
        ours, theirs = (_objective(works[name](), X, y, C) for name in (HINGE, LINEAR_SVC))
        found = _raced(case, works, rounds)
        above = 100.0 * (ours / theirs - 1.0)
        quality[Key(case, "objective above LinearSVC's, %")] = above
        if C >= 1.0:
            compared = ratios(found, Key(case, HINGE), Key(case, LINEAR_SVC))
            floors.append(Floor(f"time / that of LinearSVC, {case}", "<=", 0.5, compared))
        floors.append(Floor(f"objective above LinearSVC's, %, {case}", "<=", 0.1, [above]))
        values |= found
    return values


def _objective(clf: Any, X: Any, y: np.ndarray, C: float) -> float:
    signs = np.where(y == clf.classes_[1], 1.0, -1.0)
    outputs = clf.decision_function(X)
    if getattr(clf, "kernel", "linear") == "linear":
        square = np.square(clf.coef_).sum()
    else:
        square = clf.dual_coef_[0] @ (outputs[clf.support_] - clf.intercept_[0])
    return float(0.5 * square + C * np.maximum(0.0, 1.0 - signs * outputs).sum())


def _objectives(
    scale: Scale, rounds: int, floors: list[Floor], quality: dict[Key, float]
) -> Values:
    """The objective of the hinge loss beside that of SVC: how far above the lower one, at most."""
    X, y = load_usps()
    rows = scale.rows(y.size)
    problems = {
        "USPS, one digit against the rest": [
            (X[:rows], y[:rows] == digit, 0.5 / LAMBDA) for digit in USPS_DIGITS
        ],
        f"{RANDOM_PROBLEMS} random problems": [
            _random_problem(seed) for seed in range(RANDOM_PROBLEMS)
        ],
    }
    for name, given in problems.items():
        for kernel in ("linear", "rbf"):
            above = max(_above_the_lower(*each, kernel) for each in given)
            case = f"hinge loss, {kernel}, {name}"
            quality[Key(case, "objective above the lower one, %")] = above
            floors.append(
                Floor(f"objective above the lower of SVC's and ours, %, {case}", "<=", 0.1, [above])
            )
    return {}


def _random_problem(seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Rows, labels and C; every second boundary is curved."""
    random = np.random.default_rng(seed)
    n, d = int(random.integers(50, 400)), int(random.integers(2, 20))
    X = random.normal(size=(n, d))
    noise = float(random.choice([0.1, 0.5, 2.0])) * random.normal(size=n)
    outputs = X @ random.normal(size=d) if seed % 2 else (X[:, :2] ** 2).sum(axis=1) - 1.5
    return X, outputs + noise > 0.0, float(random.choice([0.1, 1.0, 10.0]))


def _above_the_lower(X: np.ndarray, y: np.ndarray, C: float, kernel: str) -> float:
    ours = fit_quietly(MaxMargin(loss="hinge", soft_margin=0.5 / C, kernel=kernel), X, y)
    theirs = fit_quietly(SVC(C=C, tol=1e-5, cache_size=CACHE, kernel=kernel), X, y)
    reached, other = (_objective(clf, X, y, C) for clf in (ours, theirs))
    return 100.0 * (reached / min(reached, other) - 1.0)


def _usps(scale: Scale, rounds: int, floors: list[Floor], quality: dict[Key, float]) -> Values:
    (X, y), test = load_usps(), load_usps("test")
    rows = scale.rows(y.size)
    return _beside_svc("USPS", X[:rows], y[:rows], test, "scale", 2.0, rounds, floors, quality)


def _digits(
    scale: Scale,
    rounds: int,
    floors: list[Floor],
    quality: dict[Key, float],
    gamma: Any = GAMMA,
) -> Values:
    (X, y), (X_test, y_test) = load_mnist(), load_mnist("test")
    rows = scale.rows(DIGITS)
    test = X_test[:TEST_DIGITS] / 255.0, y_test[:TEST_DIGITS]
    given = X[:rows] / 255.0, y[:rows], test, gamma, 0.3
    return _beside_svc(f"{rows:,} digits, gamma = {gamma}", *given, rounds, floors, quality)


def _digits_by_scale(
    scale: Scale, rounds: int, floors: list[Floor], quality: dict[Key, float]
) -> Values:
    return _digits(scale, rounds, floors, quality, "scale")


def _beside_svc(
    case: str,
    X: np.ndarray,
    y: np.ndarray,
    test: tuple[np.ndarray, np.ndarray],
    gamma: Any,
    asked: float,
    rounds: int,
    floors: list[Floor],
    quality: dict[Key, float],
) -> Values:
    ours = MaxMargin(kernel="rbf", gamma=gamma, soft_margin=LAMBDA, cache_size=CACHE)
    theirs = SVC(C=0.5 / LAMBDA, gamma=gamma, cache_size=CACHE)
    learners = {KERNEL: ours, PAIRS: theirs}
    found = _raced(
        case, {name: lambda c=c: fit_quietly(c, X, y) for name, c in learners.items()}, rounds
    )
    errors = {name: 100.0 * (1.0 - clf.score(*test)) for name, clf in learners.items()}
    quality |= {Key(case, f"{name}: test error, %"): error for name, error in errors.items()}
    quality[Key(case, f"{KERNEL}: certified")] = ours.certificate_.ratio
    compared = ratios(found, Key(case, KERNEL), Key(case, PAIRS))
    floors.append(Floor(f"time / that of SVC, {case}", "<=", asked, compared))
    above = errors[KERNEL] - errors[PAIRS]
    floors.append(Floor(f"test error, points above SVC's, {case}", "<=", 0.1, [above]))
    return found


def _raced(case: str, works: dict[str, Callable[[], Any]], rounds: int) -> Values:
    contenders = [Contender(Key(case, name), lambda w=w: seconds(w)) for name, w in works.items()]
    return race(contenders, rounds)


def _memory(scale: Scale, rounds: int, floors: list[Floor], quality: dict[Key, float]) -> Values:
    """The peak of a fit, in a process of its own."""
    rows = scale.rows(MANY_DIGITS)
    code = CHILD.format(rows=rows, gamma=GAMMA, penalty=LAMBDA, cache=LITTLE_CACHE)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode:
        raise OSError(done.stderr.strip().rpartition("\n")[2])
    found = json.loads(done.stdout)
    case = f"{rows:,} digits, cache_size = {LITTLE_CACHE:g}"
    above = (found["peak"] - found["model"] - found["factor"]) / 1e6
    quality |= {
        Key(case, "peak above the rows, MB"): found["peak"] / 1e6,
        Key(case, "model, MB"): found["model"] / 1e6,
        Key(case, "largest factor, MB"): found["factor"] / 1e6,
        Key(case, f"{KERNEL}: certified"): found["ratio"],
    }
    floors.append(Floor(f"peak above rows, model and factor, MB, {case}", "<=", 500.0, [above]))
    return {}
