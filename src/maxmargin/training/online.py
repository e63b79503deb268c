"""The trainer of all learners with a rule: passes over rows, batches and single rows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from maxmargin._interrupts import uninterrupted
from maxmargin.core.targets import balance
from maxmargin.core.trace import NO_TRACE, MeanTrace, Trace, tracing
from maxmargin.models.base import Built, Diverged, build
from maxmargin.models.kernel_model import variance
from maxmargin.models.linear_model import LinearModel
from maxmargin.models.spec import ModelSpec
from maxmargin.training import inputs
from maxmargin.training.inputs import check_number_of_labels
from maxmargin.training.one_row import OneRow, fast_route_for, may_overflow
from maxmargin.training.outputs import check_new_X, outputs
from maxmargin.training.passes import FitPlan, Outcome, RunPasses, diverged
from maxmargin.training.protocol import Batch, ClassWeight, Fitted, Learned, Options, Trainer
from maxmargin.training.recipes import learned_along
from maxmargin.training.row_reading import (
    Row,
    are_dicts,
    as_matrix,
    encoded,
    matrix_of_dicts,
    named_features,
    with_columns,
)
from maxmargin.training.sample_weights import (
    check_products,
    check_weights,
    counted,
    only_counted,
    weights_by_label,
)
from maxmargin.training.state import Features, Matrix, Rule, State, grown, online_model


class FitRows(NamedTuple):
    """The rows of a fit, without those of weight 0; weights include class weights."""

    X: Matrix
    y: np.ndarray
    classes: np.ndarray
    features: Features
    radius: float
    weight: np.ndarray | None
    totals: np.ndarray | None


class OnlineTrainer:
    """Lets a rule learn from rows, in passes or one by one.

    ``rule`` and ``spec`` make the rule for a p-norm and the specification of models; ``run`` makes
    the passes of a fit.
    """

    can_grow = True

    def __init__(
        self,
        options: Options,
        rule: Callable[[float], Rule],
        spec: Callable[[], ModelSpec],
        run: RunPasses,
    ) -> None:
        self.options, self.rule, self._spec, self._run = options, rule, spec, run
        self._checked: ModelSpec | None = None

    @property
    def spec(self) -> ModelSpec:
        return self._spec()

    def learn(
        self,
        state: State | None,
        batch: Batch,
        *,
        owned: bool = False,
    ) -> Learned:
        given = checked_rows(self, state, batch)
        state = self._begun(given, batch.grow) if state is None else widened(state, given)
        options, rows = self.options, given.codes.shape[0]
        weight, totals = weights_in_order(options.class_weight, state, given)
        before = online_model(state)
        rule, model = self.rule(before.p), before.streaming(rows, owned)
        # Totals cannot change atomically with a model that learns in place.
        is_counted = totals is not state.totals
        if model is before and not owned and (is_counted or may_overflow(model, rule)):
            model = model.copy()
        by_steps = weight if model.tail.private == 0.0 else None
        targets = inputs.as_targets(given.codes, given.classes.size, state.unseen, by_steps)
        trace: Trace | MeanTrace = NO_TRACE
        if batch.traced:
            average = model.spec.averages() and not model.has_supports
            trace = tracing(given.order.size, model.problems(), average)
        arguments = model.rows(given.X, weight), targets, given.order, rule, trace
        with uninterrupted() if model is before else nullcontext():
            try:
                model.learn_from(*arguments)
            except Diverged:
                raise ValueError(diverged(options.name)) from None
        if model is not before:
            if not model.is_finite():
                raise ValueError(diverged(options.name))
            state = state._replace(model=model)
        learned = state._replace(totals=totals) if is_counted else state
        return Learned(learned, trace, given.codes, given.order)

    def _begun(self, given: CheckedRows, grow: bool) -> State:
        """A state at w = 0 for a stream that begins with these rows."""
        options, spec, codes = self.options, self.spec, given.codes
        check_gamma(options, given.X)
        self.check_can_stream()
        first = max(0, int(given.order[0])) if given.order.size else 0  # the first row that counts
        problems = inputs.problems_for(given.classes, unseen=grow, multilabel=codes.ndim == 2)
        X = given.X[first:] if first else given.X
        model = build(spec, problems, X, unseen=grow, random_state=options.random_state).model
        self._checked = spec
        margins = np.full(model.n_margins(), np.nan)
        known = model, given.classes, given.features, margins
        return State(*known, unseen=grow, multilabel=codes.ndim == 2)

    def learn_one(
        self, state: State | None, batch: Batch, before: OneRow | None
    ) -> tuple[State, OneRow | None]:
        """The state after a single row, and the fast route for the next ones, if there is one.

        Columns are added for new names. ``before`` is the fast route of the state.
        """
        x: Any = batch.X
        features = None if state is None else state.features
        if state is not None and state.recipe is not None:
            state, wider, x = learned_along(state, [x], batch.weight)
            features = wider or features
        elif isinstance(x, dict):
            known = Features(0) if state is None else named_features(state)
            x = encoded(x, known.shared_columns(), known.count)
            state, features = with_columns(x, state)
        if state is not None:
            state = self._for_one_row(state)
            if (route := self._route(state, batch, before)) is not None:
                route.learn(x, batch.y, batch.weight)  # type: ignore[arg-type]
                return state, route
        X = x if sparse.issparse(x) else as_matrix(x, features)
        if state is not None:  # the matrix has no names
            state = state._replace(features=Features(X.shape[1]))
        weight = None if batch.weight == 1.0 else batch.weight
        batch = batch._replace(X=X, y=np.array([batch.y]), weight=weight)
        state = self.learn(state, batch).state
        return state if features is None else state._replace(features=features), None

    def _for_one_row(self, state: State) -> State:
        """The state with all arrays that learning a single row changes."""
        model, totals = online_model(state), state.totals
        if not model.learns_rows_in_place:
            return state
        if self.options.class_weight == "balanced" and totals is None:
            totals = np.zeros(state.classes.size + 1)
        return state._replace(model=model.streaming(1), totals=totals)

    def _route(self, state: State, batch: Batch, before: OneRow | None) -> OneRow | None:
        """The fast route that learns a row in place, if there is one."""
        model, route = online_model(state), fast_route_for(self.options, state, before)
        rule = self.rule(model.p)
        if route is None or (batch.grow and batch.y not in route.targets):
            return None
        if may_overflow(model, rule):
            return None
        self.check_structure(state)
        route.rule = rule
        return route

    def outputs(self, state: State, X: ArrayLike) -> np.ndarray:
        return outputs(self.options, state, X)

    def fit(
        self,
        state: State | None,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
    ) -> Fitted:
        given = self._fit_rows(state, X, y, sample_weight)
        start = self._initial(given) if state is None else self._resumed(state, given)
        state, (model, rows, radius) = start
        options = self.options
        model.begin_fit(rows)
        # The bound to report when there were too few updates for a better one.
        ceiling = model.ceiling(rows, radius) if options.max_iter > 1 else np.inf
        by_steps = given.weight if options.soft_margin == 0.0 else None
        codes = inputs.class_codes(given.y, given.classes)
        targets = inputs.as_targets(codes, given.classes.size, state.unseen, by_steps)
        plan = FitPlan(options, given.X.size, ceiling, inputs.shown(state))
        outcome = self._run(model, rows, targets, plan)
        if given.weight is not by_steps and isinstance(outcome.model, LinearModel):
            outcome = outcome._replace(model=outcome.model.without_rows())
        return self._concluded(state, outcome, plan, given.totals)

    def _fit_rows(
        self, before: State | None, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> FitRows:
        rows, labels, features, radius = inputs.check_fit(self.options, X, y, multilabel=True)
        if labels.ndim == 2 or before is not None:
            check_number_of_labels(self, labels, before)
        weight, totals, by_class = None, None, self.options.class_weight
        if sample_weight is not None or by_class is not None:
            rows, labels, weight, totals = counted(
                rows, labels, sample_weight, by_class, self.options.kernel
            )
            radius = inputs.check_values(rows)
        classes = inputs.classes_of(labels)
        return FitRows(rows, labels, classes, features, radius, weight, totals)

    def _initial(self, given: FitRows) -> tuple[State, Built]:
        """A state at w = 0, and its model with the rows."""
        multilabel = given.y.ndim == 2
        built = build(
            self.spec,
            inputs.problems_for(given.classes, multilabel=multilabel),
            given.X,
            radius=given.radius,
            sample_weight=given.weight,
            random_state=self.options.random_state,
        )
        known = built.model, given.classes, given.features, np.empty(0)
        return State(*known, multilabel=multilabel), built

    def _resumed(self, before: State, given: FitRows) -> tuple[State, Built]:
        """`_initial` for a warm start from a state, with rows of the same shape."""
        self.check_structure(before)
        private, X = online_model(before).private_coordinates(), given.X
        if given.weight is not None and private:
            raise ValueError("warm_start with a soft margin cannot go on with weights of rows.")
        # With a kernel, the soft margin is part of the kernel.
        is_soft = self.options.soft_margin > 0.0 and self.options.kernel == "linear"
        old = before.classes.tolist(), before.features.count, private
        now = given.classes.tolist(), X.shape[1], X.shape[0] if is_soft else 0
        if old != now:
            raise ValueError(
                "warm_start needs the classes, the number of features and, with a soft margin, "
                f"the number of rows of the last fit, without weights: {old}, got {now}."
            )
        # Drop spare columns.
        model = online_model(grown(before, before.features.count, given.classes)).continued()
        features = given.features._replace(columns=before.features.columns)
        state = before._replace(model=model, features=features)
        return state, Built(model, model.fit_rows(X, given.weight), given.radius)

    def _concluded(
        self, state: State, outcome: Outcome, plan: FitPlan, totals: np.ndarray | None
    ) -> Fitted:
        model = outcome.model
        if not model.is_finite():
            raise ValueError(diverged(self.options.name))
        state = state._replace(
            model=model,
            margins=outcome.margins,
            measured=model.trials(),
            ceiling=plan.ceiling,
            n_iter=outcome.n_iter,
            converged=outcome.converged,
            more=outcome.more,
            totals=totals,
        )
        return Fitted(state, outcome.warning)

    def check_structure(self, state: State) -> None:
        """Raise if the model was built with other structural parameters."""
        spec = online_model(state).spec
        if self._checked is spec:
            return
        if found := spec.difference(self.spec):
            name, before, now = found
            raise ValueError(
                f"The '{name}' parameter of {self.options.name} cannot change on a fitted model: "
                f"it was {before!r}, got {now!r}. Fit anew without warm_start."
            )
        self._checked = spec

    def check_can_stream(self) -> None:
        if self.options.fit_intercept and self.options.intercept_scaling == "max":
            raise ValueError(f'intercept_scaling="max"{NEEDS_ALL}pass a number.')
        check_gamma(self.options)


NEEDS_ALL = " needs all rows at once, as fit has them: "


class CheckedRows(NamedTuple):
    """Validated rows of a batch; ``order`` has no rows of weight 0, ``weight`` None means all 1."""

    X: Matrix
    codes: np.ndarray
    classes: np.ndarray
    features: Features
    order: np.ndarray
    weight: np.ndarray | None


def checked_rows(trainer: OnlineTrainer, state: State | None, batch: Batch) -> CheckedRows:
    """The rows of a batch; raises if they cannot be learned from."""
    if state is None:
        X, features = inputs.check_X(trainer.options, batch.X)
    else:
        check = check_wider_X if batch.grow else inputs.check_X
        X, features = check(trainer.options, batch.X, state.features)
    y = inputs.check_y(batch.y, X.shape[0], multilabel=True)
    if y.ndim == 2 or (state is not None and state.multilabel):
        check_number_of_labels(trainer, y, state, batch.grow)
    classes = _classes(state, batch, y)
    if state is not None:
        trainer.check_structure(state)
    codes = inputs.class_codes(y, classes)
    inputs.check_values(X, features)
    order = np.arange(X.shape[0], dtype=np.int32) if batch.order is None else batch.order
    weight = None
    if batch.weight is not None or trainer.options.class_weight is not None:
        weight = check_weights(batch.weight, y.shape[0])
        order = only_counted(order, weight, look=batch.traced)
    return CheckedRows(X, codes, classes, features, order, weight)


def _classes(state: State | None, batch: Batch, y: np.ndarray) -> np.ndarray:
    """All labels known from this batch on."""
    before, named = None if state is None else state.classes, batch.classes
    if y.ndim == 2 and named is None and before is None:
        named = np.arange(y.shape[1])
    return more_classes(named, before, y) if batch.grow else known_classes(named, before)


def widened(state: State, given: CheckedRows) -> State:
    """The state with the columns and classes of these rows."""
    state = grown(state, given.X.shape[1], given.classes)
    features = given.features
    return state if features is state.features else state._replace(features=features)


def weights_in_order(
    class_weight: ClassWeight, state: State, given: CheckedRows
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Sample weights times class weights, and the class totals including these rows.

    "balanced" weights a row by the totals up to it, in the order of learning.
    """
    weights, totals, classes = given.weight, state.totals, given.classes
    if weights is None or class_weight is None:
        return weights, totals
    if not isinstance(class_weight, str):
        weights = (
            weights * weights_by_label(class_weight, classes, others=state.unseen)[given.codes]
        )
        check_products(weights)
        return weights, totals
    weights = weights.copy()
    totals = np.zeros(classes.size + 1) if totals is None else totals.copy()
    balance(given.codes, given.order, totals, weights)
    return weights, totals


