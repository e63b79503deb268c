"""The fast ways for single rows: for linear models, votes of such, and models on a budget."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from scipy import sparse

from maxmargin.core.experts import predict_classes, rules_in, score_votes
from maxmargin.core.rows import DenseRows
from maxmargin.kernels.points import shallow_copy
from maxmargin.models.base import Model
from maxmargin.models.budget_model import BudgetModel, Code
from maxmargin.models.vote_model import Ballot, VoteModel, VoteRule
from maxmargin.training.calibration import NO_WEIGHTS
from maxmargin.training.learning import may_overflow
from maxmargin.training.one_row import THE_ROW, Kinds, Locks, OneRow, outputs_into
from maxmargin.training.options import Options
from maxmargin.training.recipes import recipe_of
from maxmargin.training.state import State
from maxmargin.training.types import Matrix, Rule, SingleRow, Targets


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
        self.tail, self.ballots = model.groups[0].tail, dict[Kinds, Ballot]()
        self.predicted = np.empty((1, model.votes.weights.size), np.int32)
        self.found = np.empty((1, model.problems()))
        self.views, first = list[tuple[Any, ...]](), 0
        for group, count in zip(model.groups, model.sizes(), strict=True):
            found = np.empty((1, count * model.problems()))
            asked = found, model.problems(), model.classes(), first, first + count, self.predicted
            self.views.append(
                (group.tail, group.view(), found[0], predict_classes.entry(*asked), asked)
            )
            first += count
        self.poll = score_votes.entry(self.predicted, model.votes, self.found)

    def _learn_weighted(self, rows: SingleRow, targets: Targets, w: float) -> bool:
        return False

    def _learn(
        self, rows: SingleRow, targets: Targets, kinds: Kinds, how_often: np.ndarray = NO_WEIGHTS
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

    def _class_number(self, rows: SingleRow) -> int:
        found = self._outputs(rows)
        if found is None:
            return -1
        return int(found[0] >= 0.0) if found.size == 1 else int(found.argmax())

    def _outputs(self, rows: SingleRow) -> np.ndarray | None:
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
        self.poll(self.predicted, self.model.votes, self.found)
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
        self.code: Code = {}
        self.blank = sparse.csr_matrix((1, self.width))
        # The last row that was looked at, and what was found, until another is learned from.
        self.seen: tuple[Any, Any] = (None, None)

    def _matrix(self, rows: SingleRow) -> Matrix:
        """The row in memory of its own, as models take rows."""
        if isinstance(rows, DenseRows):
            return rows.values.copy()
        X = shallow_copy(self.blank)  # SciPy's checks would take as long as the rest
        X.data, X.indices, X.indptr = rows.values.copy(), rows.columns.copy(), rows.starts.copy()
        return X

    def _learn(
        self, rows: SingleRow, targets: Targets, kinds: Kinds, how_often: np.ndarray = NO_WEIGHTS
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

    def _outputs(self, rows: SingleRow) -> np.ndarray | None:
        if not self._is_usable(rows):
            return None
        return self._glance(rows).outputs[self.first : self.first + self.shown]

    def _glance(self, rows: SingleRow) -> Any:
        """A look at the row, which learning from it right after needs not repeat."""
        content = _content(rows)
        if self.seen[0] != content:
            self.seen = content, self.model.output(self._matrix(rows))
        return self.seen[1]


WAYS: tuple[type[OneRow], ...] = (OneRow, OneRowOfVotes, OneRowOfBudgets)


def fast_way(
    options: Options, state: State | None, before: OneRow | None, access: Locks
) -> OneRow | None:
    """The fast way for single rows with this state, if there is one, made from an earlier one."""
    if state is None or state.multilabel or recipe_of(state) is not None:
        return None
    way = next((way for way in WAYS if way.is_possible(state.model)), None)
    is_weighted = options.class_weight is not None or options.calibration is not None
    if way is None or (way is not OneRow and is_weighted):
        return None
    if before is not None and before.can_follow(state):
        return before.followed(state)
    return way(state, access, options.class_weight)


def _content(rows: SingleRow) -> tuple[bytes, ...]:
    """What tells a row from others of the same width."""
    parts = (rows.values,) if isinstance(rows, DenseRows) else (rows.values, rows.columns)
    return tuple(part.tobytes() for part in parts)
