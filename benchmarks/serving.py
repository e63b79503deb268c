"""Events over HTTP: `maxmargin serve` beside Vowpal Wabbit's daemon and river behind Starlette.

``python -m benchmarks.serving`` measures this alone. Clients and server share the machine.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import Comparison, Floor, Key, Report, Scale, Spread, Values

NAME = "serving"
QUESTION = "How many events a second does a server learn?"

WIDTH, ROWS, BATCH, CLIENTS, BATCH_CLIENTS = 14, 20_000, 1000, 16, 2
SECONDS, WARM_UP, ROUNDS = 3.0, 0.5, 3
# Others ask while events are learned: so many clients, each so many seconds apart.
ASKING, PAUSE = 4, 0.01

OURS, VOWPAL, RIVER = "maxmargin serve, durable", "Vowpal Wabbit's daemon", "river, Starlette"
EMPTY, DISK = "a route that does nothing", "fsyncs of this disk"
SINGLE = f"single events, {CLIENTS} clients"
BATCHES = f"batches of {BATCH:,} rows as "
JSON, LINES = BATCHES + "JSON", BATCHES + "text"
WHILE_LEARNING = "predictions while events are learned"
PROCESSOR = "µs of processor time a row, all answers"
GENERATOR = "share of a core for the clients"
# What is asked: rates in rows a second, times in milliseconds.
RATES = {Key(SINGLE, OURS): 2000.0, Key(JSON, OURS): 150_000.0}
TIMES = {Key(SINGLE, OURS): 25.0, Key(WHILE_LEARNING, OURS): 10.0}


class Running(NamedTuple):
    """A server; its processes are a group."""

    port: int
    group: int


class Load(NamedTuple):
    """What clients send to a server, and how many rows an answer stands for."""

    key: Key
    server: str
    groups: list[dict[str, Any]]
    rows: int = 1
    lines: bool = False


def run(scale: Scale) -> Report:
    with tempfile.TemporaryDirectory(prefix="serving") as name, ExitStack() as servers:
        return run_in(Path(name), scale, servers)


def run_in(folder: Path, scale: Scale, servers: ExitStack) -> Report:
    skipped: dict[str, str] = {}
    running: dict[str, Running] = {}
    for server, command in commands(folder).items():
        try:
            running[server] = servers.enter_context(started(command, folder / f"{server}.log"))
        except OSError as problem:
            skipped[{"vowpal": VOWPAL, "starlette": RIVER}.get(server, server)] = str(problem)
    loads = [load for load in all_loads(written(folder)) if load.server in running]
    rounds, seconds = min(ROUNDS, scale.rounds), max(0.2, SECONDS * scale.share)
    rates: Values = {}
    found: dict[Key, list[float]] = {}
    for load in loads:
        generated(load, running[load.server], WARM_UP)
    for _ in range(rounds):
        rates.setdefault(Key(SINGLE, DISK), []).append(syncs_per_second(folder, seconds / 6))
        for load in loads:
            told = generated(load, running[load.server], seconds)
            first = load.groups[0]["name"]
            rates.setdefault(load.key, []).append(load.rows * told[first]["rate"])
            for group in load.groups:
                case = load.key.case if group["name"] == first else WHILE_LEARNING
                for what in ("p50", "p99"):
                    key = Key(case, f"{load.key.contender}, {what}, ms")
                    found.setdefault(key, []).append(1e3 * told[group["name"]][what])
            for what in (PROCESSOR, GENERATOR):
                key = Key(load.key.case, f"{load.key.contender}, {what}")
                found.setdefault(key, []).append(told[what])
    return report(rates, found, skipped)


def report(rates: Values, found: dict[Key, list[float]], skipped: dict[str, str]) -> Report:
    floors = [
        Floor(f"{key.case}: rows a second", ">=", asked, rates[key])
        for key, asked in RATES.items()
        if key in rates
    ]
    for key, asked in TIMES.items():
        times = found.get(Key(key.case, f"{key.contender}, p99, ms"))
        if times:
            floors.append(Floor(f"{key.case}: p99 in ms", "<=", asked, times))
    pairs = [
        Comparison(Key(case, OURS), Key(peers_case, peer), words)
        for case, peers_case in ((SINGLE, SINGLE), (JSON, JSON))
        for peer, words in ((RIVER, "river behind the same framework"),)
        if {Key(case, OURS), Key(peers_case, peer)} <= set(rates)
    ]
    pairs += [
        Comparison(Key(case, OURS), Key(case, VOWPAL), "Vowpal Wabbit's daemon")
        for case in (SINGLE,)
        if {Key(case, OURS), Key(case, VOWPAL)} <= set(rates)
    ]
    quality = {key: Spread.of(values).median for key, values in found.items()}
    data = f"rows of {WIDTH} numbers and two classes, PA-I with C = 1"
    how = (
        "Clients with connections that stay open send the next event when the last is answered; "
        "they are a process of their own on the same machine. Ours answers when the event is on "
        "the disk; the others keep theirs in memory. Vowpal Wabbit has a process for each client, "
        f"and their weights are shared. Predictions come from {ASKING} more clients, each "
        f"{1 / PAUSE:.0f} a second at most."
    )
    return Report(NAME, data, "rows/s", rates, floors, skipped, how, pairs, quality)


# ---------------------------------------------------------------------------------------- requests
def written(folder: Path) -> dict[str, str]:
    """Files of requests that are ready to be sent."""
    random = np.random.default_rng(0)
    X = random.standard_normal((ROWS, WIDTH)).round(4)
    y = (X @ random.standard_normal(WIDTH) + random.standard_normal(ROWS) > 0.0).tolist()
    labels = ["yes" if label else "no" for label in y]
    names = [f"feature {j}" for j in range(WIDTH)]
    dicts = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    blocks = [slice(at, at + BATCH) for at in range(0, ROWS, BATCH)]
    lines = [
        " ".join(["1" if label else "-1", "|", *(f"f{j}:{v}" for j, v in enumerate(row))]) + "\n"
        for row, label in zip(X.tolist(), y, strict=True)
    ]

    singles = [{"row": row, "label": label} for row, label in zip(dicts, labels, strict=True)]
    batches = [{"rows": X[block].tolist(), "labels": labels[block]} for block in blocks]
    rows = [{"row": row} for row in dicts[:500]]
    requests = {
        "singles": [post("/learn", as_json(one)) for one in singles],
        "empty": [post("/empty", as_json(one)) for one in singles],
        "batches": [post("/learn", as_json(one)) for one in batches],
        "rows": [post("/predict", as_json(one)) for one in rows],
        "lines": [line.encode() for line in lines],
        "blocks of lines": ["".join(lines[block]).encode() for block in blocks],
    }
    for name, content in requests.items():
        (folder / name).write_bytes(pickle.dumps(content))
    return {name: str(folder / name) for name in requests}


def as_json(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def post(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def all_loads(files: dict[str, str]) -> Iterator[Load]:
    def group(requests: str, clients: int, pause: float = 0.0) -> dict[str, Any]:
        return {"name": requests, "requests": files[requests], "clients": clients, "pause": pause}

    singles, asked = group("singles", CLIENTS), group("rows", ASKING, PAUSE)
    yield Load(Key(SINGLE, OURS), "maxmargin", [singles])
    yield Load(Key(SINGLE, VOWPAL), "vowpal", [group("lines", CLIENTS)], lines=True)
    yield Load(Key(SINGLE, RIVER), "starlette", [singles])
    yield Load(Key(SINGLE, EMPTY), "starlette", [group("empty", CLIENTS)])
    mixed = f"single events, {CLIENTS} clients, and predictions"
    yield Load(Key(mixed, OURS), "maxmargin", [singles, asked])
    yield Load(Key(mixed, RIVER), "starlette", [singles, asked])
    batches = group("batches", BATCH_CLIENTS)
    yield Load(Key(JSON, OURS), "maxmargin, arrays", [batches], rows=BATCH)
    yield Load(Key(JSON, RIVER), "starlette", [batches], rows=BATCH)
    blocks = group("blocks of lines", BATCH_CLIENTS)
    yield Load(Key(LINES, VOWPAL), "vowpal", [blocks], rows=BATCH, lines=True)


# ----------------------------------------------------------------------------------------- servers
def commands(folder: Path) -> dict[str, list[str]]:
    python = [sys.executable, "-m"]
    ours = [*python, "maxmargin", "serve", "--algorithm", "passive-aggressive", "--set", "C=1"]
    ours += ["--classes", "no,yes", "--port", "0", "--data"]
    return {
        # A model has names for its columns, or numbers.
        "maxmargin": [*ours, str(folder / "named")],
        "maxmargin, arrays": [*ours, str(folder / "numbered")],
        "vowpal": [*python, "benchmarks.served", "vowpal", str(CLIENTS)],
        "starlette": [*python, "benchmarks.served", "starlette"],
    }


@contextmanager
def started(command: list[str], log: Path) -> Iterator[Running]:
    """A server that runs meanwhile; OSError if it does not start."""
    with log.open("wb") as errors:
        server = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=Path(__file__).parents[1],
            start_new_session=True,
        )
    try:
        assert server.stdout is not None
        line = server.stdout.readline().decode()
        port = line.strip().rpartition(":")[2]
        if not port.isdigit():
            raise OSError(log.read_text("utf-8").strip().rpartition("\n")[2] or "it did not start")
        wait_for(int(port))
        yield Running(int(port), server.pid)
    finally:
        # The daemon has children.
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def wait_for(port: int) -> None:
    import socket

    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.1)
    raise OSError("it takes no connections")


def generated(load: Load, server: Running, seconds: float) -> dict[str, Any]:
    """What the clients found."""
    before = processor_seconds(server.group)
    task = {"port": server.port, "seconds": seconds, "groups": load.groups, "lines": load.lines}
    done = subprocess.run(
        [sys.executable, "-S", Path(__file__).with_name("load.py")],
        input=json.dumps(task | {"warm_up": min(WARM_UP, seconds / 2)}).encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    told = json.loads(done.stdout)
    for group in load.groups:
        if refusal := told[group["name"]]["refusal"]:
            raise RuntimeError(f"{load.key.contender}, {load.key.case}: {refusal}")
    rows = load.rows * sum(told[group["name"]]["all answers"] for group in load.groups)
    told[PROCESSOR] = 1e6 * (processor_seconds(server.group) - before) / max(1, rows)
    told[GENERATOR] = told["busy"]
    return told


def processor_seconds(group: int) -> float:
    """That all processes of a group have taken."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(fields[2]) == group:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def syncs_per_second(folder: Path, seconds: float) -> float:
    """How often this disk takes a record by itself."""
    with (folder / "syncs").open("wb", buffering=0) as file:
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            file.write(bytes(300))
            os.fdatasync(file.fileno())
            count += 1
    return count / (time.perf_counter() - began)


if __name__ == "__main__":
    from benchmarks.__main__ import main

    main([NAME, *sys.argv[1:]])
