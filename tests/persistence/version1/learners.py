"""The learners in the files beside this one, by what was done to them.

The files are of format version 1. The library that wrote them ran this file as a script; now they
can only be read, and no learner may be changed here.
"""

import contextlib
import sys
from pathlib import Path

import numpy as np
from scipy import sparse

import maxmargin
from maxmargin import (
    AMIRA,
    NOCA,
    PUMMA,
    BisectionPerceptron,
    Forgetron,
    Perceptron,
    Projectron,
    RandomBudgetPerceptron,
    streams,
)

HERE = Path(__file__).parent
numbers = np.random.RandomState(7)
X = numbers.uniform(-1.0, 1.0, size=(30, 3)).round(3)
two = np.where(X[:, 0] + 0.3 * X[:, 1] > 0.1, "yes", "no")
three = np.digitize(X[:, 0], [-0.3, 0.3]) * 2.0
S = sparse.csr_matrix(np.where(np.abs(X) > 0.4, X, 0.0))
RBF = {"kernel": "rbf", "gamma": 0.5}
FIRST, REST = slice(0, 20), slice(20, 30)


def streamed(clf, rows, labels):
    clf.partial_fit(rows[FIRST], labels[FIRST], classes=np.unique(labels))
    return clf, lambda one: one.partial_fit(rows[REST], labels[REST])


def fitted(clf, rows, labels):
    return clf.fit(rows, labels), lambda one: one.fit(rows, labels)


def by_names(clf, rows, labels):
    def learn(one, some):
        for row, label in zip(rows[some].tolist(), labels[some].tolist(), strict=True):
            known = {f"x{j}": value for j, value in enumerate(row) if value > -0.5}
            one.learn_one(known, label, classes=np.unique(labels).tolist())
        return one

    return learn(clf, FIRST), lambda one: learn(one, REST)


fit = {"max_iter": 3, "random_state": 0, "warm_start": True}
# What is learnt how, and from what.
LEARNERS = {
    "linear": lambda: streamed(Perceptron(), X, two),
    "linear-fitted": lambda: fitted(AMIRA(**fit), X, two),
    "averaged": lambda: streamed(Perceptron(average=True), X, three),
    "names": lambda: by_names(Perceptron(), X, two),
    "p-norm": lambda: streamed(Perceptron(p=3.0), X, two),
    "p-norm-log": lambda: streamed(Perceptron(p="log"), S, three),
    "pairs": lambda: streamed(PUMMA(), X, two),
    "pairs-soft-margin": lambda: fitted(PUMMA(soft_margin=0.5, **fit), X, two),
    "joint": lambda: streamed(AMIRA(multiclass="k-best", k=2), X, three),
    "kernel": lambda: streamed(Perceptron(average=True, **RBF), X, three),
    "kernel-precomputed": lambda: fitted(Perceptron(kernel="precomputed", **fit), X @ X.T, two),
    "kernel-pairs-sparse": lambda: streamed(PUMMA(kernel="poly", gamma=0.5), S, two),
    "kernel-joint": lambda: streamed(AMIRA(multiclass="1-best", **RBF), X, three),
    "budget-oldest": lambda: streamed(Forgetron(budget=4, gamma=0.5), X, two),
    "budget-random": lambda: streamed(
        RandomBudgetPerceptron(budget=4, gamma=0.5, random_state=0), S, three
    ),
    "budget-project": lambda: streamed(Projectron(budget=4, gamma=0.5), X, two),
    "mixture": lambda: streamed(NOCA(max_components=6), X, three),
    "bisection": lambda: fitted(BisectionPerceptron(random_state=0), X, two),
}

# A run that was stopped, and what it had come from.
RUN = AMIRA(epsilon=0.05)
PASSES = 3


def source(folder):
    path = Path(folder) / "rows.svm"
    lines = [
        " ".join([repr(label), *(f"{j}:{value!r}" for j, value in enumerate(row, 1))])
        for row, label in zip(X.tolist(), three.tolist(), strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return streams.open(path, block_size=200)


class Stopping:
    """As a source that fails in its second pass."""

    def __init__(self, source, left):
        self.source, self.left = source, left

    def __getattr__(self, name):
        return getattr(self.source, name)

    def blocks(self, *start):
        for block in self.source.blocks(*start):
            self.left -= 1
            if self.left == 0:
                raise OSError("the cable is out")
            yield block


if __name__ == "__main__":
    for name, make in LEARNERS.items():
        maxmargin.save(make()[0], HERE / f"{name}.mm")
    opened, folder = source(sys.argv[1]), Path(sys.argv[1])
    opened.blocks = Stopping(source(folder), 8).blocks
    with contextlib.suppress(OSError):
        RUN.fit_stream(opened, checkpoint=folder / "run", every=1, passes=PASSES)
    (HERE / "run.checkpoint").write_bytes((folder / "run").read_bytes())
