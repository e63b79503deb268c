"""The pictures of the page: SVG whose colours follow the page's theme."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from maxmargin.evaluate.margin_trace import HEADROOM, draw_run
from maxmargin_papers.demo.demo_problems import Problem
from maxmargin_papers.demo.demo_training import Outcome
from maxmargin_papers.pages.svg import BOUND, INK, MARGIN, MUTED, STYLE, as_svg

DOTTED = (0, (1, 2))


# ----------------------------------------------------------------------------------- margin, bound
def run_plot(one: Outcome, outcomes: Sequence[Outcome]) -> str:
    """Margin and bound against the updates; ``outcomes`` are all that share the scales."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2.4, 1.95))
        axes = figure.add_axes((0.21, 0.225, 0.76, 0.755))
        _draw_run(axes, one, _frame(outcomes))
        axes.set_xlabel("updates", labelpad=1)
        axes.set_ylabel("margin", loc="top", labelpad=-12)
        return as_svg(figure, f"{one.name}: margin and bound against the number of updates")


def explained_run_plot(one: Outcome, outcomes: Sequence[Outcome]) -> str:
    """The same, larger and with words."""
    with mpl.rc_context({**STYLE, "font.size": 11}):
        figure = Figure(figsize=(5.2, 3.2))
        axes = figure.add_axes((0.13, 0.165, 0.85, 0.815))
        frame = _frame([one, *(each for each in outcomes if not each.online)])
        _draw_run(axes, one, frame)
        _explain_run(axes, frame.best)
        return as_svg(figure, f"{one.name}: margin and bound approach each other")


class Frame(NamedTuple):
    """The part that a picture of a run shows.

    Attributes
    ----------
    first, last : numbers of updates
    best : the best margin, as `MaxMargin` has found it
    """

    first: int
    last: int
    best: float


def _frame(outcomes: Sequence[Outcome]) -> Frame:
    """From where the first bound comes into sight, and before any run ends."""
    best = next(one.certificate.margin for one in outcomes if one.name == "MaxMargin")
    runs = [one for one in outcomes if one.online]
    in_sight = [m.updates for one in runs for m in one.moments if m.bound <= HEADROOM * best]
    ends = [one.clf.n_updates_ for one in runs]
    return Frame(min(*in_sight, *ends), max(ends), best)


def _draw_run(axes: Any, one: Outcome, frame: Frame) -> None:
    best = frame.best
    axes.axhline(best, color=INK, linewidth=0.9, linestyle=DOTTED)
    draw_run(axes, one.moments, 2.0 * HEADROOM * best, {"color": MARGIN}, {"color": BOUND})
    axes.set_xscale("log")
    axes.set_xlim(0.8 * frame.first, 1.2 * frame.last)
    axes.set_ylim(0.0, HEADROOM * best)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(_thousands))
    axes.yaxis.set_major_locator(FixedLocator([0.0, best]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))


def _thousands(value: float, _: object = None) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def _explain_run(axes: Any, best: float) -> None:
    side = axes.get_yaxis_transform()  # across in parts of the picture, up in margins
    at_right: dict[str, Any] = {"transform": side, "ha": "right", "va": "center"}
    text = "bound: no hyperplane has a larger margin"
    axes.text(0.99, 2.05 * best, text, color=BOUND, **at_right)
    axes.text(0.99, 0.3 * best, "margin attained", color=MARGIN, **at_right)
    axes.text(0.01, 1.03 * best, "margin of MaxMargin", color=INK, transform=side)
    axes.set_xlabel("updates")
    axes.set_ylabel("margin", loc="top", labelpad=-14)


# --------------------------------------------------------------------------------------- the plane
def plane_plot(one: Outcome, problem: Problem) -> str:
    """The boundary between two classes in the plane, and the margin on both sides of it."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(2.4, 2.4))
        axes = figure.add_axes((0.095, 0.095, 0.9, 0.9))
        _draw_boundary(axes, one, problem.X)
        _draw_points(axes, one, problem)
        axes.set(xticks=[], yticks=[])
        axes.set_xlabel("feature 1", labelpad=3)
        axes.set_ylabel("feature 2", labelpad=3)
        return as_svg(figure, f"{one.name}: boundary and margin in the plane")


def _draw_boundary(axes: Any, one: Outcome, X: np.ndarray) -> None:
    normal, intercept = np.ravel(one.clf.coef_), np.ravel(one.clf.intercept_)[0]
    norm, middle = np.linalg.norm(normal), X.mean(axis=0)
    unit = normal / norm
    foot = middle - (unit @ middle + intercept / norm) * unit
    far = 2.0 * np.ptp(X) * np.array([[-unit[1], unit[0]], [unit[1], -unit[0]]])
    margin = max(one.certificate.margin, 0.0) * unit

    axes.plot(*(foot + far).T, color=INK)
    for edge in (foot + margin, foot - margin):
        axes.plot(*(edge + far).T, color=MUTED, linewidth=0.8, linestyle="--")
    corners = np.concatenate([foot + margin + far, foot - margin + far[::-1]])
    axes.fill(*corners.T, color=MUTED, alpha=0.12, linewidth=0)


def _draw_points(axes: Any, one: Outcome, problem: Problem) -> None:
    for label, color in zip(one.clf.classes_, (BOUND, MARGIN), strict=True):
        axes.plot(*problem.X[problem.y == label].T, "o", color=color, markersize=3.5, mew=0)
    middle, half = problem.X.mean(axis=0), 0.53 * np.ptp(problem.X, axis=0).max()
    axes.set_xlim(middle[0] - half, middle[0] + half)
    axes.set_ylim(middle[1] - half, middle[1] + half)
