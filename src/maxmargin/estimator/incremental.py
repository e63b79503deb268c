"""Learning from rows as they come: each once, in the order given."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from maxmargin._extras import Self
from maxmargin.core.loop import LARGEST_XX, SMALLEST_XX
from maxmargin.core.trace import NO_TRACE, MeanTrace, Trace
from maxmargin.estimator.locks import access_to, writing
from maxmargin.estimator.predicting import check_new_X
from maxmargin.models.base import Model
from maxmargin.models.build import build
from maxmargin.models.kernel_model import variance
from maxmargin.streams import Option, OptionError
from maxmargin.training import inputs
from maxmargin.training.calibration import calibrating
from maxmargin.training.dict_rows import are_dicts, met_all
from maxmargin.training.feature_columns import Features
from maxmargin.training.messages import diverged, likely_classes
from maxmargin.training.multilabel import check_number_of_labels
from maxmargin.training.recipes import learnt_along, recipe_of
from maxmargin.training.sample_weights import check_weights, only_counted, running_weights
from maxmargin.training.state import State, grown, problems_for, shown

NEEDS_ALL = " needs all rows at once, as fit has them: "


class Incremental:
    """Gives a learner `partial_fit`, and what it is made of to others.

    It must be `Stateful`, and a learner with a rule and a specification; see `OnlineClassifier`.
    """

    fit_intercept: Any
    intercept_scaling: Any
    soft_margin: Any
    kernel: Any
    gamma: Any
    random_state: Any
    class_weight: Any
    calibration: Any
    _known: Any
    _rule: Any
    _spec: Any
    _learn_plain_row: Any
    _prepare_for_rows: Any
    check_parameters: Any

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, *, grow: bool = False
    ) -> Self:
        """Learn from each row of ``X``, ``y`` once, in the order given.

        Any way of cutting a stream into calls gives the same model, to the bit.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        classes : array of shape (n_classes,), default=None
            All labels that can occur; needed in the first call.
        sample_weight : array of shape (n_samples,), default=None
            How often each row counts, see `docs/weights.md`; a row of weight 0 is none. By default
            each counts once.
        grow : bool, default=False
            Accept columns that were not there before, whose weights start at 0, and, if the first
            call was made with it, labels that were not known before. One more weight vector, of a
            class that never occurs, is then learnt along, and a new class continues it: so the
            model is the one that would have known all columns and classes from the start. Several
            classes must be learnt one-vs-rest.

        Returns
        -------
        self
        """
        is_usual = classes is None and sample_weight is None and not grow
        if not (is_usual and self._learn_plain_row(X, y)):
            self._learn_rows(X, y, classes, sample_weight, grow)
        return self

    @writing
    def _learn_rows(self, X: Any, y: Any, classes: Any, sample_weight: Any, grow: bool) -> None:
        before = self._known()
        state, X = learnt_along(before, X, sample_weight)
        self._state, _ = self._learnt(state, X, y, classes, grow=grow, sample_weight=sample_weight)
        self._known()
        if self._state is before and np.shape(X)[0] == 1:
            self._prepare_for_rows()  # they come one by one

    @writing
    def foretell(
        self, X: Any, y: Any, order: np.ndarray, classes: Any = None, sample_weight: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """`partial_fit` of the rows ``order``, which says what was seen before each was learnt.

        Parameters
        ----------
        X, y, classes, sample_weight
            As in `partial_fit`; rows may also be a list of dicts, as `learn_one` takes them.
        order : array of int32
            A row i that stands there as ``-1 - i`` is only looked at.

        Returns
        -------
        outputs : ndarray of shape (n_places, n_outputs)
            The scores of each row of the order, before it was learnt from.
        updates : ndarray of shape (n_places,)
            Made since the call began, after each row of the order.
        """
        state, features = self._known(), None
        if recipe_of(state) is not None:
            state, X = learnt_along(state, X, sample_weight)
        elif are_dicts(X):
            state, features, X = met_all(X, state)
            # The rows have no names of their own.
            state = state and state._replace(features=Features(features.count))
        if self._is_mean_of_kernels():
            state, scores, made = self._foretold(state, X, y, order, classes, sample_weight)
        else:
            state, trace = self._learnt(
                state, X, y, classes, order=order, foretell=True, sample_weight=sample_weight
            )
            scores, made = trace.scores()[:, : state.model.problems()], trace.history[:, -1]
        self._state = state if features is None else state._replace(features=features)
        return scores[:, shown(self._known())], made

    def _is_mean_of_kernels(self) -> bool:
        """Does it predict by averaged coefficients of a kernel, whose outputs no loop computes?"""
        return getattr(self, "average", False) and self.kernel != "linear"

    def _foretold(
        self, state: State | None, X: Any, y: Any, order: np.ndarray, classes: Any, weights: Any
    ) -> tuple[State, np.ndarray, np.ndarray]:
        """`foretell` row by row: the new state, the outputs of all problems, and the updates."""
        rows, found = X.iloc if hasattr(X, "iloc") else X, []
        worth = None if weights is None else check_weights(weights, len(y))
        before = made = 0 if state is None else state.model.updates()
        for i in order.tolist():
            k = i if i >= 0 else -1 - i
            row, outputs = rows[k : k + 1], None
            if state is not None:
                outputs = state.model.outputs(check_new_X(self, row, state.features))
            if i >= 0:
                weight = None if worth is None else worth[k : k + 1]
                state, _ = self._learnt(state, row, y[k : k + 1], classes, sample_weight=weight)
                made = state.model.updates()
            found.append((outputs, made - before))
        if state is None:  # no row is learnt from
            state, _ = self._learnt(None, X, y, classes, order=order)
        scores, updates = np.zeros((order.size, state.model.problems())), np.zeros(order.size)
        for n, (outputs, updates[n]) in enumerate(found):
            if outputs is not None:
                scores[n] = outputs
        return state, scores, updates

    def _learnt(
        self,
        state: State | None,
        X: Any,
        y: Any,
        classes: Any,
        *,
        grow: bool = False,
        order: np.ndarray | None = None,
        foretell: bool = False,
        alone: bool = False,
        sample_weight: Any = None,
    ) -> tuple[State, Trace | MeanTrace]:
        """The state after each row was learnt from once, and what was seen before each.

        What is known stays as it is unless ``alone``, or until one assignment puts the new state in
        place.
        """
        self.check_parameters()
        features = None if state is None else state.features
        if features is None:
            X, features = inputs.check_X(self, X)
        elif grow:
            X, features = check_wider_X(self, X, features)
        else:
            X, features = inputs.check_X(self, X, features)
        y = inputs.check_y(y, X.shape[0], several=True)
        check_number_of_labels(self, y, state, grow)
        before = None if state is None else state.classes
        if y.ndim == 2:
            classes = np.arange(y.shape[1]) if classes is None and before is None else classes
        known = more_classes(classes, before, y) if grow else known_classes(classes, before)
        if state is not None:
            self._check_structure(state)
        codes = inputs.class_codes(y, known)
        inputs.check_values(X, features)
        order = np.arange(X.shape[0], dtype=np.int32) if order is None else order
        worth = None
        if sample_weight is not None or self.class_weight is not None:
            worth = check_weights(sample_weight, y.shape[0])
            order = only_counted(order, worth, look=foretell)
        if state is None:
            check_gamma(self, X)
            self.check_can_stream()
            first = max(0, int(order[0])) if order.size else 0  # the first row that counts
            model = build(
                self._spec(),
                problems_for(known, spare=grow, multilabel=y.ndim == 2),
                X[first:] if first else X,
                spare=grow,
                random_state=self.random_state,
            ).model
            margins, several = np.full(model.verdicts(), np.nan), y.ndim == 2
            state = State(model, known, features, margins, spare=grow, multilabel=several)
        else:
            state = grown(state, X.shape[1], known)
            state = state if features is state.features else state._replace(features=features)
        how_often = None if worth is None or self.calibration is None else worth.copy()
        totals = state.totals
        if worth is not None and self.class_weight is not None:
            worth, totals = running_weights(
                self.class_weight, known, codes, order, worth, totals, others=state.spare
            )
        model, rule = state.model.streaming(y.shape[0], alone), self._rule(state.model.p)
        # What is learnt in place cannot be counted, or calibrated, at once with that.
        is_counted = totals is not state.totals or self.calibration is not None
        if model is state.model and not alone and (is_counted or may_overflow(model, rule)):
            model = model.twin()
        by_steps = worth if model.spec.soft_margin == 0.0 else None
        rows = model.rows(X, worth)
        targets = inputs.as_targets(codes, known.size, state.spare, by_steps)
        trace = model.tracing(order.size) if foretell else NO_TRACE
        maps = None
        if self.calibration is not None:
            learner = calibrating(model, state.calibration, how_often)
            learner.present(rows, targets, order, rule, trace)
            maps = learner.maps
        elif model is state.model:
            with access_to(self).changing:
                present_all(model, rows, targets, order, rule, trace)
            return (state._replace(totals=totals) if is_counted else state), trace
        else:
            model.present(rows, targets, order, rule, trace)
        if not model.is_finite():
            raise ValueError(diverged(type(self).__name__))
        return state._replace(model=model, totals=totals, calibration=maps), trace

    def _continued(
        self, before: State, classes: np.ndarray, X: Any, worth: np.ndarray | None
    ) -> Model:
        """The model of the last fit, for one with rows of the same kind."""
        self._check_structure(before)
        if worth is not None and before.model.private_coordinates():
            raise ValueError("warm_start with a soft margin cannot go on with weights of rows.")
        # With a kernel, the soft margin is part of it.
        private = X.shape[0] if self.soft_margin > 0.0 and self.kernel == "linear" else 0
        model, width = before.model, before.features.count
        old = before.classes.tolist(), width, model.private_coordinates()
        if old != (now := (classes.tolist(), X.shape[1], private)):
            raise ValueError(
                "warm_start needs the classes, the number of features and, with a soft margin, "
                f"the number of rows of the last fit, without weights: {old}, got {now}."
            )
        model = grown(before, width, classes).model  # without room for more columns
        return model.continued()

    def _check_structure(self, state: State) -> None:
        """Refuse to go on with a model that was built for other parameters."""
        spec = state.model.spec
        if self.__dict__.get("_checked_spec") is spec:
            return  # nothing has changed since
        if found := spec.difference(self._spec()):
            name, before, now = found
            raise ValueError(
                f"The '{name}' parameter of {type(self).__name__} cannot change on a fitted model: "
                f"it was {before!r}, got {now!r}. Fit anew without warm_start."
            )
        self._checked_spec = spec

    def check_can_stream(self) -> None:
        """Raise if a parameter is one that only all rows together can tell."""
        if self.fit_intercept and self.intercept_scaling == "max":
            raise OptionError(Option("intercept_scaling", "max"), NEEDS_ALL, "pass a number.")
        check_gamma(self)


def check_gamma(clf: Incremental, X: Any = None) -> None:
    """Raise if ``gamma`` is one that only all rows can tell, with one to try, by ``X`` if given."""
    if clf.kernel not in ("poly", "rbf") or clf.gamma != "scale":
        return
    other, why = Option("gamma", "first"), "which goes by the first row, or pass a number"
    if X is not None:
        gamma = 1.0 / (X.shape[1] * (variance(X) or 1.0 / X.shape[1]))
        other, why = Option("gamma", float(f"{gamma:.2g}")), "as these rows suggest"
    raise OptionError(Option("gamma", "scale"), NEEDS_ALL, "try ", other, f", {why}.")


def check_wider_X(clf: BaseEstimator, X: Any, features: Features) -> tuple[Any, Features]:
    """`check_X` for rows that may have more columns than those before."""
    columns = np.shape(X)[1] if len(np.shape(X)) == 2 else 0
    if columns <= features.count:
        return inputs.check_X(clf, X, features)
    if features.columns is not None:
        raise ValueError("Columns of a learner that knows their names can only grow by dicts.")
    X, wider = inputs.check_X(clf, X)
    before, now = features.names, wider.names
    if (now is None) != (before is None):
        raise ValueError("Columns can only grow if all rows have names for them, or none have.")
    if now is not None and before is not None and not np.array_equal(now[: before.size], before):
        raise ValueError(
            f"New columns must come behind the old ones, {before.tolist()}; got {now.tolist()}."
        )
    return X, wider


def known_classes(classes: Any, before: np.ndarray | None, *, can_grow: bool = True) -> np.ndarray:
    """The labels of a stream, given those named in this call and those known before.

    ``can_grow`` says whether the learner takes ``grow=True``.
    """
    if before is not None:
        if classes is not None and not np.array_equal(before, np.unique(classes)):
            raise ValueError(
                f"classes={np.unique(classes).tolist()} is not the same as on the last call to "
                f"partial_fit, {before.tolist()}."
            )
        return before
    if classes is None:
        ways = "pass classes=[...] with all labels that can occur"
        if can_grow:
            ways += (
                " to partial_fit or learn_one, or grow=True to each call to learn new labels as "
                "they come"
            )
        raise ValueError(f"classes must be passed on the first call to partial_fit: {ways}.")
    known = np.unique(classes)
    if known.size < 2:
        raise ValueError(f"classes must contain at least two labels, got {known.tolist()}.")
    return known


def present_all(
    model: Any, rows: Any, targets: Any, order: np.ndarray, rule: Any, trace: Trace
) -> None:
    """Learn in place from all rows, or from none: whatever stops it waits until they are learnt."""
    before = model.trials()
    try:
        model.present(rows, targets, order, rule, trace)
    except BaseException:
        if done := model.trials() - before:
            model.settle()
            model.present(rows, targets, order[order >= 0][done:], rule)
        raise


def may_overflow(model: Any, rule: Any) -> bool:
    """Could one more row make weights of a linear model infinite?

    Not while weights and the numbers of the rule are as far from that as rows are, see
    `core.loop.LARGEST_XX`: no step is longer than their product.
    """
    norms = np.asarray(model.linear.scalars.table)["norm2"]
    largest = norms[0] if norms.size == 1 else norms.max()
    return not largest <= LARGEST_XX or not is_moderate(tuple(rule))


@lru_cache
def is_moderate(numbers: tuple[float, ...]) -> bool:
    """Are all numbers of a rule so far from the largest and the smallest as rows are?"""
    sizes = [abs(number) for number in numbers if number != 0.0 and number != np.inf]
    return not sizes or bool(
        math.sqrt(SMALLEST_XX) <= min(sizes) <= max(sizes) <= math.sqrt(LARGEST_XX)
    )


def more_classes(classes: Any, before: np.ndarray | None, y: np.ndarray) -> np.ndarray:
    """All labels: those known before, those named in this call, and those that occur in it."""
    known = np.unique(y)
    for others in (classes, before):
        if others is not None:
            if (np.asarray(others).dtype.kind in "US") != (known.dtype.kind in "US"):
                raise ValueError(
                    f"Labels must be all of one kind, got {known.tolist()} and "
                    f"{np.asarray(others).tolist()}."
                )
            known = np.union1d(known, others)
    return known if classes is not None else likely_classes(known)
