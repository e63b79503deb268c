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
from maxmargin.evaluate.batching import Rows, joined
from maxmargin.evaluate.drift import Drift, Watch, become
from maxmargin.evaluate.metrics import Metric, MetricCurves
from maxmargin.evaluate.predictions import Predictions, classes_by, hinge_losses
from maxmargin.evaluate.scores import Scores
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
        self.wrong: list[np.ndarray] = []
        # Whether the label of each row was outside of its prediction set, and the size of the set.
        self.sets: list[np.ndarray] = []
        self.seen, self.mistakes, self.losses = 0, 0, 0.0
        self.repeated, self.last = 0, -1  # labels equal to the previous one
        self.weighted = False
        self.checkpoints: list[tuple[float, ...]] = []
        self.waiting: Rows | None = None  # a block of rows whose labels have not arrived
        # Single rows whose labels have not arrived, and whether their predictions were wrong.
        self.queue: deque[tuple[Rows, bool]] = deque()
        self.watch = None if on_drift is None else Watch(on_drift)
        if on_drift is not None and self.classes is None:
            self.classes = labels  # needed again if the learner is reset
        self.recent: deque[Rows] = deque()  # rows that may be learned again after a drift
        self.forgotten = 0  # updates undone by resets

    def add(self, rows: Rows) -> None:
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
        elif not self._is_compiled():
            for i in range(rows.size()):
                self._add_single(rows.part(slice(i, i + 1)))
        elif self.watch is None or self.watch.pauses_suffice(self.learner()):
            self._add_block(rows, self.watch)
        else:
            self._add_watched(self.watch, rows)

    def _is_compiled(self) -> bool:
        """True if `score_then_learn` gives all that is needed.

        It gives no probabilities, and does not support drift detection with delayed labels.
        """
        if self.curves.needs_probabilities or (self.watch is not None and self.delay > 1):
            return False
        return isinstance(self.learner(), OnlineClassifier)

    def counts_alone(self) -> bool:
        """True if the loop returns all counts, which excludes the number of support vectors."""
        learner = self.learner()
        has_budget = getattr(learner, "budget", None) is not None
        return (
            self._is_compiled()
            and getattr(learner, "kernel", "linear") == "linear"
            and not has_budget
        )

    def learner(self) -> BaseEstimator:
        """The learner itself, without prediction sets."""
        return self.clf.learner() if isinstance(self.clf, ConformalClassifier) else self.clf

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
    def _add_block(self, rows: Rows, watch: Watch | None = None) -> None:
        before = self._updates()
        if self.delay == 1:
            outputs, made, sets = self._score_then_learn(rows, pauses=watch)
        else:
            late = 0 if self.waiting is None else self.waiting.size()
            both = rows if self.waiting is None else joined(self.waiting, rows)
            order, predicted = _interleaved(late, rows.size(), self.delay)
            outputs, made, sets = self._score_then_learn(both, order)
            outputs, made, sets = outputs[predicted], made[predicted], sets[predicted]
            self.waiting = both.part(slice(max(0, both.size() - self.delay), None))
        self.sets.append(sets)
        self._count_outputs(outputs, rows.y, before + made)

    def _score_then_learn(
        self, rows: Rows, order: np.ndarray | None = None, pauses: Watch | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if order is None:
            order = np.arange(rows.size(), dtype=np.int32)
        given = rows.X, rows.y, order, self._classes_to_pass(), rows.weight, pauses
        if not isinstance(self.clf, ConformalClassifier):
            return *self.clf.score_then_learn(*given), np.empty((order.size, 0))
        sets = np.empty((order.size, 2))
        return *self.clf.score_then_learn(*given, sets=sets), sets

    def _count_outputs(self, outputs: np.ndarray, y: np.ndarray, updates: np.ndarray) -> None:
        truth = inputs.class_codes(y, self.clf.classes_)
        rows = Predictions(truth, classes_by(outputs), outputs)
        self._count(rows, hinge_losses(outputs, truth), updates if self.counts_alone() else None)

    def _add_watched(self, watch: Watch, rows: Rows) -> None:
        """Like `_add_block`, up to each drift; what was learned after a drift is undone."""
        start = 0
        while start < rows.size():
            most = watch.rows_to_freeze() or (rows.size() if watch.is_frozen else ROWS_WATCHED)
            part = rows.part(slice(start, start + min(most, watch.boosted or most)))
            if watch.boosted:
                part = part._replace(weight=watch.asked.factor * part.weights())
            updates, waited = self._updates(), 0
            if watch.is_frozen:  # detection does not depend on what is learned
                checked = watch.update_frozen(part)
                if watch.has_drifted():
                    waited = watch.pass_over(part.size() - checked)
                checked += waited
                part = part.part(slice(checked)) if checked < part.size() else part
                outputs, made, sets = self._score_then_learn(part)
            else:
                before = copy.deepcopy(self.clf)
                outputs, made, sets = self._score_then_learn(part)
                wrong = classes_by(outputs) != inputs.class_codes(part.y, self.clf.classes_)
                checked = watch.update(part, wrong)
                if checked < part.size():
                    part = part.part(slice(checked))
                    become(self.clf, before)
                    outputs, made, sets = self._score_then_learn(part)
            self.sets.append(sets)
            self._count_outputs(outputs, part.y, updates + made)
            self._act_on_drift(watch, part)
            if not watch.has_drifted():
                watch.freeze(self.learner(), 0 if waited else part.size())
            start += checked

    def _act_on_drift(self, watch: Watch, rows: Rows) -> None:
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

    # ------------------------------------------------------------------------------- row by row
    def _add_single(self, row: Rows) -> None:
        while len(self.queue) >= self.delay:
            self._learn(*self.queue.popleft())
        found, loss = self._predict(row)
        self.sets.append(self._set_of(row, found.truth[0]))
        self.queue.append((row, bool(found.predicted[0] != found.truth[0])))
        if self.delay == 1:
            self._learn(*self.queue.popleft())
        self._count(found, np.array([loss]))

    def _predict(self, row: Rows) -> tuple[Predictions, float]:
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

    def _set_of(self, row: Rows, truth: int) -> np.ndarray:
        """Whether the label of a row is outside of its prediction set, and the size of the set."""
        clf, size = self.clf, len(self.codes)
        if not isinstance(clf, ConformalClassifier):
            return np.empty((1, 0))
        if not _is_fitted(clf):
            inside = clf.first_set(size)
        elif isinstance(row.X, dict):
            labels = clf.predict_set_one(row.X)
            inside = np.array([label in labels for label in self.codes])
        else:
            inside = clf.predict_set(row.X)[0]
        return np.array([[truth >= size or not inside[truth], inside.sum()]], dtype=np.float64)

    def _learn(self, row: Rows, wrong: bool) -> None:
        watch = self.watch
        if watch is not None and watch.boosted:
            row = row._replace(weight=watch.asked.factor * row.weights())
        self._partial_fit(row)
        if watch is not None:
            watch.update(row, np.array([wrong]))
            self._act_on_drift(watch, row)
            if not watch.has_drifted():
                watch.freeze(self.learner(), 1)

    def _partial_fit(self, rows: Rows) -> None:
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
        self, rows: Predictions, losses: np.ndarray, updates: np.ndarray | None = None
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
