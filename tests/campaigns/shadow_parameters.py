"""Shadows with parameters of all kinds: ``python tests/campaigns/shadow_parameters.py 100000``.

Requests for shadows go to a service with a log: valid, borderline, extreme and meaningless ones.
Rows are learned, shadows dropped and promoted, and a copy of the folder is replayed. Each request
is accepted, or refused with a status of 4xx and a reason. What is replayed is the same to the bit,
the live model is what it would be without shadows, and memory stays within the limits.

There are hundreds of compiled loops, for few rows each: with ``NUMBA_DISABLE_JIT=1`` in the
environment a run is much faster, and what is learned the same to the bit.
"""

import argparse
import asyncio
import json
import math
import os
import random
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from serve.learners import columns, numbers, of_columns

import maxmargin
from maxmargin import ALGORITHMS, AMIRA, PassiveAggressive, RandomBudgetPerceptron
from maxmargin._validation import Interval, Options
from maxmargin.persistence import write_file
from maxmargin.serve.application import Application
from maxmargin.serve.events import Lesson
from maxmargin.serve.limits import Limits
from maxmargin.serve.registry import Models
from maxmargin.serve.requests import Call
from maxmargin.serve.scored_learner import ScoredLearner, new_learner
from maxmargin.serve.served_model import learn_block
from maxmargin.serve.service import READY, Service
from maxmargin.serve.snapshots import Beginning, tree_of
from maxmargin.serve.status import certificate_of

PATIENCE = 120.0
REQUESTS_OF_A_HISTORY = 40
LIMITS = Limits(shadows=10**6, numbers=2**20, snapshot_events=60, snapshot_seconds=1e9)
# 100 bytes for each number, as the limits say, and room for code that is compiled or loaded.
MEMORY = 100 * LIMITS.numbers + 2**29


# -------------------------------------------------------------------------------------- parameters
HUGE = [1e300, -1e300, 1e-300, 5e-324, 1.7e308, -0.0, 1e16, 2**31, 2**53, 2**63 - 1, 2**64 - 1]
DEEP: Any = 1.0
for _ in range(300):
    DEEP = [DEEP]
EVIL: list[Any] = [
    *HUGE,
    *(None, True, False, 0, 1, -1, 2, 0.5, 1.5, 10**30, -(2**63), 10**400),
    *(math.nan, math.inf, -math.inf),
    *("NaN", "nan", "inf", "-Infinity", "None", "", "1", "rbf", "scale", "x" * 5000, "\ud800"),
    *([], {}, [1], [[1]], {"a": 1}, [None], {"float": "nan"}, {"tuple": [1]}, [[]] * 3, DEEP),
]
WEIGHTS = [1, 2.5, 0, -1, 1e300, 1e-300, 5e-324, None, "1", True, [1], 2**63]
SMALL = [1, 1.0, 2, 3, 0.1, 0.25, 0.5, 0.9, 1e-3, 1e-6, 10, 100]


def class_weight(chance: random.Random, classes: list[str]) -> Any:
    names = [*classes, "other", "", "1", "x" * 300]
    some = chance.sample(names, chance.randrange(1, len(names)))
    ordinary = chance.random() < 0.6
    some = list(classes) if ordinary else some
    return {name: chance.choice(SMALL if ordinary else WEIGHTS) for name in some}


def costs(chance: random.Random, classes: list[str]) -> Any:
    size = len(classes) if chance.random() < 0.8 else chance.randrange(5)
    ordinary = chance.random() < 0.6
    pool = SMALL if ordinary else [*WEIGHTS, *HUGE]
    table = [[chance.choice(pool) for _ in range(size)] for _ in range(size)]
    for k in range(size if chance.random() < 0.7 else 0):
        table[k][k] = 0.0
    if chance.random() < 0.1 and table:
        table[-1] = table[-1][:-1]
    return table


def budget(chance: random.Random, classes: list[str]) -> Any:
    return chance.choice([1, 2, 3, 5, 30, 100, 500, 1000, 2**16, 2**16 + 1, 10**9, 10**18, 2**63])


def seed(chance: random.Random, classes: list[str]) -> Any:
    return chance.choice([0, 1, 42, 2**31, 2**32 - 1, 2**32, -1, None, 2**64 - 1, "0", 1.0])


SPECIAL: dict[str, Callable[[random.Random, list[str]], Any]] = {
    "class_weight": class_weight,
    "costs": costs,
    "budget": budget,
    "random_state": seed,
}


