"""Requests that nobody should send: ``python tests/campaigns/fuzzed_requests.py 100000``.

Requests of all routes are changed: values, keys, bytes, headers, paths, methods; some are broken
off and some never were HTTP. The server answers with 4xx, or 503, or hangs up. What it refuses
changes nothing, what it takes is counted, and in the end it learns from a proper event, and is the
same again after a restart.
"""

import argparse
import copy
import io
import json
import random
import re
import shutil
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from serve.learners import KINDS, columns, numbers, of_columns
from serve.processes import Server
from zygote import Zygote

import maxmargin

JSON, LINES = "application/json", "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
TOKEN = "a token that nobody guesses"
PATIENCE = 60.0
MOST_ROWS = 5


class Raw(str):
    """Text of JSON as it is."""


def nested(depth: int, opening: str = "[", closing: str = "]") -> Raw:
    return Raw(opening * depth + closing * depth)


EVIL: list[Any] = [
    *[None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**400],
    *[0.1, -0.0, 1e308, -1e308, 5e-324, Raw("NaN"), Raw("Infinity"), Raw("-Infinity")],
    *[Raw("1e400"), Raw("-1e400"), Raw("1" * 5000)],
    *["", "yes", "no", "NaN", "inf", "-1e999", "0x10", "\0", "😀" * 20, "x" * 3000, "../x"],
    *[Raw(r'"\ud800"'), Raw(r'"\u0000"'), Raw("nul"), Raw("01"), Raw("1."), Raw("'a'"), Raw("-")],
    *[[], {}, [[]], [None], {"": None}, [0] * 5, [1.0] * 3000, {str(k): k for k in range(500)}],
    *[{"row": {}}, [{"row": [1, 2]}], nested(50), nested(2000), nested(20_000, '{"a":', "}")],
    *[nested(100_000), nested(1000, '[{"rows":', "}]")],
]  # fmt: skip
HEADERS = [
    ("Content-Type", "text/plain"),
    ("Content-Type", "application/json; charset=latin-1"),
    ("Content-Type", "application/x-www-form-urlencoded"),
    ("Content-Type", LINES),
    ("Content-Type", ARROW),
    ("Content-Type", JSON),
    ("Content-Type", ""),
    ("Content-Type", "/" * 500),
    ("Content-Encoding", "gzip"),
    ("Transfer-Encoding", "chunked"),
    ("Transfer-Encoding", "gzip, chunked"),
    ("Content-Length", "0"),
    ("Content-Length", "-1"),
    ("Content-Length", "99999999999999999999"),
    ("Content-Length", "1e3"),
    ("Expect", "100-continue"),
    ("Host", "evil.example"),
    ("Host", ""),
    ("Origin", "https://evil.example"),
    ("Origin", "null"),
    ("Authorization", "Bearer wrong"),
    ("Authorization", "Bearer " + "x" * 10_000),
    ("Authorization", "Basic AAAA"),
    ("Authorization", "Bearer \xff\xfe"),
    ("Idempotency-Key", ""),
    ("Idempotency-Key", "k" * 5000),
    ("Idempotency-Key", "\xe9\xff"),
    ("Idempotency-Key", "same"),
    ("Upgrade", "websocket"),
    ("Connection", "Upgrade"),
    ("Connection", "close"),
    ("Accept", "x" * 200),
    ("X-Giant", "g" * 100_000),
    ("Cookie", "a=b; " * 3000),
]
METHODS = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "BREW", "post"]
PATHS = [
    *["/", "/learn", "/predict", "/label", "/model", "/model/file", "/metrics", "/health", "/docs"],
    *["/models", "/models/numbers", "/models/numbers/learn", "/models/none/learn", "/openapi.json"],
    *["/models/%00/learn", "/models/../learn", "//learn", "/learn/", "/%2e%2e/%2e%2e/etc/passwd"],
    *["/shadows", "/shadows/none", "/shadows/%ff", "/promote", "/static/../../x", "/events?x=1"],
    *["/learn?label=none", "/learn?label=&weight=", "/learn?" + "a=b&" * 1000, "/" + "x" * 9000],
    "*",
]  # fmt: skip
GARBAGE = [
    b"\0" * 100,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET\r\n\r\n",
    b"POST /learn HTTP/9.9\r\n\r\n",
    b"POST /learn HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    b"POST /learn HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
    b"POST /learn HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET / HTTP/1.1\r\n: empty\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 3000 + b"\r\n",
    b"GET /\xff\xfe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\r\n\r\n\r\n",
]


