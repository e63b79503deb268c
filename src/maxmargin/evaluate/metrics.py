"""Metrics of predictions along a stream: of all rows so far, and of recent ones.

Scorers of scikit-learn ask an estimator for predictions; here they ask `Recorded`, which returns
stored ones. A scorer that needs only classes gets each pair of true and predicted class once, with
its count as sample weight, so that no rows need to be kept.
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

from maxmargin.evaluate.predictions import Predictions, joined
from maxmargin.evaluate.scores import MOST_SCORES

SCORES, PROBABILITIES = "decision_function", "predict_proba"
# The predictions that a metric function takes, by the name of its second argument; else classes.
RESPONSES: dict[str, Any] = {
    "y_score": (SCORES, PROBABILITIES),
    "y_prob": PROBABILITIES,
    "y_proba": PROBABILITIES,
    "pred_decision": SCORES,
}


class Metric(Protocol):
    """One metric of one learner along the stream."""

    needs: set[str]  # methods of the estimator that it calls, besides `predict`
    keeps: bool  # whether it needs all rows so far

    def started(self, classes: np.ndarray, learner: BaseEstimator) -> Metric:
        """A copy for a learner with these classes; ValueError if the metric does not suit it."""

    def update(self, rows: Predictions) -> None:
        """Add rows."""

    def so_far(self, counts: np.ndarray, rows: Predictions | None) -> float:
        """The value for all rows, given their confusion matrix and, if kept, the rows."""

    def recent(self, rows: Predictions) -> float:
        """The value for these rows alone."""


def by_name(metrics: Any) -> dict[str, Metric]:
    """The metrics that a user asks for, by their names."""
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
    """The name of a metric, and the metric."""
    if isinstance(given, str):
        return given, _named(given)
    if hasattr(given, "update") and hasattr(given, "get"):
        return type(given).__name__, ByUpdates(given)
    if not callable(given):
        raise ValueError(f"metrics: expected a name, a function or a river metric, got {given!r}.")
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
    names = get_scorer_names()
    if name in names:
        return ByScorer(lambda classes: get_scorer(name))
    if f"neg_{name}" in names:
        return ByScorer(lambda classes: get_scorer(f"neg_{name}"), -1.0)
    close = get_close_matches(name, names, n=3) or ["accuracy", "balanced_accuracy", "roc_auc"]
    raise ValueError(f"metrics: unknown metric {name!r}; did you mean {' or '.join(close)}?")


def _log_loss_scorer(classes: np.ndarray) -> Any:
    """The scorer for these classes, some of which may not have occurred yet."""
    return make_scorer(log_loss, response_method=PROBABILITIES, labels=classes)


class Recorded(ClassifierMixin, BaseEstimator):
    """A classifier that returns stored predictions; ``X`` has row numbers."""

    def __init__(self, classes: np.ndarray, rows: Predictions) -> None:
        self.classes_, self.rows = classes, rows
        self.called = set[str]()  # methods

    def predict(self, X: np.ndarray) -> np.ndarray:
        self.called.add("predict")
        return self.classes_[self.rows.predicted[X]]

    @available_if(lambda self: self.rows.outputs is not None)
    def decision_function(self, X: np.ndarray) -> Any:
        self.called.add(SCORES)
        assert self.rows.outputs is not None
        outputs = self.rows.outputs[X]
        return outputs.ravel() if outputs.shape[1] == 1 else outputs

    @available_if(lambda self: self.rows.probabilities is not None)
    def predict_proba(self, X: np.ndarray) -> Any:
        self.called.add(PROBABILITIES)
        assert self.rows.probabilities is not None
        return self.rows.probabilities[X]


class ByScorer:
    """A metric from a scikit-learn scorer, which ``scorer_for`` makes for given classes.

    Values are multiplied by ``sign``.
    """

    classes: np.ndarray
    scorer: Any

    def __init__(self, scorer_for: Callable[[np.ndarray], Any], sign: float = 1.0) -> None:
        self.scorer_for, self.sign = scorer_for, sign
        self.needs: set[str] = set()
        self.keeps = False
        self.is_weighted = True

    def started(self, classes: np.ndarray, learner: BaseEstimator) -> ByScorer:
        """Try the scorer on one row of each class, to find the methods that it calls."""
        codes, certain = np.arange(classes.size), np.eye(classes.size)
        outputs = np.array([[-1.0], [1.0]]) if classes.size == 2 else certain
        probabilities = 0.5 * certain + 0.5 / classes.size
        rows = Predictions(
            codes,
            codes,
            outputs if hasattr(learner, SCORES) else None,
            probabilities if hasattr(learner, PROBABILITIES) else None,
        )
        new = ByScorer(self.scorer_for, self.sign)
        new.classes, new.scorer = classes, self.scorer_for(classes)
        try:
            new.needs, value = new._tried(rows)
        except AttributeError:
            raise ValueError(
                f"it needs scores or probabilities, which {type(learner).__name__} does not give."
            ) from None
        if np.ndim(value) != 0:
            raise ValueError("it must give one number.")
        new.keeps = bool(new.needs)
        return new

    def _tried(self, rows: Predictions) -> tuple[set[str], Any]:
        recorded = Recorded(self.classes, rows)
        try:
            value = self._scored(recorded, np.ones(rows.truth.size))
        except TypeError:  # the function takes no weights
            self.is_weighted = False
            value = self._scored(recorded, None)
        return recorded.called & {SCORES, PROBABILITIES}, value

    def _scored(self, recorded: Recorded, weights: np.ndarray | None) -> Any:
        truth = recorded.rows.truth
        options = {} if weights is None else {"sample_weight": weights}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of classes that have not occurred yet
            return self.scorer(recorded, np.arange(truth.size), self.classes[truth], **options)

    def update(self, rows: Predictions) -> None:
        pass

    def so_far(self, counts: np.ndarray, rows: Predictions | None) -> float:
        if not self.needs:
            return self._of_counts(counts)
        return np.nan if rows is None else self._value(rows, None)

    def recent(self, rows: Predictions) -> float:
        if self.needs:
            return self._value(rows, None)
        size = self.classes.size
        counts = np.bincount(rows.truth * size + rows.predicted, minlength=size * size)
        return self._of_counts(counts.reshape(size, size))

    def _of_counts(self, counts: np.ndarray) -> float:
        """The value for a confusion matrix."""
        truth, predicted = np.nonzero(counts)
        weights = counts[truth, predicted]
        if self.is_weighted:
            return self._value(Predictions(truth, predicted), weights)
        if weights.sum() > MOST_SCORES:
            return np.nan
        rows = Predictions(np.repeat(truth, weights), np.repeat(predicted, weights))
        return self._value(rows, None)

    def _value(self, rows: Predictions, weights: np.ndarray | None) -> float:
        """The value for these rows; NaN if it is undefined."""
        if rows.truth.size == 0:
            return np.nan
        try:
            return self.sign * float(self._scored(Recorded(self.classes, rows), weights))
        except ValueError:
            return np.nan


class ByUpdates:
    """A metric with river's interface: ``update(y_true, y_pred)`` and ``get()``."""

    def __init__(self, metric: Any) -> None:
        self.pristine, self.running = metric, copy.deepcopy(metric)
        self.needs = set() if getattr(metric, "requires_labels", True) else {PROBABILITIES}
        self.keeps = False
        self.labels: list[Any] = []

    def started(self, classes: np.ndarray, learner: BaseEstimator) -> ByUpdates:
        if self.needs and not hasattr(learner, PROBABILITIES):
            raise ValueError(
                f"it needs probabilities, which {type(learner).__name__} does not give."
            )
        new = ByUpdates(self.pristine)
        new.labels = classes.tolist()
        return new

    def update(self, rows: Predictions) -> None:
        self._update(self.running, rows)

    def _update(self, metric: Any, rows: Predictions) -> None:
        if self.needs:
            assert rows.probabilities is not None
            predicted: list[Any] = [
                dict(zip(self.labels, each, strict=True)) for each in rows.probabilities.tolist()
            ]
        else:
            predicted = [self.labels[code] for code in rows.predicted]
        for code, each in zip(rows.truth, predicted, strict=True):
            metric.update(self.labels[code], each)

    def so_far(self, counts: np.ndarray, rows: Predictions | None) -> float:
        return float(self.running.get())

    def recent(self, rows: Predictions) -> float:
        metric = copy.deepcopy(self.pristine)
        self._update(metric, rows)
        return float(metric.get())


