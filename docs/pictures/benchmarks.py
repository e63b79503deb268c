"""How many times as fast as others: the main comparisons of the benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from maxmargin_papers.pages.svg import BOUND, INK, LINE, MARGIN, MUTED

RESULTS = Path(__file__).parents[1] / "benchmarks.json"
WIDTH, LINE_HEIGHT, FOOT = 5.0, 0.36, 0.5  # inches; narrow enough for phones
BARS = 0.45  # where they begin, as a part of the width
LONGEST = 44  # letters of a headline that end before the bars; longer ones are drawn smaller


def times_as_fast() -> Figure:
    """Bars from 1, one for each comparison that has a headline: to the right if ours is faster."""
    return drawn(json.loads(RESULTS.read_text("utf-8")))


def drawn(kept: dict[str, dict[str, Any]]) -> Figure:
    compared = [one for report in kept.values() for one in report["comparisons"]]
    # On very few rows a further pass may seem to take less than no time.
    main = [one for one in compared if one["headline"] and one["median"] > 0.0]
    height = LINE_HEIGHT * len(main) + FOOT
    figure = Figure(figsize=(WIDTH, height))
    bottom = FOOT / height
    axes = figure.add_axes((BARS, bottom, 0.91 - BARS, 1.0 - bottom))
    axes.set_xscale("log")
    axes.axvline(1.0, color=LINE, linewidth=1.0)
    times = [one["median"] for one in main]
    axes.set_xlim(min([0.5, *times]) / 2.5, max([10.0, *times]) * 1.3)
    axes.set_ylim(len(main) - 0.4, -0.6)
    before = ""
    for place, one in enumerate(main):
        _draw(axes, place, one, one["headline"] if one["headline"] != before else "")
        before = one["headline"]
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("times as fast")
    return figure


def _draw(axes: Any, place: int, one: dict[str, Any], headline: str) -> None:
    faster = one["median"] >= 1.0
    color = MARGIN if faster else BOUND
    axes.barh(place, one["median"] - 1.0, left=1.0, height=0.55, color=color)
    axes.annotate(
        shown(one["median"]),
        (one["median"], place),
        (4 if faster else -4, 0),
        textcoords="offset points",
        color=INK,
        ha="left" if faster else "right",
        va="center",
        fontsize=9.5,
    )
    labels = {"x": -BARS / axes.get_position().width, "transform": axes.get_yaxis_transform()}
    if headline:
        size = 9.5 * min(1.0, LONGEST / len(headline))
        axes.text(y=place - 0.18, s=headline, color=INK, va="center", fontsize=size, **labels)
    below = place + 0.2 if headline else place
    axes.text(y=below, s=one["words"], color=MUTED, va="center", fontsize=8.5, **labels)


def shown(times: float) -> str:
    """A ratio with as many digits as it deserves."""
    if times >= 20.0:
        return f"{times:,.0f}"
    return f"{times:.1f}" if times >= 1.0 else f"{times:.2g}"
