"""The pictures of the site, drawn by the library itself while the site is built.

A picture is a function that returns a figure. `draw` writes each one twice, as ``NAME-light.svg``
and ``NAME-dark.svg``; a page shows the one that suits its theme. ``python docs/pictures`` draws the
README's, which are kept beside it, anew.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable
from importlib.resources import files
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from maxmargin_papers.pages.svg import STYLE, VARIABLES
from pictures import arena, benchmarks, certificates, choosing, guarantees, theorems

Picture = Callable[[], Figure]

PICTURES: tuple[Picture, ...] = (
    certificates.closing_in,
    certificates.in_the_plane,
    choosing.which_learner,
    theorems.pumma,
    theorems.romma_and_alma,
    theorems.perceptron,
    theorems.relaxation,
    theorems.amira,
    theorems.directional,
    theorems.mistakes_and_losses,
    theorems.moving_targets,
    theorems.probabilities,
    theorems.columns,
    theorems.bounded_memory,
    guarantees.moving_coverage,
    guarantees.evidence_of_drift,
    benchmarks.times_as_fast,
    arena.ranks_on_streams,
    arena.ranks_with_trees,
    arena.ranks_in_batches,
    arena.accuracy_and_time,
    arena.along_the_streams,
)
# These are kept with the sources: a README cannot draw.
OF_THE_README: tuple[Picture, ...] = (certificates.closing_in,)


def draw(folder: Path, chosen: Iterable[Picture] = PICTURES) -> None:
    """Write ``chosen`` into ``folder``, for light and for dark pages."""
    folder.mkdir(parents=True, exist_ok=True)
    for picture in chosen:
        with mpl.rc_context({**STYLE, "font.size": 11}):
            svg = _as_svg(picture())
        for theme, colors in _themes().items():
            name = picture.__name__.replace("_", "-")
            (folder / f"{name}-{theme}.svg").write_text(_painted(svg, colors), "utf-8")


def _as_svg(figure: Figure) -> str:
    file = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    # The browser chooses a sans-serif font.
    return re.sub(r"font-family: [^;\"]*", "font-family: system-ui, sans-serif", file.getvalue())


def _painted(svg: str, colors: dict[str, str]) -> str:
    for stand_in, variable in VARIABLES.items():
        svg = svg.replace(stand_in, colors[variable])
    return svg


def _themes() -> dict[str, dict[str, str]]:
    """The colours of the command's own pages, so that pictures look alike everywhere."""
    style = (files("maxmargin_papers.pages") / "page.html.jinja").read_text("utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", style, re.DOTALL)
    return {
        theme: {f"var(--{name})": color for name, color in re.findall(r"--(\w+): (#\w+)", block)}
        for theme, block in (("light", light), ("dark", dark))
    }
