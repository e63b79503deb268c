"""Data folders that somebody has changed: ``python tests/campaigns/tampered_folders.py 10000``.

Files of a server's folder are cut, flipped, spliced, renamed, removed and replaced by links, pipes
and files of others; events and snapshots get other values, with the right checksums. The server
starts, learns, and is the same after a restart; or it refuses, and says which file is to blame.
It never hangs, and never changes what is not its own.
"""

import argparse
import json
import os
import random
import shutil
import struct
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from campaigns.modelfiles import EVIL, MUTATIONS, flip, splice, truncate
from serve.learners import columns, numbers, of_columns
from serve.logs import EVENT, records, segments

import maxmargin
from maxmargin import AMIRA, RandomBudgetPerceptron
from maxmargin.serve.bodies import LabelRow
from maxmargin.serve.event_log import frame_of, header_of
from maxmargin.serve.events import Lesson, NewShadow
from maxmargin.serve.http_errors import HTTPError
from maxmargin.serve.limits import Limits
from maxmargin.serve.registry import Models
from maxmargin.serve.requests import AwaitLabels, Call, ChangeShadows, Label, Learn
from maxmargin.serve.service import READY
from maxmargin.serve.snapshots import Beginning

PATIENCE = 60.0
FOREIGN = b"This belongs to somebody else.\n" * 9
ODD_NAMES = ("copy of it", "..x", 'x"} 1\nup{model="y', "ü", "lock2", "x" * 200, "-", "0.log")


# --------------------------------------------------------------------------------- before anything
@dataclass
class Template:
    """A folder as a server leaves it that is killed, and a lesson for its model."""

    folder: Path
    lesson: Callable[[], Lesson]
    sequence: int


def template(folder: Path, beginning: Beginning, lessons: list[Lesson], raw: list[Any]) -> Template:
    """With a snapshot, the one before it, and events behind it in several files."""
    limits = Limits(snapshot_events=20, segment_bytes=400)
    models = Models(folder / "live", {"one": beginning}, limits=limits)
    models.start()
    service = models.services["one"]
    service.recovered.wait()
    service.ask_and_wait(ChangeShadows(NewShadow("other", "perceptron", {})))
    for k, (lesson, row) in enumerate(zip(lessons, raw, strict=True)):
        service.ask_and_wait(Learn(lesson))
        service.ask_and_wait(AwaitLabels([f"p{k}"], [row], [service.model.labels[0]]))
        if k % 3 == 0:
            service.ask_and_wait(
                Label([LabelRow(f"p{k}", service.model.labels[1], None)], is_batch=False)
            )
    made = folder / "made"
    service.ask_and_wait(Call(lambda: shutil.copytree(folder / "live", made)))
    last = lessons[-1]
    models.close()
    assert len(segments(made)) > 1
    return Template(made, lambda: Lesson(last.rows, last.labels), service.model.sequence)


def templates(folder: Path) -> list[Template]:
    chance = random.Random(0)

    def matrices() -> tuple[list[Lesson], list[Any]]:
        pairs = [numbers(chance) for _ in range(20)]
        return [
            Lesson(np.array([row]), [label], None, (f"e{k}",))
            for k, (row, label) in enumerate(pairs)
        ], [row for row, _ in pairs]

    def tables() -> tuple[list[Lesson], list[Any]]:
        pairs = [columns(chance) for _ in range(20)]
        full = [(row | {"age": 1.0, "city": "Oslo"}, label) for row, label in pairs]
        return [Lesson(pa.Table.from_pylist([row]), [label]) for row, label in full], [
            row for row, _ in full
        ]

    (folder / "model").mkdir(parents=True)
    learner = maxmargin.load(of_columns(folder / "model")).set_params(random_state=0)
    budgeted = RandomBudgetPerceptron(budget=5, gamma=0.1, random_state=0)
    return [
        template(folder / "numbers", Beginning.of(AMIRA(), ["no", "yes"]), *matrices()),
        template(folder / "budget", Beginning.of(budgeted, ["no", "yes"]), *matrices()),
        template(folder / "columns", Beginning.of(learner), *tables()),
    ]