class MetricCurves:
    """The metrics of one learner at each checkpoint, by name.

    Recent values are for the last ``window`` rows. If a metric needs more than the confusion
    matrix, at most ``most`` rows are kept.
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
                self.metrics[name] = metric.started(classes, learner)
            except ValueError as error:
                raise ValueError(f"metrics: {name} for {type(learner).__name__}: {error}") from None
        self.window, self.most = window, most
        started = self.metrics.values()
        self.needs_probabilities = any(PROBABILITIES in metric.needs for metric in started)
        self.counts = np.zeros((classes.size, classes.size), dtype=np.int64)
        self._kept: list[Predictions] | None = [] if any(each.keeps for each in started) else None
        self._last, self._last_rows = list[Predictions](), 0
        self.values: dict[str, list[float]] = {name: [] for name in metrics}
        self.recent_values: dict[str, list[float]] = {name: [] for name in metrics}

    def name_beyond_classes(self) -> str:
        """The name of a metric that needs more than predicted classes, or an empty string."""
        return next((name for name, metric in self.metrics.items() if metric.needs), "")

    def add(self, rows: Predictions, stops: Sequence[int]) -> None:
        """Add rows, with a checkpoint after each of these numbers of rows."""
        if self.metrics:
            start = 0
            for stop in stops:
                self._add(rows.part(slice(start, stop)))
                self.add_checkpoint()
                start = stop
            self._add(rows.part(slice(start, None)))

    def _add(self, rows: Predictions) -> None:
        rows = rows.part(rows.truth < self.counts.shape[0])
        if not rows.truth.size:
            return
        np.add.at(self.counts, (rows.truth, rows.predicted), 1)
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

    def _recent(self) -> Predictions:
        return joined(self._last).part(slice(-self.window, None))

    def add_checkpoint(self) -> None:
        kept = None
        if self._kept:
            self._kept = [joined(self._kept)]
            (kept,) = self._kept
        recent = self._recent() if self._last else None
        for name, metric in self.metrics.items():
            self.values[name].append(metric.so_far(self.counts, kept))
            self.recent_values[name].append(np.nan if recent is None else metric.recent(recent))
