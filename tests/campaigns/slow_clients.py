"""Clients that hold connections without need: ``python tests/campaigns/slow_clients.py 10000``.

Waves of connections stall, drip, flood or break off in every part of a request and of its answer,
against a server with its usual limits but short times. Meanwhile a well-behaved client learns and
predicts. In the end the server has ended every connection, its memory is back where it was, it has
answered with no 5xx but the documented 503, and the well-behaved client was always served.
"""

import argparse
import asyncio
import json
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from serve.processes import SLOWEST, Server, exchange
from zygote import Zygote

WAVE = 450  # fewer than the 500 connections that a server takes
SECONDS = 1.0  # for headers, for bodies and for reading answers
OPTIONS = ("--algorithm", "passive-aggressive", "--classes", "no,yes")
LIMITED = tuple(
    text
    for name in ("header_seconds", "body_seconds", "write_seconds")
    for text in ("--limit", f"{name}={SECONDS}")
)
DOCUMENTED = (b"too many connections", b"too many requests wait")  # with status 503
INVALID = "WARNING:  Invalid HTTP request received.\n"  # which uvicorn says of each
LARGE_ROWS = 60_000  # whose scores take more than the buffers of the system

Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter
Behaviour = Callable[[Reader, Writer, random.Random], Awaitable[bytes]]


