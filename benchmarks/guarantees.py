"""Prediction sets beside crepes and MAPIE, drift alarms beside river's detectors, and their cost.

The peers' sets are made by the same classifier, fitted to nine tenths of the first half of the rows
in one pass and calibrated with the other tenth; they and ours are compared on the second half,
along which ours go on learning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from benchmarks.arena.datasets import DataSet, load
from benchmarks.harness import Contender, Floor, Key, Report, Scale, race, ratios, seconds
from maxmargin import AutoMargin, ConformalClassifier, Perceptron
from maxmargin.datasets import make_switching
from maxmargin.evaluate import Drift, DriftAlarm, progressive

NAME = "guarantees"
QUESTION = "How large are prediction sets, how late are drift alarms, and what do both cost?"

COVERAGE, WINDOW, DELTA = 0.9, 2000, 0.01
ORDERS = {"electricity": 1, "a9a": 8}  # electricity has one order, that of time
HELD_OUT = 10  # one row of so many
WARM_UP, CHANGE, STILL = 1000, 3000, 5000
STREAMS = 60
BARE, SETS, ALARMS, BOTH = "no sets, no alarms", "sets", "alarms", "sets and alarms"
Sets = np.ndarray
Errors = list[int]


def run(scale: Scale) -> Report:
    floors: list[Floor] = []
    skipped: dict[str, str] = {}
    quality: dict[Key, float] = {}
    contenders: list[Contender] = []
    for name in ORDERS:
        try:
            data = load(name)
        except OSError as error:
            skipped[name] = str(error)
            continue
        compare_sets(name, data, scale, quality, floors, skipped)
        contenders += costs(name, data.shuffled(0).first(scale.rows(data.y.size)))
    compare_delays(max(3, int(scale.share * STREAMS)), quality, floors, skipped)
    values = race(contenders, scale.rounds)
    for name in dict.fromkeys(key.case for key in values):
        both = ratios(values, Key(name, BOTH), Key(name, BARE))
        floors.append(Floor(f"{name}: a pass with {BOTH} / without", "<=", 1.15, both))
    data = "electricity in the order of time, a9a in random orders; make_switching and SEA"
    how = (
        f"Target {COVERAGE:.0%}. Windows are all of {WINDOW} consecutive rows; sizes and coverages "
        "are those of the second half of the rows, means over orders. 'At equal coverage' is the "
        "peers' classifier with the threshold that covers as many of these rows as our sets, which "
        "is not known in advance. Delays are medians in rows; river's detectors get the errors of "
        "the same frozen classifier, with the most eager of eight thresholds that raises alarms on "
        "at most 1 % of streams without a change. Times are those of the processor, a row."
    )
    return Report(NAME, data, "s/row", values, floors, skipped, how, quality=quality)


# --------------------------------------------------------------------------------------------- sets
def compare_sets(
    name: str,
    data: DataSet,
    scale: Scale,
    quality: dict[Key, float],
    floors: list[Floor],
    skipped: dict[str, str],
) -> None:
    peers = {peer: make for peer, make in PEERS.items() if is_there(peer, skipped)}
    found: dict[str, list[tuple[float, float]]] = {}
    windows, compared = [], {peer: [] for peer in peers}
    for seed in range(ORDERS[name]):
        part = data.shuffled(seed).first(scale.rows(data.y.size))
        X, y, half = part.X, part.y, part.y.size // 2
        ours = progressive(ConformalClassifier(AutoMargin(), COVERAGE), X, y)
        sums = np.cumsum(np.append(0, ours.covered))
        size = min(WINDOW, y.size)
        windows.append((sums[size:] - sums[:-size]) / size)
        own = float(ours.set_sizes[half:].mean()), float(ours.covered[half:].mean())
        found.setdefault("AutoMargin", []).append(own)
        held = np.random.default_rng(seed).permutation(half)[: half // HELD_OUT]
        rest = np.setdiff1d(np.arange(half), held)
        clf = AutoMargin().partial_fit(X[rest], y[rest], classes=np.unique(y))
        for peer, sets_by in peers.items():
            sets = sets_by(clf, X[held], y[held], X[half:])
            inside = sets[np.arange(y.size - half), y[half:]]
            found.setdefault(peer, []).append(
                (float(sets.sum(axis=1).mean()), float(inside.mean()))
            )
            compared[peer].append(own[0])
        equal = at_equal_coverage(clf.predict_proba(X[half:]), y[half:], own[1])
        found.setdefault("at equal coverage", []).append((equal, own[1]))
    for peer, pairs in found.items():
        size, coverage = np.mean(pairs, axis=0)
        quality[Key(name, f"mean size of sets, {peer}")] = float(size)
        quality[Key(name, f"coverage, {peer}")] = float(coverage)
    least, most = min(each.min() for each in windows), max(each.max() for each in windows)
    quality[Key(name, "lowest coverage in a window")] = float(least)
    quality[Key(name, "highest coverage in a window")] = float(most)
    away = max(COVERAGE - least, most - COVERAGE)
    floors.append(Floor(f"{name}: coverage in a window, away from target", "<=", 0.02, [away]))
    for peer in peers:
        above = np.mean(compared[peer]) / quality[Key(name, f"mean size of sets, {peer}")]
        floors.append(Floor(f"{name}: mean size of sets / {peer}'s", "<=", 1.0, [float(above)]))
    above = np.mean([size for size, _ in found["AutoMargin"]]) / np.mean(
        [size for size, _ in found["at equal coverage"]]
    )
    floors.append(Floor(f"{name}: the same at equal coverage", "<=", 1.0, [float(above)]))


def is_there(peer: str, skipped: dict[str, str]) -> bool:
    try:
        __import__(peer.lower())
    except ImportError:
        skipped[peer] = f"pip install {peer.lower()}"
        return False
    return True


def crepes_sets(clf: Any, X: Any, y: np.ndarray, others: Any) -> Sets:
    from crepes import WrapClassifier

    wrapped = WrapClassifier(clf)
    wrapped.calibrate(X, y, seed=0)
    found = wrapped.predict_set(others, labels=False, confidence=COVERAGE, seed=0)
    return np.asarray(found, dtype=bool)


def mapie_sets(clf: Any, X: Any, y: np.ndarray, others: Any) -> Sets:
    from mapie.classification import SplitConformalClassifier

    wrapped = SplitConformalClassifier(clf, confidence_level=COVERAGE, random_state=0)
    wrapped.conformalize(dense(X), y)
    return np.asarray(wrapped.predict_set(dense(others))[1][:, :, 0], dtype=bool)


PEERS: dict[str, Callable[[Any, Any, np.ndarray, Any], Sets]] = {
    "crepes": crepes_sets,
    "MAPIE": mapie_sets,
}


def dense(X: Any) -> np.ndarray:
    """MAPIE takes no sparse rows."""
    return X.toarray() if sparse.issparse(X) else X


def at_equal_coverage(probabilities: np.ndarray, y: np.ndarray, coverage: float) -> float:
    """The mean size of sets of all classes above one threshold, which covers such a share."""
    own = np.sort(probabilities[np.arange(y.size), y])[::-1]
    return float((probabilities >= own[round(coverage * y.size) - 1]).sum(axis=1).mean())


# ------------------------------------------------------------------------------------------- alarms
def switched(seed: int, change: int) -> tuple[np.ndarray, np.ndarray]:
    return make_switching(2 * change, every=change, random_state=seed)


def sea(seed: int, change: int) -> tuple[np.ndarray, np.ndarray]:
    """The SEA concepts (Street and Kim 2001): a sum above 8, later above 9.5; 10 % are wrong."""
    random = np.random.default_rng(seed)
    X, rows = random.uniform(0.0, 10.0, size=(2 * change, 3)), np.arange(2 * change)
    limits = np.where(rows < change, 8.0, 9.5)
    return X / 5.0 - 1.0, (X[:, 0] + X[:, 1] <= limits) ^ (random.random(2 * change) < 0.1)


KINDS = {"make_switching": switched, "SEA": sea}


def compare_delays(
    streams: int, quality: dict[Key, float], floors: list[Floor], skipped: dict[str, str]
) -> None:
    try:
        from river.drift import ADWIN, PageHinkley
    except ImportError:
        skipped["river"] = "pip install river"
        return
    grids: dict[str, list[Any]] = {
        "ADWIN": [ADWIN(delta=d) for d in (0.2, 0.1, 0.05, 0.02, 0.01, 0.002, 1e-3, 1e-4)],
        "PageHinkley": [PageHinkley(threshold=t) for t in (10, 20, 30, 40, 50, 70, 100, 150)],
    }
    for kind, make in KINDS.items():
        still = []
        for seed in range(4 * streams):
            X, y = make(10_000 + seed, STILL)
            still.append(frozen_errors(X[:STILL], y[:STILL]))
        chosen = {name: most_eager(grid, still) for name, grid in grids.items()}
        delays: dict[str, list[float]] = {name: [] for name in ("DriftAlarm", *chosen)}
        for seed in range(streams):
            X, y = make(seed, CHANGE)
            drift = Drift(DriftAlarm(DELTA, warm_up=WARM_UP, random_state=seed), "alarm")
            rows = progressive(Perceptron(average=True), X, y, on_drift=drift).drifts
            delays["DriftAlarm"].append(delay(rows.tolist()))
            errors = frozen_errors(X, y)
            for name, detector in chosen.items():
                row = first_alarm(detector, errors)
                delays[name].append(delay([] if row is None else [row + WARM_UP + 1]))
        for name, found in delays.items():
            quality[Key(kind, f"median delay, {name}")] = float(np.median(found))
            quality[Key(kind, f"without an alarm, %, {name}")] = 100.0 * np.isinf(found).mean()
        better = min(float(np.median(delays[name])) for name in chosen)
        above = float(np.median(delays["DriftAlarm"])) / better
        floors.append(Floor(f"{kind}: median delay / that of river's better", "<=", 2.0, [above]))


def frozen_errors(X: np.ndarray, y: np.ndarray) -> Errors:
    """The mistakes of a learner that stops learning after some rows.

    Mistakes of one that goes on become fewer, which ADWIN reports as a change.
    """
    labels = [False, True] if y.dtype == bool else [-1, 1]
    clf = Perceptron(average=True).partial_fit(X[:WARM_UP], y[:WARM_UP], classes=labels)
    return (clf.predict(X[WARM_UP:]) != y[WARM_UP:]).astype(int).tolist()


def most_eager(grid: Sequence[Any], still: Sequence[Errors]) -> Any:
    """The first detector with alarms on at most 1 % of the streams; the last if there is none."""
    for detector in grid:
        alarms = sum(first_alarm(detector, each) is not None for each in still)
        if alarms <= DELTA * len(still):
            return detector
    return grid[-1]


def first_alarm(detector: Any, errors: Errors) -> int | None:
    detector = detector.clone()
    for row, error in enumerate(errors):
        detector.update(error)
        if detector.drift_detected:
            return row
    return None


def delay(alarms: list[int]) -> float:
    late = [row - CHANGE for row in alarms if row > CHANGE]
    return float(late[0]) if late else np.inf


# --------------------------------------------------------------------------------------------- cost
def costs(name: str, data: DataSet) -> list[Contender]:
    def passing(coverage: float | None, on_drift: str | None) -> Callable[[], float]:
        def once() -> object:
            clf = AutoMargin() if coverage is None else ConformalClassifier(AutoMargin(), coverage)
            return progressive(clf, data.X, data.y, on_drift=on_drift)

        return lambda: seconds(once) / data.y.size

    asked = {
        BARE: (None, None),
        SETS: (COVERAGE, None),
        ALARMS: (None, "alarm"),
        BOTH: (COVERAGE, "alarm"),
    }
    return [Contender(Key(name, peer), passing(*each)) for peer, each in asked.items()]
