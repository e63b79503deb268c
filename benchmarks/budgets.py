"""Kernel learners on a budget: accuracy on Adult and on a synthetic set, and speed when full.

Accuracy is progressive: each row is predicted before it is learned from, in one pass. The kernel is
``exp(-|x - x'|**2 / sigma**2)`` with sigma = sqrt(2) on Adult and 1 on the synthetic set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import (
    Contender,
    Floor,
    Key,
    Report,
    Scale,
    Values,
    race,
    ratios,
    wall_seconds,
)
from benchmarks.noca import HOW, ON_TEST_ROWS, ON_THE_WAY, progressive, synthetic
from benchmarks.passes import fit_quietly
from maxmargin import Forgetron, PassiveAggressive, Projectron, RandomBudgetPerceptron
from maxmargin.datasets import load_adult
from maxmargin.kernels.functions import GaussianKernel
from maxmargin.kernels.products import Products

NAME = "budgets"
QUESTION = "How good and how fast are kernels in bounded memory?"

ORDERS = 5
SETS = 10
BUDGET = 2000
ROWS = 20_000
FEATURES = (14, 784)
BLOCK = 256

# Learner, accuracy and number of stored rows asked for.
ON_ADULT: dict[str, tuple[Callable[..., Any], float, int]] = {
    "Forgetron, budget 2000": (lambda **k: Forgetron(budget=2000, **k), 76.2, 2000),
    "random budget 2000": (lambda **k: RandomBudgetPerceptron(budget=2000, **k), 0.0, 2000),
    "Projectron++": (Projectron, 79.4, 750),
    "PA-I, projected onto 100": (
        lambda **k: PassiveAggressive(
            C=0.1, budget=100, on_full="project", fit_intercept=False, **k
        ),
        0.0,
        100,
    ),
}
ON_SYNTHETIC: dict[str, tuple[Callable[..., Any], float, int]] = {
    "Forgetron, budget 1000": (lambda **k: Forgetron(budget=1000, **k), 98.1, 1000),
    "Projectron++": (Projectron, 98.4, 40),
}
FULL_OF_ROWS = (Forgetron, RandomBudgetPerceptron)


def run(scale: Scale) -> Report:
    floors: list[Floor] = []
    quality: dict[Key, float] = {}
    skipped = {}
    sets = [synthetic(scale.rows(10_000), seed) for seed in range(SETS)]
    for name, (make, asked, most) in ON_SYNTHETIC.items():
        fitted = [
            fit_quietly(make(kernel="rbf", gamma=1.0, max_iter=1, shuffle=False), X, y)
            for X, y in sets
        ]
        accuracies = [progressive(clf, y) for clf, (_, y) in zip(fitted, sets, strict=True)]
        sizes = [float(clf.support_.size) for clf in fitted]
        floors.append(Floor(f"accuracy, synthetic, {name}", ">=", asked, accuracies))
        floors.append(Floor(f"stored, synthetic, {name}", "<=", most, sizes))
        quality[Key(f"synthetic, {name}", ON_THE_WAY)] = float(np.mean(accuracies))
        quality[Key(f"synthetic, {name}", "rows stored")] = float(np.mean(sizes))
    try:
        settings = {"encoding": "integer", "drop_missing": True, "scale": True}
        X, y = load_adult(**settings)
        X_test, y_test = load_adult("test", **settings)
    except OSError as error:
        skipped["Adult"] = str(error)
    else:
        for name, (make, asked, most) in ON_ADULT.items():
            fitted = [
                fit_quietly(make(kernel="rbf", gamma=0.5, max_iter=1, random_state=order), X, y)
                for order in range(ORDERS)
            ]
            accuracies = [progressive(clf, y) for clf in fitted]
            sizes = [float(clf.support_.size) for clf in fitted]
            if asked:
                floors.append(Floor(f"accuracy, Adult, {name}", ">=", asked, accuracies))
                floors.append(Floor(f"stored, Adult, {name}", "<=", most, sizes))
            tests = [100.0 * clf.score(X_test, y_test) for clf in fitted]
            quality[Key(f"Adult, {name}", ON_THE_WAY)] = float(np.mean(accuracies))
            quality[Key(f"Adult, {name}", "rows stored")] = float(np.mean(sizes))
            quality[Key(f"Adult, {name}", ON_TEST_ROWS)] = float(np.mean(tests))
    values: Values = {}
    rows = scale.rows(ROWS)
    budget = min(BUDGET, rows // 4)
    for features in FEATURES:
        case = f"{features} features, {budget} rows stored"
        contenders = full_budgets(case, rows, features, budget)
        values |= race(contenders, scale.rounds)
        for Learner in FULL_OF_ROWS:
            ours = Key(case, Learner.__name__)
            for limit in ("product", "kernel matrix"):
                what = f"{case}: {Learner.__name__} / bare {limit}"
                rates = ratios(values, Key(case, limit), ours)
                floors.append(Floor(what, ">=", 0.6, rates))
                share = f"{Learner.__name__}, % of the rate of the bare {limit}"
                quality[Key(case, share)] = 100.0 * floors[-1].measured
    data = "random rows with all slots taken; a synthetic set and Adult for accuracy"
    return Report(NAME, data, "s/row", values, floors, skipped, HOW, quality=quality)


def full_budgets(case: str, rows: int, features: int, budget: int) -> list[Contender]:
    """Learners with all slots taken, and what their kernel values alone cost, in blocks."""
    X, y = stream(rows, features)
    kernel = GaussianKernel(1.0 / features, 3.0, 0.0, np.float32, X[0].astype(np.float64))
    stored = kernel.kept(kernel.points(X[:budget]), np.inf)

    def products() -> None:
        for start in range(0, rows, BLOCK):
            X[start : start + BLOCK] @ X[:budget].T

    def kernel_values() -> None:
        for start in range(0, rows, BLOCK):
            Products().gram(kernel, kernel.points(X[start : start + BLOCK]), stored)

    contenders = [
        Contender(Key(case, "product"), lambda: wall_seconds(products) / rows),
        Contender(Key(case, "kernel matrix"), lambda: wall_seconds(kernel_values) / rows),
    ]
    for Learner in FULL_OF_ROWS:
        clf = Learner(budget=budget, gamma=1.0 / features, random_state=0)
        clf.partial_fit(X, y, classes=[0, 1])
        while clf.support_.size < budget:
            clf.partial_fit(X, y)
        contenders.append(
            Contender(
                Key(case, Learner.__name__),
                lambda clf=clf: wall_seconds(lambda: clf.partial_fit(X, y)) / rows,
            )
        )
    return contenders


def stream(rows: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    """Two clouds in each class, and a tenth of the labels wrong: some 20 % mistakes."""
    random = np.random.default_rng(0)
    y, side = random.integers(0, 2, (2, rows))
    X = random.standard_normal((rows, features)).astype(np.float32)
    X[:, 0] += 6.0 * (y ^ side) - 3.0
    X[:, 1] += 6.0 * side - 3.0
    return X, y ^ (random.random(rows) < 0.1)