def head(method: str, path: str, *headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: 127.0.0.1", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


HEALTH = head("GET", "/health")
ROW = b'{"row": [1.0, 2.0]}'
JSON = "content-type: application/json"
CHUNKED = head("POST", "/predict", JSON, "transfer-encoding: chunked")


def predict(body: bytes, told: int | None = None) -> bytes:
    """A request whose Content-Length may be wrong."""
    size = len(body) if told is None else told
    return head("POST", "/predict", JSON, f"content-length: {size}") + body


LARGE = predict(json.dumps({"rows": [[1.0, 2.0]] * LARGE_ROWS, "scores": True}).encode())


# -------------------------------------------------------------------------------------- behaviours
async def read_all(reader: Reader) -> bytes:
    """Until the server ends the connection, by a reset perhaps."""
    found = b""
    with suppress(OSError):
        while part := await reader.read(2**16):
            found = found[-(2**20) :] + part
    return found


async def drip(reader: Reader, writer: Writer, part: bytes, seconds: float = 0.05) -> bytes:
    """Send a few bytes again and again, until the server ends the connection."""
    reading = asyncio.ensure_future(read_all(reader))
    with suppress(OSError):
        while not reading.done():
            writer.write(part)
            await writer.drain()
            await asyncio.wait([reading], timeout=seconds)
    return await reading


def begins(request: bytes, part: bytes = b"", seconds: float = 0.05) -> Behaviour:
    """Send a request or its beginning, and then parts of something, or nothing."""

    async def behave(reader: Reader, writer: Writer, chance: random.Random) -> bytes:
        writer.write(request)
        return await (drip(reader, writer, part, seconds) if part else read_all(reader))

    return behave


def ends(request: bytes) -> Behaviour:
    """Send something, and end the connection in the direction of the server."""

    async def behave(reader: Reader, writer: Writer, chance: random.Random) -> bytes:
        writer.write(request)
        await writer.drain()
        writer.write_eof()
        return await read_all(reader)

    return behave


async def reset(reader: Reader, writer: Writer, chance: random.Random) -> bytes:
    """End it by a reset, in the midst of something."""
    request = chance.choice((HEALTH, predict(ROW), predict(ROW, 1000), CHUNKED + b"5\r\nab", LARGE))
    writer.write(request[: chance.randint(0, len(request))])
    await asyncio.sleep(chance.uniform(0.0, 0.2))
    line = writer.get_extra_info("socket")
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    return b""


def unread(request: bytes) -> Behaviour:
    """Ask for something, and never read it; what is there in the end is cut."""

    async def behave(reader: Reader, writer: Writer, chance: random.Random) -> bytes:
        writer.transport.pause_reading()
        writer.write(request)
        await asyncio.sleep(2.0 * SECONDS)
        writer.transport.resume_reading()
        return await read_all(reader)

    return behave


async def garbage(reader: Reader, writer: Writer, chance: random.Random) -> bytes:
    """Chunks of a body that are none."""
    bad = (b"zz\r\n", b"-5\r\nabc\r\n", b"F" * 20 + b"\r\n", b"3\r\nabcdef\r\n", b"\0" * 50, b"5;")
    writer.write(CHUNKED + chance.choice(bad) + chance.randbytes(chance.randint(0, 500)))
    return await read_all(reader)


async def pipelined(reader: Reader, writer: Writer, chance: random.Random) -> bytes:
    """Many requests at once: those that may wait, or more."""
    writer.write(chance.choice((HEALTH, predict(ROW))) * chance.choice((5, 50, 90, 150, 2000)))
    return await read_all(reader)


KINDS: dict[str, Behaviour] = {
    "silence": begins(b""),
    "newlines after an answer": begins(HEALTH, b"\r\n"),
    "unread bytes after an answer": begins(
        head("POST", "/predict", "content-length: 1000000"), b"x"
    ),
    "half a request line": begins(b"GET /hea"),
    "a dripping request line": begins(b"GET /", b"a"),
    "endless headers": begins(HEALTH[:-2], b"x: y\r\n" * 500, 0.0),
    "dripping headers": begins(HEALTH[:-2], b"x: y\r\n"),
    "endless trailers": begins(CHUNKED + b"0\r\n", b"x: y\r\n" * 500, 0.0),
    "dripping trailers": begins(CHUNKED + b"0\r\n", b"x: y\r\n"),
    "a stalling body": begins(predict(ROW[:5], 1000)),
    "a dripping body": begins(predict(ROW, 1000), b" "),
    "stalling chunks": begins(CHUNKED + b"5\r\n{}"),
    "dripping chunks": begins(CHUNKED, b"1\r\n \r\n"),
    "chunked garbage": garbage,
    "a body shorter than it says": ends(predict(ROW, 100)),
    "a body longer than it says": begins(predict(ROW + b"more of it", len(ROW))),
    "pipelined requests": pipelined,
    "unread pipelined answers": unread(head("GET", "/openapi.json") * 90),
    "a large unread answer": unread(LARGE),
    "resets": reset,
}


# --------------------------------------------------------------------------------------- campaign
@dataclass
class Outcome:
    """What was found."""

    ended: Counter = field(default_factory=Counter)  # connections of each kind
    answers: Counter = field(default_factory=Counter)  # by status
    troubles: list[str] = field(default_factory=list)
    good: int = 0  # answers to the well-behaved client
    slowest: float = 0.0
    memory: tuple[int, int, int] = (0, 0, 0)  # bytes at the start, at most, and at the end
    sockets: tuple[int, int] = (0, 0)  # at the start and at the end


class Good:
    """A client that learns and predicts all the time, by one connection and by new ones.

    It is a process of its own, so that its times are those of the server.
    """

    def __init__(self, server: Server) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--good", str(server.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def end(self) -> dict[str, Any]:
        """What it has found."""
        said, _ = self.process.communicate(timeout=2.0 * SLOWEST)
        found: dict[str, Any] = json.loads(said)
        return found


def be_good(port: int) -> None:
    """The client itself, until standard input ends."""
    chance, over = random.Random(0), threading.Event()
    found = {"learned": 0, "answers": 0, "slowest": 0.0, "trouble": None}
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()

    def ask(connection: HTTPConnection, path: str, content: Any) -> None:
        began = time.perf_counter()
        answer = exchange(connection, "POST", path, content)
        assert answer.status == 200, answer
        found["slowest"] = max(found["slowest"], time.perf_counter() - began)
        found["answers"] += 1

    try:
        while not over.is_set():
            with closing(HTTPConnection("127.0.0.1", port, timeout=SLOWEST)) as connection:
                for _ in range(20):
                    row = [chance.gauss(0.0, 1.0), chance.gauss(0.0, 1.0)]
                    label = "yes" if row[0] > 0.0 else "no"
                    ask(connection, "/learn", {"row": row, "label": label})
                    found["learned"] += 1
                    ask(connection, "/predict", {"row": row})
                    over.wait(0.02)
    except Exception as problem:
        found["trouble"] = repr(problem)
    print(json.dumps(found))


def sockets_of(server: Server) -> int:
    count = 0
    for entry in Path(f"/proc/{server.process.pid}/fd").iterdir():
        with suppress(OSError):
            count += str(entry.readlink()).startswith("socket:")
    return count


def peak_of(server: Server) -> int:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", status)[1])


async def connection(port: int, name: str, seed: str, outcome: Outcome) -> None:
    """One connection of a kind; whatever comes back is counted."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**16)
        try:
            found = await asyncio.wait_for(
                KINDS[name](reader, writer, random.Random(seed)), SLOWEST
            )
        finally:
            writer.transport.abort()
    except asyncio.TimeoutError:
        outcome.troubles.append(f"{name}: the connection hangs")
        return
    except OSError:  # the server has ended it while something was sent
        outcome.answers["none"] += 1
    else:
        check(name, found, outcome)
    outcome.ended[name] += 1


def check(name: str, found: bytes, outcome: Outcome) -> None:
    answers = re.split(rb"(?=HTTP/1\.1 \d\d\d )", found)[1:]
    outcome.answers["none"] += not answers
    for answer in answers:
        status = int(answer[9:12])
        outcome.answers[status] += 1
        documented = status == 503 and any(text in answer for text in DOCUMENTED)
        if status >= 500 and not documented:
            outcome.troubles.append(f"{name}: {answer[:300]!r}")


async def wave(port: int, names: list[str], number: int, outcome: Outcome) -> None:
    each = (connection(port, name, f"{number} {k}", outcome) for k, name in enumerate(names))
    await asyncio.gather(*each)


def besiege(count: int, seed: int, folder: Path, zygote: Zygote | None = None) -> Outcome:
    """So many connections, in waves."""
    outcome, chance = Outcome(), random.Random(seed)
    server = Server(folder / "data", *OPTIONS, *LIMITED, zygote=zygote)
    server.start()
    good = None
    try:
        server.wait_until_healthy()
        server.asks("POST", "/learn", {"row": [1.0, 2.0], "label": "yes"})
        for _ in range(2):  # what is imported and compiled by the first requests
            body = LARGE.partition(b"\r\n\r\n")[2]
            server.asks("POST", "/predict", body, **dict([JSON.split(": ")]))
        begun, memory = sockets_of(server), server.resident()
        good = Good(server)
        names = [list(KINDS)[k % len(KINDS)] for k in range(count)]
        chance.shuffle(names)
        for number, start in enumerate(range(0, count, WAVE)):
            asyncio.run(wave(server.port, names[start : start + WAVE], number, outcome))
            print(
                f"{min(count, start + WAVE):,} connections, {server.resident() / 2**20:.0f} MiB, "
                f"{sockets_of(server)} sockets",
                flush=True,
            )
        found = good.end()
        outcome.good, outcome.slowest = found["answers"], found["slowest"]
        if found["trouble"]:
            outcome.troubles.append(f"the well-behaved client: {found['trouble']}")
        end = time.monotonic() + SLOWEST
        while sockets_of(server) > begun and time.monotonic() < end:
            time.sleep(0.05)
        outcome.sockets = begun, sockets_of(server)
        outcome.memory = memory, peak_of(server), server.resident()
        rows = server.asks("GET", "/model").json["rows"]
        if rows != found["learned"] + 1:
            outcome.troubles.append(f"{rows} rows, and {found['learned'] + 1} were acknowledged")
        if code := server.stop():
            outcome.troubles.append(f"SIGTERM: ended with {code}")
    finally:
        if good is not None:
            good.process.kill()
        server.end()
    if said := server.log.read_text().replace(INVALID, ""):
        outcome.troubles.append(f"the server says {said[-1000:]}")
    if outcome.sockets[1] > outcome.sockets[0]:
        outcome.troubles.append(f"sockets: {outcome.sockets}")
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("connections", type=int, nargs="?", default=1000)
    parser.add_argument("--good", type=int, metavar="PORT", help="be the well-behaved client")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.good is not None:
        be_good(given.good)
        return 0
    folder = Path(tempfile.mkdtemp(prefix="slow"))
    try:
        found = besiege(given.connections, given.seed, folder)
    finally:
        shutil.rmtree(folder)
    for name, count in found.ended.items():
        print(f"{count:6} {name}")
    print("answers", dict(found.answers))
    print(f"well-behaved client: {found.good} answers, the slowest in {found.slowest:.3f} s")
    print("MiB at the start, at most, at the end:", *(round(each / 2**20) for each in found.memory))
    print("sockets at the start and at the end:", *found.sockets)
    print(*found.troubles[:20], sep="\n")
    return bool(found.troubles)


if __name__ == "__main__":
    sys.exit(main())
