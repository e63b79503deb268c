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
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer, get_scorer_names, log_loss, make_scorer
from sklearn.utils.metaestimators import available_if

from maxmargin.evaluate.predictions import MOST_SCORES, Predictions, joined

SCORES, PROBABILITIES = "decision_function", "predict_proba"
# The predictions that a metric function takes, by the name of its second argument; else classes.
RESPONSES: dict[str, Any] = {
    "y_score": (SCORES, PROBABILITIES),
    "y_prob": PROBABILITIES,
    "y_proba": PROBABILITIES,
    "pred_decision": SCORES,
}


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
        return type(given).__name__, UpdatedMetric(given)
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
        return name, ScorerMetric(lambda classes: given)
    if required > 3 or len(takes) < 2:
        raise ValueError(f"metrics: {name} must take y_true and y_pred, or estimator, X and y.")
    if given is log_loss:
        return name, ScorerMetric(_log_loss_scorer)
    scorer = make_scorer(given, response_method=RESPONSES.get(takes[1].name, "predict"))
    return name, ScorerMetric(lambda classes: scorer)


def _named(name: str) -> Metric:
    if name in ("log_loss", "neg_log_loss"):
        return ScorerMetric(_log_loss_scorer, 1.0 if name == "log_loss" else -1.0)
    names = get_scorer_names()
    if name in names:
        return ScorerMetric(lambda classes: get_scorer(name))
    if f"neg_{name}" in names:
        return ScorerMetric(lambda classes: get_scorer(f"neg_{name}"), -1.0)
    close = get_close_matches(name, names, n=3) or ["accuracy", "balanced_accuracy", "roc_auc"]
    raise ValueError(f"metrics: unknown metric {name!r}; did you mean {' or '.join(close)}?")


def _log_loss_scorer(classes: np.ndarray) -> Any:
    """The scorer for these classes, some of which may not have occurred yet."""
    return make_scorer(log_loss, response_method=PROBABILITIES, labels=classes)


class Recorded(ClassifierMixin, BaseEstimator):
    """A classifier that returns stored predictions; ``X`` has row numbers."""

    def __init__(self, classes: np.ndarray, rows: Predictions) -> None:
        self.classes_, self.rows = classes, rows
        self.called = set[str]()  # methods besides `predict`

    def predict(self, X: np.ndarray) -> np.ndarray:
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


class ScorerMetric:
    """A metric from a scikit-learn scorer, which ``scorer_for`` makes for given classes.

    Values are multiplied by ``sign``.
    """

    classes: np.ndarray
    scorer: Any

    def __init__(self, scorer_for: Callable[[np.ndarray], Any], sign: float = 1.0) -> None:
        self.scorer_for, self.sign = scorer_for, sign
        self.needs: set[str] = set()
        self.is_weighted = True

    def started(self, classes: np.ndarray, learner: BaseEstimator) -> ScorerMetric:
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
        new = ScorerMetric(self.scorer_for, self.sign)
        new.classes, new.scorer = classes, self.scorer_for(classes)
        recorded = Recorded(classes, rows)
        try:
            try:
                value = new._scored(recorded, np.ones(classes.size))
            except TypeError:  # the function takes no weights
                new.is_weighted = False
                value = new._scored(recorded, None)
        except AttributeError:
            raise ValueError(
                f"it needs scores or probabilities, which {type(learner).__name__} does not give."
            ) from None
        if np.ndim(value) != 0:
            raise ValueError("it must give one number.")
        new.needs = recorded.called
        return new

    def _scored(self, recorded: Recorded, weights: np.ndarray | None) -> Any:
        truth = recorded.rows.truth
        options = {} if weights is None else {"sample_weight": weights}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of classes that have not occurred yet
            return self.scorer(recorded, np.arange(truth.size), self.classes[truth], **options)

    def update(self, rows: Predictions) -> None:
        """All that is needed comes with `so_far`."""

    def so_far(self, counts: np.ndarray, rows: Predictions | None) -> float:
        """The value for rows with this confusion matrix, NaN if it is undefined."""
        weights = None
        if not self.needs:
            truth, predicted = np.nonzero(counts)
            weights, rows = counts[truth, predicted], Predictions(truth, predicted)
            if not self.is_weighted:
                if weights.sum() > MOST_SCORES:
                    return np.nan
                rows, weights = Predictions(*(np.repeat(each, weights) for each in rows[:2])), None
        if rows is None or rows.truth.size == 0:
            return np.nan
        try:
            return self.sign * float(self._scored(Recorded(self.classes, rows), weights))
        except ValueError:
            return np.nan

    recent = so_far


class UpdatedMetric:
    """A metric with river's interface: ``update(y_true, y_pred)`` and ``get()``."""

    def __init__(self, metric: Any, labels: Sequence[Any] = ()) -> None:
        self.unused, self.running, self.labels = metric, copy.deepcopy(metric), labels
        self.needs = set() if getattr(metric, "requires_labels", True) else {PROBABILITIES}

    def started(self, classes: np.ndarray, learner: BaseEstimator) -> UpdatedMetric:
        if self.needs and not hasattr(learner, PROBABILITIES):
            raise ValueError(
                f"it needs probabilities, which {type(learner).__name__} does not give."
            )
        return UpdatedMetric(self.unused, classes.tolist())

    def update(self, rows: Predictions) -> None:
        if self.needs:
            assert rows.probabilities is not None
            predicted: list[Any] = [
                dict(zip(self.labels, each, strict=True)) for each in rows.probabilities.tolist()
            ]
        else:
            predicted = [self.labels[code] for code in rows.predicted]
        for code, each in zip(rows.truth, predicted, strict=True):
            self.running.update(self.labels[code], each)

    def so_far(self, counts: np.ndarray, rows: Predictions | None) -> float:
        return float(self.running.get())

    def recent(self, counts: np.ndarray, rows: Predictions) -> float:
        alone = UpdatedMetric(self.unused, self.labels)
        alone.update(rows)
        return float(alone.running.get())


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
        keeps = any(isinstance(each, ScorerMetric) and each.needs for each in started)
        self._kept: list[Predictions] | None = [] if keeps else None
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
        self.counts += self._confusion(rows)
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

    def _confusion(self, rows: Predictions) -> np.ndarray:
        size = self.counts.shape[0]
        found = np.bincount(rows.truth * size + rows.predicted, minlength=size * size)
        return found.reshape(size, size)

    def _recent(self) -> Predictions:
        return joined(self._last).part(slice(-self.window, None))

    def add_checkpoint(self) -> None:
        if not self.metrics:
            return
        if self._kept:
            self._kept = [joined(self._kept)]
        kept, recent = self._kept[0] if self._kept else None, None
        if self._last:
            recent = self._recent()
            counts = self._confusion(recent)
        for name, metric in self.metrics.items():
            self.values[name].append(metric.so_far(self.counts, kept))
            self.recent_values[name].append(
                np.nan if recent is None else metric.recent(counts, recent)
            )


Metric = ScorerMetric | UpdatedMetric
