"""How good is a classifier? On a stream, by what it predicts; on given rows, by its margin.

On a stream every row is a test row first: predict each example, then learn from it. The compiled
loops write down what they see before they learn, so this costs hardly more than learning.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

from maxmargin.algorithms.pumma import PUMMA
from maxmargin.certificates import Certificate, geometric_margins
from maxmargin.certificates.bounds import rounding_of_products
from maxmargin.core.looks import lowest_outputs
from maxmargin.estimator import OnlineClassifier, inputs
from maxmargin.estimator.weights import counted
from maxmargin.models.linear import as_rows

# Rows between two looks at the counts, if nothing else is said.
STEP = 1000
# ... and rows that are learnt from in one go where the loop itself counts.
ROWS_PER_CALL = 2**15


@dataclass(frozen=True, eq=False, repr=False)
class Progress:
    """What a learner predicted on its way along a stream.

    Attributes
    ----------
    name : str
        Of the learner.
    trials : ndarray of shape (n_looks,)
        Rows predicted so far, at each look.
    mistakes, losses, updates, supports : ndarrays of shape (n_looks,)
        Up to there: wrong predictions; the sum of the hinge losses ``max(0, 1 - y f(x))`` (of
        several classes, with the lead over the highest rival in place of ``y f(x)``; NaN if the
        learner has no outputs); updates made; and rows that a kernel learner keeps.
    wrong : ndarray of bool, of shape (n_samples,)
        Which predictions were wrong, row by row.
    """

    name: str
    trials: np.ndarray
    mistakes: np.ndarray
    losses: np.ndarray
    updates: np.ndarray
    supports: np.ndarray
    wrong: np.ndarray

    def __repr__(self) -> str:
        return f"<{self.name}: {self.wrong.size:,} rows, {100.0 * self.accuracy:.2f} % right>"

    @property
    def accuracy(self) -> float:
        """The share of right predictions."""
        return 1.0 - float(self.wrong.mean()) if self.wrong.size else np.nan

    def recent_accuracy(self, window: int = STEP) -> np.ndarray:
        """The share of right predictions among the last ``window`` rows, at each look."""
        if window < 1:
            raise ValueError(f"window must be at least 1, got {window!r}.")
        total = np.concatenate([[0], np.cumsum(self.wrong)])
        first = np.maximum(self.trials - window, 0)
        rows = np.where(self.trials > first, self.trials - first, np.nan)
        return 1.0 - (total[self.trials] - total[first]) / rows

    def plot(self, axes: Any = None, *, window: int = STEP, label: str | None = None) -> Any:
        """Draw mistakes so far, and the accuracy in a window that slides along.

        Parameters
        ----------
        axes : pair of matplotlib axes, default=None
            Where to draw; new ones by default, and those of another plot to compare the two.
        window : int, default=1000
        label : str, default=None
            Name in the legend, that of the learner by default.

        Returns
        -------
        The pair of axes.
        """
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(figsize=(8, 6), layout="constrained").subplots(2, 1, sharex=True)
        above, below = axes
        name = f"{label or self.name}: {int(self.wrong.sum()):,} mistakes"
        above.plot(self.trials, self.mistakes, label=name)
        above.set_ylabel("mistakes so far")
        above.legend(loc="upper left", frameon=False)
        below.plot(self.trials, 100.0 * self.recent_accuracy(window))
        below.set_ylabel(f"right among the last {window:,}, %")
        below.set_xlabel("rows")
        for each in axes:
            each.grid(alpha=0.3)
        return axes


def progressive(
    clf: BaseEstimator | Sequence[BaseEstimator],
    stream: Any,
    y: Any = None,
    *,
    step: int = STEP,
    delay: int = 0,
    classes: Any = None,
) -> Any:
    """Let one or more learners predict each row of a stream before they learn from it.

    ``clf.predict`` followed by ``clf.partial_fit``, row by row, would make the same mistakes. A
    learner that has seen nothing yet has the score 0 for every class.

    Parameters
    ----------
    clf : estimator or list of estimators
        Anything with `predict` and `partial_fit`. They are trained in place, going on from what
        they know; learners of this library work in compiled blocks. Of several learners each row is
        read once.
    stream : array or CSR matrix of shape (n_samples, n_features), or iterable
        An iterable gives pairs (X, y) of blocks of rows, or of a row as a dict and its label.
    y : array of shape (n_samples,), default=None
        The labels, if ``stream`` is a matrix.
    step : int, default=1000
        Write down the counts after so many rows each time.
    delay : int, default=0
        Labels arrive late: row i is learnt from before row ``i + delay`` is predicted. (0 and 1 are
        the same, as in river.)
    classes : array, default=None
        All labels that can occur; needed for iterables, unless the learner knows them.

    Returns
    -------
    Progress, or a list of them

    Examples
    --------
    >>> from maxmargin import NORMA
    >>> from maxmargin.datasets import make_switching
    >>> from maxmargin.evaluate import progressive
    >>> X, y = make_switching(2000, random_state=0)
    >>> clf = NORMA(kernel="rbf", gamma=2.0, rate=1.0, decay=0.03, margin=0.7, fit_intercept=False)
    >>> progressive(clf, X, y).accuracy > 0.98
    True
    """
    several = isinstance(clf, Sequence)
    for name, value, least in (("step", step, 1), ("delay", delay, 0)):
        if not isinstance(value, (int, np.integer)) or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    if y is not None and classes is None:
        classes = np.unique(y)
    reporters = [Reporter(one, step, delay, classes) for one in (clf if several else [clf])]
    counts_alone = all(reporter.counts_alone() for reporter in reporters)
    rows_per_piece = step * (-(-ROWS_PER_CALL // step) if counts_alone else 1)
    for X, labels in _pieces(stream, y, rows_per_piece):
        for reporter in reporters:
            reporter.meet(X, labels)
    reports = [reporter.report() for reporter in reporters]
    return reports if several else reports[0]


def _pieces(stream: Any, y: Any, most: int) -> Iterator[tuple[Any, Any]]:
    """Blocks of at most so many rows that end at multiples of that number."""
    if y is not None:
        stream = [(stream, y)]
    elif sparse.issparse(stream) or isinstance(stream, np.ndarray):
        raise ValueError("progressive needs y for a matrix of rows.")
    seen = 0
    for block in stream:
        if len(block) != 2:
            raise ValueError("progressive needs y, or an iterable of pairs (X, y).")
        X, labels = block
        if isinstance(X, dict):
            seen += 1
            yield X, labels
            continue
        if not hasattr(X, "shape") and not isinstance(X, (list, tuple)):
            raise ValueError(f"progressive needs a matrix of rows, got {type(X).__name__}.")
        X = sparse.csr_matrix(X) if sparse.issparse(X) else X
        X = np.asarray(X) if isinstance(X, (list, tuple)) else X
        labels = inputs.check_y(labels, X.shape[0])
        rows = X.iloc if hasattr(X, "iloc") else X
        start = 0
        while start < labels.size:
            stop = min(labels.size, start + most - seen % most)
            yield rows[start:stop], labels[start:stop]
            seen += stop - start
            start = stop


class Reporter:
    """Shows rows to one learner, and writes down what it says.

    Parameters
    ----------
    clf : estimator
    step, delay : int
    classes : array or None
    """

    def __init__(self, clf: BaseEstimator, step: int, delay: int, classes: Any) -> None:
        self.clf, self.step, self.delay, self.classes = clf, step, max(1, delay), classes
        self.wrong: list[np.ndarray] = []
        self.seen, self.mistakes, self.losses = 0, 0, 0.0
        self.looks: list[tuple[float, ...]] = []
        self.waiting: Any = None  # rows whose labels have not arrived yet, in one block
        self.queue: deque[tuple[Any, Any]] = deque()  # the same, one by one

    def meet(self, X: Any, y: Any) -> None:
        """Predict the rows, and learn from those whose labels arrive."""
        if isinstance(X, dict):
            if not hasattr(self.clf, "learn_one"):
                raise TypeError(f"{type(self.clf).__name__} has no learn_one: it takes no dicts.")
            self._one_by_one([(X, y)])
        elif self._is_compiled():
            self._together(X, y)
        else:
            self._one_by_one((X[i : i + 1], y[i : i + 1]) for i in range(X.shape[0]))

    def _is_compiled(self) -> bool:
        """Does the loop see what `predict` would say? Not if it predicts by averages."""
        return isinstance(self.clf, OnlineClassifier) and not getattr(self.clf, "average", False)

    def counts_alone(self) -> bool:
        """Does the loop know all counts? Not how many rows are kept for a kernel."""
        return self._is_compiled() and self.clf.kernel == "linear" and not self._has_budget()

    def _has_budget(self) -> bool:
        return getattr(self.clf, "budget", None) is not None

    def _look(self) -> None:
        """Write down the counts."""
        updates = getattr(self.clf, "n_updates_", 0)
        supports = len(getattr(self.clf, "support_", ()))
        self.looks.append((self.seen, self.mistakes, self.losses, updates, supports))

    def report(self) -> Progress:
        """What there is to say; learn from what is still waiting."""
        if not self.looks or self.looks[-1][0] != self.seen:
            self._look()
        if self.waiting is not None and self.waiting[1].size:
            self.clf.partial_fit(*self.waiting, classes=self._classes_to_pass())
        while self.queue:
            self._learn(*self.queue.popleft())
        trials, mistakes, losses, updates, supports = np.array(self.looks).T
        counts = (each.astype(np.int64) for each in (trials, mistakes, updates, supports))
        trials, mistakes, updates, supports = counts
        wrong = np.concatenate([np.empty(0, dtype=bool), *self.wrong])
        name = type(self.clf).__name__
        return Progress(name, trials, mistakes, losses, updates, supports, wrong)

    # ------------------------------------------------------------------------ in compiled blocks
    def _together(self, X: Any, y: np.ndarray) -> None:
        before = self.clf.n_updates_ if _is_fitted(self.clf) else 0
        if self.delay == 1:
            order = np.arange(y.size, dtype=np.int32)
            outputs, made = self.clf.foretell(X, y, order, self._classes_to_pass())
        else:
            late = self.waiting[1].size if self.waiting is not None else 0
            if late:
                X, labels = _stack(self.waiting[0], X), np.concatenate([self.waiting[1], y])
            else:
                labels = y
            order, looks = _interleaved(late, y.size, self.delay)
            outputs, made = self.clf.foretell(X, labels, order, self._classes_to_pass())
            outputs, made = outputs[looks], made[looks]
            kept = slice(max(0, labels.size - self.delay), None)
            self.waiting = X[kept], labels[kept]
        codes = inputs.class_codes(y, self.clf.classes_)
        updates = before + made if self.counts_alone() else None
        self._note(_is_wrong(outputs, codes), _hinge_losses(outputs, codes), updates)

    # ------------------------------------------------------------------------------- row by row
    def _one_by_one(self, rows: Any) -> None:
        for x, y in rows:
            while len(self.queue) >= self.delay:
                self._learn(*self.queue.popleft())
            predicted, loss = self._predict(x, y)
            self.queue.append((x, y))
            if self.delay == 1:
                self._learn(*self.queue.popleft())
            self._note(np.array([predicted != _single(y)]), np.array([loss]))

    def _predict(self, x: Any, y: Any) -> tuple[Any, float]:
        known = self._classes_known()
        if known is None or not _is_fitted(self.clf):
            first = None if known is None else known[1 if len(known) == 2 else 0]
            return first, 1.0
        if isinstance(x, dict):
            return self.clf.predict_one(x), np.nan
        loss = np.nan
        if hasattr(self.clf, "decision_function"):
            outputs = self.clf.decision_function(x).reshape(1, -1)
            loss = float(_hinge_losses(outputs, inputs.class_codes(y, known))[0])
        return self.clf.predict(x)[0], loss

    def _learn(self, x: Any, y: Any) -> None:
        if isinstance(x, dict):
            self.clf.learn_one(x, y, classes=self._classes_to_pass())
        else:
            self.clf.partial_fit(x, y, classes=self._classes_to_pass())

    # ------------------------------------------------------------------------------------ counts
    def _note(
        self, wrong: np.ndarray, losses: np.ndarray, updates: np.ndarray | None = None
    ) -> None:
        """Add up what some rows brought, and look where that is due."""
        if updates is not None:
            due = np.arange(self.step - 1 - self.seen % self.step, wrong.size, self.step)
            mistakes, total = np.cumsum(wrong), np.cumsum(losses)
            for k in due:
                counts = self.mistakes + mistakes[k], self.losses + total[k], updates[k], 0
                self.looks.append((self.seen + int(k) + 1, *counts))
        self.wrong.append(wrong)
        self.seen += wrong.size
        self.mistakes += int(wrong.sum())
        self.losses += float(losses.sum())
        if updates is None and self.seen % self.step == 0:
            self._look()

    def _classes_known(self) -> Any:
        known = getattr(self.clf, "classes_", None)
        return known if known is not None else self.classes

    def _classes_to_pass(self) -> Any:
        return None if _is_fitted(self.clf) else self.classes


def _interleaved(late: int, new: int, delay: int) -> tuple[np.ndarray, np.ndarray]:
    """Row i of ``new`` rows behind ``late`` ones is looked at when row ``i - delay`` was learnt.

    The order, in which a row that is only looked at stands as ``-1 - i``, and the places of those.
    """
    looked = late + np.arange(new)
    learnt = looked - delay
    order = np.column_stack([learnt, -1 - looked])
    due = np.column_stack([learnt >= 0, np.ones(new, dtype=bool)])
    places = np.cumsum(due.ravel()).reshape(due.shape)[:, 1] - 1
    return order[due].astype(np.int32), places


def _stack(some: Any, others: Any) -> Any:
    if sparse.issparse(some) or sparse.issparse(others):
        return sparse.vstack([some, others], "csr")
    return np.concatenate([some, others])


def _is_wrong(outputs: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Which predictions by these outputs are not the class number that is due."""
    if outputs.shape[1] == 1:
        return (outputs[:, 0] >= 0.0) != (codes == 1)
    return outputs.argmax(axis=1) != codes


