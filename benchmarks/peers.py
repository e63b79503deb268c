"""One pass over the data by every peer there is: rows per second, for the record."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import linear_model, svm

import maxmargin
from benchmarks.data import DENSE_ROWS, SPARSE_ROWS, dense_data, sparse_data
from benchmarks.harness import Comparison, Contender, Key, Report, Scale, race, seconds
from benchmarks.passes import fit_quietly

NAME = "peers"
QUESTION = "How many rows a second does each library fit in one pass?"

# Peers that take rows one at a time, as Python objects or lines of text, get fewer of them.
FEW_ROWS = 3_000
SOME_ROWS = 20_000

Measure = Callable[[], float]


class Missing(Exception):
    """The peer cannot take part, and why."""


class Fit:
    """One pass by an estimator with `fit`."""

    def __init__(self, name: str, make: Callable[[], Any]) -> None:
        self.name, self.make = name, make

    def enter(self, X: Any, y: np.ndarray, folder: Path) -> Measure:
        estimator = self.make()
        return lambda: y.size / seconds(lambda: fit_quietly(estimator, X, y))


class River:
    """River's PAClassifier, which takes one dictionary at a time."""

    name = "river PAClassifier, row by row"

    def enter(self, X: Any, y: np.ndarray, folder: Path) -> Measure:
        try:
            from river.linear_model import PAClassifier
        except ImportError as error:
            raise Missing(f"{error}: pip install river") from None
        labels = (y[:FEW_ROWS] > 0).tolist()
        rows = list(as_dictionaries(X[:FEW_ROWS]))

        def learn() -> None:
            model = PAClassifier(C=1.0, mode=1)
            for row, label in zip(rows, labels, strict=True):
                model.learn_one(row, label)

        return lambda: len(rows) / seconds(learn)


class VowpalWabbit:
    """Vowpal Wabbit with the hinge loss, from its own binary cache file, which it reads fastest."""

    name = "Vowpal Wabbit, hinge, from its cache"

    def enter(self, X: Any, y: np.ndarray, folder: Path) -> Measure:
        try:
            from vowpalwabbit import Workspace
        except ImportError as error:
            raise Missing(f"{error}: pip install vowpalwabbit") from None
        text = folder / "rows.vw"
        with text.open("w") as file:
            for row, label in zip(as_dictionaries(X[:SOME_ROWS]), y, strict=False):
                entries = " ".join(f"{column}:{value:.6g}" for column, value in row.items())
                file.write(f"{label} | {entries}\n")
        arguments = f"--quiet --loss_function hinge -d {text} --cache_file {folder / 'rows.cache'}"
        rows = min(SOME_ROWS, y.size)
        return lambda: rows / seconds(lambda: Workspace(arguments).finish())  # learns when made


def as_dictionaries(X: Any) -> Iterator[dict[int, float]]:
    for row in sparse.csr_matrix(X):
        yield dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))


def sklearn_passive_aggressive() -> Any:
    if "pa1" in linear_model.SGDClassifier._parameter_constraints["learning_rate"][0].options:
        return linear_model.SGDClassifier(
            loss="hinge", learning_rate="pa1", eta0=1.0, penalty=None, max_iter=1, tol=None
        )
    return linear_model.PassiveAggressiveClassifier(max_iter=1, tol=None)


OURS, OURS_AGGRESSIVE = "maxmargin Perceptron", "maxmargin PassiveAggressive"
THEIRS, THEIRS_AGGRESSIVE = "scikit-learn Perceptron", "scikit-learn passive-aggressive"
PEERS = (
    Fit(OURS, lambda: maxmargin.Perceptron(max_iter=1)),
    Fit(THEIRS, lambda: linear_model.Perceptron(max_iter=1, tol=None)),
    Fit(OURS_AGGRESSIVE, lambda: maxmargin.PassiveAggressive(C=1.0, max_iter=1)),
    Fit(THEIRS_AGGRESSIVE, sklearn_passive_aggressive),
    Fit("scikit-learn LinearSVC", lambda: svm.LinearSVC(loss="hinge", max_iter=1)),
    River(),
    VowpalWabbit(),
)
COMPARED = (
    (OURS, THEIRS, "scikit-learn's Perceptron"),
    (OURS_AGGRESSIVE, THEIRS_AGGRESSIVE, "scikit-learn's passive-aggressive learner"),
    (OURS_AGGRESSIVE, River.name, "river's PAClassifier"),
    (OURS, VowpalWabbit.name, "Vowpal Wabbit"),
)


def run(scale: Scale) -> Report:
    sets = {
        "dense": dense_data(scale.rows(DENSE_ROWS)),
        "sparse": sparse_data(scale.rows(SPARSE_ROWS)),
    }
    contenders, skipped = [], {}
    with ExitStack() as stack:
        for case, (X, y) in sets.items():
            for peer in PEERS:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
                try:
                    contenders.append(Contender(Key(case, peer.name), peer.enter(X, y, folder)))
                except Missing as reason:
                    skipped[peer.name] = str(reason)
        values = race(contenders, scale.rounds)
    how = (
        "A whole call of fit with one pass, shuffled, the checks of the input included; river "
        f"learns {FEW_ROWS:,} rows that are dicts already, Vowpal Wabbit reads {SOME_ROWS:,} rows "
        "from a file in its own format. Seconds are those of the processor, all threads together."
    )
    pairs = [
        Comparison(Key(case, ours), Key(case, peer), words)
        for ours, peer, words in COMPARED
        for case in sets
        if Key(case, peer) in values
    ]
    data = ", ".join(f"{case} {X.shape[0]:,} x {X.shape[1]:,}" for case, (X, _) in sets.items())
    return Report(NAME, data, "rows/s", values, skipped=skipped, how=how, comparisons=pairs)
