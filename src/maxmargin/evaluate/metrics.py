"""Metrics of predictions along a stream: of all rows so far, and of recent ones.

Scorers of scikit-learn ask an estimator for predictions; here they ask `Recorded`, which returns
stored ones. A scorer that needs only classes gets each pair of true and predicted class once, with
its count as sample weight, so that no rows need to be kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import check_scoring, get_scorer, log_loss, make_scorer
from sklearn.utils.metaestimators import available_if

from maxmargin.evaluate.predictions import MOST_SCORES, Predictions, joined

SCORES, PROBABILITIES = "decision_function", "predict_proba"


def by_name(metrics: Any) -> dict[str, ScorerMetric]:
    """The metrics that a user asks for, by their names."""
    if metrics is None:
        return {}
    if isinstance(metrics, Mapping):
        return {str(name): _metric(each) for name, each in metrics.items()}
    if isinstance(metrics, str) or not isinstance(metrics, Sequence):
        metrics = [metrics]
    if unnamed := [each for each in metrics if not isinstance(each, str)]:
        raise ValueError(
            "metrics: pass a list of names of scikit-learn's scorers, or a dict that gives a name "
            f"to each scorer; got {unnamed[0]!r}."
        )
    return {name: _metric(name) for name in metrics}


def _metric(given: Any) -> ScorerMetric:
    if not isinstance(given, str) and not callable(given):
        raise ValueError(f"metrics: expected the name of a scorer or a scorer, got {given!r}.")
    try:
        scorer = get_scorer(given) if isinstance(given, str) else check_scoring(None, given)
    except ValueError as error:
        raise ValueError(f"metrics: {error}") from None
    return ScorerMetric(scorer, needs_all_classes=given == "neg_log_loss")


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
    """A metric from a scikit-learn scorer.

    With ``needs_all_classes`` it is the log loss, of classes that may not have occurred yet.
    """

    classes: np.ndarray

    def __init__(self, scorer: Any, needs_all_classes: bool = False) -> None:
        self.scorer, self.needs_all_classes = scorer, needs_all_classes
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
        new = ScorerMetric(self.scorer)
        if self.needs_all_classes:
            new.scorer = make_scorer(
                log_loss, greater_is_better=False, response_method=PROBABILITIES, labels=classes
            )
        new.classes = classes
        recorded = Recorded(classes, rows)
        try:
            try:
                value = new._scored(recorded, np.ones(classes.size))
            except TypeError:  # it takes no weights
                new.is_weighted = False
                value = new._scored(recorded, None)
        except AttributeError:
            raise ValueError(
                f"it needs scores or probabilities, which {type(learner).__name__} does not give."
            ) from None
        except TypeError as error:
            raise ValueError(f"it is no scorer of estimator, X and y: {error}.") from None
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

    def value(self, counts: np.ndarray, rows: Predictions | None) -> float:
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
            return float(self._scored(Recorded(self.classes, rows), weights))
        except ValueError:
            return np.nan


class MetricCurves:
    """The metrics of one learner at each checkpoint, by name.

    Recent values are for the last ``window`` rows. If a metric needs more than the confusion
    matrix, at most ``most`` rows are kept.
    """

    def __init__(
        self,
        metrics: dict[str, ScorerMetric],
        classes: np.ndarray,
        learner: BaseEstimator,
        window: int,
        most: int,
    ) -> None:
        self.metrics: dict[str, ScorerMetric] = {}
        for name, metric in metrics.items():
            try:
                self.metrics[name] = metric.started(classes, learner)
            except ValueError as error:
                raise ValueError(f"metrics: {name} for {type(learner).__name__}: {error}") from None
        self.window, self.most = window, most
        started = self.metrics.values()
        self.needs_probabilities = any(PROBABILITIES in metric.needs for metric in started)
        self.counts = np.zeros((classes.size, classes.size), dtype=np.int64)
        keeps = any(each.needs for each in started)
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
            self.values[name].append(metric.value(self.counts, kept))
            self.recent_values[name].append(
                np.nan if recent is None else metric.value(counts, recent)
            )
