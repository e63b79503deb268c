"""Theorems: proved bounds beside observed values."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from maxmargin import NORMA, TrackingALMA
from maxmargin.pages.svg import BOUND, INK, MARGIN, MUTED
from pictures import promises
from pictures.promises import Promise

# Several bounds of one panel differ by their dashes.
DASHES = ("-", "--", ":")
# Runs of more points than this are drawn without marks.
MOST_MARKS = 10


def pumma() -> Figure:
    """Updates and margin against delta, and in the ∞-norm against p."""
    return _drawn(*promises.pumma(), *promises.pumma_of_few_features())


def romma_and_alma() -> Figure:
    """Updates and margin against what is asked for."""
    return _drawn(*promises.romma(), *promises.alma())


def perceptron() -> Figure:
    """Updates, margin, length and turns against the margin that is asked for."""
    return _drawn(*promises.perceptron(), promises.perceptron_length(), promises.perceptron_turns())


def relaxation() -> Figure:
    """Updates and margin against the overshoot."""
    return _drawn(*promises.relaxation())


def amira() -> Figure:
    """Updates and margin against epsilon, length on the way, and updates with noise."""
    return _drawn(*promises.amira(), promises.amira_length(), promises.amira_inseparable())


def directional() -> Figure:
    """Updates against the margin that is asked for, and the search for the best one."""
    return _drawn(
        promises.directional(),
        promises.directional_turns(),
        promises.directional_fixed(),
        promises.directional_rates(),
        promises.largest_ratio(),
        promises.bisection(),
    )


def mistakes_and_losses() -> Figure:
    """Mistakes, losses and regret along a stream."""
    return _drawn(
        promises.passive_aggressive(),
        promises.passive_aggressive_losses(),
        promises.pegasos(),
        promises.fixed_share(),
    )


def moving_targets() -> Figure:
    """Mistakes, margin errors and losses of both learners, and mistakes without tuning."""
    pairs = zip(promises.moving(NORMA), promises.moving(TrackingALMA), strict=True)
    return _drawn(*(promise for pair in pairs for promise in pair), *promises.untuned())


def probabilities() -> Figure:
    """Log losses of AutoMargin along two streams, beside those of its experts."""
    return _drawn(promises.automargin(0), promises.automargin(2))


def columns() -> Figure:
    """Mistakes of AROW along a stream and against r, regrets of AdaGrad and FTRL."""
    return _drawn(promises.arow(), promises.arow_regularised(), promises.adagrad(), promises.ftrl())


def bounded_memory() -> Figure:
    """Mistakes along a stream, and against the memory."""
    return _drawn(
        promises.forgetron(),
        promises.projectron(),
        promises.random_budget(),
        promises.random_budgets(),
    )


def mixtures() -> Figure:
    """Margin errors of NOCA."""
    return _drawn(promises.noca(), promises.noca_reestimated())


def _drawn(*panels: Promise) -> Figure:
    """Two panels a row, and on top what the colours mean."""
    rows = -(-len(panels) // 2)
    figure = Figure(figsize=(6.6, 2.5 * rows + 0.35), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.1, w_pad=0.1)
    all_axes = figure.subplots(rows, 2, squeeze=False).flat
    for axes, promise in zip(all_axes, panels, strict=True):
        _draw(axes, promise)
    colors = {"proved": BOUND, "observed": MARGIN}
    lines = [Line2D([], [], color=color, linewidth=2.5) for color in colors.values()]
    place = {"loc": "outside upper left", "ncols": 2, "frameon": False}
    figure.legend(lines, list(colors), labelcolor="linecolor", **place)
    return figure


def _draw(axes: Any, promise: Promise) -> None:
    bounds = np.array(list(promise.proved.values()))
    tightest = bounds.max(axis=0) if promise.is_floor else bounds.min(axis=0)
    between = promise.happened, tightest
    axes.fill_between(promise.at, *between, color=BOUND, alpha=0.12, linewidth=0)
    for (name, bound), dashes in zip(promise.proved.items(), DASHES, strict=False):
        axes.plot(promise.at, bound, color=BOUND, linestyle=dashes, label=name)
    for other in promise.beside:
        low = np.where(other <= 0.9 * bounds.max(), other, np.nan)  # names are above
        axes.plot(promise.at, low, color=MUTED, linewidth=0.7, alpha=0.6, zorder=1)
    marker = "o" if promise.at.size <= MOST_MARKS else ""
    axes.plot(promise.at, promise.happened, color=MARGIN, marker=marker, markersize=3.5)
    # Text that is turned is hard to read: what is counted stands above the axis, below a title,
    # for which the empty line makes room; that may be wider than its panel.
    axes.set_title(f"\n{promise.upwards}", loc="left", color=MUTED, fontsize=11)
    above = {"xycoords": "axes fraction", "textcoords": "offset points"}
    title = axes.annotate(promise.title, (0.0, 1.0), (0.0, 20.0), **above, color=INK, weight="bold")
    title.set_in_layout(False)
    axes.set_xlabel(promise.across)
    across, upwards = promise.scales
    axes.set_xscale(across)
    axes.set_yscale(upwards)
    shown = np.vstack([bounds, promise.happened])
    for axis, values in ((axes.xaxis, promise.at), (axes.yaxis, shown)):
        _tick(axis, values)
    if upwards == "linear" and shown.min() < 0.5 * shown.max():
        axes.set_ylim(bottom=0.0)
    if not promise.is_floor:
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