# --------------------------------------------------------------------------- scores before learning
def score_then_learn(
    trainer: Trainer,
    state: State | None,
    batch: Batch,
) -> tuple[State, np.ndarray, np.ndarray]:
    """Learn from a batch, whose rows may be dicts or raw rows for a recipe.

    Returns the new state, the scores of each row of the order before it was learned, and the
    number of updates in this call after each row of the order.
    """
    features, X = None, batch.X
    if state is not None and state.recipe is not None:
        state, features, X = learned_along(state, X, batch.weight)
    elif are_dicts(X):
        state, features, X = matrix_of_dicts(X, state)  # type: ignore[arg-type]
        # The rows have no names of their own.
        state = state and state._replace(features=Features(features.count))
    batch = batch._replace(X=X, traced=True)
    if trainer.options.averages_kernels:
        state, scores, made = _score_then_learn_rows(trainer, state, batch)
    else:
        learned = trainer.learn(state, batch)
        state, trace = learned.state, learned.trace
        assert trace is not None
        scores, made = trace.scores()[:, : state.model.problems()], trace.history[:, -1]
    state = state if features is None else state._replace(features=features)
    return state, scores[:, inputs.shown(state)], made


def _score_then_learn_rows(
    trainer: Trainer,
    state: State | None,
    batch: Batch,
) -> tuple[State, np.ndarray, np.ndarray]:
    """`score_then_learn` row by row, with the outputs of all problems."""
    X: Any = batch.X
    y: Any = batch.y
    order: Any = batch.order
    rows, found = X.iloc if hasattr(X, "iloc") else X, []
    weights = None if batch.weight is None else check_weights(batch.weight, len(y))
    before = made = 0 if state is None else state.model.updates()
    for i in order.tolist():
        k = i if i >= 0 else -1 - i
        row, outputs = rows[k : k + 1], None
        if state is not None:
            outputs = state.model.outputs(check_new_X(trainer.options, row, state.features))
        if i >= 0:
            weight = None if weights is None else weights[k : k + 1]
            one = Batch(row, y[k : k + 1], batch.classes, weight)
            state = trainer.learn(state, one).state
            made = state.model.updates()
        found.append((outputs, made - before))
    if state is None:  # no row was learned
        only_scored = Batch(X, y, batch.classes, order=order)
        state = trainer.learn(None, only_scored).state
    scores, updates = np.zeros((order.size, state.model.problems())), np.zeros(order.size)
    for n, (outputs, updates[n]) in enumerate(found):
        if outputs is not None:
            scores[n] = outputs
    return state, scores, updates


