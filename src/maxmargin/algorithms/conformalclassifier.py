"""Prediction sets with a target coverage, around any learner."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.validation import _num_samples

from maxmargin._extras import Self
from maxmargin._validation import Interval
from maxmargin.algorithms.automargin import AutoMargin
from maxmargin.algorithms.noca import NOCA, log_odds_of
from maxmargin.certificates.coverage_bounds import Coverage
from maxmargin.estimator.learner import BaseLearner
from maxmargin.estimator.serialization import checked_held_out, checked_sets
from maxmargin.estimator.wrapping_learner import WrappingLearner, if_taking_rows
from maxmargin.training.online import score_then_learn
from maxmargin.training.prediction_sets import (
    HELD_OUT,
    NO_SETS,
    SETS,
    ConformalTrainer,
    SetTracker,
    class_scores,
    cover,
    coverage_of,
    held_out_rows,
    label_scores,
    loss_rate,
    new_tracker,
    prediction_sets,
    threshold,
    tracker_for,
    tracker_in,
)
from maxmargin.training.protocol import Batch, trainer_of
from maxmargin.training.row_reading import Row
from maxmargin.training.sample_weights import check_weights
from maxmargin.training.state import State, Tree

ONLY_ROW = np.zeros(1, dtype=np.int32)


class SingleRows(NamedTuple):
    """What `learn_one` needs, for as long as the learner has this state.

    state, inner : the state, and the learner
    arguments : of `prediction_sets.cover`, by label; they begin with ``evidence``
    evidence : receives the scores of a row
    cover : the machine code of `prediction_sets.cover`
    """

    state: State
    inner: Any
    arguments: dict[Hashable, tuple[Any, ...]]
    evidence: np.ndarray
    cover: Any

    @classmethod
    def of(cls, state: State, inner: Any, tracker: SetTracker) -> SingleRows:
        size = state.classes.size
        evidence = np.empty((1, 1 if size == 2 else size))
        begin = evidence, state.model.outputs_are_odds
        rate, buffers = loss_rate(float(tracker.target[0])), (np.empty(size), np.empty(size))
        end = ONLY_ROW, 0, evidence.shape[1], rate, tracker, *buffers, NO_SETS
        arguments = {
            label: (*begin, np.array([code], np.int32), *end)
            for code, label in enumerate(state.classes.tolist())
        }
        code = cover.entry(*next(iter(arguments.values())))
        return cls(state, inner, arguments, evidence, code)


@dataclass(eq=False, repr=False)
class ConformalClassifier(WrappingLearner):
    """Prediction sets with a target coverage, around any learner.

    On a stream (`partial_fit`, `learn_one`, `fit_stream`) each row has a set before it is learned
    from. The label is in the set for the share `coverage` of all rows, up to the proved bound in
    `coverage_`, whatever the stream is and however it drifts (adaptive conformal inference).

    `fit` holds rows out instead, and learns from the others in the learner's own way. If these rows
    and a new one are exchangeable, the label of the new one is in its set with a probability of at
    least `coverage` (split conformal prediction). See `docs/guarantees.md`.

    Parameters
    ----------
    clf : estimator, default=None
        Any learner of this library; `AutoMargin` by default. It stays as it is: a copy learns. On
        streams the copy goes on from what the learner knows; `fit` begins anew.
    coverage : float, default=0.9
        The share of rows whose label is to be in the prediction set.
    held_out : float, default=0.2
        The share of rows that `fit` holds out, in a fixed random order.

    Attributes
    ----------
    estimator_ : estimator
        The copy that learns, with its weights, counts and certificate.
    coverage_ : Coverage
        After learning from a stream: the target, the share of rows so far whose label was in its
        set, and the proved bound on their difference.
    threshold_ : float
        After `fit`: how far a class in a set may be behind the best of the others. If it is
        infinite, sets have all classes, and stand for labels too that are not in `classes_`.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Guarantees: on streams `maxmargin.certificates.coverage_bounds`, for every sequence of rows and
    labels; a label that occurs for the first time (``grow=True``) counts as if its class had been
    known before. After `fit`, a label of a class that only occurs in held-out rows counts as one
    that no finite threshold covers.

    References
    ----------
    I. Gibbs and E. Candès, "Adaptive conformal inference under distribution shift", NeurIPS 2021,
    and "Conformal inference for online prediction with arbitrary distribution shifts", 2022.
    V. Vovk, A. Gammerman and G. Shafer, "Algorithmic learning in a random world", 2005.

    Examples
    --------
    >>> from maxmargin import ConformalClassifier, PassiveAggressive
    >>> clf = ConformalClassifier(PassiveAggressive(), coverage=0.9)
    >>> X = [[x / 100.0] for x in range(-100, 100)]
    >>> clf = clf.partial_fit(X * 5, [x > 0.1 for (x,) in X] * 5, classes=[False, True])
    >>> clf.predict_set([[0.9]]).tolist()
    [[False, True]]
    >>> abs(clf.coverage_.observed - 0.9) <= clf.coverage_.bound
    True
    """

    clf: Any = None
    coverage: float = 0.9
    held_out: float = 0.2

    default = AutoMargin
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "clf": [BaseLearner, None],
        "coverage": [Interval(Real, 0, 1, closed="neither")],
        "held_out": [Interval(Real, 0, 1, closed="neither")],
    }

    def first_set(self, classes: int) -> np.ndarray:
        """The prediction set of any row before the first is learned from, for so many classes."""
        is_odds = isinstance(self.learner(), NOCA | AutoMargin)
        zeros = np.zeros((1, 1 if classes == 2 else classes))
        return prediction_sets(new_tracker(float(self.coverage)), zeros, is_odds, classes)[0]

    def _new_trainer(self) -> ConformalTrainer:
        return ConformalTrainer(trainer_of(self.learner()), float(self.coverage))

    def _incremental(self) -> Any:
        """The learner; raises unless its scores can be followed."""
        self.check_parameters()
        inner = self.learner()
        inner.check_parameters()
        if trainer_of(inner).options.averages_kernels:
            raise ValueError(
                "ConformalClassifier cannot follow the mean of a kernel's coefficients: use "
                "average=False, or kernel='linear'."
            )
        return inner

    # ------------------------------------------------------------------------------------ learning
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the learner to a part of the rows, and the sets to the others.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        sample_weight : array of shape (n_samples,), default=None
            Weights for the learner; rows of weight 0 are ignored. Held-out rows count once each.

        Returns
        -------
        self
        """
        self.check_parameters()
        inner, rows = clone(self.learner()), _num_samples(X)
        y = np.asarray(y)
        if y.ndim == 2 and y.shape[1] > 1:
            raise ValueError("ConformalClassifier needs rows with one label each.")
        weights = check_weights(sample_weight, rows).copy()
        chosen = held_out_rows(weights, float(self.held_out))
        weights[chosen] = 0.0
        if chosen.size and not weights.any():
            raise ValueError(
                f"held_out={self.held_out} leaves no rows to learn from, of n_samples={rows}: "
                "choose a smaller share."
            )
        inner.fit(X, y, sample_weight=weights)
        outputs = _columns(inner.decision_function(_rows_of(X, chosen)))
        state, labels = inner._fitted(), y.reshape(-1)[chosen]
        scores = label_scores(outputs, labels, state.classes)
        more = {k: v for k, v in state.more.items() if k != SETS}
        self._state = state._replace(more={**more, HELD_OUT: scores})
        return self

    @if_taking_rows
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        **options: Any,
    ) -> Self:
        """Learn from each row once, in the given order; the sets follow the scores from before.

        Sets and model do not depend on how a stream is split into calls.

        Parameters
        ----------
        X, y, classes, sample_weight
            As `partial_fit` of the learner takes them.
        **options
            As `partial_fit` of the learner takes them, such as ``grow=True``.

        Returns
        -------
        self
        """
        grow = bool(options.pop("grow", False))
        if options:
            raise TypeError(f"partial_fit has no argument {next(iter(options))!r}.")
        self._learn(Batch(X, y, classes, sample_weight, grow=grow))
        return self

    @if_taking_rows
    def score_then_learn(
        self,
        X: ArrayLike,
        y: ArrayLike,
        order: np.ndarray,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        sets: np.ndarray = NO_SETS,
    ) -> tuple[np.ndarray, np.ndarray]:
        """`partial_fit` with the rows ``order``, which returns their scores before learning.

        Parameters
        ----------
        X, y, order, classes, sample_weight
            As `PassiveAggressive.score_then_learn` takes them.
        sets : array of shape (n_places, 2)
            Receives for each row of the order whether its label was outside of its set, and the
            number of classes in the set.

        Returns
        -------
        outputs, updates
            As `PassiveAggressive.score_then_learn` returns them.
        """
        return self._learn(Batch(X, y, classes, sample_weight, order), sets)

    def _learn(self, batch: Batch, seen: np.ndarray = NO_SETS) -> tuple[np.ndarray, np.ndarray]:
        """Learn from a batch: its scores before, and the updates after each row."""
        trainer = ConformalTrainer(trainer_of(self._incremental()), float(self.coverage), seen)
        state, parts = self.__state__(), [batch]
        if batch.grow:
            parts = parts_by_new_labels(batch, () if state is None else state.classes)
        if len(parts) > 1:
            state = copy.deepcopy(state)  # an error in a later part must not change it
        for part in parts:
            state, scores, updates = score_then_learn(trainer, state, part)
        assert state is not None
        self._state = state
        return scores, updates

    @if_taking_rows
    def learn_one(
        self,
        x: Row,
        y: Hashable,
        *,
        w: float = 1.0,
        classes: ArrayLike | None = None,
        grow: bool = False,
    ) -> Self:
        """Learn from a single row, as `partial_fit` would.

        Parameters
        ----------
        x : dict, pair (indices, values), or array of shape (n_features,)
        y, w, classes, grow
            As `learn_one` of the learner takes them.

        Returns
        -------
        self
        """
        single = self._single_rows()
        if single is None or w == 0.0 or y not in single.arguments:
            self._learn(self._batch_of(x, y, w, classes, grow))
            return self
        inner = single.inner
        single.evidence[0] = inner.decision_one(x)
        inner.learn_one(x, y, w=w)
        if (state := inner.__state__()) is not single.state:
            self._state = state
        single.cover(*single.arguments[y])
        return self

    def _single_rows(self) -> SingleRows | None:
        """What `learn_one` needs; None if the next row must be learned as a batch."""
        known = self.__dict__
        single: SingleRows | None = known.get("_single")
        if (
            single is not None
            and single.state is known.get("_state")
            and single.inner is known.get("_inner")  # no parameter has changed
        ):
            return single
        state = self.__state__()
        tracker = tracker_in(state)
        if state is None or tracker is None or state.recipe is not None:
            return None
        if tracker.target[0] != self.coverage:
            return None
        self._single = SingleRows.of(state, self.learner(), tracker)
        return self._single

    @if_taking_rows
    def fit_stream(self, source: Any, *, passes: int = 1, **options: Any) -> Self:
        """Learn from a source of any size, as the learner does, in one pass.

        Parameters
        ----------
        source, **options
            As `fit_stream` of the learner takes them.
        passes : int, default=1
            Only 1: rows that were learned from have no scores from before.

        Returns
        -------
        self
        """
        self._incremental()
        self._check_passes(
            passes, "scores of rows that were not learned from, which only the first pass has"
        )
        return super().fit_stream(source, **options)

    # ---------------------------------------------------------------------------------- predicting
    def predict_set(self, X: ArrayLike) -> np.ndarray:
        """The classes in the prediction set of each row; it may have several classes, or none.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        ndarray of bool, of shape (n_samples, n_classes)
            In the order of `classes_`.
        """
        inner = self._known()
        if isinstance(inner, NOCA) and HELD_OUT not in self._fitted().more:
            return self._sets(log_odds_of(inner.predict_proba(X)))
        return self._sets(_columns(inner.decision_function(X)))

    def predict_set_one(self, x: Row) -> set[Hashable]:
        """The prediction set of a single row.

        Parameters
        ----------
        x : dict, pair (indices, values), or array of shape (n_features,)

        Returns
        -------
        set of labels
        """
        (inside,) = self._sets(np.reshape(self._known().decision_one(x), (1, -1)))
        return set(self.classes_[inside].tolist())

    def _sets(self, outputs: np.ndarray) -> np.ndarray:
        """The sets of rows with these outputs."""
        state = self._fitted()
        if HELD_OUT in state.more:
            return class_scores(outputs) <= self.threshold_
        tracker = tracker_for(float(self.coverage), tracker_in(state))
        is_odds = state.model.outputs_are_odds
        return prediction_sets(tracker, outputs, is_odds, state.classes.size)

    @property
    def coverage_(self) -> Coverage:
        if HELD_OUT in self._fitted().more:
            raise AttributeError(
                "There is a coverage_ only after learning from a stream; after fit, threshold_ is "
                "the largest score of the labels in a set."
            )
        return coverage_of(tracker_for(float(self.coverage), tracker_in(self._fitted())))

    @property
    def threshold_(self) -> float:
        if (scores := self._fitted().more.get(HELD_OUT)) is None:
            raise AttributeError("There is a threshold_ only after fit.")
        return threshold(scores, float(self.coverage))

    # --------------------------------------------------------------------------------------- files
    def __learned__(self) -> Tree:
        if (state := self.__state__()) is None:
            return {}
        more: Tree = {}
        if (tracker := tracker_in(state)) is not None:
            more[SETS] = tracker._asdict()
        if HELD_OUT in state.more:
            more[HELD_OUT] = state.more[HELD_OUT]
        return self._learned_with(more)

    def __relearn__(self, found: Tree) -> None:
        more: Tree = {}
        if (sets := checked_sets(found.pop(SETS, None))) is not None:
            more[SETS] = sets
        if (scores := checked_held_out(found.pop(HELD_OUT, None))) is not None:
            more[HELD_OUT] = scores
        self._relearn_with(found, more)