def _hinge_losses(outputs: np.ndarray, codes: np.ndarray) -> np.ndarray:
    if outputs.shape[1] == 1:
        leads = np.where(codes == 1, outputs[:, 0], -outputs[:, 0])
    else:
        rows = np.arange(codes.size)
        own, rivals = outputs[rows, codes], outputs.copy()
        rivals[rows, codes] = -np.inf
        leads = own - rivals.max(axis=1)
    return np.maximum(0.0, 1.0 - leads)


def _single(y: Any) -> Any:
    return y[0] if isinstance(y, np.ndarray) else y


def _is_fitted(clf: BaseEstimator) -> bool:
    try:
        check_is_fitted(clf)
    except NotFittedError:
        return False
    return True


def certify(
    clf: BaseEstimator,
    X: Any,
    y: Any,
    *,
    sample_weight: Any = None,
    tol: float = 0.01,
    max_iter: int = 1000,
    verbose: int = 0,
) -> Certificate:
    """Measure the margin of ``clf`` on ``X``, ``y`` and prove how far it can be from the best one.

    Works for every fitted linear classifier with ``coef_``, ``intercept_`` and ``classes_``, also
    for one from another library. Nothing is taken on trust: the margin is measured on the rows
    given, and the bound is proved afresh from them by running `PUMMA`.

    Parameters
    ----------
    clf : estimator
        Fitted linear classifier, binary or one-vs-rest.
    X : array or CSR matrix of shape (n_samples, n_features)
    y : array of shape (n_samples,)
        Labels; each class of ``clf`` must occur.
    sample_weight : array of shape (n_samples,), default=None
        Rows of weight 0 are left out. A margin is the least of all others, whatever they weigh.
    tol : float, default=0.01
        Effort: the bound is within this fraction of the best margin if ``max_iter`` passes are
        enough.
    max_iter : int, default=1000
        Passes over the data at most. With fewer passes the bound is weaker, never wrong.
    verbose : int, default=0
        Show a progress bar, if on a terminal.

    Returns
    -------
    Certificate
        About hyperplanes with an intercept, unless ``clf`` was fitted without one.

    Examples
    --------
    >>> from sklearn.svm import SVC
    >>> X, y = [[0.0, 0.0], [0.0, 1.0], [4.0, 0.0]], [0, 0, 1]
    >>> print(certify(SVC(kernel="linear", C=1e6).fit(X, y), X, y))
    margin 1.99986, certified to be at least 99.99 % of the best possible (at most 2)
    """
    check_is_fitted(clf)
    if not hasattr(clf, "coef_"):
        raise TypeError(
            f"certify needs a linear classifier with coef_, got {type(clf).__name__}. (Of a "
            "pipeline, pass the last step and the transformed X.)"
        )
    coef = clf.coef_.toarray() if sparse.issparse(clf.coef_) else clf.coef_
    coef = np.atleast_2d(np.asarray(coef, dtype=np.float64))
    intercept = np.broadcast_to(np.asarray(clf.intercept_, dtype=np.float64), coef.shape[:1])
    has_intercept = bool(getattr(clf, "fit_intercept", True)) or bool(np.any(intercept))

    prover = PUMMA(
        delta=tol, fit_intercept=has_intercept, max_iter=max_iter, random_state=0, verbose=verbose
    )
    X, _ = inputs.check_X(prover, X)
    if X.shape[1] != coef.shape[1]:
        raise ValueError(f"X has {X.shape[1]} features, but the classifier has {coef.shape[1]}.")
    y = inputs.check_y(y, X.shape[0], several=True)
    if sample_weight is not None:
        X, y, *_ = counted(X, y, sample_weight)
    codes = inputs.class_codes(y, clf.classes_)
    if y.ndim == 2:
        inputs.classes_of(y)  # no label may be the same in all rows
        problems = clf.classes_.size
    else:
        missing = np.setdiff1d(clf.classes_, y)
        if missing.size:
            what = f"y lacks the classes {missing.tolist()}"
            raise ValueError(f"{what}: their margin is not defined.")
        problems = 1 if clf.classes_.size == 2 else clf.classes_.size
    one_vs_one = problems > 1 and hasattr(clf, "decision_function_shape")  # SVC and NuSVC
    if coef.shape[0] != problems or one_vs_one:
        raise TypeError(
            f"certify needs one weight vector per class (one-vs-rest), got {coef.shape[0]} for "
            f"{clf.classes_.size} classes."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        proved = prover.fit(X, codes).certificate_

    rows = as_rows(X, inputs.NO_TAIL)
    targets = inputs.as_targets(codes, clf.classes_.size)
    weights = np.ascontiguousarray(np.column_stack([coef, np.zeros(problems)]))
    lowest, rounding = np.empty(problems), rounding_of_products(weights)
    lowest_outputs(rows, targets, weights, np.ascontiguousarray(intercept), rounding, lowest)
    each = proved.classes or (proved,)
    margins = geometric_margins(lowest, weights, X.shape[1])
    sums = [one.evidence for one in each]  # for `merge`
    return Certificate.weakest(margins, np.array([one.bound for one in each]), sums)