# -------------------------------------------------------------------------------------- tampering
class Tampering:
    """Changes one folder; the methods without an underscore are what can happen to it."""

    def __init__(self, folder: Path, foreign: Path, seed: list[int]) -> None:
        self.folder, self.foreign = folder, foreign
        self.random = np.random.default_rng(seed)
        self.logs = segments(folder)
        self.snapshots = [folder / "one" / f"snapshot.mm{end}" for end in ("", ".previous")]

    def _one_of(self, found: Any) -> Any:
        return found[self.random.integers(len(found))]

    def _any(self) -> Path:
        others = [self.folder / "lock", self.folder / ".default"]
        return self._one_of([*self.logs, *self.snapshots, *others])

    def bytes_of_log(self) -> None:
        path = self._one_of(self.logs)
        path.write_bytes(self._one_of([flip, truncate, splice])(path.read_bytes(), self.random))

    def bytes_of_choice(self) -> None:
        path = self.folder / ".default"
        path.write_bytes(self._one_of([flip, truncate, splice])(path.read_bytes(), self.random))

    def events(self) -> None:
        """Other values, with the right checksums."""
        found = list(records(self.folder))
        first, payloads = found[0][0], [payload for _, payload in found]
        for k in self.random.permutation(len(payloads))[: self.random.integers(1, 4)]:
            payloads[k] = self._event(payloads[k])
        if self.random.random() < 0.1:
            self.random.shuffle(payloads)
        for path in self.logs:
            path.unlink()
        frames = [frame_of(first + k, [payload]) for k, payload in enumerate(payloads)]
        self.logs[0].write_bytes(header_of(first) + b"".join(frames))

    def _event(self, payload: bytes) -> bytes:
        kind, size = EVENT.unpack_from(payload)
        head, blob = (
            json.loads(payload[EVENT.size : EVENT.size + size]),
            payload[EVENT.size + size :],
        )
        what = self.random.random()
        if what < 0.3 and blob:
            changed = bytearray(blob)
            at = self.random.integers(max(1, len(blob) - 4))
            changed[at : at + 4] = struct.pack("<i", self._one_of([-1, -(10**9), 2**31 - 1, 0, 7]))
            blob = bytes(changed)
        elif what < 0.4:
            kind = self._one_of([b"L", b"W", b"S", b"D", b"P", b"?"])
        elif what < 0.5:
            return self._one_of([flip, truncate, splice])(payload, self.random)
        else:
            holder, key = self._one_of(list(_places(head)))
            holder[key] = self._one_of([*EVIL, [1e300] * 2, "yes", {"a": "b"}, -1.5])
        text = json.dumps(head).encode()
        return EVENT.pack(kind, len(text)) + text + blob

    def snapshot(self) -> None:
        for path in self.snapshots[: self.random.integers(1, 3)]:
            path.write_bytes(self._one_of(MUTATIONS)(path.read_bytes(), self.random))

    def link(self) -> None:
        path = self._any()
        path.unlink()
        missing = self.foreign.with_name("missing")
        path.symlink_to(self._one_of([self.foreign, self.foreign.parent, missing]))

    def pipe(self) -> None:
        path = self._any()
        path.unlink()
        os.mkfifo(path)

    def file_of_others(self) -> None:
        path = self._any()
        if path in self.logs and self.random.random() < 0.5:
            path = path.with_name(f"{self.random.integers(1, 200):020d}.log")
        path.write_bytes(FOREIGN[: self.random.integers(len(FOREIGN))])

    def lost_file(self) -> None:
        self._any().unlink()

    def other_name(self) -> None:
        if self.random.random() < 0.5:
            path = self._one_of(self.logs)
            path.rename(path.with_name(f"{self.random.integers(1, 200):020d}.log"))
        else:
            (self.folder / "one").rename(self.folder / self._one_of(ODD_NAMES))

    def copy_of_folder(self) -> None:
        shutil.copytree(self.folder / "one", self.folder / self._one_of(["a", "two", *ODD_NAMES]))


def _places(tree: Any) -> Any:
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
        yield tree, key
        if isinstance(tree[key], dict | list):
            yield from _places(tree[key])


KINDS = [name for name in vars(Tampering) if not name.startswith("_")]


# ---------------------------------------------------------------------------------------- outcomes
@dataclass
class Outcome:
    counts: Counter[str] = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)


def tamper(count: int, seed: int, folder: Path) -> Outcome:
    """Change folders ``count`` times, and serve what became of them."""
    found = Outcome()
    begun = templates(folder / "templates")
    for k in range(count):
        place = folder / f"{k}"
        (place / "others").mkdir(parents=True)
        foreign = place / "others" / "file"
        foreign.write_bytes(FOREIGN)
        of = begun[k % len(begun)]
        shutil.copytree(of.folder, place / "data")
        kind = KINDS[k // len(begun) % len(KINDS)]
        getattr(Tampering(place / "data", foreign, [seed, k]), kind)()
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            outcome, trouble = served(place / "data", of)
        if sorted(place.rglob("others/*")) != [foreign] or foreign.read_bytes() != FOREIGN:
            trouble = "a file of others was changed"
        found.counts[f"{kind}: {outcome}"] += 1
        found.counts[outcome] += 1
        if trouble:
            found.troubles.append(f"{kind}, number {k}: {trouble}")
        shutil.rmtree(place)
    return found


def served(folder: Path, of: Template) -> tuple[str, str]:
    """What became of a folder, and what is wrong with that, if anything."""
    first = started(folder)
    if isinstance(first, str):
        return "refused", "" if str(folder) in first else f"no file is named: {first}"
    trouble, states = "", {}
    for name, service in first.services.items():
        try:
            service.ask_and_wait(Learn(of.lesson()))
        except HTTPError as refusal:
            if refusal.status >= 500:
                trouble = f"after the start: {refusal.reason}"
        states[name] = (service.model.sequence, service.model.rows)
    least = max(sequence for sequence, _ in states.values())
    outcome = "started, nothing lost" if least > of.sequence else "started with a part"
    first.close()
    failures = [each.failure for each in first.services.values() if each.failure is not None]
    if failures:
        return outcome, trouble or f"in the end: {failures[0]}"
    again = started(folder)
    if isinstance(again, str):
        return outcome, trouble or f"started once, and not again: {again}"
    now = {name: (each.model.sequence, each.model.rows) for name, each in again.services.items()}
    if now != states:
        trouble = trouble or "another state after a restart"
    again.close()
    return outcome, trouble


def started(folder: Path) -> Models | str:
    """The models of a folder, or why they are not served."""
    try:
        models = Models(folder, {})
    except (ValueError, OSError) as error:
        return str(error)
    models.start()
    for service in models.services.values():
        if not service.recovered.wait(PATIENCE):
            return f"{service.name} hangs"
    failed = [each for each in models.services.values() if each.status != READY]
    if failed:
        models.close()
        return str(failed[0].failure)
    return models


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tampered") as folder:
        found = tamper(given.count, given.seed, Path(folder))
    for name, count in sorted(found.counts.items()):
        print(f"{count:8,} {name}")
    print(f"{given.count:,} folders, {len(found.troubles)} troubles")
    print("\n".join(found.troubles[:20]))
    return int(bool(found.troubles))


if __name__ == "__main__":
    sys.exit(main())
