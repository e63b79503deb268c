"""Margin and bound: what a certificate is."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator
from sklearn.base import clone

from maxmargin import PUMMA
from maxmargin.datasets import make_separable
from maxmargin.evaluate import MarginDisplay
from maxmargin.evaluate.margin_trace import Moment, draw_run
from maxmargin_papers.pages.svg import BOUND, INK, MARGIN, MUTED


def closing_in() -> Figure:
    """The margin reached rises, the bound falls, until they meet."""
    X, y = make_separable(1000, 20, gap=0.5, random_state=0)
    moments = _run(PUMMA(delta=0.01, max_iter=20_000), X, y)
    last = moments[-1]
    figure = Figure(figsize=(7.2, 3.3))
    axes = figure.add_axes((0.08, 0.16, 0.89, 0.8))
    _draw(axes, moments)
    axes.set_xlim(30, 1.25 * last.updates)
    axes.set_ylim(0.0, 2.2 * last.bound)
    axes.set_xlabel("updates")
    axes.set_ylabel("margin")
    updates, _, bounds = np.array(moments).T
    crossing = np.flatnonzero(bounds <= 1.7 * last.bound)[0]
    axes.annotate(
        "proved: no hyperplane has a larger margin",
        (updates[crossing], bounds[crossing]),
        (10, 12),
        textcoords="offset points",
        color=BOUND,
    )
    axes.annotate(
        "attained: the margin so far",
        (last.updates, last.margin),
        (0, -60),
        textcoords="offset points",
        color=MARGIN,
        ha="right",
    )
    share = last.margin / last.bound
    axes.annotate(
        f"{share:.1%} of the best, certified",
        (last.updates, last.bound),
        (0, 22),
        textcoords="offset points",
        color=INK,
        ha="right",
        weight="bold",
    )
    return figure


def in_the_plane() -> Figure:
    """Four moments of one run: the boundary, the margin reached, the margin that is possible."""
    X, y = make_separable(60, 2, gap=0.6, random_state=3)
    learner = PUMMA(delta=0.01, shuffle=False)
    figure = Figure(figsize=(9.6, 2.9))
    all_axes = figure.subplots(1, 4, gridspec_kw={"wspace": 0.08})
    figure.subplots_adjust(left=0.01, right=0.99, top=0.84, bottom=0.02)
    early = [_after(learner, X, y, updates) for updates in (4, 10, 12)]
    for axes, clf in zip(all_axes, [*early, learner.fit(X, y)], strict=True):
        _draw_plane(axes, clf, X, y)
    return figure


def _after(learner: Any, X: np.ndarray, y: np.ndarray, updates: int) -> Any:
    """A copy that has learned from rows one at a time until it made so many updates."""
    clf = clone(learner)
    for row, label in zip(X, y, strict=True):
        clf.partial_fit([row], [label], classes=[-1, 1])
        if clf.n_updates_ == updates:
            return clf
    raise ValueError(f"{updates} updates take more than one pass")


def _run(learner: Any, X: np.ndarray, y: np.ndarray) -> list[Moment]:
    return MarginDisplay.from_estimator(learner, X, y, ax=Figure().subplots()).moments


def _draw(axes: Any, moments: list[Moment]) -> None:
    draw_run(axes, moments, 100.0 * moments[-1].bound, {"color": MARGIN}, {"color": BOUND})
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _draw_plane(axes: Any, clf: Any, X: np.ndarray, y: np.ndarray) -> None:
    (normal,), (intercept,) = clf.coef_, clf.intercept_
    length = np.linalg.norm(normal)
    unit = normal / length
    distances = y * (X @ unit + intercept / length)
    margin, bound = distances.min(), clf.certificate_.bound
    middle = X.mean(axis=0)
    foot = middle - (unit @ middle + intercept / length) * unit
    along = 3.0 * np.ptp(X) * np.array([[-unit[1], unit[0]], [unit[1], -unit[0]]])
    for half, color, alpha in ((bound, BOUND, 0.18), (max(margin, 0.0), MARGIN, 0.3)):
        corners = np.concatenate([foot + half * unit + along, foot - half * unit + along[::-1]])
        axes.fill(*corners.T, color=color, alpha=alpha, linewidth=0)
    axes.plot(*(foot + along).T, color=INK, linewidth=1.2)
    for label, marker in ((-1, "o"), (1, "s")):
        axes.plot(*X[y == label].T, marker, color=MUTED, markersize=3.5, markeredgewidth=0)
    low, high = X.min(axis=0), X.max(axis=0)
    axes.set_xlim(low[0] - 0.2, high[0] + 0.2)
    axes.set_ylim(low[1] - 0.2, high[1] + 0.2)
    axes.set_aspect("equal", adjustable="box")
    axes.set_xticks([])
    axes.set_yticks([])
    reached = f"margin {margin:.2f}" if margin > 0.0 else "margin none yet"
    axes.set_title(
        f"{clf.n_updates_} updates\n{reached}, at most {bound:.2f}", fontsize=9, color=INK
    )