def allowed(constraints: list[Any]) -> list[Any]:
    """Values that a parameter may have, and the ends of its intervals, inside and outside."""
    found: list[Any] = []
    for each in constraints:
        if each is None:
            found.append(None)
        elif each in ("boolean", "verbose"):
            found += [True, False]
        elif isinstance(each, Interval):
            ends = [end for end in (each.left, each.right) if end is not None]
            whole = each.type is Integral
            for end in ends:
                steps = (-1, 0, 1) if whole else (-math.inf, end, math.inf)
                found += [end + k if whole else math.nextafter(end, k) for k in steps]
            inside = [value for value in SMALL if each.left is None or value > each.left]
            found += [v for v in inside if not whole or isinstance(v, int)] * 2
        elif isinstance(each, Options):
            found += 3 * sorted(each.options, key=str)
    return [float(v) if isinstance(v, np.floating) else v for v in found]


class Wishes:
    """Draws requests for shadows."""

    def __init__(self, chance: random.Random, classes: list[str]) -> None:
        self.chance, self.classes = chance, classes

    def request(self) -> dict[str, Any]:
        chance = self.chance
        algorithm = chance.choice(ALGORITHMS)
        if algorithm == "FixedShare" and chance.random() < 0.8:  # its many experts take long
            algorithm = chance.choice(ALGORITHMS)
        kind = getattr(maxmargin, algorithm)
        parameters = {}
        evil = chance.choice((0.0, 0.0, 0.05, 0.5))
        known = sorted(kind._parameter_constraints)
        for name in chance.sample(known, min(len(known), chance.choice((0, 1, 2, 2, 3, 4, 8)))):
            pool = allowed(kind._parameter_constraints[name])
            if chance.random() < evil:
                pool = EVIL
            if name in SPECIAL and (not pool or chance.random() < 0.7):
                parameters[name] = SPECIAL[name](chance, self.classes)
            else:
                parameters[name] = chance.choice(pool or EVIL)
        if chance.random() < 0.02:
            parameters[chance.choice(["eta0", "", "self", "x" * 999, "__class__", "_state"])] = 1
        if chance.random() < 0.02:
            algorithm = chance.choice(["SVC", "", "x" * 5000, "__init__", "load", "Recipe", "Ü"])
        spelled = chance.choice([algorithm, algorithm.lower(), f"{algorithm[:3]}-{algorithm[3:]}"])
        body = {"name": f"s{chance.randrange(60)}", "algorithm": spelled, "parameters": parameters}
        if chance.random() < 0.02:
            body[chance.choice([*body, "more"])] = chance.choice(EVIL)
        return body


# ------------------------------------------------------------------------------------------- a life
@dataclass
class Kind:
    """A live model, and where its rows come from."""

    beginning: Callable[[Path], Beginning]
    row: Callable[[random.Random], tuple[Any, str]]
    classes: list[str]


def of_three(chance: random.Random) -> tuple[list[float], str]:
    row, label = numbers(chance)
    return row, "maybe" if abs(row[2]) > 1.0 else label


def named(chance: random.Random) -> tuple[dict[str, float], str]:
    row, label = numbers(chance)
    return {"abcdefgh"[chance.randrange(8)]: value for value in row}, label


def extreme(chance: random.Random) -> tuple[list[float], str]:
    row, label = numbers(chance)
    return [value * 10.0 ** chance.choice((-160, -60, 0, 0, 0, 45, 60)) for value in row], label


BINARY, THREE = ["no", "yes"], ["maybe", "no", "yes"]


def budgeted(folder: Path) -> Beginning:
    learner = RandomBudgetPerceptron(budget=5, gamma=0.1, random_state=0)
    return Beginning.of(learner, THREE)


KINDS = {
    "numbers": Kind(lambda folder: Beginning.of(AMIRA(), BINARY), numbers, BINARY),
    "three classes": Kind(lambda folder: Beginning.of(PassiveAggressive(), THREE), of_three, THREE),
    "names": Kind(lambda folder: Beginning.of(PassiveAggressive(), BINARY), named, BINARY),
    "budget": Kind(budgeted, of_three, THREE),
    "extreme": Kind(lambda folder: Beginning.of(AMIRA(), BINARY), extreme, BINARY),
    "columns": Kind(
        lambda folder: Beginning.of(maxmargin.load(of_columns(folder))),
        columns,
        ["never", "often", "seldom"],
    ),
}


@dataclass
class Outcome:
    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)


