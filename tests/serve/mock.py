"""A server with the pages of ours, that says of its models what a test tells it to."""

import copy
import json
import time
import urllib.parse

from client.server import Handler

from maxmargin.serve import openapi, pages
from maxmargin.serve.schemas import STATE

PREFIX = "/below"


class Models(Handler):
    """`server.states` by name; `server.answers` by method and path; `server.token`."""

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = self.path.removeprefix(PREFIX)
        self.server.requests.append((self.command, path, json.loads(body or "null")))
        if path in ("/", "/docs"):
            page = pages.docs(self.server.url + PREFIX) if path == "/docs" else pages.live()
            return self.reply(200, *page)
        if path == "/openapi.json":
            return self.reply(200, openapi.document())
        token = self.server.token
        if token and self.headers.get("Authorization") != f"Bearer {token}":
            return self.reply(401, {"error": "That is not the token."})
        if path == "/models":
            return self.reply(200, {"models": [{"name": name} for name in self.server.states]})
        if path.endswith("/events"):
            return self.tell(path)
        return self.reply(*self.server.answers.get((self.command, path), (404, {"error": "What?"})))

    do_GET = do_POST = do_DELETE = handle_any

    def reply(self, status, answer, headers=()):
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def tell(self, path):
        """The state, whenever it is another one."""
        first = next(iter(self.server.states))
        _, *name = urllib.parse.unquote(path).removesuffix("/events").split("/models/")
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        told = None
        while not self.server.released.is_set():
            now = json.dumps(self.server.states["".join(name) or first])
            if now != told:
                self.wfile.write(f": beat\n\nevent: state\ndata: {now}\n\n".encode())
                told = now
            time.sleep(0.02)


def a_state(**changes):
    """A state as our server tells it."""
    history = [
        [100 * at, 0.7 + at / 1000, 0.75 + at / 1000, 0.5 - at / 1000] for at in range(1, 101)
    ]
    shadow = {**STATE["learners"][0], "name": "moving", "role": "shadow", "algorithm": "NORMA"}
    shadow["recent_progressive_accuracy"] = 0.97
    learners = [STATE["learners"][0], shadow]
    return copy.deepcopy({**STATE, "history": history, "learners": learners, **changes})


def nothing_yet():
    """The state of a model that has learnt nothing: most of it is null."""
    kept = {"name": "new", "algorithm": "AMIRA", "parameters": {}}
    empty = {name: [] for name, value in STATE.items() if isinstance(value, list)}
    learner = {**dict.fromkeys(STATE["learners"][0]), **kept, "role": "live"}
    return {**dict.fromkeys(STATE), **empty, **kept, "rows": 0, "learners": [learner]}


def prepare(server):
    server.states = {"default": a_state()}
    server.answers = {}
    server.token = None
    return server
