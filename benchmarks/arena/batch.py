"""The league of batches: fit on training rows, tuned on these alone; errors on test rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

import maxmargin
from benchmarks.arena.datasets import DataSet
from benchmarks.arena.streams import Missing, imported
from benchmarks.harness import seconds

FOLDS = 5
PENALTIES = tuple(10.0**k for k in range(-3, 2))
WITH_KERNELS = (1.0, 10.0, 100.0)
TEST_PART = 0.3


class Fitted(NamedTuple):
    """Errors in %, processor time of the fit, tuning included, and the certified ratio."""

    error: float
    seconds: float
    certified: float | None


class Split(NamedTuple):
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray


def split(data: DataSet, seed: int, most: int) -> Split:
    """The usual test rows, or three tenths at random; at most so many training rows."""
    order = np.random.default_rng(seed).permutation(data.y.size)
    if data.X_test is not None:
        train = order[:most]
        return Split(data.X[train], data.y[train], data.X_test, data.y_test)
    tested = int(TEST_PART * data.y.size)
    train, test = order[tested:][:most], order[:tested]
    return Split(data.X[train], data.y[train], data.X[test], data.y[test])


class Contender:
    """An estimator. Dense columns are standardized for it, by the training rows, if it needs that.

    Attributes
    ----------
    kind : {"linear", "curved"}
    tuning : how its parameters are chosen
    family : empty, as in the league of streams
    is_slow : does it get fewer training rows of large data sets?
    """

    family = ""

    def __init__(
        self,
        name: str,
        make: Callable[[], Any],
        tuning: str = "defaults",
        kind: str = "linear",
        is_slow: bool = False,
        is_scaled: bool = True,
    ) -> None:
        self.name, self.make, self.tuning, self.kind = name, make, tuning, kind
        self.is_slow, self.is_scaled = is_slow, is_scaled

    def run(self, rows: Split) -> Fitted:
        if sparse.issparse(rows.X) and not self.is_scaled:
            if rows.X.shape[1] > 10_000:
                raise Missing("it takes no sparse rows, and dense ones do not fit into memory")
            rows = rows._replace(X=rows.X.toarray(), X_test=rows.X_test.toarray())
        model = self.make()
        if self.is_scaled and not sparse.issparse(rows.X):
            model = make_pipeline(StandardScaler(), model)
        took = seconds(lambda: model.fit(rows.X, rows.y))
        error = 100.0 * float(np.mean(model.predict(rows.X_test) != rows.y_test))
        return Fitted(error, took, certified(model))


def certified(model: Any) -> float | None:
    """The least certified part of the best margin, if the model or its last step certifies any."""
    last = model[-1] if hasattr(model, "steps") else model
    certificate = getattr(last, "certificate_", None)
    several = certificate if isinstance(certificate, Sequence) else [certificate]
    ratios = [one.ratio for one in several if one is not None]
    return min(ratios) if ratios else None


def by_folds(estimator: Any, values: tuple[float, ...] = PENALTIES) -> Any:
    return GridSearchCV(estimator, {"C": values}, cv=FOLDS)


class Liblinear(ClassifierMixin, BaseEstimator):
    """LIBLINEAR ``-s 2`` with its own search for C in five folds, and an intercept as a column."""

    def fit(self, X: Any, y: np.ndarray) -> Liblinear:
        train = imported("liblinear.liblinearutil", "train")
        problem = imported("liblinear.liblinearutil", "problem")
        rows = problem(y.astype(float), sparse.csr_matrix(X), bias=1)
        C = train(rows, f"-s 2 -C -v {FOLDS} -q")[0]
        self.model_ = train(rows, f"-s 2 -c {C} -q")
        return self

    def predict(self, X: Any) -> np.ndarray:
        predict = imported("liblinear.liblinearutil", "predict")
        labels, _, _ = predict([], sparse.csr_matrix(X), self.model_, "-q")
        return np.array(labels, dtype=int)


def boosted_trees() -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=0)


def contenders() -> list[Contender]:
    ours = maxmargin.MaxMargin
    loo, folds = "leave-one-out", f"{FOLDS} folds"
    automargin = partial(maxmargin.AutoMargin, random_state=0)
    curved = partial(Contender, kind="curved")
    return [
        Contender("MaxMargin", partial(ours, soft_margin=1.0), "soft_margin=1"),
        Contender("MaxMargin, auto", ours, loo),
        Contender(
            "MaxMargin, hinge", partial(ours, loss="hinge", soft_margin=1.0), "soft_margin=1"
        ),
        Contender("AutoMargin, one pass", automargin),
        Contender(
            "Perceptron, averaged",
            partial(maxmargin.Perceptron, average=True, max_iter=10, random_state=0),
        ),
        Contender("AMIRA", partial(maxmargin.AMIRA, max_iter=10, random_state=0)),
        Contender("PUMMA, soft margin", partial(maxmargin.PUMMA, soft_margin=1.0, random_state=0)),
        Contender("SGDClassifier", partial(SGDClassifier, random_state=0)),
        Contender("LinearSVC", partial(LinearSVC, random_state=0)),
        Contender("LinearSVC, tuned", lambda: by_folds(LinearSVC(random_state=0)), folds),
        Contender("LogisticRegression", partial(LogisticRegression, max_iter=1000)),
        Contender(
            "LogisticRegression, tuned", lambda: by_folds(LogisticRegression(max_iter=1000)), folds
        ),
        Contender("LIBLINEAR, tuned", Liblinear, folds),
        curved("HistGradientBoosting", boosted_trees, is_scaled=False),
        curved(
            "MaxMargin, rbf, auto",
            partial(ours, kernel="rbf"),
            loo,
            is_slow=True,
        ),
        curved("SVC, rbf, tuned", lambda: by_folds(SVC(), WITH_KERNELS), folds, is_slow=True),
    ]