def parts_by_new_labels(batch: Batch, known: Sequence[Any] | np.ndarray) -> list[Batch]:
    """A batch in parts, each of which begins with a label that no row before it has.

    A class takes part in the sets of rows from its first label on.
    """
    labels, first = np.unique(np.asarray(batch.y), return_index=True)
    before = known if batch.classes is None else [*known, *np.asarray(batch.classes).tolist()]
    starts = np.sort(first[~np.isin(labels, np.asarray(before))]).tolist()
    stops = [start for start in starts if start > 0]
    cuts = zip([0, *stops], [*stops, labels.size and np.shape(batch.y)[0]], strict=True)
    if not stops:
        return [batch]
    parts = [slice(start, stop) for start, stop in cuts]
    y, weight = np.asarray(batch.y), batch.weight
    return [
        batch._replace(
            X=_rows_of(batch.X, part),
            y=y[part],
            classes=batch.classes if part.start == 0 else None,
            weight=None if weight is None else np.asarray(weight)[part],
        )
        for part in parts
    ]


def _rows_of(X: Any, which: Any) -> Any:
    """Some rows."""
    if hasattr(X, "iloc"):
        return X.iloc[which]
    if sparse.issparse(X):
        return X.tocsr()[which]
    return X[which] if hasattr(X, "shape") or isinstance(which, slice) else np.asarray(X)[which]


def _columns(outputs: np.ndarray) -> np.ndarray:
    """Scores as `decision_function` returns them, as a matrix."""
    return outputs.reshape(-1, 1) if outputs.ndim == 1 else outputs
