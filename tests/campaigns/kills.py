"""Kill a server that is being taught, and start it again: ``python tests/campaigns/kills.py 200``.

Clients with ids send single events, lines, batches and labels of predictions; what was not
acknowledged is sent again. SIGKILL comes at any moment, also while the server starts. Some kills
leave half a record behind, some are power cuts (`powercuts`). In the end each event that was
acknowledged is in the log, none is there twice, and the server's model is, to the bit, that of a
learner that was fed the log in its order and never stopped. With ``--no-keep-log`` most of the log
is gone by then; the numbers that came with the acknowledgements say what stood in it. With
``--compacting`` the server writes snapshots and drops files of its log nearly all the time, so that
most kills come in the midst of that.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from serve import logs, powercuts
from serve.histories import Client
from serve.learners import KINDS, Kind, fed, mistakes_of
from serve.processes import Server
from zygote import PRELOADED, Zygote

CLIENTS = 4
KILLS_OF_A_RUN = 20
MOST_DEEDS = 60  # that are acknowledged between two kills
# Files that are full, and snapshots that are due, all the time.
SMALL = ("--limit", "segment_bytes=20000", "--limit", "snapshot_events=150")
COMPACTING = ("--limit", "segment_bytes=500", "--limit", "snapshot_events=2")


@dataclass
class Outcome:
    """What one run, or several together, found."""

    counts: Counter = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)

    def add(self, run: "Outcome", title: str, place: Path) -> None:
        """Count a run among those so far, and show it."""
        self.counts.update(run.counts)
        self.counts["runs"] += 1
        self.troubles += [f"{title}, {place}: {text}" for text in run.troubles]
        print(f"{title}: {dict(run.counts)}", *run.troubles, sep="\n  ", flush=True)

    def report(self, folder: Path) -> int:
        """Show all, and give the exit code; a folder with troubles in it is kept."""
        print(dict(self.counts))
        if self.troubles:
            print(f"{len(self.troubles)} troubles; see {folder}")
            return 1
        shutil.rmtree(folder)
        return 0


@dataclass
class Run:
    """A server, its clients, and who kills it."""

    kind: Kind
    folder: Path
    seed: int
    environment: dict[str, str] = field(default_factory=dict)
    disk: Path | None = None  # for the data, if not that of the folder
    zygote: Zygote | None = None
    keep_log: bool = True
    limits: tuple[str, ...] = SMALL

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.data = (self.disk or self.folder) / "data"
        options = (*self.kind.options(self.folder), *self.limits, *["--keep-log"] * self.keep_log)
        self.server = Server(self.data, *options, environment=self.environment, zygote=self.zygote)
        self.clients = [
            Client(f"{self.seed}-{k}", self.kind.problem, self.seed, lambda: self.server.port)
            for k in range(CLIENTS)
        ]
        self.outcome = Outcome()

    def __enter__(self) -> "Run":
        self.server.start()
        for client in self.clients:
            client.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.end()

    def wait_for(self, deeds: int) -> None:
        """Until so many more deeds of clients were acknowledged."""
        wanted = deeds + sum(len(client.done) for client in self.clients)
        while sum(len(client.done) for client in self.clients) < wanted:
            if not any(client.thread.is_alive() for client in self.clients):
                return  # all have troubles, which are told in the end
            if self.server.process.poll() is not None:
                return  # it has ended by itself, which whoever kills it finds
            time.sleep(0.002)

    def finish(self) -> Outcome:
        """All clients come to their end, the server stops, and everything is compared."""
        self.server.wait_until_healthy()
        for client in self.clients:
            client.quiet.set()
        for client in self.clients:
            client.thread.join(120.0)
            if client.thread.is_alive():
                client.trouble.append("waits for ever")
            self.outcome.troubles += [f"{client.name}: {text}" for text in client.trouble]
        told = self.server.asks("GET", "/model").json
        file = self.server.asks("GET", "/model/file").body
        if code := self.server.stop():
            self.outcome.troubles.append(f"SIGTERM: ended with {code}")
        recorded = list(logs.learned(self.data / "default"))
        if not self.keep_log:
            recorded = self.with_what_is_gone(recorded)
        self.compare_events(recorded)
        self.compare_models(recorded, told, file)
        self.server.start()
        self.server.wait_until_healthy()
        self.compare_answers(told, self.server.asks("GET", "/model").json)
        if self.server.asks("GET", "/model/file").body != file:
            self.outcome.troubles.append("another model after a graceful stop")
        if self.kind.shadow:
            self.compare_shadow(recorded)
        self.server.stop()
        return self.outcome

    def compare_answers(self, told: dict[str, Any], again: dict[str, Any]) -> None:
        """Each served answer whose label came is scored once, also after a graceful stop."""
        labelled = sum(
            event.acknowledged
            for client in self.clients
            for deed in client.deeds
            if deed.kind == "asked"
            for event in deed.events
        )
        self.outcome.counts["answers"] += labelled
        if told["answers"] != labelled:
            self.outcome.troubles.append(f"{told['answers']} answers scored of {labelled}")
        for name in ("answers", "wrong_answers", "recent_answer_accuracy"):
            if told[name] != again[name]:
                self.outcome.troubles.append(f"{name}: {told[name]}, and {again[name]} later")

    def with_what_is_gone(self, recorded: list[logs.Learned]) -> list[logs.Learned]:
        """The log with what was dropped from it, in the order of the acknowledgements."""
        first = min((each.sequence for each in recorded), default=sys.maxsize)
        gone = [
            logs.Learned(event.sequence, event.id, event.rows, event.labels, event.all_weights())
            for client in self.clients
            for deed in client.deeds
            for event in deed.events
            if event.acknowledged and event.sequence < first
        ]
        self.outcome.counts["dropped events"] += len(gone)
        return sorted(gone, key=lambda each: each.sequence) + recorded

    def compare_events(self, recorded: list[logs.Learned]) -> None:
        """Those in the log with those that were sent."""
        counts, troubles = self.outcome.counts, self.outcome.troubles
        sent = {
            event.id: event
            for client in self.clients
            for deed in client.deeds
            for event in deed.events
        }
        times = Counter(each.id for each in recorded)
        promised = {name for name, event in sent.items() if event.acknowledged}
        lost = promised - set(times)
        twice = {name for name, count in times.items() if count > 1}
        strange = set(times) - set(sent)
        counts["events"] += len(promised)
        counts["rows"] += sum(len(each.labels) for each in recorded)
        counts["lost"] += len(lost)
        counts["twice"] += len(twice)
        counts["retries of what was in the log"] += sum(each.duplicates for each in self.clients)
        counts["later"] += sum(each.busy for each in self.clients)
        troubles += [f"{name} is lost" for name in sorted(lost)[:5]]
        troubles += [f"{name} is there twice" for name in sorted(twice)[:5]]
        troubles += [f"{name} was never sent" for name in sorted(strange)[:5]]
        for each in recorded:
            event = sent.get(each.id)
            if event and not each.equals(event):
                troubles.append(f"{each.id} is not what was sent: {each} and {event}")
            if event and event.sequence not in (None, each.sequence):
                troubles.append(f"{each.id} has sequence {each.sequence}, told {event.sequence}")

    def compare_models(
        self, recorded: list[logs.Learned], told: dict[str, Any], file: bytes
    ) -> None:
        """That of the server with one that never was in a server."""
        troubles = self.outcome.troubles
        expected = fed(self.kind.fresh(self.folder), self.kind, self.folder, recorded)
        if expected.file != file:
            troubles.append("the model is not that of the log")
            (self.folder / "served.mm").write_bytes(file)
            (self.folder / "expected.mm").write_bytes(expected.file)
        else:
            self.outcome.counts["identical"] += 1
        if told["rows"] != expected.rows:
            troubles.append(f"{told['rows']} rows, expected {expected.rows}")
        if isinstance(recorded[0].rows[0], dict):  # a recipe learns from a row before it is scored
            return
        found, first = mistakes_of(self.kind.fresh(self.folder), self.kind, recorded)
        if not found <= told["mistakes"] <= found + first:
            troubles.append(f"{told['mistakes']} mistakes, expected {found}")

    def compare_shadow(self, recorded: list[logs.Learned]) -> None:
        """It takes the other's place, so that it can be asked for."""
        answer = self.server.asks("POST", "/promote", {"shadow": "other"})
        self.server.asks("GET", "/model")
        file = self.server.asks("GET", "/model/file").body
        expected = fed(self.kind.shadow(), self.kind, self.folder, recorded)
        if answer.status != 200 or expected.file != file:
            self.outcome.troubles.append(f"the shadow is not that of the log: {answer}")
        else:
            self.outcome.counts["shadows identical"] += 1


