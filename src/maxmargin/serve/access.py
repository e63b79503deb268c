"""The gate in front of all routes: who may ask, how long it takes, and what the log says."""

from __future__ import annotations

import asyncio
import functools
import hmac
import ipaddress
import json
import logging
import time
from collections.abc import Collection
from typing import Any
from urllib.parse import urlsplit

import msgspec
from starlette.responses import Response

from maxmargin.serve.bodies import JSON, Refusal
from maxmargin.serve.prometheus import Requests

LOOPBACK = ("127.0.0.1", "localhost", "::1")
# Routes that need no token, and those for which the token to predict is not enough.
OPEN, LEARNING = {"/", "/health", "/openapi.json"}, {"/learn", "/label", "/model/file"}

logger = logging.getLogger("maxmargin.serve")
access_logger = logging.getLogger("maxmargin.access")


def is_loopback(host: str) -> bool:
    """Is a server at this address reachable from this machine only?"""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class AccessRules:
    """Lets requests through that bring a token.

    ``learn_token`` is good for all routes, ``predict_token`` for those that teach nothing. Without
    any token, ``hosts`` are the names by which the server may be called, and pages of other sites
    may not use it: a page that a browser on this machine has opened could send forms to it, or
    reach it by another name (DNS rebinding). None lets all through, for applications that check
    themselves.
    """

    def __init__(
        self, learn_token: str | None, predict_token: str | None, hosts: Collection[str] | None
    ) -> None:
        self.learn = None if learn_token is None else learn_token.encode()
        self.predict = None if predict_token is None else predict_token.encode()
        self.hosts = None if hosts is None else set(hosts)

    def check(self, path: str, headers: dict[bytes, bytes]) -> None:
        if self.learn is None and self.predict is None:
            if self.hosts is not None:
                self._check_origin(headers)
        elif path not in OPEN:
            self._check_token(path, headers.get(b"authorization", b""))

    def _check_token(self, path: str, given: bytes) -> None:
        kind, _, token = given.partition(b" ")
        found = [
            each is not None and hmac.compare_digest(token.strip(), each)
            for each in (self.learn, self.predict)
        ]
        if kind.lower() != b"bearer" or not any(found):
            raise Refusal(401, "the header Authorization must be Bearer, with a token.")
        if not found[0] and path in LEARNING:
            raise Refusal(403, f"{path} needs the token to learn; this one is to predict.")

    def _check_origin(self, headers: dict[bytes, bytes]) -> None:
        assert self.hosts is not None
        host = headers.get(b"host", b"").decode("latin-1")
        if _name_of(f"//{host}") not in self.hosts:
            raise Refusal(403, f"the server is not called {host!r:.80}.")
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and origin not in (f"http://{host}", f"https://{host}"):
            raise Refusal(403, f"pages of {origin!r:.80} may not use this server.")
        # Browsers leave Origin out of some requests, such as those for images.
        site = headers.get(b"sec-fetch-site", b"none").strip().lower()
        if site not in (b"none", b"same-origin"):
            raise Refusal(403, "pages of other sites may not use this server.")


@functools.lru_cache(100)
def _name_of(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


class Gate:
    """ASGI middleware that checks, counts, times and logs requests."""

    def __init__(
        self, app: Any, *, access: AccessRules, requests: Requests, routes: set[str]
    ) -> None:
        self.app, self.access, self.requests, self.routes = app, access, requests, routes

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0
        path = scope["path"].removeprefix(scope.get("root_path", "")) or "/"

        async def noted_send(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            self.access.check(path, dict(scope["headers"]))
            await self.app(scope, receive, noted_send)
        except Refusal as refusal:
            await answer_to(refusal)(scope, receive, noted_send)
        except asyncio.CancelledError:  # uvicorn stops, and does not wait any longer
            if not status:
                stops = Refusal(503, "the server stops.", retry_after=1)
                await answer_to(stops)(scope, receive, noted_send)
        finally:
            seconds = time.perf_counter() - began
            self.requests.add(path if path in self.routes else "other", status, seconds)
            if access_logger.isEnabledFor(logging.INFO):
                client = (scope.get("client") or ("-",))[0]
                parts = client, scope["method"], path, status, round(1e3 * seconds, 2)
                access_logger.info("%s %s %s %d %s ms", *parts)


def answer_to(refusal: Refusal) -> Response:
    """The answer with the reason."""
    headers = {}
    if refusal.retry_after is not None:
        headers["retry-after"] = str(refusal.retry_after)
    if refusal.status == 401:
        headers["www-authenticate"] = "Bearer"
    content = msgspec.json.encode({"error": refusal.reason})
    return Response(content, refusal.status, headers, media_type=JSON)


class JSONFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        found = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.name == access_logger.name and isinstance(record.args, tuple):
            names = ("client", "method", "path", "status", "ms")
            found |= dict(zip(names, record.args, strict=True))  # type: ignore[arg-type]
        if record.exc_info:
            found["traceback"] = self.formatException(record.exc_info)
        return json.dumps(found)


def configure_logging(level: str, format: str, *, access_log: bool) -> None:
    """Let the server's messages go to stderr, as text or as JSON."""
    handler = logging.StreamHandler()
    plain = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JSONFormatter() if format == "json" else plain)
    for name, found in (
        ("maxmargin.serve", level),
        ("maxmargin.access", "info" if access_log else "warning"),
        ("uvicorn", max(level, "warning", key=lambda each: logging.getLevelName(each.upper()))),
    ):
        named = logging.getLogger(name)
        named.handlers, named.propagate = [handler], False
        named.setLevel(found.upper())
