"""The pages of the server, as bytes and headers: they need nothing but themselves."""

from __future__ import annotations

import base64
import functools
import hashlib
import re

from maxmargin import ALGORITHMS, __version__
from maxmargin.pages import render
from maxmargin.serve import openapi

Page = tuple[bytes, dict[str, str]]


@functools.cache
def live() -> Page:
    """What models do, while they do it."""
    return _page(render("serve/page.html.jinja", version=__version__, algorithms=ALGORITHMS))


@functools.cache
def docs() -> Page:
    """How to talk to the server."""
    return _page(render("serve/docs.html.jinja", **openapi.readable()))


def _page(text: str) -> Page:
    """The page, which may run and load nothing but what stands in it, and talk to its server only."""
    policy = [
        "default-src 'none'",
        "connect-src 'self'",
        f"script-src {_hashes('script', text)}",
        f"style-src {_hashes('style', text)}",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
    return text.encode(), {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": "; ".join(policy),
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-cache",
    }


def _hashes(element: str, text: str) -> str:
    """Those by which a browser knows the page's own scripts or styles."""
    found = re.findall(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in found]
    return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