# -------------------------------------------------------------------------------------- single rows
def default_label(classes: ArrayLike | None) -> Any:
    """The prediction before the first row: the class of score 0, or None without classes."""
    if classes is None:
        return None
    labels = known_classes(classes, None).tolist()
    return labels[1] if len(labels) == 2 else labels[0]


def outputs_of_one(state: State, x: Row) -> np.ndarray:
    """The scores of a single row without a fast route."""
    row = as_matrix(x, named_features(state))
    inputs.check_values(row)
    return state.model.outputs(row)[:, inputs.shown(state)]


# ------------------------------------------------------------------------------------------- checks
def check_gamma(options: Options, X: Matrix = None) -> None:
    """Raise if ``gamma`` depends on all rows; the message suggests a value, from ``X`` if given."""
    if options.kernel not in ("poly", "rbf", "laplacian") or options.gamma != "scale":
        return
    other = 'gamma="first", which goes by the first row, or pass a number'
    if X is not None:
        gamma = 1.0 / (X.shape[1] * (variance(X) or 1.0 / X.shape[1]))
        other = f"gamma={float(f'{gamma:.2g}')}, as these rows suggest"
    raise ValueError(f'gamma="scale"{NEEDS_ALL}try {other}.')


def check_wider_X(options: Options, X: ArrayLike, features: Features) -> tuple[Matrix, Features]:
    """`check_X` for rows that may have more columns than earlier ones."""
    columns = np.shape(X)[1] if len(np.shape(X)) == 2 else 0
    if columns <= features.count:
        return inputs.check_X(options, X, features)
    if features.columns is not None:
        raise ValueError("A learner whose columns have names gets new columns from dicts only.")
    X, wider = inputs.check_X(options, X)
    before, now = features.names, wider.names
    if (now is None) != (before is None):
        raise ValueError("Columns can only grow if all rows have names for them, or none have.")
    if now is not None and before is not None and not np.array_equal(now[: before.size], before):
        raise ValueError(
            f"New columns must come behind the old ones, {before.tolist()}; got {now.tolist()}."
        )
    return X, wider


def known_classes(
    classes: ArrayLike | None, before: np.ndarray | None, *, can_grow: bool = True
) -> np.ndarray:
    """The labels of a stream, from this call or from the state ``before``.

    ``can_grow`` tells the message whether the learner accepts ``grow=True``.
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
    labels = np.unique(classes)
    if labels.size < 2:
        raise ValueError(f"classes must contain at least two labels, got {labels.tolist()}.")
    return labels


def more_classes(classes: ArrayLike | None, before: np.ndarray | None, y: np.ndarray) -> np.ndarray:
    """All labels: of the state, named in this call, or occurring in ``y``."""
    try:
        labels = np.unique(y)
    except TypeError as error:
        raise ValueError(inputs.several_kinds(y)) from error
    for others in (classes, before):
        if others is not None:
            if (np.asarray(others).dtype.kind in "US") != (labels.dtype.kind in "US"):
                raise ValueError(
                    f"Labels must be all of one kind, got {labels.tolist()} and "
                    f"{np.asarray(others).tolist()}."
                )
            labels = np.union1d(labels, others)
    return labels if classes is not None else inputs.likely_classes(labels)