@dataclass
class Request:
    """As it goes over the wire, unless something is done to that too."""

    method: str
    path: str
    body: bytes = b""
    headers: list[tuple[str, str]] = field(default_factory=list)
    cut: int | None = None  # so many bytes are sent, and then no more
    raw: bytes | None = None

    def wire(self) -> bytes:
        if self.raw is not None:
            return self.raw
        given = {name for name, _ in self.headers}
        lines = [f"{self.method} {self.path} HTTP/1.1"]
        if "Host" not in given:
            lines.append("Host: 127.0.0.1")
        if self.body and not given & {"Content-Length", "Transfer-Encoding"}:
            lines.append(f"Content-Length: {len(self.body)}")
        lines += [f"{name}: {value}" for name, value in self.headers]
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
        return (head + self.body)[: self.cut]

    @property
    def whole(self) -> bool:
        """Does the server know where it ends, so that an answer must come?"""
        given = {name for name, _ in self.headers}
        odd = {"Content-Length", "Transfer-Encoding"}
        return self.raw is None and self.cut is None and not given & odd


class Answer(NamedTuple):
    status: int  # 0: it hung up
    body: bytes


# ------------------------------------------------------------------------------------------- seeds
def proper(chance: random.Random, serial: int) -> tuple[Request, Any]:
    """A request as it should be, and what is in its body, before it is rendered."""
    named = chance.random() < 0.5
    row, label = numbers(chance) if named else columns(chance)
    prefix = "/models/numbers" if named else chance.choice(("", "/models/columns"))
    rows = [(numbers if named else columns)(chance) for _ in range(chance.randint(1, MOST_ROWS))]
    single = {"row": row, "label": label, "weight": 1.5, "id": f"s{serial}"}
    routes: list[Callable[[], tuple[str, str, str, Any]]] = [
        lambda: ("POST", "/learn", JSON, single),
        lambda: ("POST", "/learn", JSON, single),
        lambda: ("POST", "/learn", JSON, {
            "rows": [each for each, _ in rows],
            "labels": [label for _, label in rows],
            "weights": [1.0 for _ in rows],
            "id": f"b{serial}",
        }),
        lambda: ("POST", "/learn", LINES, [{"row": each, "label": label} for each, label in rows]),
        lambda: ("POST", "/learn?weight=weight", ARROW, table(rows, chance)),
        lambda: ("POST", "/predict", JSON, {"row": row, "id": f"p{serial}", "scores": True}),
        lambda: ("POST", "/predict", JSON, {"rows": [each for each, _ in rows], "ids": True}),
        lambda: ("POST", "/predict", JSON, {"row": row, "proba": True}),
        lambda: ("POST", "/predict", LINES, [{"row": each} for each, _ in rows]),
        lambda: ("POST", "/predict", ARROW, table(rows, chance)),
        lambda: ("POST", "/label", JSON, {"id": f"p{serial - 5}", "label": label, "weight": 1.0}),
        lambda: ("POST", "/label", JSON, {"labels": [{"id": f"p{serial - 9}", "label": label}]}),
        lambda: ("POST", "/label", LINES, [{"id": f"p{serial - 7}", "label": label}]),
        lambda: ("POST", "/shadows", JSON, {
            "name": "other", "algorithm": "romma", "parameters": {"delta": 0.5},
        }),
        lambda: ("DELETE", "/shadows/other", JSON, None),
        lambda: ("POST", "/promote", JSON, {"shadow": f"none{serial}"}),
        lambda: ("GET", chance.choice(PATHS), JSON, None),
    ]  # fmt: skip
    method, path, kind, content = chance.choice(routes)()
    if method == "GET":
        return Request(method, path), None
    return Request(method, prefix + path, headers=[("Content-Type", kind)]), content


