"""Learn from, and predict, one row that comes alone: a dict, a sparse or a dense row.

Finding the machine code for the types of the arguments takes Numba ten times as long as learning
from a short row. So the code is looked up once, for each kind of rows, and called directly.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from maxmargin.core.loop import LARGEST_XX, SMALLEST_XX
from maxmargin.core.numba_backend import Compiled
from maxmargin.core.rows import NO_TAIL, DenseRows, SparseRows, WeightedTail
from maxmargin.core.targets import balance
from maxmargin.core.trace import NO_TRACE
from maxmargin.models.base import Model
from maxmargin.models.linear_model import LinearModel, PairModel, read_only
from maxmargin.streams.iterators import entries
from maxmargin.training.calibration import NO_ROWS, NO_WEIGHTS, knows_level, traced
from maxmargin.training.dict_rows import named_features
from maxmargin.training.inputs import as_targets, shown
from maxmargin.training.learning import may_overflow
from maxmargin.training.messages import listed
from maxmargin.training.options import ClassWeight
from maxmargin.training.platt import follow
from maxmargin.training.row_reading import (
    MOST_LAYOUTS,
    Layout,
    Pair,
    Row,
    checked_pair,
    dense_row,
    in_numbers,
    new_layout,
    numbers_of,
    starts_of,
    what_is_wrong,
)
from maxmargin.training.sample_weights import check_weights, told_weights
from maxmargin.training.state import State
from maxmargin.training.types import Rule, SingleRow, Targets

if TYPE_CHECKING:
    pass

# For which machine code is kept: the type of rows, or those of rows, targets and tails.
Kinds = type | tuple[type, ...]
THE_ROW = np.zeros(1, dtype=np.int32)
# Reads no dict.
NO_LAYOUT = new_layout((None,), {}, 0, 0, NO_TAIL)


# Compiled code that takes less time than it takes to let other threads run meanwhile.
brief = partial(Compiled, nogil=False)


@brief
def class_number(rows, space, first, shown):  # type: ignore[no-untyped-def]
    """Which of the problems from ``first`` on has the highest output; of one, is it positive?

    Below 0 if an output is no number, because the row has something that is none.
    """
    best, highest = 0, -np.inf
    for c in range(shown):
        output = space.output(rows, 0, first + c)
        if not abs(output) < np.inf:
            return -1
        if output > highest:
            best, highest = c, output
    if shown == 1:
        return 1 if highest >= 0.0 else 0
    return best


@brief
def outputs_into(rows, space, first, found):  # type: ignore[no-untyped-def]
    """Write down the outputs of the problems from ``first`` on; are they numbers?"""
    finite = True
    for c in range(found.size):
        found[c] = space.output(rows, 0, first + c)
        finite &= abs(found[c]) < np.inf
    return finite


@brief
def are_usable(values):  # type: ignore[no-untyped-def]
    """Can a row with these values be learned from? See `first_unusable`."""
    square, something = 0.0, False
    for value in values.flat:
        square += value * value
        something |= value != 0.0
    return SMALLEST_XX <= square <= LARGEST_XX or not something


class Locks(Protocol):
    """Those of a learner: one for changes in place, and whether a call is learning."""

    changing: AbstractContextManager[object]
    busy: bool


class OneRow:
    """The way of a single row through a linear model.

    Made for what a learner knows now; `followed` when it knows more names, to be made anew when its
    parameters or its arrays change.
    """

    def __init__(self, state: State, access: Locks, class_weight: ClassWeight) -> None:
        self.access, self.lock = access, access.changing
        self.model: Any = state.model  # of the kind that `is_possible` says
        self.rule: Any = None  # until it is asked to learn
        self.is_paired = isinstance(self.model, PairModel)
        self.width = self.model.width()
        self.trace: Any = NO_TRACE
        self.tail: Any = self.model.tail
        self._prepare()
        self.labels = state.classes.tolist()
        self.only_label = self.labels[0] if len(self.labels) == 1 else None
        self.unseen, codes = (
            state.unseen,
            [np.array([k], np.int32) for k in range(len(self.labels))],
        )
        each = [as_targets(code, len(self.labels), state.unseen) for code in codes]
        self.targets = dict(zip(self.labels, each, strict=True))
        self.is_weighted, self.is_balanced = class_weight is not None, class_weight == "balanced"
        told = class_weight if isinstance(class_weight, dict) else None
        self.told = told_weights(told, state.classes, others=True)
        self.first, stop, _ = shown(state).indices(self.model.problems())
        self.shown = stop - self.first
        # Machine code, for dense and for sparse rows.
        self.checks: dict[int, Any] = {}
        self.learners: dict[Any, Any] = {}
        self.followers: dict[tuple[type, ...], Any] = {}
        self.predictors: dict[type, Any] = {}
        self.lookers: dict[type, Any] = {}
        # That of rows of the last layout.
        self.learn_sparse: Any = None
        self.are_usable: Any = None
        self.output_of_sparse: Any = None
        self.layouts: dict[tuple[Any, ...], Layout] = {}
        self.incomplete: dict[tuple[Any, ...], Layout] = {}  # of dicts with unknown names
        self.followed(state)

    def _prepare(self) -> None:
        """Make ready what machine code is given."""
        self.space, self.tally = self.model.space, self.model.tally
        self.looking = self.model.view()

    @staticmethod
    def is_possible(model: Model) -> bool:
        """Linear models have such a way, if rows have no coordinates of their own."""
        return isinstance(model, LinearModel) and model.private_coordinates() == 0

    def can_learn(self, w: float, rule: Rule) -> bool:
        """Can a row of this weight be learned in place by this rule?"""
        return not may_overflow(self.model, rule)

    def can_follow(self, state: State) -> bool:
        """Are these the same weights and classes?"""
        return self.model is state.model

    def followed(self, state: State) -> OneRow:
        """The same for a learner that may know more names than before."""
        self.state: State | None = state
        self.totals, self.maps = state.totals, state.calibration
        trace: Any = NO_TRACE if self.maps is None else traced(self.model, 1)
        if type(trace) is not type(self.trace):
            self.learners.clear()  # machine code for another type
        self.trace = trace
        features = named_features(state)
        self.features, self.columns = features.count, features.columns
        self.shape = (self.features,)
        if self.columns is None:
            self.columns = features.named_columns()
        is_plain = features.names is None and features.count == self.width
        self.plain_shape = (1, self.width) if is_plain else None
        self.incomplete.clear()
        self.names: tuple[Any, ...] | None = None
        self.latest = NO_LAYOUT  # of these names
        self.learn_sparse = None
        return self

    def learn(self, x: Row, y: Hashable, w: float) -> bool:
        """Learn from the row, unless it has names without columns; has it been?

        Dicts with the same names again and again are the usual case, in which each call of a
        function would take a tenth of the time.
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
            _, due = learn(
                layout.row, targets, THE_ROW, 0, self.rule, self.space, self.tally, NO_TRACE
            )
            if due:
                self._maintain()
            if self.is_paired:
                self.model.begin_rows()
        except BaseException:
            self._stop()
            raise
        return True

    def _learn_any(self, x: Row, y: Hashable, w: float) -> bool:
        """The same for rows of any kind; raises if it cannot be learned from."""
        if self.rule is None:
            return False
        layout = None
        if isinstance(x, dict):
            layout = self.layout(tuple(x))
            if not layout.complete and (row := in_numbers(x)) is not x:
                x, layout = row, self.layout(tuple(row))
            if not layout.complete:
                return False
        try:
            targets = self.targets[y]
        except (KeyError, TypeError):
            known = listed(np.array(self.labels))
            raise ValueError(f"y is {y!r}, which is not among the classes {known}.") from None
        try:
            rows = self._row(x) if layout is None else layout.read(x)
        except (struct.error, OverflowError):
            return False  # text in the place of a number, or an error to come
        if not self._is_usable(rows):
            raise ValueError(what_is_wrong(rows, x))
        if self.is_weighted or w != 1.0:
            return self._learn_weighted(rows, targets, w)
        learned = self._learn(rows, targets, type(rows))
        if layout is not None and self.maps is None:
            self.learn_sparse, self.are_usable = self.learners.get(SparseRows), self.checks[1]
        return learned

    def _is_usable(self, rows: SingleRow) -> bool:
        """Can the row be learned from?"""
        values = rows.values
        try:
            check = self.checks[values.ndim]
        except KeyError:
            check = self.checks[values.ndim] = are_usable.entry(values)
        return check(values)

    def _learn_weighted(self, rows: SingleRow, targets: Targets, w: float) -> bool:
        """The same for a row with a weight; see `Incremental` for streams of such."""
        sample_weight, codes = check_weights(w, 1), targets.labels
        if sample_weight[0] == 0.0:
            return True
        known, totals, trials = self.totals, None, self.model.trials()
        how_often = sample_weight.copy()
        if known is not None and self.is_balanced:
            totals = known.copy()
            balance(codes, THE_ROW, totals, sample_weight)
        else:
            sample_weight *= self.told[codes[0]]
        if self.tail.private > 0.0:
            rows = rows._replace(
                tail=WeightedTail(self.tail.offset, self.tail.private, read_only(sample_weight))
            )
        else:
            targets = as_targets(codes, len(self.labels), self.unseen, sample_weight)
        try:
            kinds = type(rows), type(targets), type(rows.tail)
            return self._learn(rows, targets, kinds, how_often)
        finally:
            if known is not None and totals is not None and self.model.trials() != trials:
                known[:] = totals

    def _learn(
        self, rows: SingleRow, targets: Targets, kinds: Kinds, how_often: np.ndarray = NO_WEIGHTS
    ) -> bool:
        """Learn from the row by the code for such ``kinds`` of rows and targets."""
        try:
            learn = self.learners[kinds]
        except KeyError:
            learn = self.learners[kinds] = self.model.loop.entry(  # type: ignore[attr-defined]
                rows, targets, THE_ROW, 0, self.rule, self.space, self.tally, self.trace
            )
        try:
            _, due = learn(rows, targets, THE_ROW, 0, self.rule, self.space, self.tally, self.trace)
            if due:
                self._maintain()
            if self.is_paired:
                self.model.begin_rows()
            if self.maps is not None:
                self._follow(rows, targets, how_often)
        except BaseException:
            self._stop()
            raise
        return True

    def _maintain(self) -> None:
        self.model.maintain(self.space)
        if may_overflow(self.model, self.rule):
            self.state = None  # beside what is known from now on

    def _stop(self) -> None:
        """A row has been learned, and Ctrl-C came then."""
        self.state, self.model.unsettled = None, True

    def _follow(self, rows: SingleRow, targets: Targets, how_often: np.ndarray) -> None:
        """Let the maps to probabilities learn from the scores that the row had."""
        rows = rows if knows_level(self.model) else NO_ROWS
        scores, outputs, steps = self.trace.scores(), self.trace.history, self.trace.steps
        trials = self.model.trials() - 1 if self.model.spec.average else -1
        parts = rows, scores, outputs, steps, targets, THE_ROW, how_often, self.maps, trials
        kinds = type(rows), type(targets), type(rows.tail)
        if kinds not in self.followers:
            self.followers[kinds] = follow.entry(*parts)
        self.followers[kinds](*parts)

    def predict(self, x: Row) -> Any:
        layout, look = self.latest, self.output_of_sparse
        if look is None or type(x) is not dict or [*x] != layout.names:
            return self._predict_any(x)
        try:
            layout.fill(*x.values())
        except (struct.error, OverflowError):
            return self._predict_any(x)
        number = look(layout.row, self.looking, self.first, self.shown)
        return self.labels[number] if number >= 0 else self._predict_any(x)

    def _predict_any(self, x: Row) -> Any:
        rows = self._known_part(x)
        if self.only_label is not None:
            return self.only_label
        number = self._class_number(rows)
        if number < 0:
            raise ValueError(what_is_wrong(rows, x))
        return self.labels[number]

    def _class_number(self, rows: SingleRow) -> int:
        """See `class_number`."""
        try:
            predictor = self.predictors[type(rows)]
        except KeyError:
            predictor = class_number.entry(rows, self.looking, self.first, self.shown)
            self.predictors[type(rows)] = predictor
            self.output_of_sparse = self.predictors.get(SparseRows)
        return predictor(rows, self.looking, self.first, self.shown)

    def scores(self, x: Row) -> np.ndarray:
        """The outputs of the problems that are shown."""
        rows = self._known_part(x)
        found = self._outputs(rows)
        if found is None:
            raise ValueError(what_is_wrong(rows, x))
        return found

    def _outputs(self, rows: SingleRow) -> np.ndarray | None:
        """The same for a row, unless one is no number."""
        found, kind = np.empty(self.shown), type(rows)
        if kind not in self.lookers:
            self.lookers[kind] = outputs_into.entry(rows, self.looking, self.first, found)
        return found if self.lookers[kind](rows, self.looking, self.first, found) else None

    # ---------------------------------------------------------------------------- what a row is
    def _known_part(self, x: Row) -> SingleRow:
        """A single row to look at, of the names that have columns."""
        layout = None
        if isinstance(x, dict):
            layout = self.layout(tuple(x))
            if not layout.complete:
                x = in_numbers(x)
                layout = self.layout(tuple(x))
        try:
            return self._row(x) if layout is None else layout.read(x)
        except (struct.error, OverflowError):
            x = dict(entries(x, "x"))
            return self.layout(tuple(x)).read(x)

    def _row(self, x: Row) -> SingleRow:
        """A single row that is not a dict."""
        if isinstance(x, tuple):
            return SparseRows(*self._from_pair(x), self.width, self.tail)
        values = numbers_of(x)
        values = values[None] if values.shape == self.shape else dense_row(values, self.features)
        if self.width > self.features:
            values = np.pad(values, ((0, 0), (0, self.width - self.features)))
        values.setflags(write=False)  # it is a view, or our own
        return tuple.__new__(DenseRows, (values, self.tail))

    def layout(self, names: tuple[Hashable, ...]) -> Layout:
        """How to read dicts with these names."""
        if names == self.names:
            return self.latest
        layout = self.layouts.get(names) or self.incomplete.get(names)
        if layout is None:
            if self.columns is None:
                raise ValueError("x is a dict, but the learner knows no names of features.")
            layout = new_layout(names, self.columns, self.features, self.width, self.tail)
            layouts = self.layouts if layout.complete else self.incomplete
            if len(layouts) >= MOST_LAYOUTS:
                layouts.clear()
            layouts[names] = layout
        self.names, self.latest = names, layout
        return layout

    def _from_pair(self, x: Pair) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        columns, numbers = checked_pair(x, self.features)
        return read_only(numbers), read_only(columns), starts_of(columns.size)