def killed(run: Run, kills: int, journal: Path | None, least: int = 0) -> Outcome:
    """Kill it so many times, each after ``least`` or more deeds were acknowledged."""
    chance, counts, seen = run.chance, run.outcome.counts, set[str]()
    with run:
        for _ in range(kills):
            run.wait_for(chance.randint(least, MOST_DEEDS))
            if chance.random() < 0.15:
                run.server.kill()
                run.server.spawn()
                time.sleep(chance.uniform(0.0, 2.5))
                counts["kills while starting"] += 1
            else:
                time.sleep(chance.uniform(0.0, 0.05))
            run.server.kill()
            counts["kills"] += 1
            left = {path.name for path in run.data.rglob(".*snapshot.mm*")}
            counts["kills in the midst of a snapshot"] += not left <= seen
            seen |= left
            if journal is not None and chance.random() < 0.5:
                counts["power cuts"] += 1
                counts["files cut"] += powercuts.forget(run.data, journal, chance)
            elif chance.random() < 0.3:
                logs.tear(run.data / "default", chance)
                counts["torn records"] += 1
            run.server.start()
        return run.finish()


def kill_servers(
    kills: int,
    seed: int,
    folder: Path,
    kinds: tuple[str, ...] = tuple(KINDS),
    power_cuts: bool = True,
    forked: bool = False,
    keep_log: bool = True,
    least: int = 0,
    limits: tuple[str, ...] = SMALL,
) -> Outcome:
    """Runs of some kills each, of one kind of learner after the other."""
    whole = Outcome()
    made = powercuts.library(folder) if power_cuts and shutil.which("cc") else None
    with zygote_of(kills, made) if forked else nullcontext() as zygote:
        for number in range(0, kills, KILLS_OF_A_RUN):
            name = kinds[number // KILLS_OF_A_RUN % len(kinds)]
            place = folder / f"run {number}"
            place.mkdir()
            journal = place / "journal" if made else None
            environment = powercuts.environment(made, journal) if made else {}
            run = Run(
                KINDS[name], place, seed + number, environment, None, zygote, keep_log, limits
            )
            outcome = killed(run, min(KILLS_OF_A_RUN, kills - number), journal, least)
            whole.add(outcome, name, place)
    return whole


def zygote_of(kills: int, library: Path | None) -> Zygote:
    """What is loaded before all others is loaded with the process that is forked.

    For many kills, so is compiled code.
    """
    modules = PRELOADED if kills < KILLS_OF_A_RUN else (*PRELOADED, "serve.warm")
    return Zygote(modules, {"LD_PRELOAD": str(library)} if library else None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kills", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--without-power-cuts", action="store_true")
    parser.add_argument("--forked", action="store_true", help="start by a fork, which is quicker")
    parser.add_argument("--keep-log", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--compacting", action="store_true", help="all the time; drops the log")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kills"))
    whole = kill_servers(
        given.kills,
        given.seed,
        folder,
        tuple(given.kind or KINDS),
        power_cuts=not given.without_power_cuts,
        forked=given.forked,
        keep_log=given.keep_log and not given.compacting,
        limits=COMPACTING if given.compacting else SMALL,
    )
    return whole.report(folder)


if __name__ == "__main__":
    sys.exit(main())
