"""Clients that ask a server over kept-alive connections: ``python load.py`` with a task on stdin.

It is a process of its own that needs the standard library alone, and renders nothing: requests come
ready made. Each client sends its next request once it has the answer to the last, or as late as its
pause says. What it finds goes to stdout as JSON.
"""

from __future__ import annotations

import json
import pickle
import re
import selectors
import socket
import sys
import time
from pathlib import Path
from typing import Any

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
RECEIVED_AT_ONCE = 1 << 18


class Client:
    """One connection, and how long each of its answers took."""

    def __init__(self, port: int, requests: list[bytes], lines: bool, pause: float) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.requests, self.lines, self.pause = requests, lines, pause
        self.next = 0
        self.unsent = memoryview(b"")
        self.answer = b""
        self.begun = 0.0
        self.due = 0.0
        self.times: list[tuple[float, float]] = []  # when it ended, how long it took
        self.refused: list[str] = []

    def ask(self, now: float) -> bool:
        """Send the next request; False if some of it has to wait."""
        self.unsent = memoryview(self.requests[self.next])
        self.expected = self.requests[self.next].count(b"\n") if self.lines else 0
        self.next = (self.next + 1) % len(self.requests)
        self.answer, self.begun = b"", now
        return self.send()

    def send(self) -> bool:
        try:
            while self.unsent:
                self.unsent = self.unsent[self.socket.send(self.unsent) :]
        except BlockingIOError:
            return False
        return True

    def receive(self) -> bool:
        """Take what is there; True once the answer is complete."""
        got = self.socket.recv(RECEIVED_AT_ONCE)
        if not got:
            raise ConnectionError(f"the server hung up after {self.answer[:200]!r}")
        self.answer += got
        if not self.complete():
            return False
        now = time.perf_counter()
        self.times.append((now, now - self.begun))
        self.due = self.begun + self.pause
        if not self.lines and not self.answer.startswith(b"HTTP/1.1 200"):
            self.refused.append(self.answer[:300].decode("latin-1"))
        return True

    def complete(self) -> bool:
        if self.lines:
            return self.answer.count(b"\n") >= self.expected
        end = self.answer.find(b"\r\n\r\n")
        if end < 0:
            return False
        found = LENGTH.search(self.answer, 0, end + 2)
        return found is not None and len(self.answer) >= end + 4 + int(found[1])


def main() -> None:
    task = json.load(sys.stdin)
    groups = {group["name"]: clients_of(task, group) for group in task["groups"]}
    began, busy = time.perf_counter(), time.process_time()
    work([client for clients in groups.values() for client in clients], task["seconds"])
    ended, busy = time.perf_counter(), time.process_time() - busy
    counted = began + task.get("warm_up", 0.0)
    told: dict[str, Any] = {name: summary(clients, counted) for name, clients in groups.items()}
    told["busy"] = busy / (ended - began)
    json.dump(told, sys.stdout)


def clients_of(task: dict[str, Any], group: dict[str, Any]) -> list[Client]:
    """So many clients, each of which begins at another of the requests."""
    requests: list[bytes] = pickle.loads(Path(group["requests"]).read_bytes())
    starts = [k * len(requests) // group["clients"] for k in range(group["clients"])]
    how = task.get("lines", False), group.get("pause", 0.0)
    return [Client(task["port"], requests[at:] + requests[:at], *how) for at in starts]


def work(clients: list[Client], seconds: float) -> None:
    """Ask and listen until the time is over; the last answers are waited for."""
    with selectors.DefaultSelector() as selector:
        reading, both = selectors.EVENT_READ, selectors.EVENT_READ | selectors.EVENT_WRITE
        for client in clients:
            selector.register(client.socket, reading, client)
        now = time.perf_counter()
        end = now + seconds
        resting, open_ = list(clients), 0
        while open_ or now < end:
            for client in [client for client in resting if client.due <= now < end]:
                resting.remove(client)
                open_ += 1
                if not client.ask(time.perf_counter()):
                    selector.modify(client.socket, both, client)
            soonest = min((client.due for client in resting), default=end)
            wait = max(0.0, min(soonest, end) - now) if now < end and resting else 1.0
            for key, events in selector.select(wait):
                client = key.data
                if events & selectors.EVENT_WRITE and client.send():
                    selector.modify(client.socket, reading, client)
                if events & selectors.EVENT_READ and client.receive():
                    open_ -= 1
                    resting.append(client)
            now = time.perf_counter()


def summary(clients: list[Client], counted: float) -> dict[str, Any]:
    """Answers from ``counted`` on, as a rate and as times in seconds."""
    found = [one for client in clients for one in client.times if one[0] >= counted]
    refused = [text for client in clients for text in client.refused]
    took = sorted(time for _, time in found)
    last = max((at for at, _ in found), default=counted)
    return {
        "all answers": sum(len(client.times) for client in clients),
        "rate": len(took) / (last - counted) if took else 0.0,
        "p50": took[len(took) // 2] if took else None,
        "p99": took[int(0.99 * len(took))] if took else None,
        "refused": len(refused),
        "refusal": refused[0] if refused else "",
    }


if __name__ == "__main__":
    main()
