"""Who takes part in the arena of streams: each predicts a row, and then learns from it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse
from sklearn.linear_model import SGDClassifier

from benchmarks.harness import seconds
from benchmarks.stream_data import DataSet

# Rows that scikit-learn predicts before it learns from them, one by one takes 100 times as long.
FIRST_STEPS, LONGEST_STEP = 1, 1


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
    """A learner of maxmargin, by the trace of what it predicts while it learns."""

    def __init__(self, name: str, make: Callable[[], Any], probabilities: bool = False) -> None:
        self.name, self.make, self.probabilities = name, make, probabilities

    def run(self, data: DataSet) -> Outcome:
        from maxmargin.evaluate.predictions import predictions_before_learning

        return predictions_before_learning(self.make(), data)


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
            common = f"--quiet {several}{self.arguments} -d {folder}/rows.vw --cache_file {folder}/rows.cache"
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
    from river import linear_model, multiclass, preprocessing

    del multiclass
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
