"""The league of streams: one pass, each row is predicted before it is learned from."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn import linear_model

import maxmargin
from benchmarks.arena.datasets import DataSet
from benchmarks.harness import seconds

CAPYMOA = "MAXMARGIN_CAPYMOA"
"""An environment variable: the Python interpreter of an environment with CapyMOA."""


class Missing(Exception):
    """The contender cannot take part, and why."""


class Outcome(NamedTuple):
    """What a contender predicted for each row before it learned from it.

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
    """A learner with its parameters.

    Attributes
    ----------
    name : str
    kind : {"linear", "curved", "baseline"}
    is_slow : bool
        It gets fewer rows and orders of long streams.
    family : str
        Of contenders that differ in a parameter only; empty for default parameters.
    """

    name: str
    kind: str
    is_slow: bool
    family: str

    def run(self, data: DataSet) -> Outcome: ...


class Ours:
    """A learner of maxmargin, which returns what it predicts while it learns."""

    def __init__(
        self, name: str, make: Callable[[], Any], kind: str = "linear", family: str = ""
    ) -> None:
        self.name, self.make, self.kind, self.family = name, make, kind, family
        self.is_slow = kind == "curved"

    def run(self, data: DataSet) -> Outcome:
        model, order = self.make(), np.arange(data.y.size, dtype=np.int32)
        found: list[np.ndarray] = []

        def learn() -> None:
            classes = np.arange(data.classes)
            found.append(model.score_then_learn(data.X, data.y, order, classes=classes)[0])

        took, outputs = seconds(learn), found[0]
        predicted = (outputs[:, 0] >= 0).astype(int) if outputs.shape[1] == 1 else outputs.argmax(1)
        if not isinstance(model, maxmargin.AutoMargin):
            return Outcome(predicted, None, took)
        chances = expit(outputs)
        if chances.shape[1] == 1:
            return Outcome(predicted, np.hstack([1.0 - chances, chances]), took)
        return Outcome(predicted, chances / chances.sum(axis=1, keepdims=True), took)


class RowByRow:
    """An estimator with ``partial_fit`` and ``predict``, row by row."""

    def __init__(
        self, name: str, make: Callable[[], Any], kind: str = "linear", is_slow: bool = False
    ) -> None:
        self.name, self.make, self.kind, self.is_slow = name, make, kind, is_slow
        self.family = ""

    def run(self, data: DataSet) -> Outcome:
        if self.kind == "curved" and data.is_wide:
            raise Missing("too slow with 262 144 columns of hashed words")
        model, classes = made(self.make), np.arange(data.classes)
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


class VowpalWabbit:
    """Vowpal Wabbit reads a file in its own format and writes its predictions while it learns."""

    kind, is_slow, family = "linear", False, ""

    def __init__(self, name: str, arguments: str) -> None:
        self.name, self.arguments = f"Vowpal Wabbit, {name}", arguments

    def run(self, data: DataSet) -> Outcome:
        Workspace = imported("vowpalwabbit", "Workspace")
        several = data.classes > 2
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_vw(data, folder / "rows.vw")
            files = f"-d {folder}/rows.vw --cache_file {folder}/rows.cache"
            classes = f"--oaa {data.classes} " if several else ""
            common = f"--quiet {classes}{self.arguments} {files}"
            # The file is read into the cache before the measured pass.
            Workspace(common).finish()
            scores = folder / "scores"
            out = f"-r {scores}" if several else f"-p {scores}"
            took = seconds(lambda: Workspace(f"{common} {out}").finish())
            lines = [line.split() for line in scores.read_text().split("\n") if line]
        if several:
            outputs = [
                [float(part.split(":")[1]) for part in line if ":" in part] for line in lines
            ]
            return Outcome(np.array(outputs).argmax(axis=1), None, took)
        output = np.array([float(line[0]) for line in lines])
        chances = expit(output)
        both = np.column_stack([1.0 - chances, chances]) if "logistic" in self.arguments else None
        return Outcome((output >= 0.0).astype(int), both, took)


def write_vw(data: DataSet, file: Path) -> None:
    rows = sparse.csr_matrix(data.X)
    labels = data.y + 1 if data.classes > 2 else 2 * data.y - 1
    with file.open("w") as out:
        for i, label in enumerate(labels.tolist()):
            span = slice(rows.indptr[i], rows.indptr[i + 1])
            entries = zip(rows.indices[span].tolist(), rows.data[span].tolist(), strict=True)
            out.write(f"{label} | " + " ".join(f"{j}:{x:.9g}" for j, x in entries) + "\n")


