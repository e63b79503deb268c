"""The core: passes over rows in memory, single rows, and an exact fit. ``asv run`` measures it."""

from __future__ import annotations

import warnings

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from maxmargin import AutoMargin, MaxMargin, Perceptron
from maxmargin.datasets import make_separable

ROWS, WIDTH, SINGLE_ROWS = 20_000, 100, 1_000


class Fits:
    """Whole calls of ``fit``; the first, which compiles, happens in ``setup``."""

    params = ["dense", "sparse"]
    param_names = ["rows"]

    def setup(self, kind: str) -> None:
        warnings.simplefilter("ignore", ConvergenceWarning)
        self.X, self.y = make_separable(ROWS, WIDTH, gap=0.1, random_state=0)
        if kind == "sparse":
            self.X = sparse.csr_array(np.where(np.abs(self.X) > 1.0, self.X, 0.0))
        self.time_one_pass(kind)
        self.time_exact(kind)

    def time_one_pass(self, kind: str) -> None:
        Perceptron(max_iter=1, random_state=0).fit(self.X, self.y)

    def time_exact(self, kind: str) -> None:
        MaxMargin(soft_margin=1.0).fit(self.X, self.y)


class SingleRows:
    """``learn_one`` and ``predict_one``, a thousand rows a call."""

    def setup(self) -> None:
        X, y = make_separable(SINGLE_ROWS, WIDTH, gap=0.1, random_state=0)
        self.pairs = list(zip(X, y.tolist(), strict=True))
        self.learners = {}
        for name, learner in (("perceptron", Perceptron()), ("mixture", AutoMargin())):
            self.learners[name] = learner.partial_fit(X[:10], y[:10], classes=[-1, 1])
            self._learn(name)
        self.time_predict_one()

    def _learn(self, name: str) -> None:
        learner = self.learners[name]
        for row, label in self.pairs:
            learner.learn_one(row, label)

    def time_learn_one_perceptron(self) -> None:
        self._learn("perceptron")

    def time_learn_one_automargin(self) -> None:
        self._learn("mixture")

    def time_predict_one(self) -> None:
        learner = self.learners["perceptron"]
        for row, _ in self.pairs:
            learner.predict_one(row)
