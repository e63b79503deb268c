"""The pages of the server, as bytes and headers: they need nothing but themselves."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
import shlex
from typing import Any, NamedTuple

from markupsafe import Markup

from maxmargin import ALGORITHMS, __version__
from maxmargin.pages import render
from maxmargin.serve import openapi
from maxmargin.serve.bodies import JSON
from maxmargin.serve.progressive_stats import RECENT

Page = tuple[bytes, dict[str, str]]
ROUTES = openapi.OF_MODELS | openapi.OF_THE_SERVER


@functools.cache
def live() -> Page:
    """What models do, while they do it."""
    page = render(
        "serve/page.html.jinja", version=__version__, algorithms=ALGORITHMS, recent=RECENT
    )
    return _page(page)


@functools.lru_cache(16)
def docs(address: str) -> Page:
    """The page of the HTTP API, with examples for the server at this address."""
    sections = [
        (tag, about, [Shown(*each) for each in ROUTES.items() if each[1].tag == tag])
        for tag, about in openapi.TAGS.items()
    ]
    return _page(
        render(
            "serve/docs.html.jinja",
            about=openapi.ABOUT,
            address=address,
            errors=openapi.ERRORS,
            parameters=openapi.PARAMETERS,
            sections=sections,
            version=__version__,
            words=_words,
        )
    )


class Shown(NamedTuple):
    """A route as the page shows it: once, though it exists for each model too."""

    route: str
    operation: openapi.Operation

    @property
    def slug(self) -> str:
        return openapi.operation_id(self.route)

    def bodies(self) -> list[tuple[str, str, str]]:
        """The content type, title and text of each example of a body."""
        found = openapi.examples_of(self.route) if self.operation.takes else []
        return [(each.kind, each.title, _text(each.body, each.kind)) for each in found]

    def answers(self) -> list[tuple[str, str, str]]:
        return [
            (each.answer_kind, each.title, _text(each.answer, each.answer_kind))
            for each in openapi.examples_of(self.route)
        ]

    def command(self, address: str) -> str:
        """How curl asks a server with this address."""
        method, path = self.route.split()
        words = ["curl"]
        if bodies := self.bodies():
            words += ["--json", bodies[0][2]]
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
    """The live page, which may run only its own script and connect only to its server."""
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
