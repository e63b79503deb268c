"""Learn from, and predict, one row that comes alone: a dict, a sparse or a dense row.

Finding the machine code for the types of the arguments takes Numba ten times as long as learning
from a short row. So the code is looked up once, for each kind of rows, and called directly.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from functools import lru_cache, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from maxmargin._extras import Self
from maxmargin.core.experts import poll, rules_in, say
from maxmargin.core.loop import LARGEST_XX, SMALLEST_XX
from maxmargin.core.numba_backend import Compiled
from maxmargin.core.rows import NO_TAIL, DenseRows, SparseRows, WeightedTail
from maxmargin.core.targets import balance
from maxmargin.core.trace import NO_TRACE
from maxmargin.estimator.incremental import known_classes, may_overflow
from maxmargin.estimator.locks import Access, access_to, writing
from maxmargin.estimator.predicting import if_calibrated
from maxmargin.kernels.points import shallow_copy
from maxmargin.models.budget_model import BudgetModel, Code
from maxmargin.models.linear_model import LinearModel, PairModel, read_only
from maxmargin.models.vote_model import Ballot, VoteModel
from maxmargin.streams.iterators import entries
from maxmargin.training.calibration import NO_ROWS, NO_WEIGHTS, knows_level, maps_for, traced
from maxmargin.training.dict_rows import met, named_features
from maxmargin.training.feature_columns import Features
from maxmargin.training.inputs import as_targets, check_values
from maxmargin.training.messages import listed
from maxmargin.training.platt import follow
from maxmargin.training.recipes import learnt_along, recipe_of
from maxmargin.training.sample_weights import check_weights, told_weights
from maxmargin.training.state import State, shown

THE_ROW = np.zeros(1, dtype=np.int32)
# The columns of so many different sets of names are remembered.
MOST_LAYOUTS = 1000
# As many as indices of 32 bits can tell apart.
MOST_COLUMNS = 2**31 - 1

# For dicts with the names of the last one: these, machine code, what takes the values, the row that
# has them then, and what else the code is given. No dict has these names.
NO_QUICK_LEARNING: tuple[Any, ...] = (None,) * 9
NO_QUICK_LOOK: tuple[Any, ...] = (None,) * 7
# Values and columns of a sparse row, and where it begins and ends.
Parts = tuple[np.ndarray, np.ndarray, np.ndarray]


class Brief(Compiled):
    """Compiled code that takes less time than it takes to let other threads run meanwhile."""

    nogil = False


@Brief
def class_number(rows, space, first, shown):  # type: ignore[no-untyped-def]
    """Which of the problems from ``first`` on has the highest output; of one, is it positive?

    Below 0 if an output is no number, because the row has something that is none.
    """
    best, highest = 0, -np.inf
    for c in range(shown):
        output = space.look(rows, 0, first + c)
        if not abs(output) < np.inf:
            return -1
        if output > highest:
            best, highest = c, output
    if shown == 1:
        return 1 if highest >= 0.0 else 0
    return best


@Brief
def outputs_into(rows, space, first, found):  # type: ignore[no-untyped-def]
    """Write down the outputs of the problems from ``first`` on; are they numbers?"""
    finite = True
    for c in range(found.size):
        found[c] = space.look(rows, 0, first + c)
        finite &= abs(found[c]) < np.inf
    return finite


@Brief
def are_usable(values):  # type: ignore[no-untyped-def]
    """Can a row with these values be learnt from? See `first_unusable`."""
    square, something = 0.0, False
    for value in values.flat:
        square += value * value
        something |= value != 0.0
    return SMALLEST_XX <= square <= LARGEST_XX or not something


class Layout(NamedTuple):
    """How to read dicts with certain names.

    Attributes
    ----------
    row : the sparse row, whose values are those of the last dict that was read
    fill : takes the values, all of them
    which : the names to take the values of, if not all in their order
    complete : are there columns for all names?
    """

    row: SparseRows
    fill: Any
    which: list[Any] | None
    complete: bool

    def is_whole(self) -> bool:
        """Are the values of a dict, all of them and in their order, those of the row?"""
        return self.complete and self.which is None

    def read(self, x: dict[Any, Any]) -> SparseRows:
        """The row of a dict with these names, until another one is read."""
        if self.which is None:
            self.fill(*x.values())
        else:
            self.fill(*[x[name] for name in self.which])
        return self.row


def new_layout(
    names: tuple[Any, ...], columns: dict[Any, int], count: int, width: int, tail: Any
) -> Layout:
    """How to read such a dict, given columns of names, of which the first ``count`` are there."""
    found = [columns.get(name, count) for name in names]
    numbers = sorted(found)
    known = bisect_left(numbers, count)
    complete, which = known == len(names), None
    if not complete or numbers != found:
        name_of = dict(zip(found, names, strict=True))
        which = [name_of[number] for number in numbers[:known]]
    values, in_order = np.empty(known), np.array(numbers[:known], dtype=np.int32)
    # Constructors of named tuples take twice as long.
    row = tuple.__new__(
        SparseRows, (read_only(values), read_only(in_order), starts_of(known), width, tail)
    )
    fill = partial(packing(known), values.data, 0)
    return tuple.__new__(Layout, (row, fill, which, complete))


@lru_cache(MOST_LAYOUTS)
def packing(count: int) -> Any:
    """Writes so many numbers into a buffer."""
    return struct.Struct(f"{count}d").pack_into


@lru_cache(MOST_LAYOUTS)
def starts_of(count: int) -> np.ndarray:
    """Where a single sparse row with so many entries begins and ends."""
    return read_only(np.array([0, count], dtype=np.int32))


def numbers_of(x: Any) -> np.ndarray:
    """As a contiguous array: the machine code is for such."""
    try:
        return np.ascontiguousarray(x, dtype=np.float64)
    except (TypeError, OverflowError) as problem:
        raise ValueError(f"x has a value that is not a number: {problem}.") from None


def checked_pair(x: Any, width: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Columns, in order, and values of a sparse row; any number of columns if there is no width."""
    if len(x) != 2:
        raise ValueError("A sparse row is a pair (indices, values) of the same length.")
    columns, numbers = np.asarray(x[0]), numbers_of(x[1])
    if columns.ndim != 1 or columns.shape != numbers.shape:
        raise ValueError("A sparse row is a pair (indices, values) of the same length.")
    if columns.size and columns.dtype.kind not in "iu":
        raise ValueError(f"The indices of a sparse row must be integers, got {columns.dtype}.")
    if columns.size > 1 and not (columns[1:] > columns[:-1]).all():
        order = np.argsort(columns)
        columns, numbers = columns[order], numbers[order]
        if (columns[1:] == columns[:-1]).any():
            raise ValueError("A sparse row has an index twice.")
    if columns.size and not 0 <= columns[0] <= columns[-1] < (width or MOST_COLUMNS):
        raise ValueError(f"A sparse row has an index outside 0..{(width or MOST_COLUMNS) - 1}.")
    return np.ascontiguousarray(columns, dtype=np.int32), numbers


