"""Panels of figures, in colours that are readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

from maxmargin_papers.pages.svg import BLUE, BOUND, GOLD, INK, MARGIN, RED, STYLE, VIOLET, as_svg

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

    @property
    def axes_labels(self) -> tuple[str, str]:
        return self.settings.get("xlabel", ""), self.settings.get("ylabel", "")

    def drawn(self) -> Any:
        """The axes, in a figure of their own."""
        axes = Figure(figsize=(WIDTH, HEIGHT), layout="constrained").add_subplot()
        self.draw(axes)
        axes.set(**self.settings)
        if self.legend is not None:
            axes.legend(**{"frameon": False, "fontsize": 8.5, **self.legend})
        return axes


def as_svgs(panels: Sequence[Panel]) -> list[str]:
    """The pictures of a figure; those that show the same quantities have the same limits."""
    with mpl.rc_context(STYLE):
        pictures = [panel.drawn() for panel in panels]
        for panel, axes in zip(panels, pictures, strict=True):
            alike = [
                each
                for other, each in zip(panels, pictures, strict=True)
                if other.axes_labels == panel.axes_labels
            ]
            for end in ("x", "y"):
                limits = [getattr(each, f"get_{end}lim")() for each in alike]
                low, high = min(each[0] for each in limits), max(each[1] for each in limits)
                getattr(axes, f"set_{end}lim")(low, high)
        return [
            as_svg(axes.figure, panel.caption) for panel, axes in zip(panels, pictures, strict=True)
        ]
