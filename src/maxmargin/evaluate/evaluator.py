"""Rows shown to one learner, which predicts each before it learns from it.

The compiled loops write down what they see before they learn, so this costs hardly more than
learning.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimator import OnlineClassifier
from maxmargin.evaluate.drift import Drift, Watch, become
from maxmargin.evaluate.metrics import Followed, Metric
from maxmargin.evaluate.predictions import Predicted, classes_by, hinge_losses
from maxmargin.evaluate.scores import Scores
from maxmargin.training import inputs

# Rows learned in one go from a stream that may drift: after a drift, some are learned again.
ROWS_WATCHED = 2048
MISSING_CLASSES = "classes must be passed with an iterable, unless the learner knows them."


class Waiting(NamedTuple):
    """Rows whose labels have not arrived yet."""

    X: Any
    y: np.ndarray
    weight: np.ndarray | None


class Reporter:
    """Shows rows to one learner, and writes down what it says.

    Parameters
    ----------
    clf : estimator
    step, delay : int
    classes : array or None
    metrics : dict
        Metrics by their names.
    window : int
        Rows that "recent" metrics are about.
    most_scores : int
        Scores of so many rows are kept at most.
    on_drift : Drift or None
    """

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
        known = self._classes_known()
        self.scores = Scores(np.empty(0) if known is None else known, most_scores)
        self.places = {label: code for code, label in enumerate(self.scores.classes.tolist())}
        self.followed: Followed | None = None
        if metrics:
            if known is None:
                raise ValueError(MISSING_CLASSES)
            self.followed = Followed(metrics, known, clf, window, most_scores)
        self.wrong: list[np.ndarray] = []
        self.seen, self.mistakes, self.losses = 0, 0, 0.0
        self.repeated, self.last = 0, -1  # labels that are those of the row before
        self.weighted = False
        self.looks: list[tuple[float, ...]] = []
        self.waiting: Waiting | None = None  # rows whose labels have not arrived, in one block
        # The same, one by one, with whether their predictions were wrong.
        self.queue: deque[tuple[Any, Any, Any, bool]] = deque()
        self.watch = None if on_drift is None else Watch(on_drift)
        if on_drift is not None and self.classes is None:
            self.classes = known  # a learner that has forgotten all must be told
        self.recent: deque[tuple[Any, Any, Any]] = deque()  # rows that may be learned from again
        self.forgotten = 0  # updates

    def meet(self, X: Any, y: Any, weight: np.ndarray | None) -> None:
        """Predict the rows, and learn from those whose labels arrive."""
        if self._classes_known() is None:
            raise ValueError(MISSING_CLASSES)
        self.weighted |= weight is not None
        if isinstance(X, dict):
            if not hasattr(self.clf, "learn_one"):
                raise TypeError(f"{type(self.clf).__name__} has no learn_one: it takes no dicts.")
            if self.followed and (needs := self.followed.asking_for_more()):
                raise ValueError(f"metrics: {needs} asks for more than the class of a dict.")
            self._one_by_one([(X, y, None if weight is None else weight[0])])
        elif self._is_compiled():
            if self.watch is None:
                self._together(X, y, weight)
            else:
                self._watched(self.watch, X, y, weight)
        else:
            self._one_by_one(_single_rows(X, y, weight))

    def _is_compiled(self) -> bool:
        """Does `foretell` give what `predict` would say?

        Not probabilities, nor drifts before labels that come late.
        """
        if self.followed and self.followed.wants_chances:
            return False
        if self.watch is not None and self.delay > 1:
            return False
        return isinstance(self.clf, OnlineClassifier)

    def counts_alone(self) -> bool:
        """Does the loop know all counts? Not how many rows are kept for a kernel."""
        return self._is_compiled() and self.clf.kernel == "linear" and not self._has_budget()

    def _has_budget(self) -> bool:
        return getattr(self.clf, "budget", None) is not None

    def finish(self) -> None:
        """The last look; then learn from what is still waiting."""
        if not self.looks or self.looks[-1][0] != self.seen:
            self._look()
        if self.waiting is not None and self.waiting.y.size:
            X, y, weight = self.waiting
            self._teach(X, y, weight)
        while self.queue:
            self._learn(*self.queue.popleft())

    # ------------------------------------------------------------------------ in compiled blocks
    def _together(self, X: Any, y: np.ndarray, weight: np.ndarray | None) -> None:
        before = self._updates()
        if self.delay == 1:
            outputs, made = self._foretell(X, y, weight)
        else:
            late = self.waiting.y.size if self.waiting is not None else 0
            rows = Waiting(X, y, weight)
            if self.waiting is not None and late:
                rows = _joined(self.waiting, rows)
            order, looks = _interleaved(late, y.size, self.delay)
            outputs, made = self.clf.foretell(
                rows.X, rows.y, order, self._classes_to_pass(), rows.weight
            )
            outputs, made = outputs[looks], made[looks]
            kept = slice(max(0, rows.y.size - self.delay), None)
            late_weight = None if rows.weight is None else rows.weight[kept]
            self.waiting = Waiting(rows.X[kept], rows.y[kept], late_weight)
        self._note_outputs(outputs, y, before + made)

    def _foretell(
        self, X: Any, y: np.ndarray, weight: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        order = np.arange(y.size, dtype=np.int32)
        return self.clf.foretell(X, y, order, self._classes_to_pass(), weight)

    def _note_outputs(self, outputs: np.ndarray, y: np.ndarray, updates: np.ndarray) -> None:
        truth = inputs.class_codes(y, self.clf.classes_)
        said = Predicted(truth, classes_by(outputs), outputs)
        self._note(said, hinge_losses(outputs, truth), updates if self.counts_alone() else None)

    def _watched(self, watch: Watch, X: Any, y: np.ndarray, weight: np.ndarray | None) -> None:
        """The same up to each drift; what was learned beyond one is taken back."""
        rows, start = X.iloc if hasattr(X, "iloc") else X, 0
        while start < y.size:
            stop = min(y.size, start + (watch.boosted or ROWS_WATCHED))
            X, labels = rows[start:stop], y[start:stop]
            sample_weight = None if weight is None else weight[start:stop]
            if watch.boosted:
                sample_weight = watch.asked.factor * (
                    np.ones(labels.size) if sample_weight is None else sample_weight
                )
            before, updates = copy.deepcopy(self.clf), self._updates()
            outputs, made = self._foretell(X, labels, sample_weight)
            wrong = classes_by(outputs) != inputs.class_codes(labels, self.clf.classes_)
            told = watch.tell(wrong)
            if told < labels.size:
                X, labels, sample_weight = (
                    X[:told],
                    labels[:told],
                    None if sample_weight is None else sample_weight[:told],
                )
                become(self.clf, before)
                outputs, made = self._foretell(X, labels, sample_weight)
            self._note_outputs(outputs, labels, updates + made)
            self._after(watch, X, labels, sample_weight)
            start += told

    def _after(self, watch: Watch, X: Any, y: Any, weight: Any) -> None:
        """Some rows have been learned from: act if the last of them has told of a drift."""
        if most := watch.keeps_rows():
            self.recent.append((X, y, weight))
            while sum(map(_count, self.recent)) - _count(self.recent[0]) >= most:
                self.recent.popleft()
        if watch.has_drifted():
            before = self._updates()
            watch.act(self.clf)
            skipped = sum(map(_count, self.recent)) - most
            for X, y, weight in self.recent:
                if skipped > 0:  # a block that is longer
                    X, y, weight = (
                        X[skipped:],
                        y[skipped:],
                        None if weight is None else weight[skipped:],
                    )
                    skipped = 0
                self._teach(X, y, weight)
            self.forgotten += max(0, before - self._updates())

    # ------------------------------------------------------------------------------- row by row
    def _one_by_one(self, rows: Any) -> None:
        for x, y, weight in rows:
            while len(self.queue) >= self.delay:
                self._learn(*self.queue.popleft())
            said, loss = self._predict(x, y)
            self.queue.append((x, y, weight, bool(said.said[0] != said.truth[0])))
            if self.delay == 1:
                self._learn(*self.queue.popleft())
            self._note(said, np.array([loss]))

    def _predict(self, x: Any, y: Any) -> tuple[Predicted, float]:
        truth = np.array([self.places.get(_single(y), len(self.places))])
        size = len(self.places)
        if not _is_fitted(self.clf):
            nothing = np.zeros((1, 1 if size == 2 else size))
            even = np.full((1, size), 1.0 / size)
            return Predicted(truth, classes_by(nothing), nothing, even), 1.0
        if isinstance(x, dict):
            said = self.places[self.clf.predict_one(x)]
            return Predicted(truth, np.array([said])), np.nan
        scores, probabilities, loss = None, None, np.nan
        if hasattr(self.clf, "decision_function"):
            scores = self.clf.decision_function(x).reshape(1, -1)
            loss = float(hinge_losses(scores, inputs.class_codes(y, self.clf.classes_))[0])
        if self.followed and self.followed.wants_chances:
            probabilities = self.clf.predict_proba(x)
        said = self.places[_single(self.clf.predict(x))]
        return Predicted(truth, np.array([said]), scores, probabilities), loss

    def _learn(self, x: Any, y: Any, weight: Any, wrong: bool) -> None:
        watch = self.watch
        if watch is not None and watch.boosted:
            weight = watch.asked.factor * (1.0 if weight is None else weight)
        self._teach(x, y, weight)
        if watch is not None:
            watch.tell(np.array([wrong]))
            self._after(watch, x, y, weight)

    def _teach(self, x: Any, y: Any, weight: Any) -> None:
        """Let the learner learn from a dict, or from a block of rows."""
        if isinstance(weight, float) and weight == 0.0:
            return
        classes = self._classes_to_pass()
        weights: dict[str, Any] = {}
        if isinstance(x, dict):
            if weight is not None:
                weights["w"] = weight
            self.clf.learn_one(x, y, classes=classes, **weights)
        else:
            if weight is not None:
                weights["sample_weight"] = np.atleast_1d(weight)
            self.clf.partial_fit(x, y, classes=classes, **weights)

    # ------------------------------------------------------------------------------------ counts
    def _note(self, said: Predicted, losses: np.ndarray, updates: np.ndarray | None = None) -> None:
        """Add up what some rows brought, and look where that is due."""
        wrong, size = said.said != said.truth, said.truth.size
        due = np.arange(self.step - 1 - self.seen % self.step, size, self.step)
        if updates is not None:
            mistakes, total = np.cumsum(wrong), np.cumsum(losses)
            for k in due:
                counts = self.mistakes + mistakes[k], self.losses + total[k], updates[k], 0
                self.looks.append((self.seen + int(k) + 1, *counts))
        if self.followed:
            self._follow(self.followed, said, due)
        outputs = said.outputs if said.outputs is None else said.outputs[:, 0]
        self.scores.count(said.truth, said.said, outputs)
        self._count_repeated(said.truth)
        self.wrong.append(wrong)
        self.seen += size
        self.mistakes += int(wrong.sum())
        self.losses += float(losses.sum())
        if updates is None and due.size:  # blocks end where looks are due
            self._note_counts()

    def _follow(self, followed: Followed, said: Predicted, due: np.ndarray) -> None:
        start = 0
        for stop in (due + 1).tolist():
            followed.add(said.part(slice(start, stop)))
            followed.look()
            start = stop
        followed.add(said.part(slice(start, None)))

    def _count_repeated(self, truth: np.ndarray) -> None:
        if truth.size:
            self.repeated += int(truth[0] == self.last) + int((truth[1:] == truth[:-1]).sum())
            self.last = int(truth[-1])

    def _look(self) -> None:
        self._note_counts()
        if self.followed:
            self.followed.look()

    def _note_counts(self) -> None:
        updates = self._updates()
        supports = len(getattr(self.clf, "support_", ()))
        self.looks.append((self.seen, self.mistakes, self.losses, updates, supports))

    def _updates(self) -> int:
        """Made so far, also by what was forgotten."""
        return self.forgotten + getattr(self.clf, "n_updates_", 0)

    def _classes_known(self) -> Any:
        known = getattr(self.clf, "classes_", None)
        if known is None and self.classes is not None:
            known = np.unique(self.classes)
        return known

    def _classes_to_pass(self) -> Any:
        return None if _is_fitted(self.clf) else self.classes


def _count(block: tuple[Any, Any, Any]) -> int:
    """The number of rows in a block, or of a dict."""
    return 1 if isinstance(block[0], dict) else len(block[1])


def _single_rows(X: Any, y: np.ndarray, weight: np.ndarray | None) -> Iterator[tuple[Any, ...]]:
    for i in range(X.shape[0]):
        yield X[i : i + 1], y[i : i + 1], None if weight is None else float(weight[i])


def _interleaved(late: int, new: int, delay: int) -> tuple[np.ndarray, np.ndarray]:
    """Row i of ``new`` rows behind ``late`` ones is looked at when row ``i - delay`` was learned.

    The order, in which a row that is only looked at stands as ``-1 - i``, and the places of those.
    """
    looked = late + np.arange(new)
    learned = looked - delay
    order = np.column_stack([learned, -1 - looked])
    due = np.column_stack([learned >= 0, np.ones(new, dtype=bool)])
    places = np.cumsum(due.ravel()).reshape(due.shape)[:, 1] - 1
    return order[due].astype(np.int32), places


def _joined(some: Waiting, others: Waiting) -> Waiting:
    if sparse.issparse(some.X) or sparse.issparse(others.X):
        X = sparse.vstack([some.X, others.X], "csr")
    else:
        X = np.concatenate([some.X, others.X])
    weight = None
    if some.weight is not None or others.weight is not None:
        weight = np.concatenate(
            [
                np.ones(each.y.size) if each.weight is None else each.weight
                for each in (some, others)
            ]
        )
    return Waiting(X, np.concatenate([some.y, others.y]), weight)


def _single(y: Any) -> Any:
    return y[0] if isinstance(y, np.ndarray) else y


def _is_fitted(clf: BaseEstimator) -> bool:
    try:
        check_is_fitted(clf)
    except NotFittedError:
        return False
    return True