class History:
    """One folder: requests, rows, and the replay of a copy."""

    def __init__(self, name: str, folder: Path, chance: random.Random, found: Outcome) -> None:
        self.kind, self.folder, self.chance, self.found = KINDS[name], folder, chance, found
        self.wishes = Wishes(chance, self.kind.classes)
        self.loop = asyncio.new_event_loop()
        beginning = self.kind.beginning(folder.parent)
        twin = self.kind.beginning(folder.parent)
        self.twin: ScoredLearner | None = ScoredLearner.of(twin.learner, twin.classes)
        self.models = Models(folder / "live", {"one": beginning}, limits=LIMITS)
        self.app = Application(self.models)
        self.service = self.models.services["one"]
        self.service.recovered.wait(PATIENCE)
        self.last: Any = None

    def trouble(self, text: str) -> None:
        self.found.troubles.append(f"{self.folder.name}: {text}; last request: {self.last!r:.600}")

    def run(self, requests: int) -> None:
        before = memory_used()
        for k in range(requests):
            self.request()
            if self.chance.random() < 0.4 or k == requests - 1:
                self.learn()
            if len(self.service.model.shadows) > self.chance.choice((0, 2, 5, 8)):
                name = self.chance.choice(sorted(self.service.model.shadows))
                self.expect("DELETE", f"/shadows/{name}", None, {200})
        if self.service.model.shadows and self.chance.random() < 0.1:
            self.compare_live()
            self.twin = None
            name = self.chance.choice(sorted(self.service.model.shadows))
            self.expect("POST", "/promote", {"shadow": name}, {200})
            for _ in range(3):
                self.learn()
        self.expect("GET", "/model", None, {200})
        self.compare_live()
        self.replay()
        if (used := memory_used() - before) > MEMORY:
            self.trouble(f"{used / 2**20:.0f} MiB of memory were needed")
        self.loop.close()

    def request(self) -> None:
        body = self.wishes.request()
        self.last, shadows = body, len(self.service.model.shadows)
        self.found.counts["requests"] += 1
        status, answer = self.expect(
            "POST", "/shadows", body, {201, *range(400, 429), *range(430, 500)}
        )
        if (status == 201) != (len(self.service.model.shadows) > shadows):
            self.trouble(f"answered {status}, with {len(self.service.model.shadows)} shadows")
        if status == 201:
            self.found.counts[f"accepted: {type(self.newest().learner).__name__}"] += 1
            self.found.counts["accepted"] += 1
            return
        self.found.counts["refused"] += 1
        reason = answer.get("error", "")
        self.found.reasons[" ".join(reason.split())[:150]] += 1
        if len(reason) < 15:
            self.trouble(f"refused with {status} and no clear reason: {reason!r}")

    def newest(self) -> ScoredLearner:
        return [*self.service.model.shadows.values()][-1]

    def learn(self) -> None:
        chance = self.chance
        count = chance.choice((1, 1, 2, 4))
        pairs = [self.kind.row(chance) for _ in range(count)]
        rows, labels = [row for row, _ in pairs], [label for _, label in pairs]
        body: dict[str, Any] = {"rows": rows, "labels": labels}
        weights = None
        if chance.random() < 0.2:
            weights = body["weights"] = [chance.choice((0.5, 1.0, 3.0, 1e-30, 1e30)) for _ in rows]
        status, answer = self.expect("POST", "/learn", body, {200, 422})
        self.found.counts["lessons"] += 1
        if self.twin is not None:
            given = rows if isinstance(rows[0], dict) else np.array(rows, dtype=np.float64)
            why = learn_block(self.twin, [Lesson(given, labels, weights)])
            if (why is None) != (status == 200):
                self.trouble(f"{status} {answer}, without shadows {why}")

    def expect(self, method: str, path: str, body: Any, statuses: set[int]) -> tuple[int, Any]:
        """The answer to a request; another status is a trouble."""
        status, answer = self.loop.run_until_complete(
            asyncio.wait_for(called(self.app, method, path, body), PATIENCE)
        )
        if status not in statuses:
            self.trouble(f"{method} {path}: {status} {answer}")
        return status, answer

    def compare_live(self) -> None:
        if self.twin is None:
            return
        trees = [tree_of(settled(each)) for each in (self.twin, self.service.model.live)]
        if len({self.written({"live": tree}) for tree in trees}) > 1:
            self.trouble("the live model is another one than without shadows")

    def written(self, content: dict[str, Any]) -> bytes:
        path = self.folder / "written"
        write_file(path, "checkpoint", content)
        return path.read_bytes()

    def replay(self) -> None:
        """A copy of the folder, as of a server that was killed, gives the same state."""
        copy = self.folder / "copy"
        self.service.ask_and_wait(Call(lambda: shutil.copytree(self.folder / "live", copy)))
        expected = self.written(contents(self.service))
        sequence = self.service.model.sequence
        shadows = len(self.service.model.shadows)
        self.app.close()
        if self.service.failure is not None:
            self.trouble(f"in the end: {self.service.failure!r}")
        for folder in (copy, self.folder / "live"):  # from events, and from the last snapshot
            try:
                again = Models(folder, {}, limits=LIMITS)
            except Exception as error:
                self.trouble(f"a failed start: {error!r}")
                continue
            again.start()
            service = again.services["one"]
            if not service.recovered.wait(PATIENCE) or service.status != READY:
                self.trouble(f"a failed start: {service.status}, {service.failure!r}")
            elif service.model.sequence != sequence or self.written(contents(service)) != expected:
                self.trouble("another state after a replay")
            again.close()
        self.found.counts["shadows compared after a replay"] += shadows


