"""Single events: `predict_one` and `learn_one` on dicts, against river."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from benchmarks.harness import (
    Comparison,
    Contender,
    Floor,
    Key,
    Report,
    Scale,
    race,
    ratios,
    seconds,
)
from maxmargin import Forgetron, PassiveAggressive

NAME = "events"
QUESTION = "How long do predict_one and learn_one take on a dict?"

CALLS, WIDTH = 5000, 14
# river's progressive_val_score, with a metric of classes and one of probabilities.
LOOPS = "river's loop, Accuracy", "river's loop, ROCAUC"
CASE = f"dicts of {WIDTH} features"
# Learners for which river has no counterpart, and the microseconds that they may take.
OTHERS = {
    "averaged weights": PassiveAggressive(C=1.0, average=True),
    "a budget of 100 rows": Forgetron(gamma=0.1, budget=100),
}
MOST = dict(zip(OTHERS, (15.0, 200.0), strict=True))


def run(scale: Scale) -> Report:
    random = np.random.default_rng(0)
    X = random.standard_normal((scale.rows(CALLS), WIDTH))
    y = (X[:, 0] + 0.5 * random.standard_normal(X.shape[0]) > 0.0).tolist()
    rows = [{f"feature {j}": value for j, value in enumerate(row)} for row in X.tolist()]
    skipped = {}
    learners: dict[str, Any] = {"maxmargin": PassiveAggressive(C=1.0)}
    learners["maxmargin"].learn_one(rows[0], y[0], classes=[False, True])
    try:
        from river import linear_model

        learners["river"] = linear_model.PAClassifier(C=1.0, mode=1)
        loops = in_rivers_loop(rows, y)
    except ImportError as error:
        skipped["river"] = str(error)
    contenders = []
    for name, learner in learners.items():
        for what, work in (("predict_one", predicting), ("learn_one", learning)):
            measure = per_call(work(learner, rows, y), len(y))
            contenders.append(Contender(Key(what, name), measure))
    if "river" in learners:
        contenders += loops
    for name, learner in OTHERS.items():
        clf = clone(learner)
        both = per_call(predicting_and_learning(clf, rows, y), len(y))
        contenders.append(Contender(Key(f"both, {name}", "maxmargin"), both))
    values = race(contenders, scale.rounds)
    floors = [
        Floor(
            f"both calls, {name}, microseconds",
            "<=",
            most,
            [1e6 * one for one in values[Key(f"both, {name}", "maxmargin")]],
        )
        for name, most in MOST.items()
    ]
    floors += [
        Floor(
            f"{what}, microseconds",
            "<=",
            5.0,
            [1e6 * one for one in values[Key(what, "maxmargin")]],
        )
        for what in ("predict_one", "learn_one")
    ]
    pairs = []
    if "river" in learners:
        both = {
            name: [
                a + b
                for a, b in zip(
                    values[Key("predict_one", name)], values[Key("learn_one", name)], strict=True
                )
            ]
            for name in learners
        }
        values |= {Key("both", name): times for name, times in both.items()}
        times = ratios(values, Key("both", "river"), Key("both", "maxmargin"))
        floors.append(Floor("river / maxmargin, both calls", ">=", 2.5, times))
        for case in LOOPS:
            times = ratios(values, Key(case, "river"), Key(case, "maxmargin"))
            floors.append(Floor(f"river / maxmargin, {case}", ">=", 1.0, times))
        headlines = {"both": "predict and learn, dicts"}
        pairs = [
            Comparison(Key(what, "maxmargin"), Key(what, "river"), "river", headlines.get(what, ""))
            for what in ("predict_one", "learn_one", "both", *LOOPS)
        ]
    how = "PA-I with C = 1, processor time; the dicts have strings for keys."
    return Report(NAME, f"{len(y)} {CASE}", "s/call", values, floors, skipped, how, pairs)


def in_rivers_loop(rows: list[dict[str, float]], y: list[bool]) -> list[Contender]:
    """Both in river's own progressive validation, ours by way of `maxmargin.river`."""
    from river import evaluate, linear_model, metrics

    from maxmargin.river import classifier

    pairs = list(zip(rows, y, strict=True))
    models: dict[str, Callable[[], Any]] = {
        "maxmargin": lambda: classifier(PassiveAggressive(C=1.0), classes=[False, True]),
        "river": lambda: linear_model.PAClassifier(C=1.0, mode=1),
    }
    wanted = dict(zip(LOOPS, (metrics.Accuracy, metrics.ROCAUC), strict=True))

    def validate(model: Callable[[], Any], metric: Callable[[], Any]) -> Callable[[], float]:
        made = model()
        return per_call(lambda: evaluate.progressive_val_score(pairs, made, metric()), len(pairs))

    return [
        Contender(Key(case, name), validate(model, metric))
        for case, metric in wanted.items()
        for name, model in models.items()
    ]


def predicting(learner: Any, rows: list[dict[str, float]], y: list[bool]) -> Callable[[], None]:
    def work() -> None:
        for row in rows:
            learner.predict_one(row)

    return work


def predicting_and_learning(
    learner: Any, rows: list[dict[str, float]], y: list[bool]
) -> Callable[[], None]:
    def work() -> None:
        for row, label in zip(rows, y, strict=True):
            learner.predict_one(row, grow=True)
            learner.learn_one(row, label, grow=True)

    return work


def learning(learner: Any, rows: list[dict[str, float]], y: list[bool]) -> Callable[[], None]:
    def work() -> None:
        for row, label in zip(rows, y, strict=True):
            learner.learn_one(row, label)

    return work


def per_call(work: Callable[[], object], calls: int) -> Callable[[], float]:
    return lambda: seconds(work) / calls