class River:
    """A pipeline of river, which takes one dict at a time. Making the dicts is not timed."""

    family = ""

    def __init__(self, name: str, make: Callable[[int], Any], kind: str = "linear") -> None:
        self.name, self.make, self.kind, self.is_slow = f"river, {name}", make, kind, True

    def run(self, data: DataSet) -> Outcome:
        if self.kind == "curved" and data.is_wide:
            raise Missing("trees do not take 262 144 columns of hashed words")
        classes = data.classes
        model = made(partial(self.make, classes))
        labels = (data.y == 1).tolist() if classes == 2 else data.y.tolist()
        predicted, probability = np.zeros(len(labels), int), np.zeros((len(labels), classes))
        has_probability, took = self.kind == "curved" or "Logistic" in self.name, 0.0
        for i, (row, label) in enumerate(zip(as_dicts(data), labels, strict=True)):

            def step(row: dict[int, float] = row, label: Any = label, i: int = i) -> None:
                if has_probability:
                    for c, value in model.predict_proba_one(row).items():
                        probability[i, int(c)] = value
                    predicted[i] = probability[i].argmax()
                else:
                    predicted[i] = int(model.predict_one(row) or 0)
                model.learn_one(row, label)

            took += seconds(step)
        return Outcome(predicted, probability if has_probability else None, took)


def as_dicts(data: DataSet) -> Iterator[dict[int, float]]:
    """Rows of hashed words without their zeros, all others with them: trees need the zeros."""
    if not data.is_wide:
        rows = data.X.toarray() if sparse.issparse(data.X) else data.X
        yield from (dict(enumerate(row.tolist())) for row in rows)
        return
    for row in sparse.csr_matrix(data.X):
        yield dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))


def river_linear(name: str, is_scaled: bool, classes: int) -> Any:
    from river import linear_model, multiclass, preprocessing

    model = getattr(linear_model, name)()
    if classes > 2:
        model = multiclass.OneVsRestClassifier(model)
    return preprocessing.StandardScaler() | model if is_scaled else model


def river_tree(classes: int) -> Any:
    from river import tree

    return tree.HoeffdingAdaptiveTreeClassifier(seed=0)


def river_forest(classes: int) -> Any:
    from river import forest

    return forest.ARFClassifier(seed=0)


class Olpy:
    """A learner of olpy: two classes, dense rows, and a matrix of all pairs of columns."""

    kind, is_slow, family = "linear", True, ""

    def __init__(self, learner: str) -> None:
        self.name, self.learner = f"olpy, {learner}", learner

    def run(self, data: DataSet) -> Outcome:
        if data.classes > 2:
            raise Missing("two classes only")
        if data.is_wide:
            raise Missing("its matrix of pairs of columns does not fit into memory")
        model = imported("olpy.classifiers", self.learner)()
        X = np.asarray(data.X.toarray() if sparse.issparse(data.X) else data.X)
        predicted = np.zeros(data.y.size, int)

        def learn() -> None:
            model.partial_fit(X[:1], data.y[:1], classes=[0, 1])
            for i in range(1, data.y.size):
                predicted[i] = X[i] @ model.weights > 0.0
                model.partial_fit(X[i : i + 1], data.y[i : i + 1], classes=[0, 1])

        return Outcome(predicted, None, seconds(learn))


class CapyMoa:
    """A classifier of CapyMOA, in an environment and a process of its own."""

    kind, is_slow, family = "curved", True, ""

    def __init__(self, learner: str) -> None:
        self.name, self.learner = f"CapyMOA, {learner}", learner

    def run(self, data: DataSet) -> Outcome:
        interpreter = os.environ.get(CAPYMOA)
        if not interpreter:
            raise Missing(f"{CAPYMOA} must name the Python of an environment with CapyMOA")
        if data.is_wide:
            raise Missing("trees and neighbours do not take 262 144 columns of hashed words")
        with tempfile.TemporaryDirectory() as name:
            rows, found = Path(name, "rows.npz"), Path(name, "found.npz")
            X = data.X.toarray() if sparse.issparse(data.X) else data.X
            np.savez(rows, X=X, y=data.y, classes=data.classes)
            script = Path(__file__).with_name("capymoa_process.py")
            done = subprocess.run(
                [interpreter, str(script), self.learner, str(rows), str(found)],
                capture_output=True,
                text=True,
                env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            )
            if done.returncode:
                raise Missing(done.stderr.strip().splitlines()[-1])
            with np.load(found) as arrays:
                return Outcome(arrays["predicted"], None, float(arrays["seconds"]))


class SameAsLast:
    """Predicts the label of the row before."""

    name, kind, is_slow, family = "same as last", "baseline", False, ""

    def run(self, data: DataSet) -> Outcome:
        return Outcome(np.concatenate([[0], data.y[:-1]]), None, 0.0)


