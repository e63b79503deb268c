"""Progressive evaluation of one learner, which predicts each row before learning it.

The compiled loops record outputs before they learn, so evaluation costs hardly more than learning.
"""

from __future__ import annotations

import copy
from collections import deque
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from maxmargin.algorithms.conformalclassifier import ConformalClassifier
from maxmargin.algorithms.labelqueries import LabelQueries
from maxmargin.estimator import OnlineClassifier
from maxmargin.estimator.wrapping_learner import WrappingLearner
from maxmargin.evaluate.batching import StreamRows, joined_rows
from maxmargin.evaluate.drift import Drift, Watch, become
from maxmargin.evaluate.predictions import classes_by, hinge_losses
from maxmargin.training import inputs

# Rows learned at a time with a detector: what was learned after a drift is undone.
ROWS_WATCHED = 2048
MISSING_CLASSES = "classes must be passed with an iterable, unless the learner knows them."


class Scored(NamedTuple):
    """Predictions for rows before they were learned.

    ``truth`` and ``predicted`` are class codes, and ``scores`` are the outputs of two classes.
    ``notes`` are those of a wrapper: whether the label of a row was outside of its prediction set,
    and the size of the set; or whether the label was asked for, and the probability of that.
    ``updates`` has the updates after each row; None if only their number in the end is known.
    """

    truth: np.ndarray
    predicted: np.ndarray
    scores: np.ndarray | None
    losses: np.ndarray
    notes: np.ndarray
    updates: np.ndarray | None = None


