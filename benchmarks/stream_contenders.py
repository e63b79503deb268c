"""Who takes part in the arena of streams: each predicts a row, and then learns from it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.linear_model import SGDClassifier

import maxmargin
from benchmarks.harness import seconds
from benchmarks.stream_data import DataSet


class Missing(Exception):
    """The contender cannot take part, and why."""


class Outcome(NamedTuple):
    """What a contender said about each row before it learned from it.

    Attributes
    ----------
    predicted : codes of classes
    probability : of each class; None if it has none
    seconds : processor time
    """

    predicted: np.ndarray
    probability: np.ndarray | None
    seconds: float


class Contender(Protocol):
    name: str

    def run(self, data: DataSet) -> Outcome: ...


class Ours:
    """A learner of maxmargin, which says what it predicts while it learns."""

    def __init__(self, name: str, make: Callable[[], Any]) -> None:
        self.name, self.make = name, make

    def run(self, data: DataSet) -> Outcome:
        model, order = self.make(), np.arange(data.y.size, dtype=np.int32)
        found: list[np.ndarray] = []

        def learn() -> None:
            classes = np.arange(data.classes())
            found.append(model.foretell(data.X, data.y, order, classes=classes)[0])

        took, outputs = seconds(learn), found[0]
        predicted = (outputs[:, 0] >= 0).astype(int) if outputs.shape[1] == 1 else outputs.argmax(1)
        if not hasattr(model, "predict_proba"):
            return Outcome(predicted, None, took)
        chances = expit(outputs)
        if chances.shape[1] == 1:
            return Outcome(predicted, np.hstack([1.0 - chances, chances]), took)
        return Outcome(predicted, chances / chances.sum(axis=1, keepdims=True), took)


class VowpalWabbit:
    """Vowpal Wabbit reads a file of its own form and writes what it predicts before it learns."""

    def __init__(self, name: str, arguments: str) -> None:
        self.name, self.arguments = f"Vowpal Wabbit, {name}", arguments

    def run(self, data: DataSet) -> Outcome:
        try:
            from vowpalwabbit import Workspace
        except ImportError as error:
            raise Missing(f"{error}: pip install vowpalwabbit") from None
        classes = data.classes()
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_vw(data, folder / "rows.vw")
            several = f"--oaa {classes} " if classes > 2 else ""
            files = f"-d {folder}/rows.vw --cache_file {folder}/rows.cache"
            common = f"--quiet {several}{self.arguments} {files}"
            # The file is read into the cache before it counts.
            Workspace(common).finish()
            scores = folder / "scores"
            out = f"-r {scores}" if classes > 2 else f"-p {scores}"
            took = seconds(lambda: Workspace(f"{common} {out}").finish())
            text = scores.read_text().split("\n")
        if classes == 2:
            output = np.array([float(line.split()[0]) for line in text if line])
            is_logistic = "logistic" in self.arguments
            probability = 1.0 / (1.0 + np.exp(-output)) if is_logistic else None
            both = None if probability is None else np.column_stack([1 - probability, probability])
            return Outcome((output >= 0.0).astype(int), both, took)
        lines = [
            [float(part.split(":")[1]) for part in line.split() if ":" in part] for line in text
        ]
        outputs = np.array([line for line in lines if line])
        return Outcome(outputs.argmax(axis=1), None, took)


def write_vw(data: DataSet, file: Path) -> None:
    several, rows = data.classes() > 2, sparse.csr_matrix(data.X)
    labels = data.y + 1 if several else 2 * data.y - 1
    with file.open("w") as out:
        for i, label in enumerate(labels.tolist()):
            span = slice(rows.indptr[i], rows.indptr[i + 1])
            entries = zip(rows.indices[span].tolist(), rows.data[span].tolist(), strict=True)
            out.write(f"{label} | " + " ".join(f"{j}:{x:.9g}" for j, x in entries) + "\n")


class River:
    """A pipeline of river, which takes one dictionary at a time."""

    def __init__(self, name: str, make: Callable[[], Any]) -> None:
        self.name, self.make = f"river, {name}", make

    def run(self, data: DataSet) -> Outcome:
        try:
            model = self.make()
        except ImportError as error:
            raise Missing(f"{error}: pip install river") from None
        classes = data.classes()
        labels = (data.y == 1).tolist() if classes == 2 else data.y.tolist()
        rows = sparse.csr_matrix(data.X)
        predicted, probability = np.zeros(len(labels), int), np.zeros((len(labels), classes))
        took = 0.0
        for i, label in enumerate(labels):
            span = slice(rows.indptr[i], rows.indptr[i + 1])
            row = dict(zip(rows.indices[span].tolist(), rows.data[span].tolist(), strict=True))

            def step(row: dict[int, float] = row, label: Any = label, i: int = i) -> None:
                guess = model.predict_proba_one(row)
                model.learn_one(row, label)
                for c, value in guess.items():
                    probability[i, int(c)] = value
                predicted[i] = probability[i].argmax()

            took += seconds(step)
        return Outcome(predicted, probability, took)


def river_logistic() -> Any:
    from river import linear_model, preprocessing

    return preprocessing.StandardScaler() | linear_model.LogisticRegression()


class Sklearn:
    """An estimator of scikit-learn with partial_fit, row by row."""

    def __init__(self, name: str, make: Callable[[], Any]) -> None:
        self.name, self.make = f"scikit-learn, {name}", make

    def run(self, data: DataSet) -> Outcome:
        model, classes = self.make(), np.arange(data.classes())
        predicted, has_proba = np.zeros(data.y.size, int), hasattr(model, "predict_proba")
        probability = np.zeros((data.y.size, classes.size)) if has_proba else None

        def learn() -> None:
            model.partial_fit(data.X[:1], data.y[:1], classes=classes)
            for i in range(1, data.y.size):
                row = data.X[i : i + 1]
                if probability is not None:
                    probability[i] = model.predict_proba(row)[0]
                    predicted[i] = probability[i].argmax()
                else:
                    predicted[i] = model.predict(row)[0]
                model.partial_fit(row, data.y[i : i + 1])

        return Outcome(predicted, probability, seconds(learn))


def contenders(classes: int) -> list[Contender]:
    """All that take part where there are so many classes; the first is the one of interest."""
    ours: list[Contender] = [Ours("AutoMargin", maxmargin.AutoMargin)]
    modes = {"hinge": "--loss_function hinge", "logistic": "--loss_function logistic"}
    modes["coin"] = "--coin --loss_function logistic"
    if classes == 2:
        modes["ftrl"] = "--ftrl --loss_function logistic"
        for r in (0.1, 1.0, 10.0):
            ours.append(Ours(f"AROW, r={r:g}", partial(maxmargin.AROW, r=r)))
        for rate in (0.1, 0.5):
            ours.append(Ours(f"AdaGrad, rate={rate:g}", partial(maxmargin.AdaGrad, rate=rate)))
        for C in (0.01, 0.1, 1.0):
            ours.append(Ours(f"PA-I, C={C:g}", partial(maxmargin.PassiveAggressive, C=C)))
    else:
        ours.append(Ours("AMIRA", maxmargin.AMIRA))
    peers: list[Contender] = [VowpalWabbit(*each) for each in modes.items()]
    if classes == 2:
        peers.append(River("StandardScaler | LogisticRegression", river_logistic))
    peers.append(Sklearn("SGDClassifier(average=True)", averaged_sgd))
    return [*ours, *peers]


def averaged_sgd() -> SGDClassifier:
    return SGDClassifier(average=True, random_state=0)
