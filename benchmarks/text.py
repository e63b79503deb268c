"""Texts as wide sparse rows: `MaxMargin` beside `LinearSVC` and a grid search for its C.

Words and pairs of words are hashed into 2**18 columns and weighted by tf-idf. A fifth of the texts
is held out, in several random splits, of which the first is timed. The peak of memory is that of
the arrays of one fit, the model included.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks.arena.datasets import movie_reviews, sms_spam
from benchmarks.harness import (
    Comparison,
    Contender,
    Floor,
    Key,
    Report,
    Scale,
    Values,
    race,
    ratios,
    seconds,
)
from benchmarks.passes import fit_quietly
from maxmargin import MaxMargin

NAME = "text"
QUESTION = "How does MaxMargin compare with LinearSVC on wide sparse rows?"

COLUMNS = 2**18
COSTS, GRID_COSTS = (0.1, 1.0, 10.0), np.logspace(-2.0, 2.0, 9)
ROUNDS, SPLITS, HELD_OUT = 5, 5, 0.2
AUTO, GRID = "MaxMargin(soft_margin='auto')", "GridSearchCV(LinearSVC(), cv=5)"
PAIRS = {
    "squared_hinge": ("MaxMargin", "LinearSVC", 1.2),
    "hinge": ("MaxMargin(loss='hinge')", "LinearSVC(loss='hinge')", 3.0),
}
TEXTS = {"sms": sms_spam, "reviews": movie_reviews}


def run(scale: Scale) -> Report:
    values: Values = {}
    floors: list[Floor] = []
    quality: dict[Key, float] = {}
    skipped: dict[str, str] = {}
    pairs: list[Comparison] = []
    rounds = min(ROUNDS, scale.rounds)
    with threadpool_limits(1):
        for name, texts in TEXTS.items():
            try:
                X, y = texts(_hashed)[:2]
            except OSError as error:
                skipped[name] = str(error)
                continue
            count = scale.rows(y.size)
            splits = [_split(X, y, count, seed) for seed in range(SPLITS)]
            values |= _lambda_chosen(name, splits, rounds, floors, quality)
            values |= _lambda_given(name, splits[0], rounds, floors)
    for case in dict.fromkeys(key.case for key in values):
        ours, peer = (key for key in values if key.case == case)
        pairs.append(Comparison(ours, peer, peer.contender, f"{ours.contender}, {case}"))
    data = "SMS spam and movie reviews, words and pairs of words in 262,144 hashed columns"
    how = "Processor time of whole fits, one thread, certified 0.999; C = 1 / (2 lambda)."
    return Report(NAME, data, "s", values, floors, skipped, how, pairs, quality)


def _hashed(texts: list[str]) -> sparse.csr_matrix:
    return HashingVectorizer(n_features=COLUMNS, ngram_range=(1, 2)).transform(texts)


class Split(NamedTuple):
    """Rows to learn, and rows to ask about."""

    X: Any
    y: np.ndarray
    asked: Any
    wanted: np.ndarray


def _split(X: Any, y: np.ndarray, count: int, seed: int) -> Split:
    order = np.random.default_rng(seed).permutation(y.size)[:count]
    test, train = np.split(order, [int(HELD_OUT * count)])
    weighting = TfidfTransformer().fit(X[train])
    rows, asked = (weighting.transform(X[some]).tocsr() for some in (train, test))
    return Split(rows, y[train], asked, y[test])


def _lambda_chosen(
    name: str, splits: list[Split], rounds: int, floors: list[Floor], quality: dict[Key, float]
) -> Values:
    case = f"{name}, lambda chosen"
    learners = {
        AUTO: MaxMargin(soft_margin="auto"),
        GRID: GridSearchCV(LinearSVC(random_state=0), {"C": GRID_COSTS}, cv=5),
    }
    found = _raced(case, learners, splits[0], rounds)
    errors = {name: _error(clf, splits) for name, clf in learners.items()}
    quality |= {Key(case, f"{each}: test error, %"): error for each, error in errors.items()}
    compared = ratios(found, Key(case, AUTO), Key(case, GRID))
    floors.append(Floor(f"time / that of {GRID}, {case}", "<=", 0.7, compared))
    above = errors[AUTO] - errors[GRID]
    floors.append(Floor(f"test error, points above {GRID}'s, {case}", "<=", 0.1, [above]))
    peak = _peak(lambda: learners[AUTO].fit(splits[0].X, splits[0].y))
    floors.append(Floor(f"peak above the rows, MB, {case}", "<=", 60.0, [peak]))
    return found


def _error(clf: Any, splits: list[Split]) -> float:
    """The mean error on the rows that are held out, in %."""
    scores = [fit_quietly(clf, X, y).score(asked, wanted) for X, y, asked, wanted in splits]
    return 100.0 * (1.0 - float(np.mean(scores)))


def _lambda_given(name: str, split: Split, rounds: int, floors: list[Floor]) -> Values:
    values: Values = {}
    for loss, (ours, peer, most) in PAIRS.items():
        for C in COSTS:
            case = f"{name}, {loss}, C = {C:g}"
            learners = {
                ours: MaxMargin(loss=loss, soft_margin=0.5 / C),
                peer: LinearSVC(loss=loss, C=C, random_state=0),
            }
            found = _raced(case, learners, split, rounds)
            compared = ratios(found, Key(case, ours), Key(case, peer))
            floors.append(Floor(f"time / that of {peer}, {case}", "<=", most, compared))
            certified = learners[ours].certificate_.ratio
            floors.append(Floor(f"{ours}: certified, {case}", ">=", 0.999, [certified]))
            values |= found
    return values


def _raced(case: str, learners: dict[str, Any], split: Split, rounds: int) -> Values:
    works = {name: partial(fit_quietly, clf, split.X, split.y) for name, clf in learners.items()}
    for work in works.values():
        work()
    contenders = [
        Contender(Key(case, name), partial(seconds, work)) for name, work in works.items()
    ]
    return race(contenders, rounds)


def _peak(work: Callable[[], Any]) -> float:
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return peak
