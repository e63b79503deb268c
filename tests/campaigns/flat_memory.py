"""The memory of a server over many events: ``python tests/campaigns/flat_memory.py 2000000``.

Some events come alone, most in lines and in batches; some predictions are asked for with ids whose
labels never come. Tables of ids and of predictions that wait are full early. Resident memory is
sampled all along.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import threading
import time
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from serve.histories import ARROW, Event, as_arrow
from serve.learners import KINDS, numbers
from serve.processes import SLOWEST, Server, exchange
from zygote import Zygote

LINES = 1000
BATCH = 100
SAMPLES = 40


class Teacher(threading.Thread):
    """Sends requests made beforehand, with new ids, until its events are through."""

    def __init__(self, server: Server, name: str, kind: str, events: int) -> None:
        super().__init__(daemon=True)
        self.server, self.title, self.kind, self.events = server, name, kind, events
        self.sent = 0
        self.trouble: str | None = None
        chance = random.Random(name)
        self.rows = [numbers(chance) for _ in range(LINES)]

    def run(self) -> None:
        with closing(HTTPConnection("127.0.0.1", self.server.port, timeout=SLOWEST)) as connection:
            while self.sent < self.events and self.trouble is None:
                path, content, headers, count = self.request()
                answer = exchange(connection, "POST", path, content, headers)
                if answer.status in (429, 503):
                    time.sleep(0.02)
                elif answer.status != 200:
                    self.trouble = f"{self.kind}: {answer}"
                else:
                    self.sent += count

    def request(self) -> tuple[str, Any, dict[str, str], int]:
        name = f"{self.title}-{self.sent}"
        row, label = self.rows[self.sent % LINES]
        if self.kind == "single":
            return "/learn", {"row": row, "label": label, "id": name}, {}, 1
        if self.kind == "asked":
            return "/predict", {"row": row, "id": name}, {}, 1
        if self.kind == "lines":
            lines = (
                json.dumps({"row": row, "label": label, "id": f"{name}-{k}"})
                for k, (row, label) in enumerate(self.rows)
            )
            return (
                "/learn",
                "\n".join(lines).encode(),
                {"Content-Type": "application/x-ndjson"},
                LINES,
            )
        rows, labels = (list(each) for each in zip(*self.rows[:BATCH], strict=True))
        if self.kind == "batch":
            return "/learn", {"rows": rows, "labels": labels, "id": name}, {}, BATCH
        headers = {"Content-Type": ARROW, "Idempotency-Key": name}
        return "/learn", as_arrow(Event(name, rows, labels)), headers, BATCH


def memory_over_events(
    events: int, folder: Path, zygote: Zygote | None = None
) -> list[tuple[int, int]]:
    """Rows so far and bytes of memory, at moments from the first to the last event."""
    limits = ("--limit", "waiting=500", "--limit", "known_ids=20000")
    server = Server(folder / "data", *KINDS["numbers"].options(folder), *limits, zygote=zygote)
    server.start()
    shares = {"single": 0.02, "asked": 0.01, "lines": 0.57, "batch": 0.2, "arrow": 0.2}
    found: list[tuple[int, int]] = []
    try:
        teachers = [
            Teacher(server, f"{kind}{k}", kind, int(share * events / 2))
            for kind, share in shares.items()
            for k in range(2)
        ]
        for teacher in teachers:
            teacher.start()
        step, due = events // SAMPLES, 0
        while any(teacher.is_alive() for teacher in teachers):
            time.sleep(0.05)
            sent = sum(teacher.sent for teacher in teachers)
            if sent >= due:
                found.append((sent, server.resident()))
                due = sent + step
                print(f"{sent:,} events, {found[-1][1] / 2**20:.1f} MiB", flush=True)
        troubles = [teacher.trouble for teacher in teachers if teacher.trouble]
        assert not troubles, troubles
        found.append((sum(teacher.sent for teacher in teachers), server.resident()))
        assert server.stop() == 0
    finally:
        server.end()
    return found


def growth(found: list[tuple[int, int]]) -> float:
    """Bytes an event over the second half: in the first, tables of fixed size fill up."""
    later = found[len(found) // 2 :]
    (sent, memory), (sent_last, memory_last) = later[0], later[-1]
    return (memory_last - memory) / (sent_last - sent)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("events", type=int)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="memory"))
    try:
        found = memory_over_events(given.events, folder)
    finally:
        shutil.rmtree(folder)
    low, high = (pick(memory for _, memory in found[len(found) // 2 :]) for pick in (min, max))
    span = f"{low / 2**20:.1f} to {high / 2**20:.1f} MiB"
    print(f"second half: {span}; {growth(found):.2f} bytes an event")
    return 0


if __name__ == "__main__":
    sys.exit(main())
