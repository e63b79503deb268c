"""Progressive evaluation of one learner, which predicts each row before learning it.

The compiled loops record outputs before they learn, so evaluation costs hardly more than learning.
"""

from __future__ import annotations

import copy
from collections import deque
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from maxmargin.algorithms.conformalclassifier import ConformalClassifier
from maxmargin.estimator import OnlineClassifier
from maxmargin.evaluate.batching import StreamRows, joined
from maxmargin.evaluate.drift import Drift, Watch, become
from maxmargin.evaluate.metrics import Metric, MetricCurves
from maxmargin.evaluate.predictions import Predictions, Scores, classes_by, hinge_losses
from maxmargin.training import inputs

# Rows learned at a time if a drift may require learning some of them again.
ROWS_WATCHED = 2048
MISSING_CLASSES = "classes must be passed with an iterable, unless the learner knows them."


class Evaluator:
    """Evaluates one learner on a stream; see `progressive`. At most ``most_scores`` are kept."""

    def __init__(
        self,
        clf: BaseEstimator,
        step: int,
        delay: int,
        classes: Any,
        metrics: dict[str, Metric],
        window: int,
        most_scores: int,
        on_drift: Drift | None = None,
    ) -> None:
        self.clf, self.step, self.delay, self.classes = clf, step, max(1, delay), classes
        labels = self._all_classes()
        if metrics and labels is None:
            raise ValueError(MISSING_CLASSES)
        scored = np.empty(0) if labels is None else labels
        self.scores = Scores(scored, most_scores)
        self.curves = MetricCurves(metrics, scored, clf, window, most_scores)
        self.codes = {label: code for code, label in enumerate(scored.tolist())}
        self.wrong = [np.empty(0, dtype=bool)]
        # Whether the label of each row was outside of its prediction set, and the size of the set.
        self.has_sets = isinstance(clf, ConformalClassifier)
        self.sets = [np.empty((0, 2 if self.has_sets else 0))]
        self.seen, self.mistakes, self.losses = 0, 0, 0.0
        self.repeated, self.last = 0, -1  # labels equal to the previous one
        self.weighted = False
        self.checkpoints: list[tuple[float, ...]] = []
        self.waiting: StreamRows | None = None  # a block of rows whose labels have not arrived
        # Single rows whose labels have not arrived, and whether their predictions were wrong.
        self.queue: deque[tuple[StreamRows, bool]] = deque()
        self.watch = None if on_drift is None else Watch(on_drift)
        if on_drift is not None and self.classes is None:
            self.classes = labels  # needed again if the learner is reset
        self.recent: deque[StreamRows] = deque()  # rows that may be learned again after a drift
        self.forgotten = 0  # updates undone by resets
        # `score_then_learn` gives no probabilities, and no drifts with delayed labels.
        has_late_drifts = self.watch is not None and self.delay > 1
        self.is_compiled = isinstance(self.learner(), OnlineClassifier) and not (
            self.curves.needs_probabilities or has_late_drifts
        )

    def counts_alone(self) -> bool:
        """True if the loop returns all counts, which excludes the number of support vectors."""
        learner = self.learner()
        has_budget = getattr(learner, "budget", None) is not None
        is_linear = getattr(learner, "kernel", "linear") == "linear"
        return self.is_compiled and is_linear and not has_budget

    def learner(self) -> BaseEstimator:
        """The learner itself, without prediction sets."""
        return self.clf.learner() if isinstance(self.clf, ConformalClassifier) else self.clf

    def add(self, rows: StreamRows) -> None:
        """Predict the rows, and learn from rows whose labels arrive."""
        if self._all_classes() is None:
            raise ValueError(MISSING_CLASSES)
        self.weighted |= rows.weight is not None
        if isinstance(rows.X, dict):
            if not hasattr(self.clf, "learn_one"):
                raise TypeError(f"{type(self.clf).__name__} has no learn_one: it takes no dicts.")
            if name := self.curves.name_beyond_classes():
                raise ValueError(f"metrics: {name} needs more than the predicted class of a dict.")
            self._add_single(rows)
        elif not self.is_compiled:
            for i in range(rows.size()):
                self._add_single(rows.part(slice(i, i + 1)))
        elif self.watch is None:
            self._add_block(rows)
        else:
            self._add_watched(self.watch, rows)

    def finish(self) -> None:
        """Add the last checkpoint, then learn from the remaining rows."""
        if not self.checkpoints or self.checkpoints[-1][0] != self.seen:
            self._add_checkpoint()
            self.curves.add_checkpoint()
        if self.waiting is not None:
            self._partial_fit(self.waiting)
        while self.queue:
            self._learn(*self.queue.popleft())

    # ------------------------------------------------------------------------ in compiled blocks
    def _add_block(self, rows: StreamRows) -> None:
        before = self._updates()
        if self.delay == 1:
            found = self._score_then_learn(rows)
        else:
            late = 0 if self.waiting is None else self.waiting.size()
            both = rows if self.waiting is None else joined(self.waiting, rows)
            order, predicted = _interleaved(late, rows.size(), self.delay)
            found = tuple(each[predicted] for each in self._score_then_learn(both, order))
            self.waiting = both.part(slice(max(0, both.size() - self.delay), None))
        self._count_outputs(rows.y, before, *found)

    def _score_then_learn(
        self, rows: StreamRows, order: np.ndarray | None = None
    ) -> tuple[np.ndarray, ...]:
        """The outputs before learning, the updates after each row, and about prediction sets."""
        if order is None:
            order = np.arange(rows.size(), dtype=np.int32)
        given = rows.X, rows.y, order, self._classes_to_pass(), rows.weight
        sets = np.empty((order.size, self.sets[0].shape[1]))
        options = {"sets": sets} if self.has_sets else {}
        return *self.clf.score_then_learn(*given, **options), sets

    def _count_outputs(
        self, y: np.ndarray, before: int, outputs: np.ndarray, made: np.ndarray, sets: np.ndarray
    ) -> None:
        truth = inputs.class_codes(y, self.clf.classes_)
        rows, losses = (
            Predictions(truth, classes_by(outputs), outputs),
            hinge_losses(outputs, truth),
        )
        self._count(rows, losses, sets, before + made if self.counts_alone() else None)

    def _add_watched(self, watch: Watch, rows: StreamRows) -> None:
        """Like `_add_block`, up to each drift; what was learned after a drift is undone."""
        start = 0
        while start < rows.size():
            most = watch.rows_at_once(rows.size() if watch.is_fixed else ROWS_WATCHED)
            part = rows.part(slice(start, start + most))
            learned, updates = watch.weighted(part), self._updates()
            if watch.is_fixed:  # detection does not depend on what is learned
                checked = watch.update_by_scores(part)
                found = self._score_then_learn(learned.part(slice(checked)))
            else:
                before = copy.deepcopy(self.clf)
                found = self._score_then_learn(learned)
                wrong = classes_by(found[0]) != inputs.class_codes(part.y, self.clf.classes_)
                checked = watch.update(part, wrong)
                if checked < part.size():
                    become(self.clf, before)
                    found = self._score_then_learn(learned.part(slice(checked)))
            self._count_outputs(part.y[:checked], updates, *found)
            self._act_on_drift(watch, learned.part(slice(checked)))
            start += checked

    def _act_on_drift(self, watch: Watch, rows: StreamRows) -> None:
        """Act on a drift detected at the last of these rows, which have been learned."""
        if most := watch.keeps_rows():
            self.recent.append(rows)
            while sum(each.size() for each in self.recent) - self.recent[0].size() >= most:
                self.recent.popleft()
        if watch.has_drifted():
            before = self._updates()
            watch.act(self.clf)
            surplus = max(0, sum(each.size() for each in self.recent) - most)
            for each in self.recent:
                self._partial_fit(each.part(slice(surplus, None)) if surplus else each)
                surplus = 0
            self.forgotten += max(0, before - self._updates())
        watch.copy_when_due(self.learner(), rows.size())

    # ------------------------------------------------------------------------------- row by row
    def _add_single(self, row: StreamRows) -> None:
        while len(self.queue) >= self.delay:
            self._learn(*self.queue.popleft())
        found, loss = self._predict(row)
        sets = self._set_of(row, found.truth[0])
        self.queue.append((row, bool(found.predicted[0] != found.truth[0])))
        if self.delay == 1:
            self._learn(*self.queue.popleft())
        self._count(found, np.array([loss]), sets)

    def _predict(self, row: StreamRows) -> tuple[Predictions, float]:
        size = len(self.codes)
        truth = np.array([self.codes.get(_single(row.y), size)])
        if not _is_fitted(self.clf):
            zeros = np.zeros((1, 1 if size == 2 else size))
            even = np.full((1, size), 1.0 / size)
            return Predictions(truth, classes_by(zeros), zeros, even), 1.0
        if isinstance(row.X, dict):
            code = self.codes[self.clf.predict_one(row.X)]
            return Predictions(truth, np.array([code])), np.nan
        outputs, probabilities, loss = None, None, np.nan
        if hasattr(self.clf, "decision_function"):
            outputs = self.clf.decision_function(row.X).reshape(1, -1)
            loss = float(hinge_losses(outputs, inputs.class_codes(row.y, self.clf.classes_))[0])
        if self.curves.needs_probabilities:
            probabilities = self.clf.predict_proba(row.X)
        code = self.codes[_single(self.clf.predict(row.X))]
        return Predictions(truth, np.array([code]), outputs, probabilities), loss

    def _set_of(self, row: StreamRows, truth: int) -> np.ndarray:
        """Whether the label of a row is outside of its prediction set, and the size of the set."""
        clf, size = self.clf, len(self.codes)
        if not self.has_sets:
            return np.empty((1, 0))
        if not _is_fitted(clf):
            inside = clf.first_set(size)
        elif isinstance(row.X, dict):
            labels = clf.predict_set_one(row.X)
            inside = np.array([label in labels for label in self.codes])
        else:
            inside = clf.predict_set(row.X)[0]
        return np.array([[truth >= size or not inside[truth], inside.sum()]], dtype=np.float64)

    def _learn(self, row: StreamRows, wrong: bool) -> None:
        watch = self.watch
        row = row if watch is None else watch.weighted(row)
        self._partial_fit(row)
        if watch is not None:
            watch.update(row, np.array([wrong]))
            self._act_on_drift(watch, row)

    def _partial_fit(self, rows: StreamRows) -> None:
        if rows.weight is not None and not rows.weight.any():
            return
        options: dict[str, Any] = {"classes": self._classes_to_pass()}
        if isinstance(rows.X, dict):
            if rows.weight is not None:
                options["w"] = float(rows.weight[0])
            self.clf.learn_one(rows.X, rows.y, **options)
        else:
            if rows.weight is not None:
                options["sample_weight"] = rows.weight
            self.clf.partial_fit(rows.X, rows.y, **options)

    # ------------------------------------------------------------------------------------ counts
    def _count(
        self,
        rows: Predictions,
        losses: np.ndarray,
        sets: np.ndarray,
        updates: np.ndarray | None = None,
    ) -> None:
        """Count some predictions, with a checkpoint after each ``step`` rows."""
        wrong, size = rows.predicted != rows.truth, rows.truth.size
        stops = range(self.step - self.seen % self.step, size + 1, self.step)
        if updates is not None:
            mistakes, total = np.cumsum(wrong), np.cumsum(losses)
            for stop in stops:
                sums = self.mistakes + mistakes[stop - 1], self.losses + total[stop - 1]
                self.checkpoints.append((self.seen + stop, *sums, updates[stop - 1], 0))
        self.curves.add(rows, stops)
        outputs = None if rows.outputs is None else rows.outputs[:, 0]
        self.scores.count(rows.truth, rows.predicted, outputs)
        if size:
            same = rows.truth[1:] == rows.truth[:-1]
            self.repeated += int(rows.truth[0] == self.last) + int(same.sum())
            self.last = int(rows.truth[-1])
        self.wrong.append(wrong)
        self.sets.append(sets)
        self.seen += size
        self.mistakes += int(wrong.sum())
        self.losses += float(losses.sum())
        if updates is None and stops:  # blocks end at checkpoints
            self._add_checkpoint()

    def _add_checkpoint(self) -> None:
        supports = len(getattr(self.learner(), "support_", ()))
        counts = self.seen, self.mistakes, self.losses, self._updates(), supports
        self.checkpoints.append(counts)

    def _updates(self) -> int:
        """The updates so far, including those undone by resets."""
        return self.forgotten + getattr(self.learner(), "n_updates_", 0)

    def _all_classes(self) -> Any:
        """The classes of the learner, or those that were passed, or None."""
        labels = getattr(self.clf, "classes_", None)
        return np.unique(self.classes) if labels is None and self.classes is not None else labels

    def _classes_to_pass(self) -> Any:
        return None if _is_fitted(self.clf) else self.classes


def _interleaved(late: int, new: int, delay: int) -> tuple[np.ndarray, np.ndarray]:
    """The order that learns row ``i - delay`` before it predicts row i, of ``late + new`` rows.

    Predicted rows are entries ``-1 - i``; their places in the order are returned as well.
    """
    predicted = late + np.arange(new)
    learned = predicted - delay
    order = np.column_stack([learned, -1 - predicted])
    used = np.column_stack([learned >= 0, np.ones(new, dtype=bool)])
    places = np.cumsum(used.ravel()).reshape(used.shape)[:, 1] - 1
    return order[used].astype(np.int32), places


def _single(y: Any) -> Any:
    return y[0] if isinstance(y, np.ndarray) else y


def _is_fitted(clf: BaseEstimator) -> bool:
    try:
        check_is_fitted(clf)
    except NotFittedError:
        return False
    return True