class Evaluator:
    """Evaluates one learner on a stream; see `progressive`. At most ``most_scores`` are kept."""

    def __init__(
        self,
        clf: BaseEstimator,
        step: int,
        delay: int,
        classes: Any,
        most_scores: int,
        on_drift: Drift | None = None,
    ) -> None:
        self.clf, self.step, self.delay, self.classes = clf, step, max(1, delay), classes
        labels = self._all_classes()
        self.labels = np.empty(0) if labels is None else labels
        self.codes = {label: code for code, label in enumerate(self.labels.tolist())}
        self.code = np.min_scalar_type(self.labels.size)
        self.truth = [np.empty(0, dtype=self.code)]
        self.predicted = [np.empty(0, dtype=self.code)]
        # Of two classes, as long as there are not too many.
        self.scores: list[np.ndarray] | None = [] if self.labels.size == 2 else None
        self.most_scores = most_scores
        self.has_sets = isinstance(clf, ConformalClassifier)
        self.asks = isinstance(clf, LabelQueries)
        self.notes = [np.empty((0, 2 if self.has_sets or self.asks else 0))]
        self.asked = deque[bool]()  # about rows whose labels have not arrived
        self.seen, self.losses = 0, 0.0
        self.weighted = False
        self.checkpoints: list[tuple[float, ...]] = []  # rows, losses, updates and supports
        self.waiting: StreamRows | None = None  # rows whose labels have not arrived
        self.watch = None if on_drift is None else Watch(on_drift)
        if on_drift is not None and self.classes is None:
            self.classes = labels  # needed again if the learner is reset
        self.forgotten = 0  # updates undone by resets
        self.is_compiled = isinstance(self.learner(), OnlineClassifier)

    def counts_alone(self) -> bool:
        """True if the loop returns all counts, which excludes the number of support vectors."""
        learner = self.learner()
        has_budget = getattr(learner, "budget", None) is not None
        is_linear = getattr(learner, "kernel", "linear") == "linear"
        return self.is_compiled and is_linear and not has_budget and not self._asks_early()

    def learner(self) -> BaseEstimator:
        """The learner itself, without a wrapper."""
        return self.clf.learner() if isinstance(self.clf, WrappingLearner) else self.clf

    def add(self, rows: StreamRows) -> None:
        """Predict the rows, and learn from rows whose labels arrive."""
        if self._all_classes() is None:
            raise ValueError(MISSING_CLASSES)
        self.weighted |= rows.weight is not None
        if isinstance(rows.X, list) and not hasattr(self.clf, "learn_one"):
            raise TypeError(f"{type(self.clf).__name__} has no learn_one: it takes no dicts.")
        if self.watch is not None:
            self._add_watched(self.watch, rows)
            return
        late = 0 if self.waiting is None else self.waiting.size()
        both = rows if self.waiting is None else joined_rows(self.waiting, rows)
        found = self._score_then_learn(both, *_interleaved(late, rows.size(), self.delay))
        if self.delay > 1:
            self.waiting = both.part(slice(max(0, both.size() - self.delay), None))
        self._count(found)

    def finish(self) -> None:
        """Add the last checkpoint, then learn from the remaining rows."""
        if not self.checkpoints or self.checkpoints[-1][0] != self.seen:
            self._add_checkpoint()
        if self.waiting is not None:
            rows, most = self.waiting, self.waiting.size() if self._in_blocks(self.waiting) else 1
            for start in range(0, rows.size(), most):
                self._partial_fit(rows.part(slice(start, start + most)))

    # ---------------------------------------------------------------------------- predict and learn
    def _score_then_learn(self, rows: StreamRows, order: np.ndarray, places: np.ndarray) -> Scored:
        """Predict and learn in this order; predictions are those at the given places of it."""
        if not self._in_blocks(rows):
            return self._row_by_row(rows, order, places)
        before, notes = self._updates(), np.zeros((order.size, self.notes[0].shape[1]))
        options = {"sets": notes} if self.has_sets else {"queries": notes} if self.asks else {}
        outputs, made = self.clf.score_then_learn(
            rows.X, rows.y, order, self._classes_to_pass(), rows.weight, **options
        )
        outputs = outputs[places]
        truth = inputs.class_codes(rows.y[rows.size() - places.size :], self.clf.classes_)
        return Scored(
            truth,
            classes_by(outputs),
            outputs[:, 0],
            hinge_losses(outputs, truth),
            notes[places],
            before + made[places] if self.counts_alone() else None,
        )

    def _in_blocks(self, rows: StreamRows) -> bool:
        return self.is_compiled and not isinstance(rows.X, list) and not self._asks_early()

    def _asks_early(self) -> bool:
        """True if labels are asked for some rows before they come."""
        return self.asks and self.delay > 1

    def _row_by_row(self, rows: StreamRows, order: np.ndarray, places: np.ndarray) -> Scored:
        found = []
        is_predicted = np.isin(np.arange(order.size), places)
        for entry, predict in zip(order.tolist(), is_predicted.tolist(), strict=True):
            number = entry if entry >= 0 else -1 - entry
            row = rows.part(slice(number, number + 1))
            if predict:
                found.append(self._predict(row))
            if entry >= 0:
                self._partial_fit(row)
        truth, predicted, scores, losses, notes = zip(*found, strict=True)
        return Scored(
            np.array(truth),
            np.array(predicted),
            None if None in scores else np.array(scores),
            np.array(losses),
            np.concatenate(notes),
        )

    def _add_watched(self, watch: Watch, rows: StreamRows) -> None:
        """Predict and learn up to each drift; what was learned after a drift is undone."""
        start = 0
        while start < rows.size():
            most = ROWS_WATCHED if self._in_blocks(rows) else 1
            if watch.is_fixed:
                most = watch.rows_to_copy() or rows.size()
            part = rows.part(slice(start, start + most))
            if watch.is_fixed:  # detection does not depend on what is learned
                checked = watch.update_by_scores(part)
                found = self._in_order(part.part(slice(checked)))
            else:
                before = copy.deepcopy(self.clf) if part.size() > 1 else None
                found = self._in_order(part)
                checked = watch.update(found.predicted != found.truth)
                if checked < part.size():
                    become(self.clf, before)
                    found = self._in_order(part.part(slice(checked)))
            self._count(found)
            if watch.has_drifted():
                updates = self._updates()
                watch.act(self.clf)
                self.forgotten += max(0, updates - self._updates())
            watch.copy_when_due(self.learner(), checked)
            start += checked

    def _in_order(self, rows: StreamRows) -> Scored:
        return self._score_then_learn(rows, *_interleaved(0, rows.size(), 1))

    def _predict(self, row: StreamRows) -> tuple[int, int, float | None, float, np.ndarray]:
        """The fields of `Scored` for one row."""
        size, outputs, loss = len(self.codes), None, np.nan
        truth = self.codes.get(row.y[0], size)
        notes = self._note_of(row, truth)
        if not _is_fitted(self.clf):
            return truth, int(size == 2), 0.0, 1.0, notes
        if isinstance(row.X, list):
            return truth, self.codes[self.clf.predict_one(row.X[0])], None, loss, notes
        if hasattr(self.clf, "decision_function"):
            outputs = self.clf.decision_function(row.X).reshape(1, -1)
            loss = float(hinge_losses(outputs, inputs.class_codes(row.y, self.clf.classes_))[0])
        predicted = self.codes[self.clf.predict(row.X)[0]]
        return truth, predicted, None if outputs is None else float(outputs[0, 0]), loss, notes

    def _note_of(self, row: StreamRows, truth: int) -> np.ndarray:
        """As `Scored.notes`, of one row."""
        clf, size = self.clf, len(self.codes)
        if self.asks:
            counts = row.weight is None or row.weight.any()
            self.asked.append(bool(counts) and clf.query_one(_only_row(row.X)))
            return np.array([[self.asked[-1], np.nan]])
        if not self.has_sets:
            return np.empty((1, 0))
        if not _is_fitted(clf):
            inside = clf.first_set(size)
        elif isinstance(row.X, list):
            labels = clf.predict_set_one(row.X[0])
            inside = np.array([label in labels for label in self.codes])
        else:
            inside = clf.predict_set(row.X)[0]
        return np.array([[truth >= size or not inside[truth], inside.sum()]], dtype=np.float64)

    def _partial_fit(self, rows: StreamRows) -> None:
        if self.asks and not self.asked.popleft():
            return
        if rows.weight is not None and not rows.weight.any():
            return
        options: dict[str, Any] = {"classes": self._classes_to_pass()}
        if isinstance(rows.X, list) or self.asks:
            if rows.weight is not None:
                options["w"] = float(rows.weight[0])
            self.clf.learn_one(_only_row(rows.X), rows.y[0], **options)
        else:
            if rows.weight is not None:
                options["sample_weight"] = rows.weight
            self.clf.partial_fit(rows.X, rows.y, **options)

    # ------------------------------------------------------------------------------------ counts
    def _count(self, found: Scored) -> None:
        """Count some predictions, with a checkpoint after each ``step`` rows."""
        size, updates = found.truth.size, found.updates
        stops = range(self.step - self.seen % self.step, size + 1, self.step)
        if updates is not None:
            total = np.cumsum(found.losses)
            for stop in stops:
                sums = self.losses + total[stop - 1], updates[stop - 1]
                self.checkpoints.append((self.seen + stop, *sums, 0))
        self.truth.append(found.truth.astype(self.code))
        self.predicted.append(found.predicted.astype(self.code))
        self.notes.append(found.notes)
        self.seen += size
        self.losses += float(found.losses.sum())
        if self.scores is None or found.scores is None or self.seen > self.most_scores:
            self.scores = None
        else:
            self.scores.append(found.scores)
        if updates is None and stops:  # blocks end at checkpoints
            self._add_checkpoint()

    def _add_checkpoint(self) -> None:
        supports = len(getattr(self.learner(), "support_", ()))
        self.checkpoints.append((self.seen, self.losses, self._updates(), supports))

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

    An entry i is a row to learn from, and ``-1 - i`` one to predict; the places of the latter in
    the order are returned as well. Without delay each row is predicted and then learned from.
    """
    if delay == 1:
        return np.arange(new, dtype=np.int32), np.arange(new)
    predicted = late + np.arange(new)
    learned = predicted - delay
    order = np.column_stack([learned, -1 - predicted])
    used = np.column_stack([learned >= 0, np.ones(new, dtype=bool)])
    places = np.cumsum(used.ravel()).reshape(used.shape)[:, 1] - 1
    return order[used].astype(np.int32), places


def _only_row(X: Any) -> Any:
    """The row of a matrix, frame or list with one, as `learn_one` takes it."""
    if sparse.issparse(X):
        return X.tocsr().indices, X.tocsr().data
    return X.to_numpy()[0] if hasattr(X, "iloc") else X[0]


def _is_fitted(clf: BaseEstimator) -> bool:
    try:
        check_is_fitted(clf)
    except NotFittedError:
        return False
    return True