def table(rows: list[tuple[Any, str]], chance: random.Random) -> pa.Table:
    dicts = [
        row if isinstance(row, dict) else {f"x{j}": value for j, value in enumerate(row)}
        for row, _ in rows
    ]
    found = pa.table({name: [row[name] for row in dicts] for name in dicts[0]})
    found = found.append_column("label", [[label for _, label in rows]])
    found = found.append_column("weight", [[1.0] * len(rows)])
    if chance.random() < 0.7:
        return found
    odd: list[Any] = [
        pa.array([[1.0]] * len(rows)),
        pa.array([{"a": 1}] * len(rows)),
        pa.array([b"\xff\0"] * len(rows)),
        pa.array([float("nan")] * len(rows)),
        pa.array([float("inf")] * len(rows)),
        pa.nulls(len(rows)),
        pa.array(["a"] * len(rows)).dictionary_encode(),
        pa.array([2**62] * len(rows)),
        pa.array([2**64 - 1] * len(rows), pa.uint64()),
        pa.array([1] * len(rows), pa.timestamp("us")),
        pa.array([True] * len(rows)),
    ]
    at = chance.randrange(found.num_columns)
    name = chance.choice([found.column_names[at], "label", "new", "", "x" * 300])
    return found.set_column(at, name, chance.choice(odd))


def rendered(content: Any) -> bytes:
    """JSON, lines of JSON or Arrow; what is `Raw` stays as it is."""
    if isinstance(content, pa.Table):
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, content.schema) as stream:
            stream.write_table(content)
        return sink.getvalue()
    return _text(content).encode("utf-8", "surrogatepass")


def _text(content: Any) -> str:
    if isinstance(content, Raw):
        return content
    if isinstance(content, dict):
        return "{" + ",".join(f"{json.dumps(str(k))}:{_text(v)}" for k, v in content.items()) + "}"
    if isinstance(content, list):
        return "[" + ",".join(map(_text, content)) + "]"
    return json.dumps(content, ensure_ascii=False)


# --------------------------------------------------------------------------------------- mutations
def evil(chance: random.Random) -> Any:
    return copy.deepcopy(chance.choice(EVIL))


def edited(content: Any, chance: random.Random) -> Any:
    """With another value, key or element somewhere."""
    content = json.loads(json.dumps(content))
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        places = list(_places(content))
        if not places:
            return evil(chance)
        holder, key = chance.choice(places)
        what = chance.random()
        if what < 0.55:
            holder[key] = evil(chance)
        elif what < 0.7:
            del holder[key]
        elif what < 0.8 and isinstance(holder, dict):
            holder[chance.choice(["", "extra", "row", "rows", "id", "x" * 2000])] = chance.choice(
                EVIL
            )
        elif what < 0.9 and isinstance(holder, list):
            holder.extend([holder[key]] * chance.choice((1, 2, 50)))
        else:
            holder[key] = [holder[key]]
    return content


def _places(tree: Any) -> Any:
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if type(tree) is list else ()
    for key in keys:
        yield tree, key
        yield from _places(tree[key])


def scrambled(body: bytes, chance: random.Random) -> bytes:
    """With other bytes somewhere."""
    body = body or b"{}"
    changed = bytearray(body)
    for _ in range(chance.choice((1, 2, 5))):
        at = chance.randrange(len(changed) or 1)
        what = chance.random()
        if what < 0.3 and changed:
            changed[at] ^= 1 << chance.randrange(8)
        elif what < 0.5:
            changed[at:at] = bytes(
                chance.choice((0, 10, 34, 44, 58, 91, 93, 123, 125, 255)) for _ in (0, 1)
            )
        elif what < 0.7:
            del changed[at : at + chance.randint(1, 20)]
        elif what < 0.85:
            changed[at:at] = changed[: chance.randint(1, 60)]
        else:
            changed = changed[:at]
    return bytes(changed)


def fuzzed(chance: random.Random, serial: int) -> Request:
    request, content = proper(chance, serial)
    how = chance.random()
    is_tree = content is not None and not isinstance(content, pa.Table)
    if is_tree and how < 0.45:
        content = edited(content, chance)
    kind = dict(request.headers).get("Content-Type")
    if kind == LINES and isinstance(content, list):
        joint = chance.choice(("\n", "\n", "\r\n", "\n\n", ""))
        request.body = joint.join(_text(each) for each in content).encode("utf-8", "surrogatepass")
    elif content is not None:
        request.body = rendered(content)
    if 0.45 <= how < 0.6 or (isinstance(content, pa.Table) and how < 0.45):
        request.body = scrambled(request.body, chance)
    if 0.6 <= how < 0.75:
        for name, value in chance.sample(HEADERS, chance.choice((1, 1, 2))):
            request.headers = [each for each in request.headers if each[0] != name]
            request.headers.append((name, value))
    elif 0.75 <= how < 0.85:
        request.path = chance.choice(PATHS)
    elif 0.85 <= how < 0.9:
        request.method = chance.choice(METHODS)
    elif 0.9 <= how < 0.94:
        request.cut = chance.randrange(len(request.wire()))
    elif 0.94 <= how < 0.97:
        request.raw = chance.choice(GARBAGE)
        if chance.random() < 0.5:
            request.raw = scrambled(request.wire(), chance)
    return request


