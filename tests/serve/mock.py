"""A server with the pages of ours, that says of its models what a test tells it to."""

import copy
import json
import time
import urllib.parse

import msgspec
from client.server import Handler

from maxmargin.serve import bodies, openapi, pages

PREFIX = "/below"

STATE = {
    "name": "default",
    "status": "ok",
    "algorithm": "AMIRA",
    "parameters": {"C": 1.0},
    "classes": ["buys", "leaves"],
    "n_features": 2,
    "columns": ["clicks", "from=mail"],
    "sequence": 4711,
    "events": 4711,
    "rows": 4711,
    "updates": 903,
    "mistakes": 518,
    "answers": 2350,
    "wrong_answers": 329,
    "answer_accuracy": 0.86,
    "recent_answer_accuracy": 0.9,
    "progressive_accuracy": 0.89,
    "recent_progressive_accuracy": 0.93,
    "loss": 0.31,
    "recent_loss": 0.22,
    "largest_class_share": 0.61,
    "events_per_second": 1874.0,
    "rows_per_second": 1874.0,
    "latency_ms": {"learn": {"p50": 3.2, "p99": 12.4}, "predict": {"p50": 0.7, "p99": 3.9}},
    "waiting": 17,
    "queue": 0,
    "log_bytes": 834511,
    "snapshot_sequence": 4000,
    "uptime_seconds": 12345.6,
    "certificate": {"margin": None, "bound": 0.0123, "ratio": None},
    "drift": {
        "delta": 0.01,
        "evidence": 3.25,
        "limit": 600.0,
        "alarms": [2800],
    },
    "drift_alarms": 1,
    "coverage": None,
    "largest_weights": [{"name": "clicks", "class": "buys", "weight": 2.31}],
    "learners": [
        {
            "name": "amira",
            "role": "live",
            "algorithm": "AMIRA",
            "rows": 4711,
            "progressive_accuracy": 0.89,
            "recent_progressive_accuracy": 0.93,
            "loss": 0.31,
            "recent_loss": 0.22,
            "updates": 903,
            "refused": 0,
            "history": [[4711, 0.93]],
        }
    ],
    "history": [[4711, 0.89, 0.93, 0.22]],
    "example": {"clicks": 3, "from": "mail"},
}
msgspec.convert(STATE, bodies.State)  # what a real server could answer


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
    """The state of a model that has learned nothing: most of it is null."""
    kept = {"name": "new", "algorithm": "AMIRA", "parameters": {}}
    empty = {name: [] for name, value in STATE.items() if isinstance(value, list)}
    empty["drift"] = {"delta": 0.01, "evidence": None, "limit": 200.0, "alarms": []}
    learner = {**dict.fromkeys(STATE["learners"][0]), **kept, "role": "live"}
    return {**dict.fromkeys(STATE), **empty, **kept, "rows": 0, "learners": [learner]}


def prepare(server):
    server.states = {"default": a_state()}
    server.answers = {}
    server.token = None
    return server
