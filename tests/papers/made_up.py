"""A made-up experiment: two learners that give the same numbers whenever they are asked."""

from __future__ import annotations

from maxmargin_papers.reproduction.experiment import (
    Claim,
    Experiment,
    NotComparable,
    NoVerdict,
    Printed,
    Tolerance,
    at,
    measured,
)
from maxmargin_papers.reproduction.figures import COLOURS, Panel

CLOSE = Tolerance("made up", by_chance=False, part=0.2)


def cells(scale):
    runs = {"full": 4, "quick": 2, "tiny": 2}[scale]
    return [{"learner": name, "seed": seed} for name in ("A", "B") for seed in range(runs)]


def measure(cell, tiny, data_home):
    if data_home == "nowhere" and cell["learner"] == "B":
        raise FileNotFoundError("b.csv not found in the folder nowhere.")
    level = 1.0 if cell["learner"] == "A" else 2.0
    return {"error": level + 0.1 * cell["seed"], "curve": [level, level / 2.0], "updates": 1000}


def fewer_errors(results):
    a, b = results.mean("error", learner="A"), results.mean("error", learner="B")
    return a < b, f"{a:.2f} against {b:.2f}"


def draw(axes):
    axes.plot([1, 2], [1, 2], color=COLOURS[0], label="<A> & co")


EXPERIMENT = Experiment(
    name="made-up",
    title="Two <made-up> learners",
    paper="Nobody, “Nothing & more”",
    place="Table 0",
    claim="A < B.",
    runs=4,
    cells=cells,
    measure=measure,
    compared=[
        Printed("A", "error", "1.10", measured("error", learner="A"), CLOSE, "Table 0"),
        Printed("B", "error", "1.10", measured("error", learner="B"), CLOSE, "Table 0"),
        Printed("B", "end", "1.00", at("curve", 1, learner="B"), CLOSE, "Table 0", kind="fitted"),
        Printed("A", "updates", "90000", measured("updates"), NoVerdict("other ways"), "Table 0"),
        Claim("A & B", "A makes fewer errors", fewer_errors, "Table 0"),
        Claim("A & B", "nobody knows", lambda results: (None, "too few runs"), "Table 0"),
        Claim("A & B", "A < 2 B", fewer_errors, "Theorem 0", kind="theorem"),
        Claim("C", "C is best", fewer_errors, "Table 0", no_verdict=NotComparable("no such C")),
    ],
    panels=lambda results: [Panel("A & B", draw, {"xlabel": "passes"})],
    choices=["made up"],
    differences=["<nothing>"],
)
