"""Clients that teach a server whatever happens to it, and remember what was acknowledged.

A client sends a deed again, with the same ids, until it is acknowledged: the server may have been
killed before, while or after it wrote it down.
"""

import http.client
import io
import json
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from serve.processes import SLOWEST, Answer, exchange

ARROW = "application/vnd.apache.arrow.stream"


@dataclass
class Event:
    """Rows under one id."""

    id: str
    rows: list[Any]
    labels: list[str]
    weights: list[float] | None = None
    sequence: int | None = None  # as it was acknowledged
    acknowledged: bool = False

    def all_weights(self) -> list[float]:
        return self.weights or [1.0] * len(self.rows)

    def single(self) -> dict[str, Any]:
        told = {"row": self.rows[0], "label": self.labels[0]}
        return told if self.weights is None else told | {"weight": self.weights[0]}

    def many(self) -> dict[str, Any]:
        told = {"rows": self.rows, "labels": self.labels}
        return told if self.weights is None else told | {"weights": self.weights}


@dataclass
class Deed:
    """A request, and the events in it."""

    kind: str
    events: list[Event]


@dataclass
class Problem:
    """Where rows come from: ``row(chance)`` gives one with its label."""

    row: Callable[[random.Random], tuple[Any, str]]
    kinds: tuple[str, ...] = ("single", "header", "lines", "batch", "arrow", "asked")


@dataclass
class Client:
    """Does one deed after the other in a thread of its own."""

    name: str
    problem: Problem
    seed: int
    port: Callable[[], int]
    deeds: list[Deed] = field(default_factory=list)
    waiting: list[Event] = field(default_factory=list)  # predictions whose labels come later
    duplicates: int = 0
    busy: int = 0  # answers that said: later
    trouble: list[str] = field(default_factory=list)
    quiet: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.chance = random.Random(f"{self.seed} {self.name}")
        self.connection: http.client.HTTPConnection | None = None
        self.made, self.done = 0, list[Deed]()
        self.thread = threading.Thread(target=self.work, daemon=True)

    # ------------------------------------------------------------------------------------- deeds
    def event(self, count: int) -> Event:
        rows, labels = zip(*(self.problem.row(self.chance) for _ in range(count)), strict=True)
        weights = None
        if self.chance.random() < 0.2:
            weights = [self.chance.choice((0.5, 1.0, 2.0, 0.1)) for _ in range(count)]
        self.made += 1
        return Event(f"{self.name}-{self.made}", list(rows), list(labels), weights)

    def deed(self) -> Deed:
        if self.waiting and self.chance.random() < 0.3:
            late = self.waiting.pop(self.chance.randrange(len(self.waiting)))
            return Deed("label", [late])
        kind = self.chance.choice(self.problem.kinds)
        made = Deed(kind, [])
        self.deeds.append(made)
        for _ in range(self.chance.randint(2, 8) if kind == "lines" else 1):
            many = self.chance.randint(2, 30) if kind in ("batch", "arrow") else 1
            made.events.append(self.event(many))
        return made

    def work(self) -> None:
        try:
            while not self.quiet.is_set():
                if self.done and self.chance.random() < 0.05:
                    self.repeat(self.chance.choice(self.done[-200:]))
                else:
                    self.insist(self.deed())
            while self.waiting:
                self.insist(Deed("label", [self.waiting.pop()]))
        except Exception as problem:
            self.trouble.append(repr(problem))
        finally:
            self.hang_up()

    def hang_up(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def insist(self, deed: Deed) -> None:
        """Send it until it is acknowledged."""
        while True:
            answer = self.attempt(deed)
            if answer is not None:
                break
        told = answer.json
        if deed.kind == "asked":
            assert told["id"] == deed.events[0].id, told
            self.waiting.append(deed.events[0])
            return
        rows = sum(len(event.labels) for event in deed.events)
        again = told["duplicates"] if deed.kind == "lines" else told["duplicate"]
        self.duplicates += int(again)
        assert told["learned"] == (rows - again if deed.kind == "lines" else rows * (not again)), (
            told
        )
        for event in deed.events:
            event.acknowledged, event.sequence = True, told["sequence"]
        self.done.append(deed)

    def repeat(self, deed: Deed) -> None:
        """As a client does that never heard the answer."""
        while (answer := self.attempt(deed)) is None:
            pass
        told = answer.json
        again = told["duplicates"] if deed.kind == "lines" else told["duplicate"]
        assert again == len(deed.events), told
        assert told["learned"] == 0, told

    def attempt(self, deed: Deed) -> Answer | None:
        """None if nobody knows, or if it is to be sent later."""
        try:
            answer = self.send(deed)
        except (OSError, http.client.HTTPException):
            self.hang_up()
            time.sleep(0.02)
            return None
        if answer.status in (429, 503):
            self.busy += 1
            time.sleep(0.02)
            return None
        assert answer.status == 200, f"{deed.kind} {deed.events[0].id}: {answer}"
        return answer

    def send(self, deed: Deed) -> Answer:
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port(), timeout=SLOWEST)
        first = deed.events[0]
        path, content, headers = "/learn", None, {}
        if deed.kind == "single":
            content = first.single() | {"id": first.id}
        elif deed.kind == "header":
            content, headers = first.single(), {"Idempotency-Key": first.id}
        elif deed.kind == "lines":
            lines = (json.dumps(event.single() | {"id": event.id}) for event in deed.events)
            content = "\n".join(lines).encode()
            headers = {"Content-Type": "application/x-ndjson"}
        elif deed.kind == "batch":
            content = first.many() | {"id": first.id}
        elif deed.kind == "arrow":
            content = as_arrow(first)
            headers = {"Content-Type": ARROW, "Idempotency-Key": first.id}
            path += "?weight=weight" if first.weights else ""
        elif deed.kind == "asked":
            path, content = "/predict", {"row": first.rows[0], "id": first.id}
        else:
            assert deed.kind == "label"
            path, content = "/label", {"id": first.id, "label": first.labels[0]}
            if first.weights:
                content["weight"] = first.weights[0]
        return exchange(self.connection, "POST", path, content, headers)


def as_arrow(event: Event) -> bytes:
    import pyarrow as pa

    rows = event.rows
    if not isinstance(rows[0], dict):
        rows = [{f"x{j}": value for j, value in enumerate(row)} for row in rows]
    columns = {name: [row[name] for row in rows] for name in rows[0]} | {"label": event.labels}
    if event.weights:
        columns["weight"] = event.weights
    table = pa.table(columns)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()
