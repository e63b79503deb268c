"""Progressive evaluation on a stream: predict each row, then learn it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, overload, runtime_checkable

import numpy as np

from maxmargin import streams
from maxmargin.algorithms.labelqueries import LabelQueries
from maxmargin.certificates.error_bound import ErrorBound, error_bound
from maxmargin.evaluate.batching import classes_of, labelled, pieces
from maxmargin.evaluate.drift import Detector, Drift, as_drift
from maxmargin.evaluate.evaluator import Evaluator
from maxmargin.evaluate.predictions import MOST_SCORES, Scores
from maxmargin.streams import Source
from maxmargin.training.inputs import check_none_is_missing

# Default number of rows between checkpoints.
STEP = 1000
# Rows per call if the compiled loop returns all counts.
ROWS_PER_CALL = 2**15


@dataclass(frozen=True, eq=False, repr=False)
class Progress:
    """What a learner predicted on its way along a stream.

    Attributes
    ----------
    name : str
        Of the learner.
    trials : ndarray of shape (n_checkpoints,)
        Rows predicted up to each checkpoint.
    losses, updates, supports : ndarrays of shape (n_checkpoints,)
        Up to there: the sum of the hinge losses ``max(0, 1 - y f(x))`` (of several classes, with
        the lead over the highest rival in place of ``y f(x)``; NaN if the learner has no outputs);
        updates made; and rows that a kernel learner keeps.
    classes : ndarray
        All labels, in order.
    truth, predicted : ndarrays of int, of shape (n_samples,)
        The labels of the rows and the predictions, as numbers of ``classes``; see `y_true` and
        `y_pred`.
    y_score : ndarray of shape (n_samples,), or None
        For two classes, the outputs of `decision_function`: of up to ten million rows, counted over
        all learners.
    weighted : bool
        Did rows have weights? They count where rows are learned; predictions count once each.
    drifts : ndarray of int
        After how many rows, with their labels, a drift was detected.
    covered : ndarray of bool, of shape (n_samples,), or None
        Of a `ConformalClassifier`: which rows had their label in the prediction set.
    set_sizes : ndarray of int, of shape (n_samples,), or None
        The numbers of classes in these sets.
    asked : ndarray of bool, of shape (n_samples,), or None
        Of a `LabelQueries`: which rows were asked for their label.
    """

    name: str
    trials: np.ndarray
    losses: np.ndarray
    updates: np.ndarray
    supports: np.ndarray
    classes: np.ndarray
    truth: np.ndarray
    predicted: np.ndarray
    y_score: np.ndarray | None
    weighted: bool
    drifts: np.ndarray
    covered: np.ndarray | None = None
    set_sizes: np.ndarray | None = None
    asked: np.ndarray | None = None

    def __repr__(self) -> str:
        return f"<{self.name}: {self.wrong.size:,} rows, {100.0 * self.accuracy:.2f} % accuracy>"

    @property
    def y_true(self) -> np.ndarray:
        """The labels, row by row."""
        return self.classes[self.truth]

    @property
    def y_pred(self) -> np.ndarray:
        """The predictions, row by row."""
        return self.classes[self.predicted]

    @property
    def wrong(self) -> np.ndarray:
        """Which predictions were wrong, row by row."""
        return self.truth != self.predicted

    @property
    def mistakes(self) -> np.ndarray:
        """The number of wrong predictions up to each checkpoint."""
        return np.concatenate([[0], np.cumsum(self.wrong)])[self.trials]

    @property
    def accuracy(self) -> float:
        """The share of right predictions."""
        return 1.0 - float(self.wrong.mean()) if self.wrong.size else np.nan

    def error_bound(self, delta: float = 0.05) -> ErrorBound:
        """A proved upper bound on the expected error of the predictions, under any drift.

        With probability at least ``1 - delta`` the mean probability of a wrong prediction, each
        given all rows before it, is at most the bound, whatever the stream; and this holds for
        every number of rows at once. See `certificates.error_bound`.

        Examples
        --------
        >>> from maxmargin import AutoMargin
        >>> from maxmargin.datasets import make_switching
        >>> from maxmargin.evaluate import progressive
        >>> X, y = make_switching(2000, random_state=0)
        >>> print(progressive(AutoMargin(), X, y).error_bound())
        error 1.30 % of 2,000 rows, expected error at most 2.27 % (with probability 95 %)
        """
        return error_bound(int(self.wrong.sum()), self.wrong.size, delta=delta)

    @property
    def coverages(self) -> np.ndarray:
        """The share of rows up to each checkpoint whose label was in the prediction set."""
        return np.cumsum(self._sets()[0])[self.trials - 1] / self.trials

    @property
    def mean_set_sizes(self) -> np.ndarray:
        """The mean number of classes in the prediction sets up to each checkpoint."""
        return np.cumsum(self._sets()[1])[self.trials - 1] / self.trials

    @property
    def answered(self) -> float:
        """The share of rows whose prediction set has exactly one class: the others need a person"""
        return float((self._sets()[1] == 1).mean())

    @property
    def answered_accuracy(self) -> float:
        """Accuracy on rows whose set has exactly one class; NaN without such rows."""
        covered, sizes = self._sets()
        return float(covered[sizes == 1].mean()) if (sizes == 1).any() else np.nan

    def _sets(self) -> tuple[np.ndarray, np.ndarray]:
        if self.covered is None or self.set_sizes is None:
            raise AttributeError(f"{self.name} had no prediction sets: use ConformalClassifier.")
        return self.covered, self.set_sizes

    @property
    def label_shares(self) -> np.ndarray:
        """The share of rows up to each checkpoint whose label was asked for."""
        if self.asked is None:
            raise AttributeError(f"{self.name} learned from all labels: use LabelQueries.")
        return np.cumsum(self.asked)[self.trials - 1] / self.trials

    @property
    def confusion(self) -> np.ndarray:
        """Rows by their class, and in columns by the class that was predicted."""
        return self._counted().counts[:-1]

    def _counted(self) -> Scores:
        scores = Scores(self.classes)
        scores.add(self.y_true, self.y_pred, self.y_score)
        return scores

    def report(self) -> dict[str, Any]:
        """All predictions together, beside what needs no learning; in JSON's types.

        Returns
        -------
        dict
            ``rows``, ``mistakes``, ``accuracy``; ``error_bound``, that of `error_bound`;
            ``largest_class``, the share of the largest class,
            and ``repeating``, the accuracy of repeating the last label;
            ``balanced_accuracy``; ``auc`` for two classes; ``classes``, with ``recall`` and
            ``precision`` of each; ``confusion``; ``weighted``. Of a `ConformalClassifier`
            also ``prediction_sets``, with their ``coverage``, ``mean_size``, the share ``answered``
            and ``answered_accuracy``; of a `LabelQueries` also ``label_share``.

        Examples
        --------
        >>> from maxmargin import Perceptron
        >>> from maxmargin.evaluate import progressive
        >>> report = progressive(Perceptron(), [[1.0], [2.0], [-1.0]], [1, 1, 0]).report()
        >>> report["mistakes"], report["repeating"], report["confusion"]
        (1, 0.3333333333333333, [[0, 1], [0, 2]])
        """
        found, rows = self._counted().report(), self.truth.size
        repeated = np.count_nonzero(self.truth[1:] == self.truth[:-1])
        found["repeating"] = float(repeated / rows) if rows else np.nan
        found["weighted"] = self.weighted
        if self.covered is not None and self.covered.size:
            found["prediction_sets"] = {
                "coverage": float(self.coverages[-1]),
                "mean_size": float(self.mean_set_sizes[-1]),
                "answered": self.answered,
                "answered_accuracy": self.answered_accuracy,
            }
        if self.asked is not None and self.asked.size:
            found["label_share"] = float(self.label_shares[-1])
        return found

    def recent_accuracy(self, window: int = STEP) -> np.ndarray:
        """The share of right predictions among the last ``window`` rows, at each checkpoint."""
        if window < 1:
            raise ValueError(f"window must be at least 1, got {window!r}.")
        total = np.concatenate([[0], np.cumsum(self.wrong)])
        first = np.maximum(self.trials - window, 0)
        rows = np.where(self.trials > first, self.trials - first, np.nan)
        return 1.0 - (total[self.trials] - total[first]) / rows


@runtime_checkable
class StreamLearner(Protocol):
    """What `progressive` needs of a learner."""

    def predict(self, X: Any, /) -> Any: ...

    def partial_fit(self, X: Any, y: Any, /) -> Any: ...


@overload
def progressive(
    clf: StreamLearner,
    stream: Any,
    y: Any = None,
    *,
    step: int = STEP,
    delay: int = 0,
    classes: Any = None,
    sample_weight: Any = None,
    on_drift: str | Detector | Drift | None = None,
    labels: float | None = None,
) -> Progress: ...


@overload
def progressive(
    clf: Sequence[StreamLearner],
    stream: Any,
    y: Any = None,
    *,
    step: int = STEP,
    delay: int = 0,
    classes: Any = None,
    sample_weight: Any = None,
    on_drift: str | Detector | Drift | None = None,
    labels: float | None = None,
) -> list[Progress]: ...


def progressive(
    clf: StreamLearner | Sequence[StreamLearner],
    stream: Any,
    y: Any = None,
    *,
    step: int = STEP,
    delay: int = 0,
    classes: Any = None,
    sample_weight: Any = None,
    on_drift: str | Detector | Drift | None = None,
    labels: float | None = None,
) -> Progress | list[Progress]:
    """Evaluate learners on a stream: predict each row, then learn from it.

    The mistakes are those of ``clf.predict`` followed by ``clf.partial_fit``, row by row. A learner
    without any row yet has the score 0 for every class.

    Parameters
    ----------
    clf : estimator or list of estimators
        Any estimators with `predict` and `partial_fit`. They are trained in place, from their
        present state; learners of this library run in compiled blocks. Each row is read once for
        all learners.
    stream : array or CSR matrix of shape (n_samples, n_features), source, path, or iterable
        Sources come from `streams.open`, which also opens paths. An iterable yields blocks (X, y),
        or pairs of a dict and its label, or triples with weights.
    y : array of shape (n_samples,), default=None
        The labels, if ``stream`` is a matrix.
    step : int, default=1000
        Rows between two records.
    delay : int, default=0
        Delay of labels: row i is learned before row ``i + delay`` is predicted. (0 and 1 are the
        same, as in river.)
    classes : array, default=None
        All possible labels; required for iterables, unless the learner knows them.
    sample_weight : array of shape (n_samples,), default=None
        Sample weights for learning, if ``stream`` is a matrix. Each prediction counts once,
        whatever its weight; a row of weight 0 is predicted, but not learned.
    on_drift : "alarm", drift detector or Drift, default=None
        With "alarm", drifts are reported with a bounded probability of a false alarm, by a
        `DriftAlarm` on the scores of fixed copies of the learner; the learner is not changed. A
        detector, such as one of river's, is updated with 1 for each misclassified row and 0 for the
        others; when it detects a drift, the learner is reset. A `Drift` offers other actions.
        Labels must come without delay.
    labels : float, default=None
        The share of rows whose labels are asked for: `LabelQueries` around the learners, which then
        stay as they are, with ``budget=labels`` and ``random_state=0``. Predictions are compared
        with all labels.

    Examples
    --------
    >>> from maxmargin import NORMA
    >>> from maxmargin.datasets import make_switching
    >>> from maxmargin.evaluate import progressive
    >>> X, y = make_switching(2000, random_state=0)
    >>> clf = NORMA(kernel="rbf", gamma=2.0, rate=1.0, decay=0.03, margin=0.7, fit_intercept=False)
    >>> progress = progressive(clf, X, y)
    >>> progress.accuracy > 0.98
    True
    >>> from sklearn.metrics import roc_auc_score
    >>> roc_auc_score(progress.y_true[-1000:], progress.y_score[-1000:]) > 0.99
    True

    With a tenth of the labels, those near the margin:

    >>> from maxmargin import AutoMargin
    >>> progress = progressive(AutoMargin(), X, y, labels=0.1)
    >>> progress.accuracy > 0.9, bool(progress.label_shares[-1] < 0.13)
    (True, True)
    """
    for name, value, least in (("step", step, 1), ("delay", delay, 0)):
        if not isinstance(value, (int, np.integer)) or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    learners: Sequence[Any] = clf if isinstance(clf, Sequence) else [clf]
    for one in learners:
        check_learner(one)
    if labels is not None:
        learners = [LabelQueries(one, budget=labels, random_state=0) for one in learners]
    for one in learners:
        if isinstance(one, LabelQueries):
            one.check_parameters()
            if on_drift is not None:
                raise ValueError("on_drift needs all labels, and LabelQueries has a part of them.")
    if isinstance(stream, str | os.PathLike):
        stream = streams.open(stream, y)
    if isinstance(stream, Source):
        found, y = classes_of(stream), None
        classes = found if classes is None else classes
        stream = labelled(stream.blocks(), stream.name)
    elif y is not None and classes is None:
        try:
            classes = np.unique(y)
        except TypeError:
            check_none_is_missing(np.asarray(y, dtype=object))
            raise
    most = MOST_SCORES // max(1, len(learners))
    drift = on_drift if on_drift is None or isinstance(on_drift, Drift) else as_drift(on_drift)
    if drift is not None and delay > 1:
        raise ValueError("on_drift needs labels without delay: pass delay=0.")
    evaluators = [Evaluator(one, step, delay, classes, most, drift) for one in learners]
    counts_alone = all(each.counts_alone() for each in evaluators)
    rows_per_piece = step * (-(-ROWS_PER_CALL // step) if counts_alone else 1)
    for rows in pieces(stream, y, sample_weight, rows_per_piece, step):
        for each in evaluators:
            each.add(rows)
    reports = [_progress(each) for each in evaluators]
    return reports if isinstance(clf, Sequence) else reports[0]


def check_learner(clf: Any) -> None:
    name = clf.__name__ if isinstance(clf, type) else type(clf).__name__
    if isinstance(clf, type) and hasattr(clf, "partial_fit"):
        raise TypeError(f"clf must be an estimator, got the class {name}; pass {name}().")
    if not isinstance(clf, StreamLearner):
        raise TypeError(
            f"clf must have predict and partial_fit; {name} has not both. For streams use "
            "AutoMargin, for example."
        )


def _progress(evaluator: Evaluator) -> Progress:
    evaluator.finish()
    trials, losses, updates, supports = np.array(evaluator.checkpoints).T
    watch, notes, scores = evaluator.watch, np.concatenate(evaluator.notes), evaluator.scores
    return Progress(
        name=type(evaluator.learner()).__name__,
        trials=trials.astype(np.int64),
        losses=losses,
        updates=updates.astype(np.int64),
        supports=supports.astype(np.int64),
        classes=evaluator.labels,
        truth=np.concatenate(evaluator.truth),
        predicted=np.concatenate(evaluator.predicted),
        y_score=np.concatenate(scores) if scores else None,
        weighted=evaluator.weighted,
        drifts=np.array(watch.drifts if watch else [], dtype=np.int64),
        covered=notes[:, 0] == 0.0 if evaluator.has_sets else None,
        set_sizes=notes[:, 1].astype(np.int64) if evaluator.has_sets else None,
        asked=notes[:, 0] > 0.0 if evaluator.asks else None,
    )
