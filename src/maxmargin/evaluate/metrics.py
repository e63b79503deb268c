"""Metrics of predictions on their way along a stream: of all rows so far, and of the last ones.

A scorer of scikit-learn asks an estimator for predictions. Here it asks `Recorded`, which has made
them already, so that any scorer works as it is. One that asks for classes alone is told of each
pair of a true and a predicted class once, with the number of such rows as its weight: then no rows
need to be kept.
"""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Protocol

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer, get_scorer_names, log_loss, make_scorer
from sklearn.utils.metaestimators import available_if

from maxmargin.evaluate.predictions import Predicted, joined
from maxmargin.evaluate.scores import MOST_SCORES

SCORES, PROBABILITIES = "decision_function", "predict_proba"
# What a metric function takes, by the name of its second argument; else classes.
RESPONSES: dict[str, Any] = {
    "y_score": (SCORES, PROBABILITIES),
    "y_prob": PROBABILITIES,
    "y_proba": PROBABILITIES,
    "pred_decision": SCORES,
}


class Metric(Protocol):
    """One metric for one learner, on its way along the stream."""

    asks: set[str]  # for which methods of an estimator, beside `predict`
    keeps: bool  # does it need all rows so far?

    def begun(self, classes: np.ndarray, learner: BaseEstimator) -> Metric:
        """The same metric for a learner of these classes; ValueError if they do not go together."""

    def update(self, rows: Predicted) -> None:
        """Some more rows."""

    def so_far(self, counts: np.ndarray, rows: Predicted | None) -> float:
        """The value of all rows: of their counts by class and prediction, or of themselves."""

    def recent(self, rows: Predicted) -> float:
        """The value of these rows alone."""


def by_name(metrics: Any) -> dict[str, Metric]:
    """The metrics that are asked for, by their names."""
    if metrics is None:
        return {}
    if isinstance(metrics, Mapping):
        return {str(name): _metric(each)[1] for name, each in metrics.items()}
    if isinstance(metrics, str) or not isinstance(metrics, Sequence):
        metrics = [metrics]
    found = [_metric(each) for each in metrics]
    names = [name for name, _ in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"metrics: there are two called {twice[0]}; pass a dict with their names.")
    return dict(found)