def dense_row(x: Any, width: int) -> np.ndarray:
    """A dense row as a matrix."""
    values = numbers_of(x)
    if values.shape not in ((width,), (1, width)):
        raise ValueError(f"x has the shape {values.shape}, but {width} features are expected.")
    return values.reshape(1, -1)


class OneRow:
    """The way of a single row through a linear model.

    Made for what a learner knows now; `followed` when it knows more names, to be made anew when its
    parameters or its arrays change.
    """

    def __init__(self, state: State, shown: slice, access: Access, class_weight: Any) -> None:
        self.access, self.lock = access, access.changing
        self.model = state.model
        self.rule: Any = None  # until it is asked to learn
        self.is_paired = isinstance(self.model, PairModel)
        self.width = self.model.width()
        self.trace: Any = NO_TRACE
        self.tail: Any = self.model.tail
        self._prepare()
        self.labels = state.classes.tolist()
        self.only_label = self.labels[0] if len(self.labels) == 1 else None
        self.spare, codes = state.spare, [np.array([k], np.int32) for k in range(len(self.labels))]
        each = [as_targets(code, len(self.labels), state.spare) for code in codes]
        self.targets = dict(zip(self.labels, each, strict=True))
        self.is_weighted, self.is_balanced = class_weight is not None, class_weight == "balanced"
        told = None if self.is_balanced else class_weight
        self.told = told_weights(told, state.classes, others=True)
        self.first, stop, _ = shown.indices(self.model.problems())
        self.shown = stop - self.first
        # Machine code, for dense and for sparse rows.
        self.checks: dict[int, Any] = {}
        self.learners: dict[Any, Any] = {}
        self.followers: dict[tuple[type, ...], Any] = {}
        self.predictors: dict[type, Any] = {}
        self.lookers: dict[type, Any] = {}
        self.layouts: dict[tuple[Any, ...], Layout] = {}
        self.incomplete: dict[tuple[Any, ...], Layout] = {}  # of dicts with unknown names
        self.followed(state)

    def _prepare(self) -> None:
        """Make ready what machine code is given."""
        self.space, self.tally = self.model.space, self.model.tally
        self.looking = self.model.view()

    @staticmethod
    def is_possible(model: Any) -> bool:
        """Linear models have such a way, if rows have no coordinates of their own."""
        return isinstance(model, LinearModel) and model.private_coordinates() == 0

    def can_learn(self, w: Any, rule: Any) -> bool:
        """Can a row of this weight be learnt in place by this rule?"""
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
        self.latest: Any = None  # the layout of these names
        self.quick_learning, self.quick_look = NO_QUICK_LEARNING, NO_QUICK_LOOK
        return self

    def learn(self, x: Any, y: Any, w: Any) -> bool:
        """Learn from the row, unless it has names without columns; has it been?

        Dicts with the same names again and again are the usual case, in which each call of a
        function would take a tenth of the time. Whatever is unusual goes the long way.
        """
        if type(x) is not dict:
            return self._learn_any(x, y, w)
        names, learn, is_usable, fill, row, values, rule, space, tally = self.quick_learning
        if [*x] != names or w != 1.0:
            return self._learn_any(x, y, w)
        try:
            targets = self.targets[y]
            fill(*x.values())
        except (KeyError, TypeError, struct.error, OverflowError):
            return self._learn_any(x, y, w)
        if not is_usable(values):
            return self._learn_any(x, y, w)
        try:
            _, due = learn(row, targets, THE_ROW, 0, rule, space, tally, NO_TRACE)
            if due:
                self._maintain()
            if self.is_paired:
                self.model.begin_rows()
        except BaseException:
            self._stop()
            raise
        return True

    def _learn_any(self, x: Any, y: Any, w: Any) -> bool:
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
        values = rows.values
        if not (self.checks.get(values.ndim) or self._check_of(values))(values):
            raise ValueError(_what_is_wrong(rows, x))
        if self.is_weighted or w != 1.0:
            return self._learn_weighted(rows, targets, w)
        learnt = self._learn(rows, targets, type(rows))
        is_quick = SparseRows in self.learners and not self.maps
        if is_quick and layout is not None and layout.is_whole():
            code = list(x), self.learners[SparseRows], self.checks[1], layout.fill
            parts = rows, rows.values, self.rule, self.space, self.tally
            self.quick_learning = code + parts
        return learnt

    def _learn_weighted(self, rows: Any, targets: Any, w: Any) -> bool:
        """The same for a row with a weight; see `Incremental` for streams of such."""
        worth, codes = check_weights(w, 1), targets.labels
        if worth[0] == 0.0:
            return True
        known, totals, trials = self.totals, None, self.model.trials()
        how_often = worth.copy()
        if known is not None and self.is_balanced:
            totals = known.copy()
            balance(codes, THE_ROW, totals, worth)
        else:
            worth *= self.told[codes[0]]
        if self.tail.private > 0.0:
            rows = rows._replace(
                tail=WeightedTail(self.tail.offset, self.tail.private, read_only(worth))
            )
        else:
            targets = as_targets(codes, len(self.labels), self.spare, worth)
        try:
            kinds = type(rows), type(targets), type(rows.tail)
            return self._learn(rows, targets, kinds, how_often)
        finally:
            if known is not None and totals is not None and self.model.trials() != trials:
                known[:] = totals

    def _learn(
        self, rows: Any, targets: Any, kinds: Any, how_often: np.ndarray = NO_WEIGHTS
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
        """A row has been learnt, and Ctrl-C came then."""
        self.state, self.model.unsettled = None, True

    def _follow(self, rows: Any, targets: Any, how_often: np.ndarray) -> None:
        """Let the maps to probabilities learn from the scores that the row had."""
        rows = rows if knows_level(self.model) else NO_ROWS
        scores, outputs, steps = self.trace.scores(), self.trace.history, self.trace.steps
        trials = self.model.trials() - 1 if self.model.spec.average else -1
        parts = rows, scores, outputs, steps, targets, THE_ROW, how_often, self.maps, trials
        kinds = type(rows), type(targets), type(rows.tail)
        if kinds not in self.followers:
            self.followers[kinds] = follow.entry(*parts)
        self.followers[kinds](*parts)

    def predict(self, x: Any) -> Any:
        names, look, fill, row, space, first, shown = self.quick_look
        if type(x) is not dict or [*x] != names:
            return self._predict_any(x)
        try:
            fill(*x.values())
        except (struct.error, OverflowError):
            return self._predict_any(x)
        number = look(row, space, first, shown)
        return self.labels[number] if number >= 0 else self._predict_any(x)

    def _predict_any(self, x: Any) -> Any:
        rows = self._known_part(x)
        if self.only_label is not None:
            return self.only_label
        number = self._class_number(rows)
        if number < 0:
            raise ValueError(_what_is_wrong(rows, x))
        return self.labels[number]

    def _class_number(self, rows: Any) -> int:
        """See `class_number`."""
        try:
            predictor = self.predictors[type(rows)]
        except KeyError:
            predictor = class_number.entry(rows, self.looking, self.first, self.shown)
            self.predictors[type(rows)] = predictor
        number = predictor(rows, self.looking, self.first, self.shown)
        if self.names is not None and rows is self.latest.row and self.latest.is_whole():
            parts = self.looking, self.first, self.shown
            self.quick_look = list(self.names), predictor, self.latest.fill, rows, *parts
        return number

    def scores(self, x: Any) -> np.ndarray:
        """The outputs of the problems that are shown."""
        rows = self._known_part(x)
        found = self._outputs(rows)
        if found is None:
            raise ValueError(_what_is_wrong(rows, x))
        return found

    def _outputs(self, rows: Any) -> np.ndarray | None:
        """The same for a row, unless one is no number."""
        found, kind = np.empty(self.shown), type(rows)
        if kind not in self.lookers:
            self.lookers[kind] = outputs_into.entry(rows, self.looking, self.first, found)
        return found if self.lookers[kind](rows, self.looking, self.first, found) else None

    # ---------------------------------------------------------------------------- what a row is
    def _known_part(self, x: Any) -> Any:
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

    def _row(self, x: Any) -> Any:
        """A single row that is not a dict."""
        if isinstance(x, tuple):
            return SparseRows(*self._from_pair(x), self.width, self.tail)
        values = numbers_of(x)
        values = values[None] if values.shape == self.shape else dense_row(values, self.features)
        if self.width > self.features:
            values = np.pad(values, ((0, 0), (0, self.width - self.features)))
        values.setflags(write=False)  # it is a view, or our own
        return tuple.__new__(DenseRows, (values, self.tail))

    def _check_of(self, values: np.ndarray) -> Any:
        """Machine code that says whether such a row can be learnt from."""
        self.checks[values.ndim] = are_usable.entry(values)
        return self.checks[values.ndim]

    def layout(self, names: tuple[Any, ...]) -> Layout:
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
        self.quick_learning, self.quick_look = NO_QUICK_LEARNING, NO_QUICK_LOOK
        return layout

    def _from_pair(self, x: tuple[Any, Any]) -> Parts:
        columns, numbers = checked_pair(x, self.features)
        return read_only(numbers), read_only(columns), starts_of(columns.size)


class OneRowOfVotes(OneRow):
    """The same for a vote of linear models, without weights of rows or classes."""

    @staticmethod
    def is_possible(model: Any) -> bool:
        return isinstance(model, VoteModel) and model.can_learn_in_place()

    def can_learn(self, w: Any, rule: Any) -> bool:
        pairs = zip(self.model.groups, rule.rules, strict=True)
        each = ((group, one) for group, rules in pairs for one in rules_in(rules))
        return w == 1.0 and not any(may_overflow(group, one) for group, one in each)

    def _prepare(self) -> None:
        model = self.model
        self.tail, self.ballots = model.groups[0].tail, dict[type, Ballot]()
        self.said = np.empty((1, model.votes.weights.size), np.int32)
        self.found = np.empty((1, model.problems()))
        self.views, first = list[tuple[Any, ...]](), 0
        for group, count in zip(model.groups, model.sizes(), strict=True):
            found = np.empty((1, count * model.problems()))
            asked = found, model.problems(), model.classes(), first, first + count, self.said
            self.views.append((group.tail, group.view(), found[0], say.entry(*asked), asked))
            first += count
        self.poll = poll.entry(self.said, model.votes, self.found)

    def _learn_weighted(self, rows: Any, targets: Any, w: Any) -> bool:
        return False

    def _learn(
        self, rows: Any, targets: Any, kinds: Any, how_often: np.ndarray = NO_WEIGHTS
    ) -> bool:
        if kinds not in self.ballots:
            self.ballots[kinds] = Ballot(self.model, self.rule, rows, targets, THE_ROW)
        try:
            if self.ballots[kinds].learn(rows, targets) and not self.can_learn(1.0, self.rule):
                self.state = None
        except BaseException:
            self._stop()
            raise
        return True

    def _class_number(self, rows: Any) -> int:
        found = self._outputs(rows)
        if found is None:
            return -1
        return int(found[0] >= 0.0) if found.size == 1 else int(found.argmax())

    def _outputs(self, rows: Any) -> np.ndarray | None:
        if type(rows) not in self.lookers:
            self.lookers[type(rows)] = [
                outputs_into.entry(rows._replace(tail=tail), view, 0, found)
                for tail, view, found, _, _ in self.views
            ]
        ways = zip(self.lookers[type(rows)], self.views, strict=True)
        for look, (tail, view, found, ask, asked) in ways:
            row = rows if rows.tail == tail else rows._replace(tail=tail)
            if not look(row, view, 0, found):
                return None
            ask(*asked)
        self.poll(self.said, self.model.votes, self.found)
        return self.found[0, self.first : self.first + self.shown].copy()


class OneRowOfBudgets(OneRowOfVotes):
    """The same for a kernel's model on a budget."""

    @staticmethod
    def is_possible(model: Any) -> bool:
        if not isinstance(model, BudgetModel) or not model.store.points:
            return False
        return not model.kernel.only_in_fit

    def can_learn(self, w: Any, rule: Any) -> bool:
        return bool(w == 1.0)

    def _prepare(self) -> None:
        self.code: Code = {}
        self.blank = sparse.csr_matrix((1, self.width))
        # The last row that was looked at, and what was found, until another is learnt from.
        self.seen: tuple[Any, Any] = (None, None)

    def _matrix(self, rows: Any) -> Any:
        """The row in memory of its own, as models take rows."""
        if isinstance(rows, DenseRows):
            return rows.values.copy()
        X = shallow_copy(self.blank)  # SciPy's checks would take as long as the rest
        X.data, X.indices, X.indptr = rows.values.copy(), rows.columns.copy(), rows.starts.copy()
        return X

    def _learn(
        self, rows: Any, targets: Any, kinds: Any, how_often: np.ndarray = NO_WEIGHTS
    ) -> bool:
        try:
            glance, self.seen = self._glance(rows), (None, None)
            after = self.model.after_row(glance, targets, self.rule, self.code)
            if not after.is_finite():
                return False  # what refuses it says why
            vars(self.model).update(vars(after))  # at once
            self.model.settle()
        except BaseException:
            self.state = None
            raise
        return True

    def _outputs(self, rows: Any) -> np.ndarray | None:
        values = rows.values
        if not (self.checks.get(values.ndim) or self._check_of(values))(values):
            return None
        return self._glance(rows).outputs[self.first : self.first + self.shown]

    def _glance(self, rows: Any) -> Any:
        """A look at the row, which learning from it right after needs not repeat."""
        content = _content(rows)
        if self.seen[0] != content:
            self.seen = content, self.model.look(self._matrix(rows))
        return self.seen[1]


WAYS = (OneRow, OneRowOfVotes, OneRowOfBudgets)


def _content(rows: Any) -> tuple[bytes, ...]:
    """What tells a row from others of the same width."""
    parts = (rows.values,) if isinstance(rows, DenseRows) else (rows.values, rows.columns)
    return tuple(part.tobytes() for part in parts)


def in_numbers(x: dict[Any, Any]) -> dict[Any, Any]:
    """The same row, with columns for its texts, if it has any; see `streams.iterators`."""
    return dict(entries(x, "x")) if any(isinstance(each, str) for each in x.values()) else x


def _what_is_wrong(row: Any, x: Any) -> str:
    if isinstance(x, dict):
        dict(entries(x, "x"))  # raises if it can name the column
    values = np.ravel(row.values)
    for is_bad, what in ((np.isnan, "NaN"), (np.isinf, "infinity")):
        if (bad := np.flatnonzero(is_bad(values))).size:
            place = bad[0] if isinstance(row, DenseRows) else row.columns[bad[0]]
            return f"x contains {what} (column {place})."
    return "x is too large or too small to compute with: rescale the features."


# -------------------------------------------------------------- where nothing is prepared yet
def class_of_zero(classes: Any) -> Any:
    """What a learner predicts that knows nothing but perhaps the classes."""
    if classes is None:
        return None
    known = known_classes(classes, None).tolist()
    return known[1] if len(known) == 2 else known[0]


def as_matrix(x: Any, features: Features | None) -> Any:
    """A single row as `partial_fit` and `predict` take it."""
    count = None if features is None else features.count
    if isinstance(x, dict):
        columns = None if features is None else features.named_columns()
        if columns is None or count is None:
            raise ValueError("x is a dict, but the learner knows no names of features.")
        x = dict(entries(x, "x"))
        row = new_layout(tuple(x), columns, count, count, NO_TAIL).read(x)
        return sparse.csr_matrix((row.values, row.columns, row.starts), (1, count))
    if isinstance(x, tuple):
        indices, values = checked_pair(x, count)
        width = int(indices.max(initial=-1)) + 1 if count is None else count
        return sparse.csr_matrix((values, indices, [0, indices.size]), (1, width))
    values = numbers_of(x)
    return dense_row(values, values.size if count is None else count)


class RowByRow:
    """Gives a learner `learn_one`, `predict_one` and the like.

    It must be `Stateful`, and a learner with a rule and a model; see `OnlineClassifier`.
    """

    _known: Any
    _fitted: Any
    _learnt: Any
    _rule: Any
    _scores: Any
    _classes_for: Any
    _chances: Any
    decision_function: Any
    _check_structure: Any
    class_weight: Any
    calibration: Any
    _parameter_constraints: ClassVar[Any]
    check_parameters: Any
    _one_row: OneRow | None = None

    def learn_one(
        self, x: Any, y: Any, *, w: float = 1.0, classes: Any = None, grow: bool = False
    ) -> Self:
        """Learn from a single row, as `partial_fit` would, in a few microseconds.

        Parameters
        ----------
        x : dict, pair (indices, values), or array of shape (n_features,)
            The names in dicts get columns in the order in which they appear (`columns_`), and new
            names new ones; text is an entry 1 of the column "name=text". With a kernel and
            no budget, this is `partial_fit`.
        y : label
        w : float, default=1.0
            How often the row counts, see `docs/weights.md`; 0 is no row.
        classes : array of shape (n_classes,), default=None
            All labels that can occur; needed in the first call, unless ``grow`` is set.
        grow : bool, default=False
            Accept new labels, see `partial_fit`.

        Returns
        -------
        self
        """
        one = self._one_row
        if one is not None and (not grow or y in one.targets):
            with one.lock:
                if one.state is self._state and not one.access.busy and one.learn(x, y, w):
                    return self
        self._learn_one_slowly(x, y, w, classes, grow)
        return self

    def _learn_plain_row(self, X: Any, y: Any) -> bool:
        """Learn from a matrix of one row, if it is an array like the ones before it; has it been?

        What is refused goes the slow path, which says why.
        """
        one = self._one_row
        if one is None or type(X) is not np.ndarray or type(y) is not np.ndarray:
            return False
        if X.shape != one.plain_shape or X.dtype != np.float64 or y.shape != (1,):
            return False
        with one.lock:
            try:
                usable = one.state is self._state and not one.access.busy
                return usable and one.learn(X, y.item(), 1.0)
            except ValueError:
                if one.state is None:  # it had been learnt
                    raise
                return False

    def _prepare_for_rows(self) -> None:
        """Make the fast path for rows that come one by one, unless it is there."""
        one, state = self._one_row, self._known()
        if one is None or one.state is not state:
            one = self._one_row_for(state, one)
            if one is not None:
                one.rule = self._rule(state.model.p)
                self._one_row = one

    @writing
    def _learn_one_slowly(self, x: Any, y: Any, w: Any, classes: Any, grow: bool) -> None:
        """The slow path: of a row that may be the first, or have new names or a new label."""
        self.check_parameters()
        state = self._known()
        # What follows a row with new names must not be used if that row is refused.
        prepared = self.__dict__.pop("_one_row", None)
        features = None if state is None else state.features
        if recipe_of(state) is not None:
            state, x = learnt_along(state, [x], w)
        elif isinstance(x, dict):
            x = dict(entries(x, "x"))
            state, features = met(x, state)
        if state is not None and isinstance(state.model, LinearModel):
            totals = state.totals
            if self.class_weight == "balanced" and totals is None:
                totals = np.zeros(state.classes.size + 1)
            maps = None if self.calibration is None else state.calibration
            if maps is None and self.calibration is not None:
                maps = maps_for(state.model)
            state = state._replace(model=state.model.streaming(1), totals=totals, calibration=maps)
        one = self._one_row_for(state, prepared)
        rule = None if state is None else self._rule(state.model.p)
        if one is None or (grow and y not in one.targets) or not one.can_learn(w, rule):
            row = x if sparse.issparse(x) else as_matrix(x, features)
            # The row has no names of its own.
            bare = state and state._replace(features=Features(row.shape[1]))
            weight = None if w == 1.0 else w
            state, _ = self._learnt(
                bare, row, np.array([y]), classes, grow=grow, sample_weight=weight
            )
            if features is not None:
                state = state._replace(features=features)
            self._state = state
            self._known()
            return
        assert state is not None
        self._check_structure(state)
        one.rule = rule
        before, trials = self._state, state.model.trials()
        try:
            self._state = state  # names first: a weight must never belong to none
            with one.lock:
                one.learn(x, y, w)
        except BaseException:
            self._known()  # a row that counts is learnt to the end
            if state.model.trials() == trials:
                self._state = before
            raise
        self._one_row = one

    def predict_one(self, x: Any, *, classes: Any = None, grow: bool = False) -> Any:
        """The class of a single row, as `learn_one` takes it; names without columns count as 0.

        Parameters
        ----------
        x : dict, pair (indices, values), or array of shape (n_features,)
        classes : array of shape (n_classes,), default=None
            As in `learn_one`, for rows that are predicted before any was learnt: these have the
            class of a score of 0.
        grow : bool, default=False
            As in `learn_one`: before any row was learnt no class is known, and the answer is None.

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
        with one.lock if one is not None else access_to(self).changing:
            if one is None or one.state is not self._state:
                if self._known() is None and (grow or classes is not None):
                    return class_of_zero(classes)
                if (one := self._one_row_now()) is None:
                    return self._classes_for(self._scores_of_one(x)).tolist()[0]
            return one.predict(x)

    def decision_one(self, x: Any) -> Any:
        """The score of a single row, as `learn_one` takes it: what `decision_function` gives it.

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
        with access_to(self).changing:
            one = self._one_row
            if one is None or one.state is not self._state:
                one = self._one_row_now()
            scores = self._scores_of_one(x).ravel() if one is None else one.scores(x)
        return scores if scores.size > 1 else scores.item()

    @if_calibrated
    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """The probability of each class of a single row, with ``calibration="online"``.

        Parameters
        ----------
        x : dict, pair (indices, values), or array of shape (n_features,)

        Returns
        -------
        dict of label to probability
        """
        with access_to(self).changing:
            state, scores = self._fitted(), np.reshape(self.decision_one(x), (1, -1))
            chances = self._chances(state, scores)[0]
        return dict(zip(state.classes.tolist(), chances.tolist(), strict=True))

    def _one_row_now(self) -> OneRow | None:
        """The fast path for what is known now, made anew, if there is one."""
        one = self._one_row_for(self._fitted(), self._one_row)
        if one is not None:
            self._one_row = one
        return one

    def _scores_of_one(self, x: Any) -> np.ndarray:
        """The scores of a single row where there is no fast path."""
        if recipe_of(state := self._fitted()) is not None:
            return self.decision_function([x])
        row = as_matrix(x, named_features(state))
        check_values(row)
        return self._scores(state, row)

    def _one_row_for(self, state: State | None, one: OneRow | None) -> OneRow | None:
        """The fast path for this state, if there is one, made from that for an earlier one."""
        if state is None or state.multilabel or recipe_of(state) is not None:
            return None
        way = next((way for way in WAYS if way.is_possible(state.model)), None)
        is_weighted = self.class_weight is not None or self.calibration is not None
        if way is None or (way is not OneRow and is_weighted):
            return None
        if one is not None and one.can_follow(state):
            return one.followed(state)
        return way(state, shown(state), access_to(self), self.class_weight)

    @property
    def columns_(self) -> dict[Any, int]:
        features = named_features(self._fitted())
        if features.columns is None:
            raise AttributeError("No row came as a dict.")
        return features.named_columns() or {}