def contents(service: Service) -> dict[str, Any]:
    for scored in (service.model.live, *service.model.shadows.values()):
        settled(scored)
    return service.model.content()


def settled(scored: ScoredLearner) -> ScoredLearner:
    """The same; a model keeps the certificate once it is asked for, and a file holds it."""
    certificate_of(scored.learner)
    return scored


async def called(app: Application, method: str, path: str, body: Any) -> tuple[int, Any]:
    """The status and the answer, as a server would get them."""
    content = b"" if body is None else json.dumps(body).encode()
    headers = [(b"host", b"127.0.0.1:8765"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": method, "path": path, "root_path": ""}
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app({**scope, "query_string": b"", "headers": headers}, receive, send)
    answer = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], json.loads(answer)


def memory_used() -> int:
    """The most that was used since the last call, in bytes."""
    text = Path("/proc/self/status").read_text("ascii")
    Path("/proc/self/clear_refs").write_text("5", "ascii")
    return int(text.partition("VmHWM:")[2].split()[0]) * 1024


@contextmanager
def watched(found: Outcome) -> Iterator[None]:
    """Disks are not waited for, and errors that are no refusals of a learner are troubles."""
    learn, make = ScoredLearner.learn, new_learner

    def learning(self: ScoredLearner, *given: Any) -> None:
        try:
            learn(self, *given)
        except ValueError as error:
            found.counts["lessons refused by a learner"] += 1
            found.reasons[f"learning: {' '.join(str(error).split())[:150]}"] += 1
            raise
        except Exception as error:
            found.troubles.append(f"learning by {self.learner!r}: {error!r}")
            raise

    def making(algorithm: str, parameters: dict[str, Any]) -> Any:
        try:
            return make(algorithm, parameters)
        except ValueError:
            raise
        except Exception as error:
            found.troubles.append(f"{algorithm!r:.100} {parameters!r:.300}: {error!r:.300}")
            raise

    nothing = mock.patch.multiple(os, fsync=lambda file: None, fdatasync=lambda file: None)
    with (
        nothing,
        mock.patch.object(ScoredLearner, "learn", learning),
        mock.patch("maxmargin.serve.served_model.new_learner", making),
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
    ):
        warnings.simplefilter("ignore")
        yield


def request_shadows(
    count: int, seed: int, folder: Path, first: int = 0, size: int = REQUESTS_OF_A_HISTORY
) -> Outcome:
    """Make ``count`` requests, in histories of ``size`` each."""
    found = Outcome()
    names = [*KINDS]
    with watched(found):
        number = first
        while found.counts["requests"] < count:
            left = min(size, count - found.counts["requests"])
            place = folder / f"{number}"
            place.mkdir()
            kind = names[number % len(names)]
            before = len(found.troubles)
            History(kind, place, random.Random(f"{seed} {number}"), found).run(left)
            for trouble in found.troubles[before:]:
                print(f"--seed {seed} --first {number}: {trouble}", flush=True)
            shutil.rmtree(place)
            number += 1
            found.counts["histories"] += 1
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first history")
    parser.add_argument(
        "--size", type=int, default=REQUESTS_OF_A_HISTORY, help="requests of a history"
    )
    parser.add_argument("--reasons", action="store_true", help="print the reasons of refusals")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="shadows") as folder:
        found = request_shadows(given.count, given.seed, Path(folder), given.first, given.size)
    for name, count in sorted(found.counts.items()):
        print(f"{count:8,} {name}")
    if given.reasons:
        for name, count in found.reasons.most_common():
            print(f"{count:8,} {name}")
    print(f"{given.count:,} requests, {len(found.troubles)} troubles")
    return int(bool(found.troubles))


if __name__ == "__main__":
    sys.exit(main())
