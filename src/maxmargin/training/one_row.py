"""The fast route for single rows: learn in place, or predict, in microseconds.

Numba's dispatch on the types of the arguments takes ten times as long as learning from a short row.
So the compiled code is looked up once for each kind of row and then called directly. Linear models
and mixtures of experts have a fast route, if rows have no private coordinates.
"""

from __future__ import annotations

import math
import struct
import warnings
from collections.abc import Callable, Hashable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from maxmargin._interrupts import uninterrupted
from maxmargin.core.loop import LARGEST_XX, SMALLEST_XX
from maxmargin.core.numba_backend import Compiled
from maxmargin.core.rows import NO_TAIL, DenseRows, SparseRows, WeightedTail
from maxmargin.core.targets import balance
from maxmargin.core.trace import NO_TRACE
from maxmargin.models.base import OnlineModel
from maxmargin.models.linear_model import LinearModel, PairModel, read_only
from maxmargin.training.inputs import as_targets, listed, shown
from maxmargin.training.protocol import ClassWeight, Options
from maxmargin.training.row_reading import (
    MOST_LAYOUTS,
    Layout,
    Row,
    checked_pair,
    dense_row,
    encoded,
    named_features,
    new_layout,
    starts_of,
    unusable_row_message,
    warning_of_names,
)
from maxmargin.training.sample_weights import check_weights, weights_by_label
from maxmargin.training.state import DictRow, Rule, SingleRow, State, Targets, online_model

# A compiled function for arguments of certain types.
MachineCode = Callable[..., Any]
ONLY_ROW = np.zeros(1, dtype=np.int32)
# Matches no dict.
NO_LAYOUT = new_layout((None,), {}, 0, 0, NO_TAIL)


# For code so short that releasing the interpreter lock would take longer than running it.
brief = partial(Compiled, nogil=False)


@brief
def class_number(rows, space, first, found):  # type: ignore[no-untyped-def]
    """The index of the highest output of the problems from ``first`` on, written to ``found``.

    For a single problem, whether its output is positive. -1 if an output is not finite, because
    the row has a NaN or infinite value.
    """
    best, highest = 0, -np.inf
    space.fill_outputs(rows, 0, first, found)
    for c in range(found.size):
        if not abs(found[c]) < np.inf:
            return -1
        if found[c] > highest:
            best, highest = c, found[c]
    if found.size == 1:
        return 1 if highest >= 0.0 else 0
    return best


@brief
def outputs_into(rows, space, first, found):  # type: ignore[no-untyped-def]
    """Write the outputs of the problems from ``first`` on to ``found``; True if all are finite."""
    finite = True
    space.fill_outputs(rows, 0, first, found)
    for c in range(found.size):
        finite &= abs(found[c]) < np.inf
    return finite


@brief
def are_usable(values):  # type: ignore[no-untyped-def]
    """True if a row with these values can be learned from; see `first_unusable`."""
    square, has_nonzero = 0.0, False
    for value in values.flat:
        square += value * value
        has_nonzero |= value != 0.0
    return SMALLEST_XX <= square <= LARGEST_XX or not has_nonzero


def may_overflow(model: OnlineModel, rule: Rule) -> bool:
    """True if one more row could make the weights of a linear model, or of experts, infinite.

    It cannot while weights and the parameters of the rule are within the limits for rows
    (`core.loop.LARGEST_XX`), since no step is longer than their product.
    """
    if not isinstance(model, LinearModel):
        return not model.is_finite()
    norms = np.asarray(model.linear.scalars.table)["norm2"]
    largest = norms[0] if norms.size == 1 else norms.max()
    return not largest <= LARGEST_XX or not _is_moderate(tuple(rule))


@lru_cache
def _is_moderate(numbers: tuple[float, ...]) -> bool:
    """True if the parameters of a rule are within the limits for rows."""
    sizes = [abs(number) for number in numbers if number != 0.0 and number != np.inf]
    return not sizes or bool(
        math.sqrt(SMALLEST_XX) <= min(sizes) <= max(sizes) <= math.sqrt(LARGEST_XX)
    )


