"""Online learning from batches and single rows."""

from __future__ import annotations

import abc
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._extras import Self
from maxmargin._interrupts import uninterrupted
from maxmargin.estimator.predicting import Predicting, as_scores, if_calibrated
from maxmargin.training.learning import (
    default_label,
    learn_single,
    outputs_of_one,
    prepare_row,
    score_then_learn,
)
from maxmargin.training.one_row import OneRow, fast_route_for
from maxmargin.training.online import OnlineTrainer
from maxmargin.training.options import Batch
from maxmargin.training.recipes import learned_along
from maxmargin.training.row_reading import Row, named_features
from maxmargin.training.types import Columns


class Incremental(Predicting):
    """A learner with `partial_fit`, `learn_one`, `predict_one` and the like."""

    _one_row: OneRow | None = None

    @abc.abstractmethod
    def __trainer__(self) -> OnlineTrainer:
        """The trainer, which learns by a rule."""

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        grow: bool = False,
    ) -> Self:
        """Learn from each row of ``X``, ``y`` once, in the given order.

        The model does not depend on how a stream is split into calls.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        classes : array of shape (n_classes,), default=None
            All possible labels; required in the first call.
        sample_weight : array of shape (n_samples,), default=None
            Sample weights, see `docs/weights.md`; rows of weight 0 are ignored. By default all
            are 1.
        grow : bool, default=False
            Accept new columns, whose weights start at 0, and, if the first call was made with it,
            new labels. One spare weight vector, that of a class which never occurs, is then learned
            as well, and a new class starts from it: the model is the one that would have known all
            columns and classes from the start. Multiclass problems must be one-vs-rest.

        Returns
        -------
        self
        """
        is_usual = classes is None and sample_weight is None and not grow
        if not (is_usual and self._learn_plain_row(X, y)):
            self._learn_rows(Batch(X, y, classes, sample_weight, grow=grow))
        return self

    def _learn_rows(self, batch: Batch) -> None:
        before = state = self.__state__()
        X, features = batch.X, None
        if state is not None and state.recipe is not None:
            state, features, X = learned_along(state, X, batch.weight)
        self.check_parameters()
        state = self.__trainer__().learn(state, batch._replace(X=X)).state
        self._state = state if features is None else state._replace(features=features)
        if self._state is before and np.shape(X)[0] == 1:
            self._prepare_for_rows()  # rows seem to come one by one

    def score_then_learn(
        self,
        X: ArrayLike,
        y: ArrayLike,
        order: np.ndarray,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """`partial_fit` with the rows ``order``, which returns their scores before learning.

        Parameters
        ----------
        X, y, classes, sample_weight
            As in `partial_fit`; rows may also be a list of dicts, as in `learn_one`.
        order
            As in `training.options.Batch`.

        Returns
        -------
        outputs : ndarray of shape (n_places, n_outputs)
            The scores of each row of the order, before it was learned.
        updates : ndarray of shape (n_places,)
            The number of updates in this call after each row of the order.
        """
        self.check_parameters()
        batch = Batch(X, y, classes, sample_weight, order)
        self._state, scores, made = score_then_learn(self.__trainer__(), self.__state__(), batch)
        return scores, made

    # ---------------------------------------------------------------------------------- one by one
    def learn_one(
        self,
        x: Row,
        y: Hashable,
        *,
        w: float = 1.0,
        classes: ArrayLike | None = None,
        grow: bool = False,
    ) -> Self:
        """Learn from a single row, as `partial_fit` would, in a few microseconds.

        Parameters
        ----------
        x : dict, pair (indices, values), or array of shape (n_features,)
            Names in dicts are assigned columns in order of appearance (`columns_`); a text value is
            an entry 1 in the column "name=text". With a kernel and no budget, this is
            `partial_fit`.
        y : label
        w : float, default=1.0
            Sample weight, see `docs/weights.md`; a row of weight 0 is ignored.
        classes : array of shape (n_classes,), default=None
            All possible labels; required in the first call, unless ``grow`` is set.
        grow : bool, default=False
            Accept new labels, see `partial_fit`.

        Returns
        -------
        self
        """
        one = self._one_row
        usable = one is not None and one.state is self._state and (not grow or y in one.targets)
        if not (usable and one.learn(x, y, w)):  # type: ignore[union-attr]
            self._learn_one(Batch(x, y, classes, w, grow=grow))  # type: ignore[arg-type]
        return self

    def _learn_one(self, batch: Batch) -> None:
        """The complete route, for first rows, new names and new labels."""
        self.check_parameters()
        before, trainer = self.__state__(), self.__trainer__()
        # A route with new names must not remain if the row turns out to be invalid.
        earlier = self.__dict__.pop("_one_row", None)
        row = prepare_row(trainer, before, batch, earlier)
        route, state = row.route, row.state
        if route is None or state is None or before is None:
            self._state = learn_single(trainer, row)
            return
        with uninterrupted():
            route.learn(row.batch.X, batch.y, batch.weight)  # type: ignore[arg-type]
            self._state, self._one_row = state, route

    def _learn_plain_row(self, X: ArrayLike, y: ArrayLike) -> bool:
        """Learn from a matrix of one row by the fast route; False if it does not apply.

        Then the complete route learns the row, or raises the error.
        """
        one = self._one_row
        if one is None or type(X) is not np.ndarray or type(y) is not np.ndarray:
            return False
        if X.shape != one.plain_shape or X.dtype != np.float64 or y.shape != (1,):
            return False
        try:
            return one.state is self._state and one.learn(X, y.item(), 1.0)
        except ValueError:
            return False

    def _prepare_for_rows(self) -> None:
        """Make the fast route for single rows, unless there is one."""
        one, state = self._one_row, self._fitted()
        if (one is None or one.state is not state) and (one := self._fast_route()) is not None:
            one.rule = self.__trainer__().rule(state.model.p)

    def _fast_route(self) -> OneRow | None:
        """The fast route for the present state, if any, cached for the next row."""
        options = self.__trainer__().options
        if (one := fast_route_for(options, self._fitted(), self._one_row)) is not None:
            self._one_row = one
        return one

    def predict_one(self, x: Row, *, classes: ArrayLike | None = None, grow: bool = False) -> Any:
        """Predict the class of a single row, as in `learn_one`; unknown names count as 0.

        Parameters
        ----------
        x : dict, pair (indices, values), or array of shape (n_features,)
        classes : array of shape (n_classes,), default=None
            As in `learn_one`, for rows that are predicted before any was learned: these have the
            class of a score of 0.
        grow : bool, default=False
            As in `learn_one`: before any row was learned no class is known, and the answer is None.

        Returns
        -------
        label

        Examples
        --------
        >>> from maxmargin import Perceptron
        >>> clf = Perceptron()
        >>> stream = [({"height": 2.0}, "tall"), ({"height": -1.0}, "small")]
        >>> for x, y in stream:
        ...     print(clf.predict_one(x, grow=True))
        ...     clf = clf.learn_one(x, y, grow=True)
        None
        tall
        """
        one = self._one_row
        if one is None or one.state is not self._state:
            if self.__state__() is None and (grow or classes is not None):
                return default_label(classes)
            if (one := self._fast_route()) is None:
                return self._classes_for(self._scores_of_one(x)).tolist()[0]
        return one.predict(x)

    def decision_one(self, x: Row) -> Any:
        """The score of a single row, as in `learn_one`; see `decision_function`.

        Parameters
        ----------
        x : dict, pair (indices, values), or array of shape (n_features,)

        Returns
        -------
        float for two classes, else ndarray of shape (n_classes,)

        Examples
        --------
        >>> from maxmargin import Perceptron
        >>> clf = Perceptron().learn_one({"height": 2.0}, "tall", classes=["small", "tall"])
        >>> clf.decision_one({"height": -1.0})
        -1.0
        """
        one = self._one_row
        if one is None or one.state is not self._state:
            one = self._fast_route()
        scores = self._scores_of_one(x).ravel() if one is None else one.scores(x)
        return scores if scores.size > 1 else scores.item()

    @if_calibrated
    def predict_proba_one(self, x: Row) -> dict[Hashable, float]:
        """The probability of each class of a single row.

        Parameters
        ----------
        x : dict, pair (indices, values), or array of shape (n_features,)

        Returns
        -------
        dict of label to probability
        """
        state, scores = self._fitted(), np.reshape(self.decision_one(x), (1, -1))
        probabilities = self._probabilities(state, scores)[0]
        return dict(zip(state.classes.tolist(), probabilities.tolist(), strict=True))

    def _scores_of_one(self, x: Row) -> np.ndarray:
        """The scores of a single row without a fast route."""
        state = self._fitted()
        if state.recipe is not None:
            return self.decision_function([x])
        return as_scores(outputs_of_one(state, x))

    @property
    def columns_(self) -> Columns:
        features = named_features(self._fitted())
        if features.columns is None:
            raise AttributeError("The learner has not seen any dicts.")
        return features.named_columns() or {}
