"""The fast route of a single row: learn from it in place, or predict it, in microseconds.

Finding the machine code for the types of the arguments takes Numba ten times as long as learning
from a short row. So the code is looked up once, for each kind of rows, and called directly. There
is such a route for linear models, mixtures and votes of these, and models on a budget.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from functools import lru_cache, partial
from typing import Any, Protocol, cast

import numpy as np
from scipy import sparse

from maxmargin.core.experts import predict_classes, rules_in, score_votes
from maxmargin.core.loop import LARGEST_XX, SMALLEST_XX
from maxmargin.core.numba_backend import Compiled, Loop
from maxmargin.core.rows import NO_TAIL, DenseRows, SparseRows, WeightedTail
from maxmargin.core.targets import balance
from maxmargin.core.trace import NO_TRACE, MeanTrace, Trace
from maxmargin.kernels.points import shallow_copy
from maxmargin.models.base import Model
from maxmargin.models.budget_model import BudgetModel, Code
from maxmargin.models.linear_model import LinearModel, PairModel, read_only
from maxmargin.models.vote_model import Ballot, VoteModel, VoteRule
from maxmargin.streams.iterators import entries
from maxmargin.training.calibration import NO_ODDS, NO_ROWS, NO_WEIGHTS, follow, knows_level
from maxmargin.training.following import traced
from maxmargin.training.inputs import as_targets, listed, shown
from maxmargin.training.options import ClassWeight, Options
from maxmargin.training.prediction_sets import NO_SETS, cover, loss_rate
from maxmargin.training.row_reading import (
    MOST_LAYOUTS,
    Layout,
    Row,
    checked_pair,
    dense_row,
    in_numbers,
    named_features,
    new_layout,
    starts_of,
    what_is_wrong,
)
from maxmargin.training.sample_weights import check_weights, weights_by_label
from maxmargin.training.state import State
from maxmargin.training.types import Matrix, Rule, SingleRow, Targets

# A compiled function for arguments of certain types.
MachineCode = Callable[..., Any]
THE_ROW = np.zeros(1, dtype=np.int32)
# Reads no dict.
NO_LAYOUT = new_layout((None,), {}, 0, 0, NO_TAIL)


# Compiled code that takes less time than it takes to let other threads run meanwhile.
brief = partial(Compiled, nogil=False)


@brief
def class_number(rows, space, first, shown):  # type: ignore[no-untyped-def]
    """Which of the problems from ``first`` on has the highest output; of one, is it positive?

    Below 0 if an output is not finite, because a value of the row is not.
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
    """Write down the outputs of the problems from ``first`` on; are they finite?"""
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


def may_overflow(model: Model, rule: Rule) -> bool:
    """Could one more row make weights of a linear model, or of experts, infinite?

    Not while weights and the numbers of the rule are as far from that as rows are, see
    `core.loop.LARGEST_XX`: no step is longer than their product.
    """
    if not isinstance(model, LinearModel):
        return not model.is_finite()
    norms = np.asarray(model.linear.scalars.table)["norm2"]
    largest = norms[0] if norms.size == 1 else norms.max()
    return not largest <= LARGEST_XX or not _is_moderate(tuple(rule))


@lru_cache
def _is_moderate(numbers: tuple[float, ...]) -> bool:
    """Are all numbers of a rule as far from overflow and underflow as rows are?"""
    sizes = [abs(number) for number in numbers if number != 0.0 and number != np.inf]
    return not sizes or bool(
        math.sqrt(SMALLEST_XX) <= min(sizes) <= max(sizes) <= math.sqrt(LARGEST_XX)
    )


class Locks(Protocol):
    """Those of a learner: one for changes in place, and whether a call is learning."""

    changing: AbstractContextManager[object]
    busy: bool