class Majority:
    """Predicts the most frequent class so far, with the frequencies as probabilities."""

    name, kind, is_slow, family = "most frequent so far", "baseline", False, ""

    def run(self, data: DataSet) -> Outcome:
        counts = np.cumsum(data.y[:, None] == np.arange(data.classes), axis=0)
        counts = np.vstack([np.zeros(data.classes), counts[:-1]])
        chances = (counts + 1.0) / (counts + 1.0).sum(axis=1, keepdims=True)
        return Outcome(counts.argmax(axis=1), chances, 0.0)


def imported(module: str, name: str) -> Any:
    try:
        return getattr(__import__(module, fromlist=[name]), name)
    except ImportError as error:
        raise Missing(f"{error}: pip install {module.split('.')[0]}") from None


def made(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except ImportError as error:
        raise Missing(str(error)) from None


LINEAR = (
    *("Perceptron", "PassiveAggressive", "AROW", "SCW", "AdaGrad", "FTRL", "ALMA", "ROMMA"),
    *("AMIRA", "PUMMA", "MICRA", "Relaxation", "DirectionalPerceptron"),
    *("NORMA", "Pegasos", "TrackingALMA", "FixedShare"),
)
VALUES: dict[str, dict[str, tuple[float, ...]]] = {
    "PassiveAggressive": {"C": (0.01, 0.1, 1.0)},
    "AROW": {"r": (0.1, 1.0, 10.0)},
    "SCW": {"C": (0.1, 1.0, 10.0)},
    "AdaGrad": {"rate": (0.1, 0.5, 1.0)},
    "FTRL": {"alpha": (0.1, 0.5, 1.0)},
    "ALMA": {"alpha": (0.1, 0.5, 0.9)},
    "NORMA": {"decay": (0.0001, 0.001, 0.01)},
    "Pegasos": {"lambda_": (1e-5, 1e-4, 1e-3)},
}
"""Where a parameter matters: three values of it. Some are the default."""
CURVED = ("Forgetron", "Projectron", "RandomBudgetPerceptron")
RIVER = ("LogisticRegression", "PAClassifier", "ALMAClassifier")


def ours() -> Iterator[Contender]:
    yield Ours("AutoMargin", maxmargin.AutoMargin)
    for name in LINEAR:
        yield Ours(name, getattr(maxmargin, name))
    yield Ours("Perceptron, averaged", partial(maxmargin.Perceptron, average=True))
    for name, values in VALUES.items():
        learner = getattr(maxmargin, name)
        defaults = learner().get_params()
        for parameter, each in values.items():
            for value in each:
                if value != defaults[parameter]:
                    yield Ours(
                        f"{name}, {parameter.strip('_')}={value:g}",
                        partial(learner, **{parameter: value}),
                        family=name,
                    )


def curved_ours() -> Iterator[Contender]:
    rbf = partial(maxmargin.AutoMargin, kernel="rbf", random_state=0)
    yield Ours("AutoMargin, rbf", rbf, "curved")
    for name in CURVED:
        yield Ours(name, getattr(maxmargin, name), "curved")
    yield RowByRow("NOCA", maxmargin.NOCA, "curved", is_slow=True)


def peers() -> Iterator[Contender]:
    yield VowpalWabbit("hinge", "--loss_function hinge")
    yield VowpalWabbit("logistic", "--loss_function logistic")
    yield VowpalWabbit("coin", "--coin --loss_function logistic")
    yield VowpalWabbit("ftrl", "--ftrl --loss_function logistic")


def slow_peers() -> Iterator[Contender]:
    for words, settings in (
        ("hinge", {}),
        ("log", {"loss": "log_loss"}),
        ("log, averaged", {"loss": "log_loss", "average": True}),
    ):
        make = partial(linear_model.SGDClassifier, random_state=0, **settings)
        yield RowByRow(f"SGDClassifier, {words}", make, is_slow=True)
    perceptron = partial(linear_model.Perceptron, random_state=0)
    yield RowByRow("sklearn Perceptron", perceptron, is_slow=True)
    for name in RIVER:
        for is_scaled in (True, False):
            words = f"{name}, scaled" if is_scaled else name
            yield River(words, partial(river_linear, name, is_scaled))
    yield River("HoeffdingAdaptiveTree", river_tree, "curved")
    yield River("ARFClassifier", river_forest, "curved")
    yield from map(Olpy, ("AROW", "SCW", "CW"))
    learners = ("HoeffdingAdaptiveTree", "AdaptiveRandomForestClassifier", "SAMkNN")
    yield from map(CapyMoa, learners)


def contenders() -> list[Contender]:
    """All that take part, the fast ones first."""
    baselines: list[Contender] = [SameAsLast(), Majority()]
    return [*baselines, *ours(), *peers(), *curved_ours(), *slow_peers()]
