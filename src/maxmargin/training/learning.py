"""Learning from rows as they come: each once, in the order given."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from maxmargin.core.targets import balance
from maxmargin.core.trace import NO_TRACE, MeanTrace, Trace
from maxmargin.models.base import Model
from maxmargin.models.build import build
from maxmargin.models.kernel_model import variance
from maxmargin.streams import Option, OptionError
from maxmargin.streams.iterators import entries
from maxmargin.training import inputs
from maxmargin.training.calibration import maps_for
from maxmargin.training.feature_columns import Features
from maxmargin.training.following import Following
from maxmargin.training.multilabel import check_number_of_labels
from maxmargin.training.one_row import Locks, OneRow, fast_route, may_overflow
from maxmargin.training.options import Batch, ClassWeight, Options
from maxmargin.training.outputs import check_new_X
from maxmargin.training.passes import diverged
from maxmargin.training.pauses import present
from maxmargin.training.prediction_sets import new_tracker
from maxmargin.training.protocol import Learned
from maxmargin.training.recipes import learned_along
from maxmargin.training.row_reading import (
    Row,
    are_dicts,
    as_matrix,
    matrix_of_dicts,
    named_features,
    with_columns,
)
from maxmargin.training.sample_weights import (
    check_products,
    check_weights,
    only_counted,
    weights_by_label,
)
from maxmargin.training.state import State, grown
from maxmargin.training.types import Matrix, Rows, Rule, Targets

if TYPE_CHECKING:
    from maxmargin.training.online import OnlineTrainer

NEEDS_ALL = " needs all rows at once, as fit has them: "


class CheckedRows(NamedTuple):
    """The rows of a batch, checked against the state.

    ``order`` leaves out rows of weight 0; ``weight`` is None where all rows count once.
    """

    X: Matrix
    codes: np.ndarray
    classes: np.ndarray
    features: Features
    order: np.ndarray
    weight: np.ndarray | None

    @property
    def multilabel(self) -> bool:
        return self.codes.ndim == 2


def learn(
    trainer: OnlineTrainer,
    state: State | None,
    batch: Batch,
    alone: bool,
    changing: AbstractContextManager[object],
) -> Learned:
    """See `Trainer.learn`."""
    given = checked(trainer, state, batch)
    state = begun(trainer, given, batch.grow) if state is None else widened(state, given)
    options, rows = trainer.options, given.codes.shape[0]
    weight, totals = weights_in_order(options.class_weight, state, given)
    rule, model = trainer.rule(state.model.p), state.model.streaming(rows, alone)
    # What is learned in place cannot be counted, or followed, at once with that.
    is_counted = totals is not state.totals or options.follows_scores
    is_followed = is_counted or batch.pauses is not None
    if model is state.model and not alone and (is_followed or may_overflow(model, rule)):
        model = model.twin()
    by_steps = weight if model.spec.soft_margin == 0.0 else None
    targets = inputs.as_targets(given.codes, given.classes.size, state.unseen, by_steps)
    trace = model.tracing(given.order.size) if batch.traced else NO_TRACE
    presented = model.rows(given.X, weight), targets, given.order, rule, trace
    maps, sets, pauses, first = None, None, batch.pauses, 0
    if pauses is not None:
        first = pauses.begin(given.X, given.codes, inputs.shown(state))
    if options.follows_scores:
        learner = Following(options, state, model, given.weight, batch.sets)
        learner.present(*presented, pauses, first)  # type: ignore[arg-type]
        maps, sets = learner.maps, learner.sets
    elif model is state.model:
        with changing:
            present_all(model, *presented)
        return Learned(state._replace(totals=totals) if is_counted else state, trace)
    elif pauses is None:
        model.present(*presented)  # type: ignore[arg-type]
    else:
        present(model, *presented, pauses, first)
    if not model.is_finite():
        raise ValueError(diverged(options.name))
    learned = state._replace(model=model, totals=totals, calibration=maps, sets=sets)
    return Learned(learned, trace)


def checked(trainer: OnlineTrainer, state: State | None, batch: Batch) -> CheckedRows:
    """The rows of a batch; raises if they cannot be learned from."""
    X, features = _columns(trainer.options, state, batch)
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


def _columns(options: Options, state: State | None, batch: Batch) -> tuple[Matrix, Features]:
    if state is None:
        return inputs.check_X(options, batch.X)
    check = check_wider_X if batch.grow else inputs.check_X
    return check(options, batch.X, state.features)


def _classes(state: State | None, batch: Batch, y: np.ndarray) -> np.ndarray:
    """All labels from this batch on."""
    before, named = None if state is None else state.classes, batch.classes
    if y.ndim == 2 and named is None and before is None:
        named = np.arange(y.shape[1])
    return more_classes(named, before, y) if batch.grow else known_classes(named, before)


def begun(trainer: OnlineTrainer, given: CheckedRows, grow: bool) -> State:
    """A state at w = 0 for a stream that begins with these rows."""
    check_gamma(trainer.options, given.X)
    trainer.check_can_stream()
    first = max(0, int(given.order[0])) if given.order.size else 0  # the first row that counts
    model = build(
        trainer.spec,
        inputs.problems_for(given.classes, unseen=grow, multilabel=given.multilabel),
        given.X[first:] if first else given.X,
        unseen=grow,
        random_state=trainer.options.random_state,
    ).model
    margins = np.full(model.verdicts(), np.nan)
    return State(
        model, given.classes, given.features, margins, unseen=grow, multilabel=given.multilabel
    )


def widened(state: State, given: CheckedRows) -> State:
    """The state for the columns and the classes of these rows."""
    state = grown(state, given.X.shape[1], given.classes)
    features = given.features
    return state if features is state.features else state._replace(features=features)


def weights_in_order(
    class_weight: ClassWeight, state: State, given: CheckedRows
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Sample weights times class weights, and the totals of classes with these rows.

    "balanced" goes by the classes of the rows up to each, in the order in which they are learned.
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
    weights = weights.copy()  # calibration counts rows by their own weights
    totals = np.zeros(classes.size + 1) if totals is None else totals.copy()
    balance(given.codes, given.order, totals, weights)
    return weights, totals


def present_all(
    model: Model,
    rows: Rows,
    targets: Targets,
    order: np.ndarray,
    rule: Rule,
    trace: Trace | MeanTrace,
) -> None:
    """Learn in place from all rows, or from none: interruptions wait until the rows are learned."""
    before = model.trials()
    try:
        model.present(rows, targets, order, rule, trace)  # type: ignore[arg-type]
    except BaseException:
        if done := model.trials() - before:
            model.settle()
            model.present(rows, targets, order[order >= 0][done:], rule)
        raise


# ---------------------------------------------------------------------- outputs before learning
def foretell(
    trainer: OnlineTrainer,
    state: State | None,
    batch: Batch,
    changing: AbstractContextManager[object],
) -> tuple[State, np.ndarray, np.ndarray]:
    """Learn from the rows of a batch, which may be dicts or raw rows for a recipe.

    The new state; the scores of each row of the order, before it was learned from; and the updates
    made since the call began, after each row of the order.
    """
    features, X = None, batch.X
    if state is not None and state.recipe is not None:
        state, X = learned_along(state, X, batch.weight)
    elif are_dicts(X):
        state, features, X = matrix_of_dicts(X, state)  # type: ignore[arg-type]
        # The rows have no names of their own.
        state = state and state._replace(features=Features(features.count))
    batch = batch._replace(X=X, traced=True)
    if trainer.options.averages_kernels:
        state, scores, made = _foretold_by_rows(trainer, state, batch, changing)
    else:
        state, trace = trainer.learn(state, batch, changing=changing)
        assert trace is not None
        scores, made = trace.scores()[:, : state.model.problems()], trace.history[:, -1]
    state = state if features is None else state._replace(features=features)
    return state, scores[:, inputs.shown(state)], made


def _foretold_by_rows(
    trainer: OnlineTrainer,
    state: State | None,
    batch: Batch,
    changing: AbstractContextManager[object],
) -> tuple[State, np.ndarray, np.ndarray]:
    """`foretell` row by row, with the outputs of all problems."""
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
            state = trainer.learn(state, one, changing=changing).state
            made = state.model.updates()
        found.append((outputs, made - before))
    if state is None:  # no row is learned from
        only_looks = Batch(X, y, batch.classes, order=order)
        state = trainer.learn(None, only_looks, changing=changing).state
    scores, updates = np.zeros((order.size, state.model.problems())), np.zeros(order.size)
    for n, (outputs, updates[n]) in enumerate(found):
        if outputs is not None:
            scores[n] = outputs
    return state, scores, updates


# -------------------------------------------------------------------------------------- single rows
class Lesson(NamedTuple):
    """A single row, and a state that has columns for its names.

    Attributes
    ----------
    batch : the row as ``X``, its label and weight, and what else `learn_one` was called with
    state : what learns; None before the first row
    features : the columns, with their names
    route : learns from the row in place; None if `learn_single` has to
    """

    batch: Batch
    state: State | None
    features: Features | None
    route: OneRow | None


def prepared_lesson(
    trainer: OnlineTrainer,
    state: State | None,
    batch: Batch,
    before: OneRow | None,
    access: Locks,
) -> Lesson:
    """The state with columns for all names of a row, and the fast route, if it takes the row."""
    x: Row = batch.X
    features = None if state is None else state.features
    if state is not None and state.recipe is not None:
        state, x = learned_along(state, [x], batch.weight)
    elif isinstance(x, dict):
        x = dict(entries(x, "x"))
        state, features = with_columns(x, state)
    batch = batch._replace(X=x)
    if state is None:
        return Lesson(batch, None, features, None)
    if state.model.learns_rows_in_place:
        state = _for_learning_in_place(trainer.options, state, state.model)
    rule, route = trainer.rule(state.model.p), fast_route(trainer.options, state, before, access)
    if route is not None:
        is_new_label = batch.grow and batch.y not in route.targets
        if not is_new_label and route.can_learn(batch.weight, rule):  # type: ignore[arg-type]
            trainer.check_structure(state)
            route.rule = rule
        else:
            route = None
    return Lesson(batch, state, features, route)


def _for_learning_in_place(options: Options, state: State, model: Model) -> State:
    """With all arrays that a single row changes."""
    totals, maps, sets = state.totals, None, None
    if options.class_weight == "balanced" and totals is None:
        totals = np.zeros(state.classes.size + 1)
    if options.calibration is not None:
        maps = maps_for(model) if state.calibration is None else state.calibration
    if options.coverage is not None:
        sets = state.sets
        if sets is None or sets.target[0] != options.coverage:
            sets = new_tracker(options.coverage)
    return state._replace(model=model.streaming(1), totals=totals, calibration=maps, sets=sets)


def learn_single(
    trainer: OnlineTrainer, lesson: Lesson, changing: AbstractContextManager[object]
) -> State:
    """The state after a lesson without a fast route."""
    batch, bare, features, _ = lesson
    x: Row = batch.X
    row = x if sparse.issparse(x) else as_matrix(x, features)
    if bare is not None:  # the row has no names of its own
        bare = bare._replace(features=Features(row.shape[1]))
    weight = None if batch.weight == 1.0 else batch.weight
    batch = batch._replace(X=row, y=np.array([batch.y]), weight=weight)
    state = trainer.learn(bare, batch, changing=changing).state
    return state if features is None else state._replace(features=features)


def class_of_zero(classes: ArrayLike | None) -> Any:
    """The prediction before any row was learned from, given all classes, if they are named."""
    if classes is None:
        return None
    labels = known_classes(classes, None).tolist()
    return labels[1] if len(labels) == 2 else labels[0]


def outputs_of_one(state: State, x: Row) -> np.ndarray:
    """The scores of a single row where there is no fast route."""
    row = as_matrix(x, named_features(state))
    inputs.check_values(row)
    return state.model.outputs(row)[:, inputs.shown(state)]


# ------------------------------------------------------------------------------------------- checks
def check_can_stream(options: Options) -> None:
    """Raise if a parameter is one that only all rows together can tell."""
    if options.fit_intercept and options.intercept_scaling == "max":
        raise OptionError(Option("intercept_scaling", "max"), NEEDS_ALL, "pass a number.")
    check_gamma(options)


def check_gamma(options: Options, X: Matrix = None) -> None:
    """Raise if ``gamma`` is one that only all rows can tell, with one to try, by ``X`` if given."""
    if options.kernel not in ("poly", "rbf") or options.gamma != "scale":
        return
    other, why = Option("gamma", "first"), "which goes by the first row, or pass a number"
    if X is not None:
        gamma = 1.0 / (X.shape[1] * (variance(X) or 1.0 / X.shape[1]))
        other, why = Option("gamma", float(f"{gamma:.2g}")), "as these rows suggest"
    raise OptionError(Option("gamma", "scale"), NEEDS_ALL, "try ", other, f", {why}.")


def check_wider_X(options: Options, X: ArrayLike, features: Features) -> tuple[Matrix, Features]:
    """`check_X` for rows that may have more columns than those before."""
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
    """The labels of a stream, given those named in this call and those of the state.

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
    labels = np.unique(classes)
    if labels.size < 2:
        raise ValueError(f"classes must contain at least two labels, got {labels.tolist()}.")
    return labels


def more_classes(classes: ArrayLike | None, before: np.ndarray | None, y: np.ndarray) -> np.ndarray:
    """All labels: those of the state, those named in this call, and those that occur in it."""
    labels = np.unique(y)
    for others in (classes, before):
        if others is not None:
            if (np.asarray(others).dtype.kind in "US") != (labels.dtype.kind in "US"):
                raise ValueError(
                    f"Labels must be all of one kind, got {labels.tolist()} and "
                    f"{np.asarray(others).tolist()}."
                )
            labels = np.union1d(labels, others)
    return labels if classes is not None else inputs.likely_classes(labels)