class OneRow:
    """The fast route of single rows through a linear model, or a mixture of experts.

    Made for one state of a learner; `followed` when the learner gets more columns, and made anew
    when its parameters or its arrays change.
    """

    def __init__(self, state: State, access: Locks, class_weight: ClassWeight) -> None:
        self.access, self.lock = access, access.changing
        self.model: Any = state.model  # of the kind that `is_possible` says
        self.rule: Any = None  # until it is asked to learn
        self.is_paired = isinstance(self.model, PairModel)
        self.width, self.unseen = self.model.width(), state.unseen
        self.trace: Trace | MeanTrace = NO_TRACE
        self.tail: Any = self.model.tail
        self._prepare()
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
        # Machine code by what it does and for which types; that of rows of the last layout.
        self.code: dict[Hashable, MachineCode] = {}
        self.learn_sparse: MachineCode | None = None
        self.are_usable: MachineCode = are_usable
        self.output_of_sparse: MachineCode | None = None
        self.layouts: dict[tuple[Hashable, ...], Layout] = {}
        self.incomplete: dict[tuple[Hashable, ...], Layout] = {}  # some names have no column
        self.followed(state)

    def _prepare(self) -> None:
        """Set the arguments of the machine code."""
        self.space, self.tally = self.model.space, self.model.tally
        self.looking = self.model.view()

    @staticmethod
    def is_possible(model: Model) -> bool:
        """Linear models and mixtures have it, if rows have no coordinates of their own."""
        return model.learns_rows_in_place and model.private_coordinates() == 0

    def can_learn(self, w: float, rule: Rule) -> bool:
        """Can a row of this weight be learned in place by this rule?"""
        return not may_overflow(self.model, rule)

    def followed(self, state: State) -> OneRow:
        """The same for another state of the same model, which may have more names."""
        self.state: State | None = state
        self.totals, self.maps, self.sets = state.totals, state.calibration, state.sets
        self.follows = self.maps is not None or self.sets is not None
        trace: Trace | MeanTrace = NO_TRACE
        if self.follows:
            trace = traced(self.model, 1, steps=self.maps is not None)
        self.odds = NO_ODDS
        if self.maps is not None and self.sets is not None:
            self.odds = np.empty((1, self.model.problems()))
        if self.sets is not None:
            classes = len(self.labels)
            coverage = float(self.sets.target[0])
            self.set_parts = loss_rate(coverage), self.sets, np.empty(classes), np.empty(classes)
        if type(trace) is not type(self.trace):
            self.code.clear()  # machine code for another type
        self.trace = trace
        features = named_features(state)
        self.features, self.columns = features.count, features.shared_columns()
        is_plain = features.names is None and features.count == self.width
        self.plain_shape = (1, self.width) if is_plain else None
        self.incomplete.clear()
        self.names: tuple[Hashable, ...] | None = None
        self.latest = NO_LAYOUT  # of these names
        self.learn_sparse = None
        return self

    def _entry(self, key: Hashable, function: Loop, *arguments: Any) -> MachineCode:
        """The machine code of a function for arguments of these types, looked up once."""
        if (code := self.code.get(key)) is None:
            code = self.code[key] = function.entry(*arguments)
        return code

    # ---------------------------------------------------------------------------------------- learn
    def learn(self, x: Row, y: Hashable, w: float) -> bool:
        """Learn from the row, unless it has names without columns; is it learned?

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
            classes = listed(np.array(self.labels))
            raise ValueError(f"y is {y!r}, which is not among the classes {classes}.") from None
        try:
            rows = self._row(x) if layout is None else layout.read(x)
        except (struct.error, OverflowError):
            return False  # text in the place of a number, or an error to come
        if not self._is_usable(rows):
            raise ValueError(what_is_wrong(rows, x))
        if self.is_weighted or w != 1.0:
            return self._learn_weighted(rows, targets, w)
        learned = self._learn(rows, targets)
        if layout is not None and not self.follows:
            self.learn_sparse = self.code.get(("learn", *_kinds(rows, targets)))
            self.are_usable = self.code[1]
        return learned

    def _is_usable(self, rows: SingleRow) -> bool:
        """Can the row be learned from?"""
        values = rows.values
        return self._entry(values.ndim, are_usable, values)(values)

    def _learn_weighted(self, rows: SingleRow, targets: Targets, w: float) -> bool:
        """Learn from a row that has a weight, by itself or by its class."""
        sample_weight, codes = check_weights(w, 1), targets.labels
        if sample_weight[0] == 0.0:
            return True
        before, totals, trials = self.totals, None, self.model.trials()
        row_weight = sample_weight.copy()
        if before is not None and self.is_balanced:
            totals = before.copy()
            balance(codes, THE_ROW, totals, sample_weight)
        else:
            sample_weight *= self.class_weights[codes[0]]
        if self.tail.private > 0.0:
            tail = WeightedTail(self.tail.offset, self.tail.private, read_only(sample_weight))
            rows = rows._replace(tail=tail)
        else:
            targets = as_targets(codes, len(self.labels), self.unseen, sample_weight)
        try:
            return self._learn(rows, targets, row_weight)
        finally:
            if before is not None and totals is not None and self.model.trials() != trials:
                before[:] = totals

    def _learn(
        self, rows: SingleRow, targets: Targets, row_weight: np.ndarray = NO_WEIGHTS
    ) -> bool:
        """Learn from a row that is checked."""
        key = ("learn", *_kinds(rows, targets))
        parts = rows, targets, THE_ROW, 0, self.rule, self.space, self.tally, self.trace
        learn = self._entry(key, self.model.loop, *parts)
        try:
            _, due = learn(*parts)
            if due:
                self._maintain()
            if self.is_paired:
                self.model.begin_rows()
            if self.follows:
                self._follow(rows, targets, row_weight)
        except BaseException:
            self._stop()
            raise
        return True

    def _maintain(self) -> None:
        self.model.maintain(self.space)
        if may_overflow(self.model, self.rule):
            self.state = None  # the complete route learns on a copy from here on

    def _stop(self) -> None:
        """Ctrl-C came after the row was learned."""
        self.state, self.model.unsettled = None, True

    def _follow(self, rows: SingleRow, targets: Targets, row_weight: np.ndarray) -> None:
        """Let the maps to probabilities, and the sets, learn from the scores that the row had."""
        evidence = scores = self.trace.scores()
        if self.maps is not None:
            rows = rows if knows_level(self.model) else NO_ROWS
            outputs, steps, evidence = self.trace.history, self.trace.steps, self.odds
            trials = self.model.trials() - 1 if self.model.spec.average else -1
            followed = rows, scores, outputs, steps, targets, THE_ROW, row_weight
            parts: Any = *followed, self.maps, trials, evidence
            self._entry(("follow", *_kinds(rows, targets)), follow, *parts)(*parts)
        if self.sets is not None:
            is_odds = self.maps is not None or self.model.outputs_are_odds
            seen = evidence, is_odds, targets.labels, THE_ROW, self.first, self.shown
            parts = *seen, *self.set_parts, NO_SETS
            self._entry("cover", cover, *parts)(*parts)

    # -------------------------------------------------------------------------------------- predict
    def predict(self, x: Row) -> Hashable:
        """The class of a row; names without columns count as 0."""
        layout, look = self.latest, self.output_of_sparse
        if look is None or type(x) is not dict or [*x] != layout.names:
            return self._predict_any(x)
        try:
            layout.fill(*x.values())
        except (struct.error, OverflowError):
            return self._predict_any(x)
        number = look(layout.row, self.looking, self.first, self.shown)
        return self.labels[number] if number >= 0 else self._predict_any(x)

    def _predict_any(self, x: Row) -> Hashable:
        rows = self._row_to_predict(x)
        if self.only_label is not None:
            return self.only_label
        number = self._class_number(rows)
        if number < 0:
            raise ValueError(what_is_wrong(rows, x))
        return self.labels[number]

    def _class_number(self, rows: SingleRow) -> int:
        """See `class_number`."""
        parts = rows, self.looking, self.first, self.shown
        look = self._entry(("class", type(rows)), class_number, *parts)
        if type(rows) is SparseRows:
            self.output_of_sparse = look
        return look(*parts)

    def scores(self, x: Row) -> np.ndarray:
        """The outputs of the problems that users see."""
        rows = self._row_to_predict(x)
        found = self._outputs(rows)
        if found is None:
            raise ValueError(what_is_wrong(rows, x))
        return found

    def _outputs(self, rows: SingleRow) -> np.ndarray | None:
        """The same for a row, unless one is not finite."""
        found = np.empty(self.shown)
        parts = rows, self.looking, self.first, found
        return found if self._entry(("outputs", type(rows)), outputs_into, *parts)(*parts) else None

    # --------------------------------------------------------------------------------- read the row
    def _row_to_predict(self, x: Row) -> SingleRow:
        """The row without the names that have no columns."""
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
        """A row that is not a dict."""
        if isinstance(x, tuple):
            columns, numbers = checked_pair(x, self.features)
            starts = starts_of(columns.size)
            return SparseRows(read_only(numbers), read_only(columns), starts, self.width, self.tail)
        values = dense_row(x, self.features)
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
                raise ValueError("x is a dict, but the learner was trained on rows without names.")
            layout = new_layout(names, self.columns, self.features, self.width, self.tail)
            layouts = self.layouts if layout.complete else self.incomplete
            if len(layouts) >= MOST_LAYOUTS:
                layouts.clear()
            layouts[names] = layout
        self.names, self.latest = names, layout
        return layout


def _kinds(rows: SingleRow, targets: Targets) -> tuple[type, ...]:
    """The types that machine code depends on."""
    return type(rows), type(targets), type(rows.tail)


class OneRowOfVotes(OneRow):
    """The same for a vote of linear models, without weights of rows or classes."""

    @staticmethod
    def is_possible(model: Model) -> bool:
        return isinstance(model, VoteModel) and model.can_learn_in_place()

    def can_learn(self, w: float, rule: Rule) -> bool:
        pairs = zip(self.model.groups, cast(VoteRule, rule).rules, strict=True)
        each = ((group, one) for group, rules in pairs for one in rules_in(rules))
        return w == 1.0 and not any(may_overflow(group, one) for group, one in each)

    def _prepare(self) -> None:
        model = self.model
        self.tail, self.ballots = model.groups[0].tail, dict[tuple[type, ...], Ballot]()
        self.answers = np.empty((1, model.votes.weights.size), np.int32)
        self.found = np.empty((1, model.problems()))
        self.views, first = list[tuple[Any, ...]](), 0
        for group, count in zip(model.groups, model.sizes(), strict=True):
            found = np.empty((1, count * model.problems()))
            asked = found, model.problems(), model.classes(), first, first + count, self.answers
            self.views.append(
                (group.tail, group.view(), found[0], predict_classes.entry(*asked), asked)
            )
            first += count
        self.poll = score_votes.entry(self.answers, model.votes, self.found)

    def _learn_weighted(self, rows: SingleRow, targets: Targets, w: float) -> bool:
        return False

    def _learn(
        self, rows: SingleRow, targets: Targets, row_weight: np.ndarray = NO_WEIGHTS
    ) -> bool:
        if (kinds := _kinds(rows, targets)) not in self.ballots:
            self.ballots[kinds] = Ballot(self.model, self.rule, rows, targets, THE_ROW)
        try:
            if self.ballots[kinds].learn(rows, targets) and not self.can_learn(1.0, self.rule):
                self.state = None
        except BaseException:
            self._stop()
            raise
        return True

    def _class_number(self, rows: SingleRow) -> int:
        found = self._outputs(rows)
        if found is None:
            return -1
        return int(found[0] >= 0.0) if found.size == 1 else int(found.argmax())

    def _outputs(self, rows: SingleRow) -> np.ndarray | None:
        for k, (tail, view, found, ask, asked) in enumerate(self.views):
            row = rows if rows.tail == tail else rows._replace(tail=tail)
            look = self._entry((k, type(rows)), outputs_into, row, view, 0, found)
            if not look(row, view, 0, found):
                return None
            ask(*asked)
        self.poll(self.answers, self.model.votes, self.found)
        return self.found[0, self.first : self.first + self.shown].copy()


class OneRowOfBudgets(OneRowOfVotes):
    """The same for a kernel's model on a budget."""

    @staticmethod
    def is_possible(model: Model) -> bool:
        if not isinstance(model, BudgetModel) or not model.store.points:
            return False
        return not model.kernel.only_in_fit

    def can_learn(self, w: float, rule: Rule) -> bool:
        return bool(w == 1.0)

    def _prepare(self) -> None:
        self.budget_code: Code = {}
        self.blank = sparse.csr_matrix((1, self.width))
        # The last row that was predicted, and its outputs, until another is learned from.
        self.predicted: tuple[Any, Any] = (None, None)

    def _learn(
        self, rows: SingleRow, targets: Targets, row_weight: np.ndarray = NO_WEIGHTS
    ) -> bool:
        try:
            glance, self.predicted = self._glance(rows), (None, None)
            after = self.model.after_row(glance, targets, self.rule, self.budget_code)
            if not after.is_finite():
                return False  # the complete route refuses it, and says why
            vars(self.model).update(vars(after))  # at once
            self.model.settle()
        except BaseException:
            self.state = None
            raise
        return True

    def _outputs(self, rows: SingleRow) -> np.ndarray | None:
        if not self._is_usable(rows):
            return None
        return self._glance(rows).outputs[self.first : self.first + self.shown]

    def _glance(self, rows: SingleRow) -> Any:
        """The outputs of the row, which learning from it right after needs not compute again."""
        parts = (rows.values,) if isinstance(rows, DenseRows) else (rows.values, rows.columns)
        content = tuple(part.tobytes() for part in parts)  # tells it from rows of the same width
        if self.predicted[0] != content:
            self.predicted = content, self.model.output(self._matrix(rows))
        return self.predicted[1]

    def _matrix(self, rows: SingleRow) -> Matrix:
        """The row in memory of its own, as models take rows."""
        if isinstance(rows, DenseRows):
            return rows.values.copy()
        X = shallow_copy(self.blank)  # SciPy's checks would take as long as the rest
        X.data, X.indices, X.indptr = rows.values.copy(), rows.columns.copy(), rows.starts.copy()
        return X


ROUTES: tuple[type[OneRow], ...] = (OneRow, OneRowOfVotes, OneRowOfBudgets)


def fast_route(
    options: Options, state: State | None, before: OneRow | None, access: Locks
) -> OneRow | None:
    """The fast route of single rows for this state, if there is one, made from an earlier one."""
    if state is None or state.multilabel or state.recipe is not None:
        return None
    route = next((each for each in ROUTES if each.is_possible(state.model)), None)
    is_weighted = options.class_weight is not None or options.follows_scores
    if route is None or (route is not OneRow and is_weighted):
        return None
    if before is not None and before.model is state.model:
        return before.followed(state)
    return route(state, access, options.class_weight)
