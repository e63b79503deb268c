"""The pages of the server, as bytes and headers; they load nothing from elsewhere."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
import shlex
from typing import Any

from markupsafe import Markup

from maxmargin import ALGORITHMS, __version__
from maxmargin.pages import render
from maxmargin.serve import openapi
from maxmargin.serve.bodies import JSON
from maxmargin.serve.scored_learner import RECENT

Page = tuple[bytes, dict[str, str]]


@functools.cache
def live() -> Page:
    """The live page."""
    page = render(
        "serve/page.html.jinja", version=__version__, algorithms=ALGORITHMS, recent=RECENT
    )
    return _page(page)


@functools.lru_cache(16)
def docs(address: str) -> Page:
    """The documentation of the API, for the server at this address."""
    return _page(
        render(
            "serve/docs.html.jinja",
            about=openapi.ABOUT,
            address=address,
            errors=openapi.ERRORS,
            parameters=openapi.PARAMETERS,
            operations=openapi.OPERATIONS,
            tags=openapi.TAGS,
            command=command,
            text=_text,
            version=__version__,
            words=_words,
        )
    )


def command(operation: openapi.Operation, address: str) -> str:
    """How curl asks a server with this address."""
    method, path = operation.route.split()
    words = ["curl"]
    if operation.takes:
        words += ["--json", json.dumps(operation.examples()[0].body)]
    elif method != "GET":
        words += ["-X", method]
    return shlex.join([*words, address + path.replace("{shadow}", openapi.SHADOW)])


def _text(value: Any, kind: str) -> str:
    return json.dumps(value) if kind == JSON else openapi.lines(value).rstrip()


def _words(text: str) -> Markup:
    """Text, with what stands between backticks as code."""
    parts = re.split("`(.*?)`", text)
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(part) if at % 2 else part for at, part in enumerate(parts))


# ------------------------------------------------------------------------------------------ headers
def _page(text: str) -> Page:
    """The page, which may run only its own scripts, and connect only to its server."""
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
    """Hashes by which a browser recognizes the page's own scripts or styles."""
    found = re.findall(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in found]
    return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
