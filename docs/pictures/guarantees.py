"""A stream whose target moves: coverage of prediction sets, and evidence of the drift."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from maxmargin import ConformalClassifier, PassiveAggressive
from maxmargin.certificates.coverage_bounds import coverage_bound, window_bound
from maxmargin.evaluate import DriftAlarm, Progress, progressive
from maxmargin.evaluate.batching import StreamRows
from maxmargin.evaluate.nonconformity import fixed_copy, nonconformity
from maxmargin.training.prediction_sets import CORRECTION
from maxmargin_papers.pages.svg import BOUND, INK, MARGIN, MUTED

ROWS, CHANGE, WINDOW, TARGET = 10_000, 5000, 500, 0.9


@lru_cache
def stream() -> tuple[np.ndarray, np.ndarray]:
    """The stream of `docs/guarantees.md`."""
    random = np.random.default_rng(0)
    X = random.normal(size=(ROWS, 5))
    target = np.where(np.arange(ROWS) < CHANGE, X[:, 0], -X[:, 1])
    return X, target + random.logistic(size=ROWS) > 0.0


def learner() -> PassiveAggressive:
    return PassiveAggressive(C=0.01)


def moving_coverage() -> Figure:
    """The share of labels in their sets so far and in windows, with what is proved about both."""
    progress: Progress = progressive(ConformalClassifier(learner(), coverage=TARGET), *stream())
    assert progress.covered is not None
    counts = np.concatenate([[0], np.cumsum(progress.covered)])
    figure = Figure(figsize=(7.2, 5.0), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    rows = np.arange(100, ROWS + 1)
    bounds = [coverage_bound(n, rate=CORRECTION, start=1.0 - TARGET) for n in rows.tolist()]
    _draw(above, rows, counts[rows] / rows, np.array(bounds), "all rows so far")
    rows = np.arange(WINDOW, ROWS + 1)
    shares, bound = (
        (counts[rows] - counts[rows - WINDOW]) / WINDOW,
        window_bound(WINDOW, rate=CORRECTION),
    )
    _draw(below, rows, shares, np.full(rows.size, bound), f"the last {WINDOW} rows")
    above.annotate("proved", (700, 0.964), color=BOUND)
    above.annotate("the target moves", (CHANGE + 80, 0.962), color=INK)
    below.set_xlabel("rows")
    return figure


def _draw(axes: Any, rows: np.ndarray, shares: np.ndarray, bounds: np.ndarray, what: str) -> None:
    axes.fill_between(rows, TARGET - bounds, TARGET + bounds, color=BOUND, alpha=0.12, linewidth=0)
    for bound in (TARGET - bounds, TARGET + bounds):
        axes.plot(rows, bound, color=BOUND, linewidth=1)
    axes.axhline(TARGET, color=MUTED, linestyle="--", linewidth=1)
    axes.axvline(CHANGE, color=MUTED, linestyle=":", linewidth=1)
    axes.plot(rows, shares, color=MARGIN)
    axes.set_ylim(0.8, 1.0)
    axes.set_title(f"share of labels in their sets, {what}", loc="left", color=MUTED, fontsize=11)


def evidence_of_drift() -> Figure:
    """The wealth of a gambler who bets on a change, and where it raises an alarm."""
    X, y = stream()
    alarm, clf = DriftAlarm(), learner().partial_fit(X[:1000], y[:1000], classes=[False, True])
    frozen, wealth, limit = fixed_copy(clf), [], alarm.limit
    for score in nonconformity(frozen, StreamRows(X[1000:], y[1000:], None)).tolist():
        before = alarm.evidence
        if alarm.update(score).drift_detected:
            break
        wealth.append(alarm.evidence)
    rows = 1000 + np.arange(1, len(wealth) + 2)
    figure = Figure(figsize=(7.2, 2.9), layout="constrained")
    axes = figure.subplots()
    axes.plot(rows, [*wealth, max(limit, before)], color=MARGIN)
    axes.axhline(limit, color=BOUND, linewidth=1)
    axes.axvline(CHANGE, color=MUTED, linestyle=":", linewidth=1)
    axes.annotate(
        "an alarm, on at most 1 % of streams without drift",
        (1000, 1.2 * limit),
        color=BOUND,
    )
    axes.annotate("the target moves", (CHANGE - 80, 30.0), color=INK, ha="right")
    axes.annotate(
        f"alarm with row {rows[-1]:,}",
        (rows[-1], limit),
        (8, -14),
        textcoords="offset points",
        color=INK,
    )
    axes.set_yscale("log")
    axes.set_ylim(0.3, 4.0 * limit)
    axes.set_xlim(800, 6900)
    axes.set_xlabel("rows")
    axes.set_title("evidence of a change", loc="left", color=MUTED, fontsize=11)
    return figure
