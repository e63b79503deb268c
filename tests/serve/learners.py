"""Learners to serve, where their rows come from, and the same learners fed without a server."""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from serve.histories import Problem
from serve.logs import Learned

import maxmargin
from maxmargin import AMIRA, ROMMA, PassiveAggressive, RandomBudgetPerceptron, streams
from maxmargin.streams import Recipe


@dataclass(frozen=True)
class Kind:
    """``options(folder)`` are those of the command, ``fresh(folder)`` is the same learner.

    ``shadow()`` is one that learns along under the name "other".
    """

    options: Callable[[Path], tuple[str, ...]]
    fresh: Callable[[Path], Any]
    problem: Problem
    classes: tuple[str, ...]
    shadow: Callable[[], Any] | None = None


# ------------------------------------------------------------------------------------------- rows
WIDTH = 6


def numbers(chance: random.Random) -> tuple[list[float], str]:
    """Rows whose labels follow a plane, most of them."""
    row = [round(chance.gauss(0.0, 1.0), 4) for _ in range(WIDTH)]
    side = row[0] - 0.5 * row[1] + 0.3 * chance.gauss(0.0, 1.0)
    return row, "yes" if side > 0.0 else "no"


CITIES = ("Rome", "Oslo", "Porto", "grüße", "so so", "Lima")


def columns(chance: random.Random) -> tuple[dict[str, Any], str]:
    """A row of all kinds of columns, with gaps."""
    age = None if chance.random() < 0.1 else round(chance.gauss(40.0, 12.0), 3)
    city = None if chance.random() < 0.1 else chance.choice(CITIES)
    row = {"age": age, "city": city, "since": f"20{chance.randrange(10, 25)}-07-01", "paid": 1.5}
    if city == "Rome":
        return row, "often"
    return row, "never" if (age or 40.0) + chance.gauss(0.0, 5.0) > 42.0 else "seldom"


def of_columns(folder: Path) -> Path:
    """A model that has seen a few rows, with its recipe."""
    chance = random.Random(1)
    lines = ["age,city,since,paid,label"]
    for _ in range(200):
        row, label = columns(chance)
        cells = ["" if value is None else str(value) for value in row.values()]
        lines.append(",".join([*cells, label]))
    table, model = folder / "begin.csv", folder / "begin.mm"
    if not model.exists():
        table.write_text("\n".join(lines) + "\n", "utf-8")
        clf = AMIRA().fit_stream(streams.open(table, label="label", recipe=Recipe()))
        maxmargin.save(clf, model)
    return model


def algorithm(name: str, *settings: str) -> Callable[[Path], tuple[str, ...]]:
    chosen = [text for setting in settings for text in ("--set", setting)]
    return lambda folder: ("--algorithm", name, *chosen, "--classes", "no,yes")


# Learners of a server have a seed, so that the log says all about them.
KINDS = {
    "numbers": Kind(
        algorithm("passive-aggressive", "C=1"),
        lambda folder: PassiveAggressive(C=1, random_state=0),
        Problem(numbers),
        ("no", "yes"),
    ),
    "shadowed": Kind(
        lambda folder: (
            *algorithm("passive-aggressive")(folder),
            "--shadow",
            "other=romma,delta=0.5",
        ),
        lambda folder: PassiveAggressive(random_state=0),
        Problem(numbers),
        ("no", "yes"),
        lambda: ROMMA(delta=0.5, random_state=0),
    ),
    "columns": Kind(
        lambda folder: (str(of_columns(folder)),),
        lambda folder: maxmargin.load(of_columns(folder)).set_params(random_state=0),
        Problem(columns),
        ("never", "often", "seldom"),
    ),
    "budget": Kind(
        algorithm("random-budget-perceptron", "budget=30", "gamma=0.1", "random_state=0"),
        lambda folder: RandomBudgetPerceptron(budget=30, gamma=0.1, random_state=0),
        Problem(numbers),
        ("no", "yes"),
    ),
}


# --------------------------------------------------------------------------------- without a server
class Fed(NamedTuple):
    file: bytes
    rows: int


def fed(clf: Any, kind: Kind, folder: Path, events: Iterable[Learned]) -> Fed:
    """The file of a learner that learns from these events, one after the other.

    What came in one request is learned in one call: kernels are rounded by the shape of a block.
    """
    count = 0
    for _, together in groupby(events, key=lambda event: event.sequence):
        triples = [
            triple
            for event in together
            for triple in zip(event.rows, event.labels, event.weights, strict=True)
        ]
        rows, labels, weights = (list(each) for each in zip(*triples, strict=True))
        count += len(rows)
        if isinstance(rows[0], dict):
            for row, label, weight in triples:
                clf.learn_one(row, label, w=weight)
        else:
            clf.partial_fit(rows, labels, classes=list(kind.classes), sample_weight=weights)
    _ = clf.certificate_  # a file remembers what it was found to be
    path = folder / "fed.mm"
    maxmargin.save(clf, path)
    return Fed(path.read_bytes(), count)


def mistakes_of(clf: Any, kind: Kind, events: Iterable[Learned]) -> tuple[int, int]:
    """Those before learning, the first row left out; and 1 if it may be one."""
    mistakes, began = 0, False
    for event in events:
        for row, label, weight in zip(event.rows, event.labels, event.weights, strict=True):
            mistakes += bool(began and clf.predict([row])[0] != label)
            clf.partial_fit([row], [label], classes=list(kind.classes), sample_weight=[weight])
            began = True
    return mistakes, int(began)