def _metric(given: Any) -> tuple[str, Metric]:
    """A metric, and how it is called."""
    if isinstance(given, str):
        return given, _named(given)
    if hasattr(given, "update") and hasattr(given, "get"):
        return type(given).__name__, ByUpdates(given)
    if not callable(given):
        raise ValueError(f"metrics: {given!r} is no name, no function and no metric of river.")
    name = getattr(given, "__name__", None) or str(given)
    takes = [
        each
        for each in inspect.signature(given).parameters.values()
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    required = sum(each.default is each.empty for each in takes)
    if required == 3:  # estimator, X, y
        return name, ByScorer(lambda classes: given)
    if required > 3 or len(takes) < 2:
        raise ValueError(f"metrics: {name} must take y_true and y_pred, or estimator, X and y.")
    if given is log_loss:
        return name, ByScorer(_log_loss_scorer)
    scorer = make_scorer(given, response_method=RESPONSES.get(takes[1].name, "predict"))
    return name, ByScorer(lambda classes: scorer)


def _named(name: str) -> Metric:
    if name in ("log_loss", "neg_log_loss"):
        return ByScorer(_log_loss_scorer, 1.0 if name == "log_loss" else -1.0)
    known = get_scorer_names()
    if name in known:
        return ByScorer(lambda classes: get_scorer(name))
    if f"neg_{name}" in known:
        return ByScorer(lambda classes: get_scorer(f"neg_{name}"), -1.0)
    close = get_close_matches(name, known, n=3) or ["accuracy", "balanced_accuracy", "roc_auc"]
    raise ValueError(f"metrics: there is no metric {name!r}; there is {' or '.join(close)}.")


def _log_loss_scorer(classes: np.ndarray) -> Any:
    """For a learner of these classes, some of which may not have occurred yet."""
    return make_scorer(log_loss, response_method=PROBABILITIES, labels=classes)


class Recorded(ClassifierMixin, BaseEstimator):
    """A classifier that has predicted all rows already; a row is its number.

    Attributes
    ----------
    asked : set of str
        The methods that were called.
    """

    def __init__(self, classes: np.ndarray, rows: Predicted) -> None:
        self.classes_, self.rows, self.asked = classes, rows, set[str]()

    def predict(self, X: np.ndarray) -> np.ndarray:
        self.asked.add("predict")
        return self.classes_[self.rows.said[X]]

    @available_if(lambda self: self.rows.outputs is not None)
    def decision_function(self, X: np.ndarray) -> Any:
        self.asked.add(SCORES)
        assert self.rows.outputs is not None
        outputs = self.rows.outputs[X]
        return outputs.ravel() if outputs.shape[1] == 1 else outputs

    @available_if(lambda self: self.rows.probabilities is not None)
    def predict_proba(self, X: np.ndarray) -> Any:
        self.asked.add(PROBABILITIES)
        assert self.rows.probabilities is not None
        return self.rows.probabilities[X]


class ByScorer:
    """A metric by a scorer of scikit-learn.

    Parameters
    ----------
    scorer_for : callable
        The scorer, called as ``scorer(estimator, X, y)``, for given classes.
    sign : float
        Its values are multiplied by it.
    """

    classes: np.ndarray
    scorer: Any

    def __init__(self, scorer_for: Callable[[np.ndarray], Any], sign: float = 1.0) -> None:
        self.scorer_for, self.sign = scorer_for, sign
        self.asks: set[str] = set()
        self.keeps = False
        self.is_weighted = True

    def begun(self, classes: np.ndarray, learner: BaseEstimator) -> ByScorer:
        """Try it on one row of each class: does it take these classes, and what does it ask for?"""
        codes, certain = np.arange(classes.size), np.eye(classes.size)
        outputs = np.array([[-1.0], [1.0]]) if classes.size == 2 else certain
        probabilities = 0.5 * certain + 0.5 / classes.size
        rows = Predicted(
            codes,
            codes,
            outputs if hasattr(learner, SCORES) else None,
            probabilities if hasattr(learner, PROBABILITIES) else None,
        )
        new = ByScorer(self.scorer_for, self.sign)
        new.classes, new.scorer = classes, self.scorer_for(classes)
        try:
            new.asks, value = new._tried(rows)
        except AttributeError:
            raise ValueError(
                f"it asks for scores or probabilities, which {type(learner).__name__} has not."
            ) from None
        if np.ndim(value) != 0:
            raise ValueError("it must give one number.")
        new.keeps = bool(new.asks)
        return new

    def _tried(self, rows: Predicted) -> tuple[set[str], Any]:
        said = Recorded(self.classes, rows)
        try:
            value = self._asked(said, rows, np.ones(rows.truth.size))
        except TypeError:  # which all functions raise that know of no weights
            self.is_weighted = False
            value = self._asked(said, rows, None)
        return said.asked & {SCORES, PROBABILITIES}, value

    def _asked(self, said: Recorded, rows: Predicted, weights: np.ndarray | None) -> Any:
        options = {} if weights is None else {"sample_weight": weights}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of classes that have not occurred yet
            return self.scorer(
                said, np.arange(rows.truth.size), self.classes[rows.truth], **options
            )

    def update(self, rows: Predicted) -> None:
        pass

    def so_far(self, counts: np.ndarray, rows: Predicted | None) -> float:
        if not self.asks:
            return self._of_counts(counts)
        return np.nan if rows is None else self._value(rows, None)

    def recent(self, rows: Predicted) -> float:
        if self.asks:
            return self._value(rows, None)
        size = self.classes.size
        counts = np.bincount(rows.truth * size + rows.said, minlength=size * size)
        return self._of_counts(counts.reshape(size, size))

    def _of_counts(self, counts: np.ndarray) -> float:
        """The value of so many rows of each class and prediction."""
        truth, said = np.nonzero(counts)
        weights = counts[truth, said]
        if self.is_weighted:
            return self._value(Predicted(truth, said), weights)
        if weights.sum() > MOST_SCORES:
            return np.nan
        return self._value(Predicted(np.repeat(truth, weights), np.repeat(said, weights)), None)

    def _value(self, rows: Predicted, weights: np.ndarray | None) -> float:
        """NaN if these rows do not define it."""
        if rows.truth.size == 0:
            return np.nan
        try:
            return self.sign * float(self._asked(Recorded(self.classes, rows), rows, weights))
        except ValueError:
            return np.nan


class ByUpdates:
    """A metric of river, or like one: ``update(y_true, y_pred)`` and ``get()``.

    Parameters
    ----------
    metric : object
        Copies of it are used; it stays as it is.
    """

    def __init__(self, metric: Any) -> None:
        self.pristine, self.running = metric, copy.deepcopy(metric)
        self.asks = set() if getattr(metric, "requires_labels", True) else {PROBABILITIES}
        self.keeps = False
        self.labels: list[Any] = []

    def begun(self, classes: np.ndarray, learner: BaseEstimator) -> ByUpdates:
        if self.asks and not hasattr(learner, PROBABILITIES):
            raise ValueError(f"it asks for probabilities, which {type(learner).__name__} has not.")
        new = ByUpdates(self.pristine)
        new.labels = classes.tolist()
        return new

    def update(self, rows: Predicted) -> None:
        self._tell(self.running, rows)

    def _tell(self, metric: Any, rows: Predicted) -> None:
        if self.asks:
            assert rows.probabilities is not None
            said = [
                dict(zip(self.labels, each, strict=True)) for each in rows.probabilities.tolist()
            ]
        else:
            said = [self.labels[code] for code in rows.said]
        for code, each in zip(rows.truth, said, strict=True):
            metric.update(self.labels[code], each)

    def so_far(self, counts: np.ndarray, rows: Predicted | None) -> float:
        return float(self.running.get())

    def recent(self, rows: Predicted) -> float:
        metric = copy.deepcopy(self.pristine)
        self._tell(metric, rows)
        return float(metric.get())


class Followed:
    """Metrics of what one learner predicts, at each look.

    Parameters
    ----------
    metrics : dict
    classes : array
    learner : estimator
    window : int
        Rows that recent values are about.
    most : int
        So many rows are kept at most, if a metric needs more than counts of classes.

    Attributes
    ----------
    values, recent_values : dict of lists
        By the names of the metrics.
    wants_chances : bool
        Are there metrics of probabilities?
    """

    def __init__(
        self,
        metrics: dict[str, Metric],
        classes: np.ndarray,
        learner: BaseEstimator,
        window: int,
        most: int,
    ) -> None:
        self.metrics: dict[str, Metric] = {}
        for name, metric in metrics.items():
            try:
                self.metrics[name] = metric.begun(classes, learner)
            except ValueError as error:
                raise ValueError(f"metrics: {name} for {type(learner).__name__}: {error}") from None
        self.window, self.most = window, most
        self.wants_chances = any(PROBABILITIES in metric.asks for metric in self.metrics.values())
        self.counts = np.zeros((classes.size, classes.size), dtype=np.int64)
        self._kept: list[Predicted] | None = None
        if any(metric.keeps for metric in self.metrics.values()):
            self._kept = []
        self._last, self._last_rows = list[Predicted](), 0
        self.values: dict[str, list[float]] = {name: [] for name in metrics}
        self.recent_values: dict[str, list[float]] = {name: [] for name in metrics}

    def asking_for_more(self) -> str:
        """The name of a metric that the predicted class is not enough for, or nothing."""
        return next((name for name, metric in self.metrics.items() if metric.asks), "")

    def add(self, rows: Predicted) -> None:
        """Some more rows."""
        rows = rows.part(rows.truth < self.counts.shape[0])
        if not rows.truth.size:
            return
        np.add.at(self.counts, (rows.truth, rows.said), 1)
        for metric in self.metrics.values():
            metric.update(rows)
        if self._kept is not None:
            self._kept.append(rows)
            if self.counts.sum() > self.most:
                self._kept = None
        self._last.append(rows)
        self._last_rows += rows.truth.size
        if self._last_rows > 2 * self.window:
            self._last, self._last_rows = [self._recent()], self.window

    def _recent(self) -> Predicted:
        return joined(self._last).part(slice(-self.window, None))

    def look(self) -> None:
        """Write down the values."""
        kept = None
        if self._kept:
            self._kept = [joined(self._kept)]
            (kept,) = self._kept
        recent = self._recent() if self._last else None
        for name, metric in self.metrics.items():
            self.values[name].append(metric.so_far(self.counts, kept))
            self.recent_values[name].append(np.nan if recent is None else metric.recent(recent))