class OneRow:
    """The fast route of single rows through a linear model or a mixture of experts.

    It belongs to one state of a learner: `follow_state` updates it when the learner gets more
    columns, and a new one is built when parameters or arrays change.
    """

    def __init__(self, state: State, class_weight: ClassWeight) -> None:
        model: Any = state.model  # which learns rows in place
        self.model = model
        self.rule: Any = None  # set before the first row is learned
        self.is_paired = isinstance(self.model, PairModel)
        self.width, self.unseen = self.model.width(), state.unseen
        self.tail: Any = self.model.tail
        # The arguments of the machine code.
        self.space, self.tally, self.view = model.space, model.tally, model.view()
        self.labels = state.classes.tolist()
        self.only_label = self.labels[0] if len(self.labels) == 1 else None
        self.targets = {
            label: as_targets(np.array([code], np.int32), len(self.labels), state.unseen)
            for code, label in enumerate(self.labels)
        }
        self.is_weighted, self.is_balanced = class_weight is not None, class_weight == "balanced"
        by_label = class_weight if isinstance(class_weight, dict) else None
        self.class_weights = weights_by_label(by_label, state.classes, others=True)
        self.first, stop, _ = shown(state).indices(self.model.problems())
        self.shown = stop - self.first
        self.found = np.empty(self.shown)
        # Machine code by function and argument types, and the one for rows of the latest layout.
        self.code: dict[Hashable, MachineCode] = {}
        self.learn_sparse: MachineCode | None = None
        self.are_usable: MachineCode = are_usable
        self.classify_sparse: MachineCode | None = None
        self.layouts: dict[tuple[Hashable, ...], Layout] = {}
        self.incomplete: dict[tuple[Hashable, ...], Layout] = {}  # some names have no column
        self.has_warned = False  # of a row without known columns
        self.follow_state(state)

    def follow_state(self, state: State) -> OneRow:
        """Switch to another state of the same model, which may have more names."""
        self.state = state
        self.totals = state.totals
        features = named_features(state)
        self.features, self.columns = features.count, features.shared_columns()
        is_plain = features.names is None and features.count == self.width
        self.plain_shape = (1, self.width) if is_plain else None
        self.incomplete.clear()
        self.names: tuple[Hashable, ...] | None = None
        self.latest = NO_LAYOUT  # the layout of these names
        self.learn_sparse = None
        return self

    def _entry(self, key: Hashable, function: Compiled, *arguments: Any) -> MachineCode:
        """The machine code of a function for arguments of these types, looked up once."""
        if (code := self.code.get(key)) is None:
            code = self.code[key] = function.entry(*arguments)
        return code

    # ---------------------------------------------------------------------------------------- learn
    def learn(self, x: Row, y: Hashable, w: float) -> bool:
        """Learn from the row; False if it has names without columns.

        The usual case, dicts that repeat the same names, is inlined: each function call would add a
        tenth of the time.
        """
        layout, learn = self.latest, self.learn_sparse
        if learn is None or type(x) is not dict or [*x] != layout.names or w != 1.0:
            return self._learn_any(x, y, w)
        try:
            targets = self.targets[y]
            layout.fill(*x.values())
        except (KeyError, TypeError, struct.error, OverflowError):
            return self._learn_any(x, y, w)
        if not self.are_usable(layout.values):
            return self._learn_any(x, y, w)
        try:
            _, needs_maintenance = learn(
                layout.row, targets, ONLY_ROW, 0, self.rule, self.space, self.tally, NO_TRACE
            )
            if needs_maintenance:
                self._maintain()
        finally:
            if self.is_paired:
                self.model.begin_rows()
        return True

    def _learn_any(self, x: Row, y: Hashable, w: float) -> bool:
        """`learn` for rows of any kind; raises if the row cannot be learned from."""
        if self.rule is None:
            return False
        layout = None
        if isinstance(x, dict):
            layout = self.layout(tuple(x))
            if not layout.complete and (row := self._in_numbers(x)) is not x:
                x, layout = row, self.layout(tuple(row))
            if not layout.complete:
                return False
        try:
            targets = self.targets[y]
        except (KeyError, TypeError):
            classes = listed(np.array(self.labels))
            raise ValueError(f"y is {y!r}, which is not among the classes {classes}.") from None
        try:
            rows = self._row(x) if layout is None else layout.read(x)
        except (struct.error, OverflowError):
            return False  # text instead of a number, or an error that the complete route reports
        if not self._is_usable(rows):
            raise ValueError(unusable_row_message(rows, x))
        if self.is_weighted or w != 1.0:
            return self._learn_weighted(rows, targets, w)
        learned = self._learn(rows, targets)
        if layout is not None:
            self.learn_sparse = self.code.get(("learn", *_kinds(rows, targets)))
            self.are_usable = self.code[1]
        return learned

    def _is_usable(self, rows: SingleRow) -> bool:
        values = rows.values
        return self._entry(values.ndim, are_usable, values)(values)

    def _learn_weighted(self, rows: SingleRow, targets: Targets, w: float) -> bool:
        """Learn from a row that has a sample weight or a class weight."""
        sample_weight, codes = check_weights(w, 1), targets.labels
        if sample_weight[0] == 0.0:
            return True
        before, totals, trials = self.totals, None, self.model.trials()
        if before is not None and self.is_balanced:
            totals = before.copy()
            balance(codes, ONLY_ROW, totals, sample_weight)
        else:
            sample_weight *= self.class_weights[codes[0]]
        if self.tail.private > 0.0:
            tail = WeightedTail(self.tail.offset, self.tail.private, read_only(sample_weight))
            rows = rows._replace(tail=tail)
        else:
            targets = as_targets(codes, len(self.labels), self.unseen, sample_weight)
        try:
            return self._learn(rows, targets)
        finally:
            if before is not None and totals is not None and self.model.trials() != trials:
                before[:] = totals

    def _learn(self, rows: SingleRow, targets: Targets) -> bool:
        """Learn from a validated row."""
        key = ("learn", *_kinds(rows, targets))
        parts = rows, targets, ONLY_ROW, 0, self.rule, self.space, self.tally, NO_TRACE
        learn = self._entry(key, self.model.loop, *parts)
        try:
            _, needs_maintenance = learn(*parts)
            if needs_maintenance:
                self._maintain()
        finally:
            if self.is_paired:
                self.model.begin_rows()
        return True

    def _maintain(self) -> None:
        with uninterrupted():
            self.model.maintain(self.space)
        if may_overflow(self.model, self.rule):
            self.rule = self.learn_sparse = None  # from here on the complete route learns a copy

    # -------------------------------------------------------------------------------------- predict
    def predict(self, x: Row) -> Hashable:
        """The class of a row; names without columns count as 0."""
        layout, classify = self.latest, self.classify_sparse
        if classify is None or type(x) is not dict or [*x] != layout.names:
            return self._predict_any(x)
        try:
            layout.fill(*x.values())
        except (struct.error, OverflowError):
            return self._predict_any(x)
        number = classify(layout.row, self.view, self.first, self.found)
        return self.labels[number] if number >= 0 else self._predict_any(x)

    def _predict_any(self, x: Row) -> Hashable:
        rows = self._row_to_predict(x)
        if self.only_label is not None:
            return self.only_label
        number = self._class_number(rows)
        if number < 0:
            raise ValueError(unusable_row_message(rows, x))
        return self.labels[number]

    def _class_number(self, rows: SingleRow) -> int:
        parts = rows, self.view, self.first, self.found
        classify = self._entry(("class", type(rows)), class_number, *parts)
        if type(rows) is SparseRows:
            self.classify_sparse = classify
        return classify(*parts)

    def scores(self, x: Row) -> np.ndarray:
        """The outputs of the visible problems."""
        rows = self._row_to_predict(x)
        found = self._outputs(rows)
        if found is None:
            raise ValueError(unusable_row_message(rows, x))
        return found

    def _outputs(self, rows: SingleRow) -> np.ndarray | None:
        """The outputs of the visible problems; None if one is not finite."""
        found = np.empty(self.shown)
        parts = rows, self.view, self.first, found
        return found if self._entry(("outputs", type(rows)), outputs_into, *parts)(*parts) else None

    # --------------------------------------------------------------------------------- read the row
    def _row_to_predict(self, x: Row) -> SingleRow:
        """The row, with names that have no column left out."""
        layout = None
        if isinstance(x, dict):
            layout = self.layout(tuple(x))
            if not layout.complete:
                if not layout.values.size:
                    self.warn_of_names(x)
                x = self._in_numbers(x)
                layout = self.layout(tuple(x))
        try:
            return self._row(x) if layout is None else layout.read(x)
        except (struct.error, OverflowError):
            x = encoded(x, self.columns, self.features)
            return self.layout(tuple(x)).read(x)

    def _in_numbers(self, x: DictRow) -> DictRow:
        """The row with text values one-hot encoded, if it has any."""
        has_text = any(isinstance(each, str) for each in x.values())
        return encoded(x, self.columns, self.features) if has_text else x

    def warn_of_names(self, x: Row) -> None:
        """Warn once of a row without any known column."""
        if not self.has_warned and (message := warning_of_names(x, self.state)):
            self.has_warned = True
            warnings.warn(message, stacklevel=4)

    def _row(self, x: Row) -> SingleRow:
        """A row that is not a dict."""
        if isinstance(x, tuple):
            columns, numbers = checked_pair(x, self.features)
            starts = starts_of(columns.size)
            return SparseRows(read_only(numbers), read_only(columns), starts, self.width, self.tail)
        values = dense_row(x, self.features)
        if self.width > self.features:
            values = np.pad(values, ((0, 0), (0, self.width - self.features)))
        values.setflags(write=False)  # a view, or a copy that nobody else has
        return tuple.__new__(DenseRows, (values, self.tail))

    def layout(self, names: tuple[Hashable, ...]) -> Layout:
        """How to read dicts with these names."""
        if names == self.names:
            return self.latest
        layout = self.layouts.get(names) or self.incomplete.get(names)
        if layout is None:
            if self.columns is None:
                raise ValueError(
                    "the row is a dict, but the learner was trained on rows without names."
                )
            layout = new_layout(names, self.columns, self.features, self.width, self.tail)
            layouts = self.layouts if layout.complete else self.incomplete
            if len(layouts) >= MOST_LAYOUTS:
                layouts.clear()
            layouts[names] = layout
        self.names, self.latest = names, layout
        return layout


def _kinds(rows: SingleRow, targets: Targets) -> tuple[type, ...]:
    """The types that select the machine code."""
    return type(rows), type(targets), type(rows.tail)


def fast_route_for(options: Options, state: State | None, before: OneRow | None) -> OneRow | None:
    """The fast route for this state, if any; reuses ``before`` if the model is the same."""
    if state is None or state.multilabel or state.recipe is not None:
        return None
    model = online_model(state)
    if not model.learns_rows_in_place or model.private_coordinates():
        return None
    if before is not None and before.model is model:
        return before.follow_state(state)
    route = OneRow(state, options.class_weight)
    route.has_warned = before is not None and before.has_warned
    return route
