"""A vote of 34 learners: how near to the best of them in hindsight, and at what cost.

Each row is predicted before it is learned from. The moving targets are those of `moving`, means of
ten seeds. What a vote costs is compared with its experts learning one after the other.
"""

from __future__ import annotations

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
from benchmarks.moving import SEEDS, SHARED, STREAMS, TRIALS
from maxmargin import FixedShare
from maxmargin.datasets import load_electricity
from maxmargin.evaluate import progressive

NAME = "votes"
QUESTION = "How near to its best expert does a vote of 34 learners come?"

VOTE, ALONE = "the vote", "its experts, one after the other"


def run(scale: Scale) -> Report:
    floors, pairs, skipped = [], [], {}
    quality: dict[Key, float] = {}
    contenders = []
    try:
        X, labels = load_electricity()
    except OSError as error:
        skipped["electricity"] = str(error)
    else:
        rows = scale.rows(labels.size)
        X, y = (X[:rows] - X.mean(axis=0)) / X.std(axis=0), labels[:rows] == "UP"
        clf = FixedShare()
        report = progressive(clf, X, y)
        best = int(clf.expert_mistakes_.min())
        found = (int(report.wrong.sum()), best, float(np.median(clf.expert_mistakes_)))
        quality |= told("electricity", *found)
        floors += [
            Floor("accuracy on electricity, %", ">=", 92.0, [100.0 * report.accuracy]),
            Floor("its mistakes / the best expert's", "<=", 1.02, [report.wrong.sum() / best]),
        ]
        contenders += measured("electricity", X, y)
    for name, stream in STREAMS.items():
        mistakes, bests, medians = np.array(
            [mistakes_on(*stream(scale.rows(TRIALS), random_state=seed)) for seed in SEEDS]
        ).T
        ratio = mistakes.mean() / bests.mean()
        floors.append(Floor(f"mistakes on {name} / the best expert's", "<=", 1.05, [ratio]))
        quality |= told(name, mistakes.mean(), bests.mean(), medians.mean())
    random = np.random.default_rng(0)
    X = random.normal(size=(scale.rows(5000), 1000))
    contenders += measured("1000 features", X, X @ random.normal(size=1000) > 0.0)
    values = race(contenders, scale.rounds)
    for case in dict.fromkeys(key.case for key in values):
        cost = ratios(values, Key(case, VOTE), Key(case, ALONE))
        floors.append(Floor(f"{case}: time / that of the experts", "<=", 1.0, cost))
        pairs.append(Comparison(Key(case, VOTE), Key(case, ALONE), ALONE))
    data = "FixedShare with its 34 experts, on electricity, moving targets and random rows"
    how = (
        "Each row is predicted before it is learned from; mistakes on moving targets are means of "
        f"{len(SEEDS)} streams of {scale.rows(TRIALS):,} rows. Processor time."
    )
    return Report(NAME, data, "s", values, floors, skipped, how, pairs, quality)


def told(case: str, vote: float, best: float, median: float) -> dict[Key, float]:
    whose = {"the vote": vote, "its best expert": best, "its median expert": median}
    return {Key(case, f"mistakes of {who}"): float(count) for who, count in whose.items()}


def mistakes_on(X: np.ndarray, y: np.ndarray) -> tuple[int, int, float]:
    """Those of the vote, of its best expert, and of the one in the middle."""
    clf = FixedShare(**SHARED)
    wrong = progressive(clf, X, y).wrong.sum()
    each = clf.expert_mistakes_
    return int(wrong), int(each.min()), float(np.median(each))


def measured(case: str, X: np.ndarray, y: np.ndarray) -> list[Contender]:
    experts = FixedShare().partial_fit(X[:2], [0, 1], classes=[0, 1]).experts_

    def vote() -> Any:
        return FixedShare().partial_fit(X, y, classes=[False, True])

    def alone() -> Any:
        return [clone(each).partial_fit(X, y, classes=[False, True]) for each in experts]

    works = {VOTE: vote, ALONE: alone}
    return [Contender(Key(case, name), lambda w=w: seconds(w)) for name, w in works.items()]
