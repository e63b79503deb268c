"""Panels of figures, in colours that are readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

from maxmargin.pages.svg import BLUE, BOUND, GOLD, INK, MARGIN, RED, STYLE, VIOLET, as_svg

COLOURS = (MARGIN, BOUND, BLUE, VIOLET, GOLD, RED, INK)
"""For lines that are to be told apart, in this order."""

WIDTH, HEIGHT = 4.6, 3.1


class Panel(NamedTuple):
    """A picture of a figure.

    Attributes
    ----------
    caption : str
        What it shows.
    draw : callable
        Draws into the axes that it is given.
    settings : dict
        For ``axes.set``: labels, limits, scales.
    legend : dict or None
        For ``axes.legend``; None for no legend.
    """

    caption: str
    draw: Callable[[Any], None]
    settings: dict[str, Any]
    legend: dict[str, Any] | None = {}

    def as_svg(self) -> str:
        with mpl.rc_context(STYLE):
            figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
            axes = figure.add_subplot()
            self.draw(axes)
            axes.set(**self.settings)
            if self.legend is not None:
                axes.legend(**{"frameon": False, "fontsize": 8.5, **self.legend})
            return as_svg(figure, self.caption)
