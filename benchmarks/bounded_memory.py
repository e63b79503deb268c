"""Drifting streams in bounded memory: each row is predicted before it is learned from, in one pass.

``python -m benchmarks.bounded_memory [--data NAME ...] [--rows N]`` compares
``AutoMargin(kernel="rbf")``, which has nothing to tune, with learners whose parameters are the best
in hindsight: FOGD (J. Lu, S. Hoi, J. Wang, P. Zhao and Z.-Y. Liu, "Large scale online kernel
learning", JMLR 17, 2016), PA-I on the same random features, `Forgetron` and `Projectron` with as
many stored rows as there are features, and with river's adaptive random forest.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks.arena.datasets import MOST_DRIFTING, DataSet, load
from benchmarks.arena.streams import Contender, Missing, Ours, Outcome, River, river_forest
from benchmarks.harness import seconds
from maxmargin import AutoMargin, Forgetron, Projectron

STREAMS = ("chess", "rbf", "outdoor")
COMPONENTS = 256
# Widths in terms of the median distance of 1000 rows of the whole stream, with raw columns.
WIDTHS = (1.0, 0.5, 0.25, 0.125, 0.0625)
WIDTHS_OF_BUDGETS = (0.5, 0.25, 0.125)
RATES = (0.3, 1.0, 3.0, 10.0)
AGGRESSIVENESS = (0.1, 1.0, 10.0)
WARM_UP = 160


class OnFeatures:
    """One-vs-rest learners of the hinge loss on random Fourier features of one width.

    Attributes
    ----------
    width : in terms of the median distance
    step : the rate of FOGD, or the largest step of PA-I
    is_passive : PA-I?
    name, kind, is_slow, family : see `Contender`
    """

    def __init__(self, width: float, step: float, is_passive: bool) -> None:
        self.family, letter = ("PA-I on features", "C") if is_passive else ("FOGD", "rate")
        self.name = f"{self.family}, width={width:g}, {letter}={step:g}"
        self.kind, self.is_slow = "curved", False
        self.width, self.step, self.is_passive = width, step, is_passive

    def run(self, data: DataSet) -> Outcome:
        features = fourier(data.X, self.width * median_distance(data.X))
        weights = np.zeros((data.classes, COMPONENTS))
        signs = np.where(np.arange(data.classes) == data.y[:, None], 1.0, -1.0)
        predicted = np.zeros(data.y.size, int)

        def learn() -> None:
            for i, (z, y) in enumerate(zip(features, signs, strict=True)):
                outputs = weights @ z
                predicted[i] = outputs.argmax()
                loss = np.maximum(0.0, 1.0 - y * outputs)
                # The squared length of z is 1.
                step = np.minimum(self.step, loss) if self.is_passive else self.step * (loss > 0.0)
                weights[...] += np.outer(y * step, z)

        return Outcome(predicted, None, seconds(learn))


def fourier(X: np.ndarray, width: float) -> np.ndarray:
    directions = np.random.default_rng(0).normal(size=(X.shape[1], COMPONENTS // 2)) / width
    angles = X @ directions
    return np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(COMPONENTS // 2)


def median_distance(X: np.ndarray) -> float:
    some = X[np.random.default_rng(0).permutation(len(X))[:1000]]
    squares = np.square(some[:, None] - some).sum(axis=2)
    return float(np.sqrt(np.median(squares[squares > 0.0])))


def on_a_budget(Learner: Any, width: float, data: DataSet) -> Contender:
    gamma = 0.5 / (width * median_distance(data.X)) ** 2
    settings = {"kernel": "rbf", "gamma": gamma, "budget": COMPONENTS, "random_state": 0}
    name = Learner.__name__
    return Ours(f"{name}, width={width:g}", partial(Learner, **settings), "curved", name)


def contenders(data: DataSet) -> Iterator[Contender]:
    yield Ours("AutoMargin(kernel='rbf')", partial(AutoMargin, kernel="rbf", random_state=0))
    yield Ours("AutoMargin()", AutoMargin)
    for width in WIDTHS:
        yield from (OnFeatures(width, rate, is_passive=False) for rate in RATES)
        yield from (OnFeatures(width, C, is_passive=True) for C in AGGRESSIVENESS)
    for Learner in (Forgetron, Projectron):
        yield from (on_a_budget(Learner, width, data) for width in WIDTHS_OF_BUDGETS)
    yield River("ARFClassifier", river_forest, "curved")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bounded_memory")
    parser.add_argument("--data", nargs="*", default=STREAMS, choices=STREAMS)
    parser.add_argument("--rows", type=int, default=MOST_DRIFTING)
    parser.add_argument("--only", default="", help="contenders whose name begins so")
    options = parser.parse_args()
    for name in options.data:
        whole = load(name)
        data = whole.first(options.rows)._replace(n_classes=whole.classes)
        beginning = data.first(WARM_UP)
        best: dict[str, tuple[float, str, float]] = {}
        for contender in contenders(data):
            if not contender.name.startswith(options.only):
                continue
            try:
                if isinstance(contender, Ours):
                    contender.run(beginning)  # compiles its loops
                outcome = contender.run(data)
            except Missing as reason:
                print(f"{contender.name}: {reason}")
                continue
            accuracy = 100.0 * float((outcome.predicted == data.y).mean())
            found = accuracy, contender.name, 1e6 * outcome.seconds / data.y.size
            family = contender.family or contender.name
            best[family] = max(best.get(family, found), found)
        print(f"{name}, {data.y.size:,} rows; the best of each kind in hindsight:")
        for accuracy, contender_name, microseconds in best.values():
            print(
                f"  {contender_name:50} {accuracy:6.2f} % {microseconds:9.1f} µs a row", flush=True
            )


if __name__ == "__main__":
    main()
