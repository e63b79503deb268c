"""Labels only where they matter: asking near the margin, around any learner."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from maxmargin._extras import Self
from maxmargin._validation import Interval
from maxmargin.algorithms.automargin import AutoMargin
from maxmargin.algorithms.bound_arguments import POSITIVE, bound
from maxmargin.certificates.query_bounds import label_limits, query_mistakes_bound
from maxmargin.estimator.learner import BaseLearner
from maxmargin.estimator.serialization import checked_queries
from maxmargin.estimator.wrapping_learner import WrappingLearner, if_taking_rows
from maxmargin.training.label_queries import (
    NO_QUERIES,
    QUERIES,
    AccuracyEstimate,
    QuerySampler,
    QueryTrainer,
    Questions,
    code_of,
    sampler_in,
)
from maxmargin.training.online import default_label, known_classes, score_then_learn
from maxmargin.training.protocol import Batch, trainer_of
from maxmargin.training.row_reading import Row
from maxmargin.training.state import State, Tree


@dataclass(eq=False, repr=False)
class LabelQueries(WrappingLearner):
    """Asks for the labels of rows near the margin, around any learner.

    ::

        ask for the label of a row with the probability  b / (b + margin)

    where the margin is how far the prediction is ahead of the next class. `query_one` tells whether
    to ask, and `learn_one` learns a row with its label. `partial_fit` and `fit_stream` simulate
    that on rows whose labels are all there: they learn from rows that were asked for, and the
    labels of the others have no effect.

    With a `budget`, b follows the margins and the labels so far, so that the share of labels holds
    on every stream: it is never off by more than 50 labels (`label_limits`). With a fixed `b` there
    is a bound on the expected mistakes of the Perceptron on every stream (`max_mistakes`), as if it
    learned from every label; how many labels that takes depends on the stream. See
    `docs/queries.md`.

    `fit` is that of the learner: it learns from labels that are there already, all of them.

    Parameters
    ----------
    clf : estimator, default=None
        Any learner of this library that takes rows as they come; `AutoMargin` by default. It stays
        as it is: a copy learns, which goes on from what the learner knows (in `fit` anew).
    budget : float, default=0.1
        The share of rows whose labels are asked for.
    b : float, default=None
        A fixed b, in the units of `decision_function`, in place of a budget.
    random_state : int, RandomState instance or None, default=None
        Seed of the questions. The random number of a row depends on its place in the stream alone,
        so that any chunking asks for the same rows.

    Attributes
    ----------
    estimator_ : estimator
        The copy that learns, with its weights and counts.
    n_rows_, n_queries_ : int
        Rows so far, and those whose labels were asked for.
    label_share_ : float
        The share of these.
    b_ : float
        That of the next row.
    accuracy_ : AccuracyEstimate
        The accuracy of the predictions for all rows, estimated from the labels that were asked for,
        and its standard error. A mistake on a row that was asked for with probability p counts
        ``1 / p``, so that there is no bias. The row that `learn_one` learns after a question is
        taken for its answer; there is no estimate if answers come later than the next question.
    classes_ : ndarray of shape (n_classes,)
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Guarantees, with proofs: `maxmargin.certificates.query_bounds`.

    References
    ----------
    N. Cesa-Bianchi, C. Gentile and L. Zaniboni, "Worst-case analysis of selective sampling for
    linear classification", JMLR 7, 2006. For passive-aggressive learners: J. Lu, P. Zhao and
    S. Hoi, "Online passive-aggressive active learning", Machine Learning 103, 2016.

    Examples
    --------
    >>> from maxmargin import LabelQueries
    >>> clf = LabelQueries(budget=0.2, random_state=0)
    >>> stream = [({"size": k % 10}, k % 10 > 4) for k in range(2000)]
    >>> for x, y in stream:
    ...     if clf.query_one(x):  # only then somebody has to say what it is
    ...         clf = clf.learn_one(x, y, classes=[False, True])
    >>> 350 <= clf.n_queries_ <= 450
    True
    >>> clf.predict_one({"size": 9})
    True
    """

    clf: Any = None
    budget: float = 0.1
    b: float | None = None
    random_state: Any = None

    default = AutoMargin
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "clf": [BaseLearner, None],
        "budget": [Interval(Real, 0, 1, closed="right")],
        "b": [Interval(Real, 0, None, closed="neither"), None],
        "random_state": ["random_state"],
    }
    # Of rows before the first is learned.
    _begun: QuerySampler | None = None

    def _validate_params(self) -> None:
        super()._validate_params()
        if not hasattr(self.learner(), "partial_fit"):
            raise ValueError(
                "The 'clf' parameter of LabelQueries must be a learner with partial_fit, which "
                f"{type(self.clf).__name__} has not."
            )

    def _new_trainer(self) -> QueryTrainer:
        return self._trainer_with()

    def _trainer_with(self, seen: np.ndarray = NO_QUERIES) -> QueryTrainer:
        return QueryTrainer(trainer_of(self.learner()), self._questions(), seen)

    def _questions(self) -> Questions:
        b = None if self.b is None else float(self.b)
        return Questions(float(self.budget), b, self.random_state)

    def sampler(self) -> QuerySampler:
        """What decides about the next row."""
        state = self.__state__()
        before = self._begun if state is None else sampler_in(state)
        found = self._questions().sampler_for(before)
        if found is not before:
            self._put_sampler(found)
        return found

    def _put_sampler(self, sampler: QuerySampler) -> None:
        if (state := self.__state__()) is None:
            self._begun = sampler
        else:
            self._begun = None
            self._state = state._replace(more={**state.more, QUERIES: sampler})

    # -------------------------------------------------------------------------------------- asking
    def query_one(self, x: Row) -> bool:
        """Whether to ask for the label of this row; it counts as a row of the stream.

        Before the first row is learned, the answer is yes, as far as the budget allows.

        Parameters
        ----------
        x : dict, pair (indices, values), or array of shape (n_features,)

        Returns
        -------
        bool
        """
        self.check_parameters()
        sampler, state = self.sampler(), self.__state__()
        if state is None:
            asked, _ = sampler.ask(np.zeros(1), 2)
            return asked
        inner = self.learner()
        if hasattr(inner, "decision_one"):
            scores = np.ravel(inner.decision_one(x))
        else:
            scores = trainer_of(inner).outputs(state, self._single_row(x))[0]
        asked, _ = sampler.ask(scores, state.classes.size)
        return asked

    # ------------------------------------------------------------------------------------ learning
    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the learner to rows whose labels are there; they do not count as asked for.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        sample_weight : array of shape (n_samples,), default=None

        Returns
        -------
        self
        """
        self.check_parameters()
        y = np.asarray(y)
        if y.ndim == 2 and y.shape[1] > 1:
            raise ValueError("LabelQueries needs rows with one label each.")
        inner = clone(self.learner()).fit(X, y, sample_weight=sample_weight)
        state, sampler = inner.__state__(), self._questions().sampler_for(None)
        self._state = state._replace(more={**state.more, QUERIES: sampler})
        return self

    @if_taking_rows
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        grow: bool = False,
    ) -> Self:
        """Ask for the label of each row, in the given order, and learn from it if it was asked for.

        Questions and model do not depend on how a stream is split into calls. Rows that are to be
        learned in any case are for `learn_one`, or for `learn_labelled`.

        Parameters
        ----------
        X, y, classes, sample_weight, grow
            As `partial_fit` of the learner takes them. There is a label for each row, since it
            depends on the labels before which ones are asked for; the others have no effect.

        Returns
        -------
        self
        """
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
        queries: np.ndarray = NO_QUERIES,
    ) -> tuple[np.ndarray, np.ndarray]:
        """`partial_fit` with the rows ``order``, which returns their scores before learning.

        Parameters
        ----------
        X, y, order, classes, sample_weight
            As `PassiveAggressive.score_then_learn` takes them.
        queries : array of shape (n_places, 2)
            Receives for each row of the order whether its label was asked for, and the probability
            of that.

        Returns
        -------
        outputs, updates
            As `PassiveAggressive.score_then_learn` returns them.
        """
        return self._learn(Batch(X, y, classes, sample_weight, order), queries)

    def _learn(
        self, batch: Batch, queries: np.ndarray = NO_QUERIES
    ) -> tuple[np.ndarray, np.ndarray]:
        self.check_parameters()
        self.learner().check_parameters()
        trainer = self._trainer_with(queries)
        self._state, scores, updates = score_then_learn(trainer, self.__state__(), batch)
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
        """Learn from a single row, whose label was asked for, or is known anyway.

        Parameters
        ----------
        x : dict, pair (indices, values), or array of shape (n_features,)
        y, w, classes, grow
            As `learn_one` of the learner takes them.

        Returns
        -------
        self
        """
        self.check_parameters()
        sampler, inner = self.sampler(), self.learner()
        state = self.__state__()
        code = self._code_before(state, y, classes)
        if hasattr(inner, "learn_one"):
            inner.learn_one(x, y, w=w, classes=classes, grow=grow)
        else:
            batch = self._batch_of(x, y, w, classes, grow)
            inner.partial_fit(batch.X, batch.y, classes=classes, sample_weight=batch.weight)
        self._keep(inner.__state__(), sampler)
        sampler.judge(code)
        return self

    @if_taking_rows
    def learn_labelled(
        self,
        X: ArrayLike,
        y: ArrayLike,
        order: np.ndarray,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """`score_then_learn` of the learner: all rows, whose labels are there without a question.

        Parameters
        ----------
        X, y, order, classes, sample_weight
            As `PassiveAggressive.score_then_learn` takes them.

        Returns
        -------
        outputs, updates
            As `PassiveAggressive.score_then_learn` returns them.
        """
        self.check_parameters()
        sampler, inner = self.sampler(), self.learner()
        found = inner.score_then_learn(X, y, order, classes, sample_weight)
        self._keep(inner.__state__(), sampler)
        return found

    def _keep(self, learned: State, sampler: QuerySampler) -> None:
        """Take over the state of the learner, and this sampler."""
        self._state = learned
        if sampler_in(learned) is not sampler:
            self._put_sampler(sampler)

    @staticmethod
    def _code_before(state: State | None, y: Hashable, classes: ArrayLike | None) -> int:
        """The code of a label as far as it was known; -1 if it was not.

        Before the first row, `sampler` predicts the code 1, as of two classes with a score of 0.
        """
        if y is None:  # which the learner refuses
            return -1
        if state is not None:
            return code_of(y, state.classes)
        if classes is None:
            return -1
        return int(default_label(known_classes(classes, None)) == y)

    @if_taking_rows
    def fit_stream(self, source: Any, *, passes: int = 1, **options: Any) -> Self:
        """Learn from a source of any size in one pass, as `partial_fit` does.

        Parameters
        ----------
        source, **options
            As `fit_stream` of the learner takes them.
        passes : int, default=1
            Only 1: rows are asked for once.

        Returns
        -------
        self
        """
        self.check_parameters()
        self.learner().check_parameters()
        self._check_passes(passes, "rows that come once")
        return super().fit_stream(source, **options)

    # ------------------------------------------------------------------------------------ counting
    def _sampler_seen(self) -> QuerySampler:
        """The sampler, of a stream that has begun."""
        if self._begun is None:
            self._fitted()
        return self.sampler()

    @property
    def n_rows_(self) -> int:
        return int(self._sampler_seen().counts[0])

    @property
    def n_queries_(self) -> int:
        return int(self._sampler_seen().counts[1])

    @property
    def label_share_(self) -> float:
        rows, queries = self._sampler_seen().counts.tolist()
        return queries / rows if rows else math.nan

    @property
    def b_(self) -> float:
        return self._sampler_seen().b()

    @property
    def accuracy_(self) -> AccuracyEstimate:
        return self._sampler_seen().accuracy()

    @staticmethod
    def label_limits(rows: int, budget: float) -> tuple[float, float]:
        """The fewest and the most labels that are asked for among so many rows, on any stream.

        ::

            budget * rows - 50,  budget * rows + 50

        Examples
        --------
        >>> LabelQueries.label_limits(10_000, budget=0.1)
        (950.0, 1050.0)
        """
        return label_limits(rows, budget)

    @staticmethod
    @bound(b=POSITIVE)
    def max_mistakes(losses: float, norm: float, radius: float, b: float) -> float:
        """Bound on the expected mistakes of a `Perceptron` with a fixed b, on any stream.

        ::

            (1 + R^2 / (2 b)) L + (2 b + R^2)^2 |u|^2 / (8 b)       for every vector u

        of a Perceptron with ``margin=0`` and ``rate=1``, for two classes. Rows and u have the
        coordinate of the intercept.

        Parameters
        ----------
        losses : float
            L, the expected sum of the hinge losses ``max(0, 1 - y u.x)`` of rows with a mistake and
            a question. It is at most that of all rows.
        norm : float
            ``|u|``.
        radius : float
            R, the largest norm of a row.
        b : float
        """
        return query_mistakes_bound(losses, norm, radius, b)

    # --------------------------------------------------------------------------------------- files
    def __learned__(self) -> Tree:
        if (state := self.__state__()) is None:
            return {}
        sampler = sampler_in(state)
        return self._learned_with({} if sampler is None else {QUERIES: sampler._asdict()})

    def __relearn__(self, found: Tree) -> None:
        sampler = checked_queries(found.pop(QUERIES, None))
        self._relearn_with(found, {} if sampler is None else {QUERIES: sampler})
