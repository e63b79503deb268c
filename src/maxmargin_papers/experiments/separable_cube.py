"""Separable points of a cube: what both figures of the paper are drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from sklearn.svm import SVC

from maxmargin.datasets import make_separable
from maxmargin_papers.experiments.training_passes import (
    fit_until_converged,
    fit_until_stopped,
    margin_of,
)
from maxmargin_papers.reproduction.experiment import BY_CHANCE, Experiment, Printed, measured

PAPER = "Zhao and Huang, “Simple online learning with approximate max margin and fast convergence”"
GAP = 0.12
ROWS = 10_000
MOST_PASSES = 10**6

CHOICES = (
    "The gap between the classes is not said. Points nearer than 0.12 to the hyperplane are drawn "
    "again: with gaps of 0.1 to 0.15 margins come out about as printed, so all lines are fitted. "
    "Without a gap the best margin was 0.003 to 0.004 on three other data sets, on which "
    "AMIRA(0.9) took 80 000 to 300 000 passes and reached 0.47 to 0.65 of it, where about 0.4 is "
    "printed.",
    "The normal of the hyperplane has a uniformly random direction.",
    "The optimum is that of LIBSVM with C = 10⁶ and a free bias. Learners have one more feature, "
    "which is 1. Margins are measured without it and divided by the optimum.",
    "Rows that still bring updates are presented more often than others until a full pass makes no "
    "update.",
)


def measure_learners(
    learners: Mapping[str, Any], seed: int, tiny: bool, *, endless: str
) -> dict[str, float]:
    """Share of the best margin and updates of each learner on the data set ``seed``.

    All but the one named ``endless`` have to converge.
    """
    rows, gap = (200, 0.5) if tiny else (ROWS, GAP)
    X, y = make_separable(rows, gap=gap, random_state=seed)
    best = best_margin(X, y)
    numbers = {"best": best}
    for name, clf in learners.items():
        fit = fit_until_stopped if name == endless else fit_until_converged
        fit(clf.set_params(random_state=seed), X, y)
        numbers[f"{name} share"] = margin_of(clf, X, y) / best
        numbers[f"{name} updates"] = clf.n_updates_
    numbers[f"{endless} converged"] = float(learners[endless].converged_)
    return numbers


def best_margin(X: np.ndarray, y: np.ndarray) -> float:
    return float(1.0 / np.linalg.norm(SVC(kernel="linear", C=1e6).fit(X, y).coef_))


def printed(name: str, text: str, where: str) -> Printed:
    """The share of the best margin that a learner reaches."""
    ours = measured(f"{name} share")
    column = "margin, of the best one"
    return Printed(name, column, text, ours, BY_CHANCE, where, kind="fitted")


of_cube = partial(Experiment, paper=PAPER)
"""An experiment with these points."""
