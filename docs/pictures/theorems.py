"""Theorems: proved bounds beside observed values."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from maxmargin import NORMA, TrackingALMA
from maxmargin_papers.pages.svg import BOUND, INK, MARGIN, MUTED

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import theorem_checks as checks
from theorem_checks import TheoremCheck

# Several bounds of one panel differ by their dashes.
DASHES = ("-", "--", ":")
# Runs of more points than this are drawn without marks.
MOST_MARKS = 10


def pumma() -> Figure:
    """Updates and margin against delta, and in the ∞-norm against p."""
    return _drawn(*checks.pumma(), *checks.pumma_of_few_features())


def romma_and_alma() -> Figure:
    """Updates and margin against what is asked for."""
    return _drawn(*checks.romma(), *checks.alma())


def perceptron() -> Figure:
    """Updates, margin, length and turns against the margin that is asked for."""
    return _drawn(*checks.perceptron(), checks.perceptron_length(), checks.perceptron_turns())


def relaxation() -> Figure:
    """Updates and margin against the overshoot."""
    return _drawn(*checks.relaxation())


def amira() -> Figure:
    """Updates and margin against epsilon, length on the way, and updates with noise."""
    return _drawn(*checks.amira(), checks.amira_length(), checks.amira_inseparable())


def directional() -> Figure:
    """Updates against the margin that is asked for, and the search for the best one."""
    return _drawn(
        checks.directional(),
        checks.directional_turns(),
        checks.directional_fixed(),
        checks.directional_rates(),
        checks.largest_ratio(),
        checks.bisection(),
    )


def mistakes_and_losses() -> Figure:
    """Mistakes, losses and regret along a stream."""
    return _drawn(
        checks.passive_aggressive(),
        checks.passive_aggressive_losses(),
        checks.pegasos(),
        checks.fixed_share(),
    )


def moving_targets() -> Figure:
    """Mistakes, margin errors and losses of both learners, and mistakes without tuning."""
    pairs = zip(checks.moving(NORMA), checks.moving(TrackingALMA), strict=True)
    return _drawn(*(check for pair in pairs for check in pair), *checks.untuned())


def probabilities() -> Figure:
    """Log losses of AutoMargin along two streams, beside those of its experts."""
    return _drawn(checks.automargin(0), checks.automargin(2))


def columns() -> Figure:
    """Mistakes of AROW along a stream and against r, regrets of AdaGrad and FTRL."""
    return _drawn(checks.arow(), checks.arow_regularised(), checks.adagrad(), checks.ftrl())


def bounded_memory() -> Figure:
    """Mistakes along a stream, and against the memory."""
    return _drawn(
        checks.forgetron(),
        checks.projectron(),
        checks.random_budget(),
        checks.random_budgets(),
    )


def _drawn(*panels: TheoremCheck) -> Figure:
    """Two panels a row, and on top what the colours mean."""
    rows = -(-len(panels) // 2)
    figure = Figure(figsize=(6.6, 2.5 * rows + 0.35), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.1, w_pad=0.1)
    all_axes = figure.subplots(rows, 2, squeeze=False).flat
    for axes, check in zip(all_axes, panels, strict=True):
        _draw(axes, check)
    colors = {"proved": BOUND, "observed": MARGIN}
    lines = [Line2D([], [], color=color, linewidth=2.5) for color in colors.values()]
    place = {"loc": "outside upper left", "ncols": 2, "frameon": False}
    figure.legend(lines, list(colors), labelcolor="linecolor", **place)
    return figure


def _draw(axes: Any, check: TheoremCheck) -> None:
    bounds = np.array(list(check.proved.values()))
    tightest = bounds.max(axis=0) if check.is_floor else bounds.min(axis=0)
    between = check.observed, tightest
    axes.fill_between(check.at, *between, color=BOUND, alpha=0.12, linewidth=0)
    for (name, bound), dashes in zip(check.proved.items(), DASHES, strict=False):
        axes.plot(check.at, bound, color=BOUND, linestyle=dashes, label=name)
    for other in check.others:
        low = np.where(other <= 0.9 * bounds.max(), other, np.nan)  # names are above
        axes.plot(check.at, low, color=MUTED, linewidth=0.7, alpha=0.6, zorder=1)
    marker = "o" if check.at.size <= MOST_MARKS else ""
    axes.plot(check.at, check.observed, color=MARGIN, marker=marker, markersize=3.5)
    # Text that is turned is hard to read: what is counted stands above the axis, below a title,
    # for which the empty line makes room; that may be wider than its panel.
    axes.set_title(f"\n{check.upwards}", loc="left", color=MUTED, fontsize=11)
    above = {"xycoords": "axes fraction", "textcoords": "offset points"}
    title = axes.annotate(check.title, (0.0, 1.0), (0.0, 20.0), **above, color=INK, weight="bold")
    title.set_in_layout(False)
    axes.set_xlabel(check.across)
    across, upwards = check.scales
    axes.set_xscale(across)
    axes.set_yscale(upwards)
    shown = np.vstack([bounds, check.observed])
    for axis, values in ((axes.xaxis, check.at), (axes.yaxis, shown)):
        _tick(axis, values)
    if upwards == "linear" and shown.min() < 0.5 * shown.max():
        axes.set_ylim(bottom=0.0)
    if not check.is_floor:
        axes.set_ylim(top=_above(shown, upwards, 0.1 + 0.15 * len(bounds)))  # room for names
    axes.legend(frameon=False, fontsize=10, labelcolor=BOUND, loc="best", handlelength=1.4)


def _tick(axis: Any, values: np.ndarray) -> None:
    """Numbers as people write them, and some between powers of 10 where these are few."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_locator(NullLocator())
    if axis.get_scale() == "log" and values.max() < 60.0 * values.min():
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))


def _above(values: np.ndarray, scale: str, part: float) -> float:
    """A top that leaves about this part of the axis to names."""
    lowest, highest = values.min(), values.max()
    if scale == "log":
        return float(highest * (highest / lowest) ** part)
    return float((1.0 + part) * highest)
