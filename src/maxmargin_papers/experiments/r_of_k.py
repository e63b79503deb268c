"""r-of-k threshold functions: what both figures of the paper are drawn from."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, clone

from maxmargin import ALMA, PUMMA, ROMMA
from maxmargin.datasets import make_r_of_k
from maxmargin_papers.experiments.training_passes import (
    fit_until_converged,
    margin_of,
    passes_in_order,
)
from maxmargin_papers.reproduction.experiment import (
    Answer,
    Cell,
    Claim,
    DataHome,
    Experiment,
    Results,
    Scale,
    in_runs,
)
from maxmargin_papers.reproduction.figures import COLOURS, Panel
from maxmargin_papers.reproduction.significance import less

PAPER = (
    "Ishibashi, Hatano and Takeda, “Online learning of approximate maximum p-norm margin "
    "classifiers with bias”, 2008"
)
CHOICES = (
    "How positive and negative examples are made equally likely is not said. Here a coin decides "
    "the label, and the number of +1 among the relevant features is binomial, given the label.",
    "The printed formula of the threshold function lacks the term k; with it the bias is k − 2r + "
    "1 = 15, 9, 1, as the text says.",
    "Each pass goes through the rows in the same order. All runs go on until a pass without an "
    "update.",
    "2 ln n = 9.21 is rounded to 9.25, for which powers are square roots.",
    "The best margin is PUMMA’s own proved upper bound at δ = 0.001, at most 0.2 % too large.",
)

FEATURES = 100
BIAS = {1: 15, 4: 9, 8: 1}
"""By r, for k = 16."""
NORMS = {"2": ("PUMMA", "ROMMA", "ALMA"), "2 ln n": ("PUMMA", "ALMA")}
"""Which learners take part; ROMMA exists for p = 2 only."""
STYLES = {"PUMMA": "-", "ROMMA": "--", "ALMA": ":"}
MOST_PASSES = 10**6
PRODUCTS_OF_PUMMA, PRODUCTS_OF_OTHERS = 3, 1
"""Inner products in an update at p = 2, beside w.x: z.z, w.z and the bias from w.x⁻; or x.x."""


def cells(scale: Scale) -> Sequence[Cell]:
    runs = {"full": 10, "quick": 1, "tiny": 1}[scale]
    return [{"r": r, "p": p, "seed": s} for p in NORMS for r in BIAS for s in range(runs)]


def measure(cell: Cell, tiny: bool, data_home: DataHome) -> dict[str, Any]:
    """Updates, margin and seconds of processor time along each learner's run."""
    rows, width = (40, 20) if tiny else (1000, FEATURES)
    X, y = make_r_of_k(rows, width, r=int(cell["r"]), random_state=int(cell["seed"]))
    p = 2.0 if cell["p"] == "2" else two_log(X.shape[1])
    numbers: dict[str, Any] = {"best": best_margin(X, y, p)}
    for name in NORMS[str(cell["p"])]:
        run = follow(learner(name, p, X), X, y, p / (p - 1.0))
        numbers |= {f"{name} {what}": curve for what, curve in run.items()}
        numbers[f"{name} updates in all"] = run["updates"][-1]
        numbers[f"{name} products in all"] = run["products"][-1]
        numbers[f"{name} seconds in all"] = run["seconds"][-1]
        numbers[f"{name} share"] = run["margins"][-1] / numbers["best"]
    return numbers


def two_log(n: int) -> float:
    """2 ln n, rounded to a multiple of a quarter, as by ``p="log"``."""
    return round(8.0 * math.log(n)) / 4.0


def learner(name: str, p: float, X: np.ndarray) -> Any:
    """All of them are to reach 0.9 of the best margin; rivals of PUMMA have a feature R for b."""
    R = float(np.linalg.norm(X, ord=p, axis=1).max())
    if name == "PUMMA":
        return PUMMA(delta=0.1, p=p)
    if name == "ROMMA":
        return ROMMA(delta=0.1, intercept_scaling=R)
    return ALMA(alpha=0.1, p=p, intercept_scaling=R)


def follow(clf: ClassifierMixin, X: np.ndarray, y: np.ndarray, q: float) -> dict[str, list[float]]:
    """What is known of a run at some of its passes."""
    clone(clf).partial_fit(X[:50], y[:50], classes=[-1, 1])  # compile
    names = ("passes", "updates", "products", "margins", "seconds")
    run: dict[str, list[float]] = {name: [] for name in names}
    seconds, began = 0.0, time.process_time()
    per_update = PRODUCTS_OF_PUMMA if isinstance(clf, PUMMA) else PRODUCTS_OF_OTHERS
    for done in passes_in_order(clf, X, y, MOST_PASSES):
        seconds += time.process_time() - began
        run["passes"].append(done)
        run["updates"].append(clf.n_updates_)
        run["products"].append(done * y.size + per_update * clf.n_updates_)
        run["margins"].append(margin_of(clf, X, y, q))
        run["seconds"].append(seconds)
        began = time.process_time()
    return run


def best_margin(X: np.ndarray, y: np.ndarray, p: float) -> float:
    clf = PUMMA(delta=0.001, p=p, max_iter=MOST_PASSES, random_state=0)
    return fit_until_converged(clf, X, y).certificate_.bound


def pumma_needs_less(p: str, r: int, rival: str, what: str, text: str, where: str) -> Claim:
    """Fewer updates or inner products, or less time, in all."""

    def holds(results: Results) -> Answer:
        runs = [results.values(f"{n} {what} in all", p=p, r=r) for n in ("PUMMA", rival)]
        ours, theirs = (float(np.mean(each)) for each in runs)
        if what == "seconds":
            said = f"{ours:.3g} s against {theirs:.3g} s"
        else:
            said = f"{ours:,.0f} against {theirs:,.0f} {what}"
        return less(*runs), f"{said} ({theirs / ours:.1f} ×), {in_runs(len(runs[0]))}"

    return Claim(f"p = {p}, bias {BIAS[r]}", f"PUMMA {text} than {rival}", holds, where)


def mean_run(results: Results, name: str, what: str, **where: Any) -> tuple[np.ndarray, np.ndarray]:
    """Means over the runs of ``what`` and of the margin, pass by pass; ended runs stay put."""
    columns = (results.values(f"{name} {each}", **where) for each in ("passes", what, "margins"))
    runs = list(zip(*columns, strict=True))
    grid = max((passes for passes, _, _ in runs), key=len)

    def mean(which: int) -> np.ndarray:
        return np.mean([np.interp(grid, run[0], run[which]) for run in runs], axis=0)

    return mean(1), mean(2)


def margin_panels(
    results: Results, against: Mapping[str, str], drawn: Mapping[str, Sequence[str]]
) -> list[Panel]:
    """For each norm the margins of some learners, by bias, against what it is given."""

    def draw(axes: Any, p: str) -> None:
        for r, colour in zip(BIAS, COLOURS, strict=False):
            for name in drawn[p]:
                at, margins = mean_run(results, name, against[p], p=p, r=r)
                axes.plot(at, margins, STYLES[name], color=colour, label=f"{name} ({BIAS[r]})")

    settings = {"xscale": "log", "ylabel": "margin", "ylim": (0, None)}
    return [
        Panel(
            f"p = {p}: margin in the original space against {against[p]}; the bias in parentheses.",
            partial(draw, p=p),
            {**settings, "xlabel": against[p]},
        )
        for p in drawn
    ]


of_r_of_k = partial(Experiment, paper=PAPER, runs=10, cells=cells, measure=measure)
"""An experiment with these cells."""
