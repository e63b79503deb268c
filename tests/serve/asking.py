"""Requests to an application, without a network."""

import asyncio
import json
from typing import Any, NamedTuple

JSON, NDJSON = "application/json", "application/x-ndjson"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(app, method, path, content=None, kind=JSON, host="127.0.0.1:8765", **headers) -> Answer:
    """One request, as a server would hand it over."""
    return asyncio.run(asked(app, method, path, content, kind, host, **headers))


async def asked(
    app, method, path, content=None, kind=JSON, host="127.0.0.1:8765", root="", **headers
) -> Answer:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    told = {"host": host, "content-type": kind, **headers}
    scope = {
        "type": "http",
        "method": method,
        "path": root + path,
        "root_path": root,
        "query_string": b"",
        "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in told.items()],
    }
    parts, sent = [body], []

    async def receive():
        return (
            {"type": "http.request", "body": parts.pop()} if parts else {"type": "http.disconnect"}
        )

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    start, *bodies = sent
    found = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], found, b"".join(each.get("body", b"") for each in bodies))


def learn(app, row, label, **more):
    return ask(app, "POST", "/learn", {"row": row, "label": label, **more})


def lines(*objects) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in objects)
