"""Moving targets: does forgetting help, and a positive margin more? And for how long at what cost?

The figure of Kivinen, Smola and Williamson, "Large margin classification for moving targets",
section 5: 10 000 trials of a drifting and of a switching target, with a Gaussian kernel of width
0.5. Parameters are those with the fewest mistakes on three seeds; the mistakes are counted on ten
others.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from benchmarks.harness import Floor, Key, Report, Scale, Values, seconds
from maxmargin import NORMA, Perceptron, TrackingALMA
from maxmargin.datasets import make_drifting, make_switching
from maxmargin.evaluate import progressive

NAME = "moving"
QUESTION = "How many mistakes do moving targets cost?"

TRIALS = 10_000
TUNED_ON = (100, 101, 102)
SEEDS = range(10)
ENOUGH = 9  # of the ten seeds
STREAMS = {"drifting": make_drifting, "switching": make_switching}

WIDTH = 0.5
SHARED: dict[str, Any] = {
    "kernel": "rbf",
    "gamma": 1.0 / (2.0 * WIDTH**2),
    "fit_intercept": False,
}
MARGINS = (0.3, 0.5, 0.7, 1.0, 1.4, 2.0)


def norma(decays: Sequence[float], margins: Sequence[float]) -> list[Any]:
    pairs = [(decay, margin) for decay in decays for margin in margins]
    return [NORMA(rate=1.0, decay=decay, margin=margin, **SHARED) for decay, margin in pairs]


def alma(radii: Sequence[float], margins: Sequence[float]) -> list[Any]:
    pairs = [(radius, margin) for radius in radii for margin in margins]
    return [TrackingALMA(rate=1.0, radius=B, margin=margin, **SHARED) for B, margin in pairs]


# Each learner with a margin of 0 and with a positive one: what to choose from.
PERCEPTRON = "Perceptron"
CANDIDATES = {
    "NORMA": (
        norma((0.0005, 0.001, 0.002, 0.003, 0.005, 0.01), (0.0,)),
        norma((0.005, 0.01, 0.02, 0.03, 0.05), MARGINS),
    ),
    "TrackingALMA": (
        alma((0.8, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0), (0.0,)),
        alma((1.5, 2.0, 3.0, 4.0, 6.0), MARGINS),
    ),
}

ROWS, PARTS, BUDGET = 1_000_000, 20, 300

# In a process of its own. The cost is compared with that of plain products of the rows, in turns
# with the learning, because the machine itself may become slower or faster in between.
CHILD = """
import json, time
from pathlib import Path
import numpy as np
from maxmargin import NORMA
from maxmargin.datasets import make_drifting

def resident():
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])

clf = NORMA(
    kernel="rbf", gamma=2.0, fit_intercept=False, rate=1.0, decay=0.01, margin=1.0, budget={budget}
)
memory, seconds, plain = [], [], []
for number in range({parts}):
    X, y = make_drifting({rows}, random_state=number)
    if number == 0:  # compile, and warm up
        clf.partial_fit(X[:1000], y[:1000], classes=[-1, 1])
        np.exp(X[:1000] @ X[:1000].T)
    times = [0.0, 0.0]
    for start in range(0, {rows}, 1000):
        part = slice(start, start + 1000)
        began = time.perf_counter()
        clf.partial_fit(X[part], y[part])
        learned = time.perf_counter()
        np.exp(X[part] @ X[:1000].T)
        times[0] += learned - began
        times[1] += time.perf_counter() - learned
    seconds.append(times[0] / {rows})
    plain.append(times[1] / {rows})
    memory.append(resident())
print(json.dumps([memory, seconds, plain, clf.n_mistakes_, clf.support_.size]))
"""


def run(scale: Scale) -> Report:
    values: Values = {}
    floors: list[Floor] = []
    quality: dict[Key, float] = {}
    for stream in STREAMS:
        figure(stream, scale.rows(TRIALS), values, floors, quality)
    endless(scale.rows(ROWS // PARTS), values, floors, quality)
    data = f"{scale.rows(TRIALS):,} trials with a Gaussian kernel, {len(SEEDS)} streams"
    how = (
        "Mistakes are means over the streams, of predictions made before a row is learned from; "
        "parameters are those with the fewest mistakes on other streams. Learners run one after "
        "the other."
    )
    return Report(NAME, data, "s/row", values, floors, how=how, quality=quality)


def figure(
    stream: str, trials: int, values: Values, floors: list[Floor], quality: dict[Key, float]
) -> None:
    """Tune and compare the learners on one kind of stream."""
    make = STREAMS[stream]
    before = [make(trials, random_state=seed) for seed in TUNED_ON]
    data = [make(trials, random_state=seed) for seed in SEEDS]

    def measure(name: str, clf: Any) -> np.ndarray:
        counts: list[int] = []
        values[Key(stream, name)] = [
            seconds(lambda X=X, y=y: counts.append(mistakes(clf, X, y))) / trials for X, y in data
        ]
        quality[Key(name, f"mistakes, {stream}")] = float(np.mean(counts))
        return np.array(counts)

    perceptron = measure(PERCEPTRON, Perceptron(**SHARED))
    for name, (without, with_margin) in CANDIDATES.items():
        zero = measure(f"{name}, margin 0", fewest(without, before))
        positive = measure(f"{name}, positive margin", fewest(with_margin, before))
        what = f"{stream}, {name}: "
        better = float(np.sum((positive < zero) & (zero < perceptron)))
        floors += [
            Floor(what + "seeds of 10 with positive < 0 < Perceptron", ">=", ENOUGH, [better]),
            Floor(
                what + "mistakes saved by a positive margin, mean", ">=", 0.1, saved(positive, zero)
            ),
            Floor(what + "mistakes saved by forgetting, mean", ">=", 0.1, saved(zero, perceptron)),
        ]


def mistakes(clf: Any, X: np.ndarray, y: np.ndarray) -> int:
    return int(progressive(clone(clf), X, y).wrong.sum())


def fewest(candidates: Sequence[Any], data: Sequence[tuple[np.ndarray, np.ndarray]]) -> Any:
    return min(candidates, key=lambda clf: sum(mistakes(clf, X, y) for X, y in data))


def saved(fewer: np.ndarray, more: np.ndarray) -> list[float]:
    return [float(np.mean(more) - np.mean(fewer))]


def endless(rows: int, values: Values, floors: list[Floor], quality: dict[Key, float]) -> None:
    """A long drifting stream on a budget: do memory and rate stay what they were?"""
    code = CHILD.format(rows=rows, parts=PARTS, budget=BUDGET)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    memory, seconds_each, plain, wrong, stored = json.loads(done.stdout)
    case = f"drifting, NORMA, budget {BUDGET}"
    values[Key(case, "maxmargin")] = seconds_each
    values[Key(case, "exponentials of products with 1000 rows")] = plain
    growth = (max(memory) - memory[1]) / 1e6
    relative, half = np.divide(seconds_each, plain), PARTS // 2
    change = float(np.median(relative[half:]) / np.median(relative[:half]))
    floors += [
        Floor(f"{case}: growth of memory after two parts, MB", "<=", 5.0, [growth]),
        Floor(f"{case}: time of the second half / first", "<=", 1.1, [change]),
    ]
    quality[Key(case, "rows")] = PARTS * rows
    quality[Key(case, "mistakes, %")] = 100.0 * wrong / (PARTS * rows)
    quality[Key(case, "rows stored")] = stored
    quality[Key(case, "growth of memory, MB")] = growth
