"""Pictures of the arena: ranks, accuracy against time, and curves along streams."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from maxmargin_papers.pages.svg import BLUE, BOUND, GOLD, INK, LINE, MARGIN, MUTED, RED, VIOLET

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))

from benchmarks.arena import cells, page  # noqa: E402 - found by the line above
from benchmarks.arena.ranks import Ranking  # noqa: E402

RESULTS = ROOT / "docs" / "arena.json"
OF_OURS = ("AutoMargin", "MaxMargin")
MOST = 20
NAMED = (
    *("AutoMargin", "AutoMargin, rbf", "Perceptron", "AROW", "Forgetron", "NOCA", "FixedShare"),
    *("Vowpal Wabbit, hinge", "Vowpal Wabbit, coin", "SGDClassifier, hinge", "CapyMOA, SAMkNN"),
    *("river, LogisticRegression, scaled", "river, ARFClassifier", "river, HoeffdingAdaptiveTree"),
)
CURVES = {
    "AutoMargin": MARGIN,
    "AutoMargin, rbf": BOUND,
    "Vowpal Wabbit, logistic": BLUE,
    "AROW": VIOLET,
    "river, ARFClassifier": RED,
    "CapyMOA, SAMkNN": GOLD,
    "same as last": MUTED,
}


def ranks_on_streams() -> Figure:
    return ranks(page.first_rows(cells.read(RESULTS)))


def ranks_with_trees() -> Figure:
    return ranks(page.with_trees(cells.read(RESULTS)))


def ranks_in_batches() -> Figure:
    return ranks(page.in_batches(cells.read(RESULTS)))


def ranks(found: Ranking | None) -> Figure:
    """A line for each contender; a bar covers those that do not differ from the first."""
    if found is None:
        figure = Figure(figsize=(7.2, 1.0))
        figure.text(0.5, 0.5, "not measured yet", color=MUTED, ha="center")
        return figure
    shown = list(found.ranks.items())[:MOST]
    figure = Figure(figsize=(7.2, 0.24 * len(shown) + 0.7), layout="constrained")
    axes = figure.add_subplot()
    best = shown[0][1]
    axes.axvspan(best, best + found.critical, color=LINE, alpha=0.35, linewidth=0)
    for place, (name, rank) in enumerate(shown):
        color = MARGIN if is_ours(name) else BOUND
        axes.plot([0.0, rank], [place, place], color=LINE, linewidth=0.8, zorder=1)
        axes.plot(rank, place, "o", color=color, markersize=5)
    axes.set_yticks(range(len(shown)), [name for name, _ in shown], color=INK)
    for label, (name, _) in zip(axes.get_yticklabels(), shown, strict=True):
        label.set_color(INK if name.startswith(OF_OURS) else MUTED)
    axes.set(ylim=(len(shown) - 0.4, -0.6), xlim=(0.0, None))
    axes.set_xlabel(
        f"mean rank over {len(found.data)} data sets\n"
        f"shaded: within the critical difference, {found.critical:.1f}, of the first",
        fontsize=9,
    )
    return figure


def is_ours(name: str) -> bool:
    peers = ("river", "CapyMOA", "Vowpal", "SGD", "sklearn", "olpy", "LIB", "Linear", "Logistic")
    return not name.startswith((*peers, "Hist", "SVC"))


def accuracy_and_time() -> Figure:
    """Means over data sets that all of the shown contenders ran on."""
    kept = cells.read(RESULTS)
    chosen = [*page.names("linear"), *page.names("curved")]
    sets = [data for data in kept["streams"] if not page.is_text(kept, data)]
    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    axes = figure.add_subplot()
    for name in chosen:
        found = [kept["streams"][data].get(name) for data in sets]
        if len(sets) and all(found):
            time = np.exp(fmean(np.log(1e6 * min(c["seconds"]) / c["rows"] + 1e-3) for c in found))
            accuracy = fmean(fmean(c["first"]) for c in found)
            color = MARGIN if is_ours(name) else BOUND
            axes.plot(time, accuracy, "o", color=color, markersize=4)
            if name in NAMED:
                place = (4, 3)
                axes.annotate(
                    name, (time, accuracy), place, textcoords="offset points", fontsize=8, color=INK
                )
    axes.set_xscale("log")
    axes.set(xlabel="processor time a row, µs (geometric mean); green: ours")
    axes.set(ylabel=f"accuracy on the first rows, %, mean of {len(sets)}")
    return figure


def along_the_streams() -> Figure:
    kept = cells.read(RESULTS)
    sets = [data for data in page.WITH_TIME if data in kept["streams"]] or ["electricity"]
    figure = Figure(figsize=(7.2, 4.8), layout="constrained")
    handles: dict[str, Any] = {}
    for place, data in enumerate(sets, 1):
        axes = figure.add_subplot(2, 2, place)
        for name, color in CURVES.items():
            cell = kept["streams"].get(data, {}).get(name)
            if cell:
                ends = np.linspace(0, cell["rows"], len(cell["curve"]) + 1)[1:]
                (handles[name],) = axes.plot(ends, cell["curve"], color=color, linewidth=1.2)
        axes.set_title(data, fontsize=10, color=INK)
        axes.set_ylabel("accuracy, %", fontsize=8)
        axes.tick_params(labelsize=8)
        axes.xaxis.set_major_locator(MaxNLocator(4))
    figure.legend(
        handles.values(), handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8
    )
    return figure
