"""Pages: files of HTML that need nothing else, made from templates."""

from __future__ import annotations

import re
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


def render(template: str, **content: Any) -> str:
    """The page that ``template``, a file of this package, makes of ``content``."""
    pages = Environment(
        loader=PackageLoader("maxmargin_papers", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters["breakable"] = breakable
    return pages.get_template(template).render(content).strip() + "\n"


def breakable(name: str) -> Markup:
    """The name of a class, which may go on in the next line where a word begins."""
    return Markup("<wbr>").join(re.split(r"(?<=[a-z])(?=[A-Z])", name))
