"""Learning from rows as they come: each once, in the order given."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.core.loop import LARGEST_XX, SMALLEST_XX
from maxmargin.core.trace import NO_TRACE, MeanTrace, Trace
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
from maxmargin.training.options import Batch, ClassWeight, Options
from maxmargin.training.outputs import check_new_X
from maxmargin.training.protocol import Learned
from maxmargin.training.recipes import learned_along, recipe_of
from maxmargin.training.sample_weights import check_weights, only_counted, running_weights
from maxmargin.training.state import State, grown
from maxmargin.training.types import Matrix, Rows, Rule, Targets

if TYPE_CHECKING:
    from maxmargin.training.online import OnlineTrainer

NEEDS_ALL = " needs all rows at once, as fit has them: "


class CheckedRows(NamedTuple):
    """The rows of a batch, checked against what is known.

    ``order`` leaves out rows of weight 0; ``weight`` is None where all rows count once.
    """

    X: Any
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
    # What is learned in place cannot be counted, or calibrated, at once with that.
    is_counted = totals is not state.totals or options.calibration is not None
    if model is state.model and not alone and (is_counted or may_overflow(model, rule)):
        model = model.twin()
    by_steps = weight if model.spec.soft_margin == 0.0 else None
    targets = inputs.as_targets(given.codes, given.classes.size, state.unseen, by_steps)
    trace = model.tracing(given.order.size) if batch.traced else NO_TRACE
    presented = model.rows(given.X, weight), targets, given.order, rule, trace
    maps = None
    if options.calibration is not None:
        learner = calibrating(model, state.calibration, given.weight)
        learner.present(*presented)  # type: ignore[arg-type]
        maps = learner.maps
    elif model is state.model:
        with changing:
            present_all(model, *presented)
        return Learned(state._replace(totals=totals) if is_counted else state, trace)
    else:
        model.present(*presented)  # type: ignore[arg-type]
    if not model.is_finite():
        raise ValueError(diverged(options.name))
    return Learned(state._replace(model=model, totals=totals, calibration=maps), trace)


def checked(trainer: OnlineTrainer, state: State | None, batch: Batch) -> CheckedRows:
    """The rows of a batch; raises if they cannot be learned from."""
    X, features = _columns(trainer.options, state, batch)
    y = inputs.check_y(batch.y, X.shape[0], multilabel=True)
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
    """Weights of rows times those of their classes, and the totals of classes with these rows."""
    if given.weight is None or class_weight is None:
        return given.weight, state.totals
    return running_weights(
        class_weight,
        given.classes,
        given.codes,
        given.order,
        given.weight.copy(),  # calibration counts rows by their own weights
        state.totals,
        others=state.unseen,
    )


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


# ------------------------------------------------------------------- what is said before learning
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
    if recipe_of(state) is not None:
        state, X = learned_along(state, X, batch.weight)
    elif are_dicts(X):
        state, features, X = met_all(X, state)  # type: ignore[arg-type]
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
        raise ValueError("Columns of a learner that knows their names can only grow by dicts.")
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


def may_overflow(model: Model, rule: Rule) -> bool:
    """Could one more row make weights of a linear model infinite?

    Not while weights and the numbers of the rule are as far from that as rows are, see
    `core.loop.LARGEST_XX`: no step is longer than their product.
    """
    norms = np.asarray(model.linear.scalars.table)["norm2"]  # type: ignore[attr-defined]
    largest = norms[0] if norms.size == 1 else norms.max()
    return not largest <= LARGEST_XX or not is_moderate(tuple(rule))


@lru_cache
def is_moderate(numbers: tuple[float, ...]) -> bool:
    """Are all numbers of a rule so far from the largest and the smallest as rows are?"""
    sizes = [abs(number) for number in numbers if number != 0.0 and number != np.inf]
    return not sizes or bool(
        math.sqrt(SMALLEST_XX) <= min(sizes) <= max(sizes) <= math.sqrt(LARGEST_XX)
    )


def more_classes(classes: ArrayLike | None, before: np.ndarray | None, y: np.ndarray) -> np.ndarray:
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
