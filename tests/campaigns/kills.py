"""Kill a server that is being taught, and start it again: ``python tests/campaigns/kills.py 200``.

Clients with ids send single events, batches, lines and labels of predictions; what was not
acknowledged is sent again. SIGKILL comes at any moment, also while the server starts; with
``--power-cuts 0.5`` every other kill loses what was not synced, too (`powercuts`). In the end each
acknowledged event is in the database, once, as it was sent and with the number that was told, and
the model is, to the bit, that of a learner that learned these events in their order by itself.
"""

import argparse
import json
import random
import shutil
import socket
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from campaigns import powercuts
from serve.processes import Server

import maxmargin
from maxmargin.client import Client, ServeError, new_id
from maxmargin.serve.beginnings import new_learner
from maxmargin.serve.database import FILE

CLASSES = ["no", "yes"]
# Algorithms with their parameters; rows have names or, for kernels, numbers.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "columns": ("AMIRA", {}),
    "mixture": ("AutoMargin", {}),
    "kernel": ("PassiveAggressive", {"kernel": "rbf", "gamma": 0.5, "budget": 20}),
}
CLIENTS, KILLS_OF_A_RUN, MOST_DEEDS = 4, 20, 60


@dataclass
class Outcome:
    """What was counted, and what was wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)


class Teacher(threading.Thread):
    """A client that sends events until it is told to end; ``done`` has what was acknowledged."""

    def __init__(self, run: "Run", number: int) -> None:
        super().__init__(daemon=True)
        self.run_, self.chance = run, random.Random(run.seed * 100 + number)
        self.done: dict[str, tuple[Any, Any, int]] = {}  # rows, labels and sequence by id
        self.failure: BaseException | None = None

    def row(self) -> tuple[Any, str]:
        x, z = self.chance.randint(0, 9), self.chance.random()
        label = CLASSES[(x > 4) != (self.chance.random() < 0.1)]
        return (
            [float(x), z] if self.run_.kind == "kernel" else {"x": x, "from": f"f{x % 3}"}
        ), label

    def run(self) -> None:
        try:
            with Client(self.run_.url, retries=0) as client:
                while not self.run_.ending.is_set():
                    self.deed(client)
        except BaseException as error:
            self.failure = error

    def deed(self, client: Client) -> None:
        """One event, however often it has to be sent."""
        key, way = new_id(), self.chance.choice(("row", "row", "batch", "label"))
        if way == "label":
            row, label = self.row()
            self.sent(lambda: client.predict(row, id=key))
            told = self.sent(lambda: client.label(key, label))
            self.done[key] = [row], [label], told["sequence"]
            return
        pairs = [self.row() for _ in range(1 if way == "row" else self.chance.randint(2, 20))]
        rows, labels = (list(each) for each in zip(*pairs, strict=True))
        given = (rows[0], labels[0]) if way == "row" else (rows, labels)
        told = self.sent(lambda: client.learn(*given, id=key))
        self.done[key] = rows, labels, told["sequence"]

    def sent(self, request: Any) -> Any:
        while True:
            try:
                return request()
            except ServeError as error:
                if error.status not in (None, 503, 507, 429):
                    raise
                time.sleep(0.02)


class Run:
    """A server that is taught and killed."""

    def __init__(
        self,
        kind: str,
        folder: Path,
        seed: int,
        environment: dict[str, str] | None = None,
        data: Path | None = None,
    ) -> None:
        self.kind, self.folder, self.seed = kind, folder, seed
        self.chance, self.outcome = random.Random(seed), Outcome()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        algorithm, parameters = KINDS[kind]
        options = ["--algorithm", algorithm, "--classes", ",".join(CLASSES), "--port", str(port)]
        for name, value in parameters.items():
            options += ["--set", f"{name}={value}"]
        self.data = data or folder / "data"
        self.server = Server(self.data, *options, environment=environment)
        self.ending = threading.Event()
        self.teachers = [Teacher(self, number) for number in range(CLIENTS)]

    def __enter__(self) -> "Run":
        self.server.start()
        for each in self.teachers:
            each.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.ending.set()
        self.server.end()

    def deeds(self) -> int:
        for each in self.teachers:
            if each.failure is not None:
                raise each.failure
        return sum(len(each.done) for each in self.teachers)

    def wait_for(self, deeds: int) -> None:
        """Until so many more events are acknowledged."""
        goal, end = self.deeds() + deeds, time.monotonic() + 120.0
        while self.deeds() < goal:
            assert time.monotonic() < end, f"nothing is acknowledged: {self.server.log.read_text()}"
            time.sleep(0.005)

    def finish(self) -> Outcome:
        """Let the clients end, and compare the folder and the model with what was told."""
        self.ending.set()
        for each in self.teachers:
            each.join(120.0)
        self.deeds()
        with Client(self.url) as client:
            client.download(self.folder / "served.mm")
            rows = client.model()["rows"]
        if code := self.server.stop():
            self.outcome.troubles.append(f"it ended with {code}")
        if "Traceback" in (log := self.server.log.read_text()):
            self.outcome.troubles.append(log[log.index("Traceback") :][:2000])
        self.compare(rows)
        return self.outcome

    def compare(self, rows: int) -> None:
        counts, troubles = self.outcome.counts, self.outcome.troubles
        connection = sqlite3.connect(self.data / FILE)
        events = connection.execute("SELECT sequence, body, refused FROM events").fetchall()
        connection.close()
        learner, learned = new_learner(*KINDS[self.kind]), Counter[str]()
        by_id: dict[str, tuple[Any, Any, int]] = {}
        total = 0
        for sequence, text, refused in events:
            body = json.loads(text)
            found, labels = body.get("rows") or [body["row"]], body.get("labels") or [body["label"]]
            by_id[body["id"]] = found, labels, sequence
            learned[body["id"]] += 1
            total += len(found)
            if refused:
                troubles.append(f"event {sequence} was refused: {refused}")
            if self.kind == "kernel" and len(found) > 1:  # other shapes round differently
                learner.partial_fit(np.array(found), np.array(labels), classes=CLASSES)
                continue
            for row, label in zip(found, labels, strict=True):
                given = np.array(row) if isinstance(row, list) else row
                learner.learn_one(given, label, classes=CLASSES)
        told = {key: each for teacher in self.teachers for key, each in teacher.done.items()}
        troubles += [f"{key} is lost" for key in told if key not in by_id]
        troubles += [f"{key} is there {n} times" for key, n in learned.items() if n > 1]
        troubles += [
            f"{key}: {by_id[key]} is not what was sent and told: {each}"
            for key, each in told.items()
            if key in by_id and by_id[key] != each
        ]
        counts["acknowledged"] += len(told)
        counts["events"] += len(events)
        if total != rows:
            troubles.append(f"{rows} rows were learned, {total} are stored")
        if same_model(learner, maxmargin.load(self.folder / "served.mm"), self.kind):
            counts["identical"] += 1
        else:
            troubles.append("the model is not that of the events")


def same_model(one: Any, other: Any, kind: str) -> bool:
    """Do they have the same updates, and scores with the same bits?"""
    rows = [{"x": x, "from": f"f{z}"} for x in range(10) for z in range(4)]
    if kind == "kernel":
        rows = [[float(x), z / 4] for x in range(10) for z in range(4)]
    scores = [[each.decision_one(row) for row in rows] for each in (one, other)]
    return scores[0] == scores[1] and one.n_updates_ == other.n_updates_


def killed(run: Run, kills: int, copies: Path | None, share: float) -> Outcome:
    chance, counts = run.chance, run.outcome.counts
    with run:
        for _ in range(kills):
            run.wait_for(chance.randint(1, MOST_DEEDS))
            if chance.random() < 0.15:
                run.server.kill()
                run.server.spawn()
                time.sleep(chance.uniform(0.0, 2.5))
                counts["kills while starting"] += 1
            else:
                time.sleep(chance.uniform(0.0, 0.05))
            run.server.kill()
            counts["kills"] += 1
            if copies is not None and chance.random() < share:
                counts["power cuts"] += 1
                counts["sectors lost"] += powercuts.cut(run.data, copies, chance)
            run.server.start()
        return run.finish()


def kill_servers(kills: int, seed: int, folder: Path, power_cuts: float = 0.0) -> Outcome:
    """Runs of some kills each, of one kind of learner after the other."""
    whole, library = Outcome(), powercuts.library(folder) if power_cuts else None
    for number, start in enumerate(range(0, kills, KILLS_OF_A_RUN)):
        kind = list(KINDS)[number % len(KINDS)]
        place = folder / f"run {number}"
        place.mkdir()
        copies = place / "copies" if library else None
        environment = powercuts.environment(library, copies) if library and copies else None
        run = Run(kind, place, seed + number, environment)
        add(whole, killed(run, min(KILLS_OF_A_RUN, kills - start), copies, power_cuts), kind)
    return whole


def add(whole: Outcome, found: Outcome, title: str) -> None:
    """Count a run among those so far, and show it."""
    whole.counts.update(found.counts)
    whole.troubles += [f"{title}: {text}" for text in found.troubles]
    print(f"{title}: {dict(found.counts)}", *found.troubles, sep="\n  ", flush=True)


def report(whole: Outcome, folder: Path) -> int:
    """Show all, and give the exit code; a folder with troubles in it is kept."""
    print(dict(whole.counts), f"{len(whole.troubles)} troubles")
    if whole.troubles:
        print(f"see {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kills", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--power-cuts", type=float, default=0.0, help="share of the kills")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kills"))
    return report(kill_servers(given.kills, given.seed, folder, given.power_cuts), folder)


if __name__ == "__main__":
    sys.exit(main())
