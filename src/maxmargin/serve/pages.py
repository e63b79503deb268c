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
from maxmargin.serve.openapi import Json
from maxmargin.serve.progressive_stats import RECENT

Page = tuple[bytes, dict[str, str]]


@functools.cache
def live() -> Page:
    """What models do, while they do it."""
    page = render(
        "serve/page.html.jinja", version=__version__, algorithms=ALGORITHMS, recent=RECENT
    )
    return _page(page)


@functools.lru_cache(16)
def docs(address: str) -> Page:
    """How to talk to the server that has this address."""
    content = _readable(openapi.document())
    return _page(render("serve/docs.html.jinja", address=address, **content))


# --------------------------------------------------------------- the document, as people read it
class Example(NamedTuple):
    kind: str
    title: str
    text: str


class Operation(NamedTuple):
    """One method of one route."""

    method: str
    path: str
    content: Json
    parameters: list[Json]
    bodies: list[Example]
    answers: list[Example]
    refusals: dict[str, str]

    @property
    def slug(self) -> str:
        return str(self.content["operationId"])

    def command(self, address: str) -> str:
        """How curl asks a server with this address."""
        words = ["curl"]
        if self.bodies:
            words += ["--json", self.bodies[0].text]
        if self.method != "get" and not self.bodies:
            words += ["-X", self.method.upper()]
        return shlex.join([*words, address + self.path.replace("{shadow}", openapi.SHADOW)])


def _readable(document: Json) -> dict[str, Any]:
    """What the page shows of it: each route once, though it exists for each model too."""

    def resolved(found: Json) -> Json:
        if "$ref" not in found:
            return found
        _, _, kind, name = found["$ref"].split("/")
        return document["components"][kind][name]

    def operation(method: str, path: str, content: Json) -> Operation:
        responses = {code: resolved(each) for code, each in content["responses"].items()}
        return Operation(
            method,
            path,
            content,
            [resolved(each) for each in content.get("parameters", [])],
            _examples(content.get("requestBody", {"content": {}})["content"]),
            [
                shown
                for code in responses
                if code < "3"
                for shown in _examples(responses[code]["content"])
            ],
            {code: each["description"] for code, each in responses.items() if code >= "3"},
        )

    operations = [
        operation(method, path, content)
        for path, methods in document["paths"].items()
        if not path.startswith("/models/")
        for method, content in methods.items()
    ]
    groups = {
        tag["name"]: (
            tag["description"],
            [each for each in operations if tag["name"] in each.content["tags"]],
        )
        for tag in document["tags"]
    }
    return {"info": document["info"], "groups": groups, "words": _words}


def _examples(content: Json) -> list[Example]:
    found = []
    for kind, each in content.items():
        shown = {"": {"value": each["example"]}} if "example" in each else each.get("examples", {})
        for title, example in shown.items():
            value = example["value"]
            text = value if isinstance(value, str) else json.dumps(value)
            found.append(Example(kind, title, text))
    return found


def _words(text: str) -> Markup:
    """Text, with what stands between backticks as code."""
    parts = re.split("`(.*?)`", text)
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(part) if at % 2 else part for at, part in enumerate(parts))


# ------------------------------------------------------------------------------------------ headers
def _page(text: str) -> Page:
    """The page, which may run what stands in it and nothing else, and talk to its server only."""
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