# ----------------------------------------------------------------------------------------- the wire
class Wire:
    """A connection that is made anew whenever the server, or the request, ends it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.socket: socket.socket | None = None

    def ask(self, request: Request) -> Answer:
        """What was answered; status 0 if the server hung up."""
        data, fresh = request.wire(), self.socket is None
        try:
            answer, goes_on = self._ask(data, request)
        except (ConnectionError, BrokenPipeError):
            self.close()
            # It may have hung up after the last answer.
            return Answer(0, b"") if fresh else self.ask(request)
        if not goes_on or not request.whole:
            self.close()
        return answer

    def _ask(self, data: bytes, request: Request) -> tuple[Answer, bool]:
        if self.socket is None:
            self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        with suppress(ConnectionError):  # it may have heard enough, and said so
            self.socket.sendall(data)
        if not request.whole:
            with suppress(OSError):
                self.socket.shutdown(socket.SHUT_WR)
        return self._answer(request)

    def _answer(self, request: Request, got: bytes = b"") -> tuple[Answer, bool]:
        while b"\r\n\r\n" not in got:
            more = self.socket.recv(1 << 16)
            if not more:
                raise ConnectionResetError
            got += more
        head, _, body = got.partition(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        if status == 100:  # it would like to have the body, which is on its way
            return self._answer(request, body)
        head = head.lower()
        if b"text/event-stream" in head:
            return Answer(status, b""), False
        length = re.search(rb"\r\ncontent-length: *(\d+)", head)
        if request.method == "HEAD" or status in (204, 304):
            return Answer(status, b""), False
        while length is None or len(body) < int(length[1]):
            more = self.socket.recv(1 << 20)
            if not more:
                return Answer(status, body), False
            body += more
        return Answer(status, body), b"connection: close" not in head and length is not None

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()
            self.socket = None


# --------------------------------------------------------------------------------------- the fuzzer
@dataclass
class Found:
    answers: Counter = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)

    def trouble(self, number: int, request: Request, text: str) -> None:
        self.troubles.append(f"{number}: {text}: {request.wire()[:400]!r}")
        print(self.troubles[-1], flush=True)


def fuzz(
    count: int,
    seed: int,
    folder: Path,
    options: tuple[str, ...] = (),
    zygote: Zygote | None = None,
) -> Found:
    """Send so many requests; what is wrong is in `Found.troubles`."""
    model = folder / "numbers.mm"
    kind = KINDS["numbers"]
    clf = kind.fresh(folder)
    rows, labels = zip(*(numbers(random.Random(k)) for k in range(50)), strict=True)
    clf.partial_fit(rows, labels, classes=list(kind.classes))
    maxmargin.save(clf, model)
    models = (f"columns={of_columns(folder)}", f"numbers={model}")
    server = Server(folder / "data", *models, *options, zygote=zygote)
    secret = {"MAXMARGIN_TOKEN": TOKEN}
    guarded = Server(folder / "guarded", *models, environment=secret, zygote=zygote)
    found = Found()
    try:
        server.start()
        guarded.start()
        with closing(Wire(server.port)) as wire, closing(Wire(guarded.port)) as guarded_wire:
            _fuzz(count, seed, (server, wire), (guarded, guarded_wire), found)
        _afterwards(server, found)
    finally:
        server.end()
        guarded.end()
    for each in (server, guarded):
        if "Traceback" in (text := each.log.read_text("utf-8", "replace")):
            found.troubles.append(f"{each.log}: {text[text.index('Traceback') :][:3000]}")
    return found


def _fuzz(
    count: int, seed: int, plain: tuple[Server, Wire], secured: tuple[Server, Wire], found: Found
) -> None:
    (server, wire), (guarded, guarded_wire), chance = plain, secured, random.Random(seed)
    learned, began = learned_rows(server), time.monotonic()
    unsure = 0  # rows in what nobody knows to be a request
    first = files_of(guarded, {"Authorization": f"Bearer {TOKEN}"})
    for number in range(count):
        request = fuzzed(chance, number)
        if chance.random() < 0.05:
            _guarded(number, request, guarded_wire, found)
            continue
        watched = chance.random() < 0.01
        before = files_of(server) if watched else None
        try:
            answer = wire.ask(request)
        except TimeoutError:
            wire.close()
            found.trouble(number, request, f"no answer in {PATIENCE:g} s")
            continue
        found.answers[answer.status] += 1
        unsure += MOST_ROWS * (request.raw is not None and answer.status == 0)
        if answer.status >= 500 and answer.status != 503:
            found.trouble(number, request, f"{answer.status} {answer.body[:200]!r}")
        if answer.status == 0 and request.whole and len(request.wire()) < 60_000:
            found.trouble(number, request, "no answer")
        if answer.status == 200 and request.method == "POST" and b'"learned"' in answer.body[:100]:
            learned += json.loads(answer.body)["learned"]
        if 400 <= answer.status < 500 and request.whole and request.method == "POST":
            _reason(number, request, answer, found)
        if watched and answer.status != 200 and files_of(server) != before:
            found.trouble(number, request, f"{answer.status}, and the model has changed")
        if number % 500 == 499:
            there = learned_rows(server)
            if not learned <= there <= learned + unsure:
                found.trouble(number, request, f"{there} rows are learned, {learned} acknowledged")
            learned, unsure = there, 0
            found.memory.append(server.resident())
        if number % 10_000 == 9999:
            rate = number / (time.monotonic() - began)
            print(f"{number + 1:,}, {rate:.0f} a second: {dict(found.answers)}", flush=True)
    if files_of(guarded, {"Authorization": f"Bearer {TOKEN}"}) != first:
        found.troubles.append("without the token, the model has changed")


def _guarded(number: int, request: Request, wire: Wire, found: Found) -> None:
    """Nobody but who has the token gets anything."""
    answer = wire.ask(request)
    found.answers[f"{answer.status} without a token"] += 1
    path = request.wire().partition(b" ")[2].partition(b" ")[0].partition(b"?")[0]
    is_open = path in (b"/", b"/health", b"/docs", b"/openapi.json")
    if answer.status >= 500 or (answer.status == 200 and not is_open):
        found.trouble(number, request, f"{answer.status} without a token")


def _reason(number: int, request: Request, answer: Answer, found: Found) -> None:
    try:
        reason = json.loads(answer.body)["error"]
    except (ValueError, KeyError, TypeError):
        reason = answer.body if answer.body == b"Invalid HTTP request received." else ""
    if not reason:
        found.trouble(number, request, f"{answer.status} without a reason: {answer.body[:200]!r}")


def learned_rows(server: Server) -> int:
    return sum(
        server.asks("GET", f"/models/{name}/model").json["rows"] for name in ("columns", "numbers")
    )


def files_of(server: Server, headers: dict[str, str] | None = None) -> list[bytes]:
    return [
        server.asks("GET", f"/models/{name}/model/file", **(headers or {})).body
        for name in ("columns", "numbers")
    ]


def _afterwards(server: Server, found: Found) -> None:
    chance = random.Random(0)
    for name, source in (("columns", columns), ("numbers", numbers)):
        row, label = source(chance)
        answer = server.asks("POST", f"/models/{name}/learn", {"row": row, "label": label})
        if answer.status != 200 or answer.json["learned"] != 1:
            found.troubles.append(f"a proper event in the end: {answer}")
    before = files_of(server)
    if code := server.stop():
        found.troubles.append(f"SIGTERM: ended with {code}")
    server.start()
    server.wait_until_healthy()
    if files_of(server) != before:
        found.troubles.append("another model after a restart")
    server.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fuzzed"))
    found = fuzz(given.count, given.seed, folder)
    memory = [f"{each / 2**20:.0f}" for each in found.memory[:: max(1, len(found.memory) // 10)]]
    print(f"{given.count:,} requests: {dict(found.answers)}; MiB: {', '.join(memory)}")
    print(f"{len(found.troubles)} troubles; {folder}")
    print("\n".join(found.troubles[:20]))
    if not found.troubles:
        shutil.rmtree(folder)
    return int(bool(found.troubles))


if __name__ == "__main__":
    sys.exit(main())
