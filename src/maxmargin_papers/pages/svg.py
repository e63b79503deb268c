"""Figures of Matplotlib as elements of a page, whose colours follow the page's theme."""

from __future__ import annotations

import hashlib
import io
import re
from html import escape
from typing import Any

from matplotlib.figure import Figure

# Matplotlib wants colours, the page has CSS variables: each of these stands for one.
NAMES = ("ink", "muted", "line", "margin", "bound", "blue", "violet", "red", "gold")
VARIABLES = {f"#0000{number:02x}": f"var(--{name})" for number, name in enumerate(NAMES, 1)}
INK, MUTED, LINE, MARGIN, BOUND, BLUE, VIOLET, RED, GOLD = VARIABLES
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "maxmargin",  # the same page from the same numbers
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.facecolor": "none",
    "axes.labelcolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.major.size": 2,
    "ytick.major.size": 2,
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
}


def as_svg(figure: Figure, title: str) -> str:
    """The figure as an element of the page: own ids, the page's colours and font, a name."""
    file = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    _, _, body = file.getvalue().partition("</defs>")  # before it: prologue and style
    # Ids must not occur in two pictures of a page, but the same page should come out the same.
    prefix = hashlib.sha256(f"{title}\n{body}".encode()).hexdigest()[:12]
    body = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>f{prefix}-", body)
    body = re.sub(r'font-family: [^;"]*; ?', "", body).replace("xlink:href", "href")
    for color, variable in VARIABLES.items():
        body = body.replace(color, variable)
    width, height = 72.0 * figure.get_size_inches()
    box = f"0 0 {width:g} {height:g}"
    return f'<svg viewBox="{box}" role="img" aria-label="{escape(title)}">{body}'
