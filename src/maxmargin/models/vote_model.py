"""Models of several experts, which predict by a weighted vote."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Saved, own_arrays
from maxmargin.core.experts import Votes, experts_of, new_votes, predict_classes, score_votes, vote
from maxmargin.core.rows import NO_TAIL
from maxmargin.core.trace import NO_TRACE, Trace
from maxmargin.models import model_formulas
from maxmargin.models.base import Model, new_tally
from maxmargin.models.linear_model import LinearModel
from maxmargin.models.spec import ModelSpec

# Rows that all experts learn before the next ones, few enough to stay in the cache.
BLOCK_BYTES = 2**18
LEAST_ROWS, MOST_ROWS = 64, 2048


class VoteRule(NamedTuple):
    """The rules of experts, and how their weights change.

    Attributes
    ----------
    rules : for each group of experts a `Bank` of rules, or the rule of its only expert
    keep : the part of its weight that a wrong expert keeps
    share : the part of its weight that every expert gives to the others
    """

    rules: tuple[Any, ...]
    keep: float
    share: float


class VoteModel(Model):
    """Groups of experts, each one model with the problems of all its experts.

    Experts never learn from the vote. So a block of rows is learned group by group, in one compiled
    loop for each, which records predictions; the vote is computed from these.

    ``problems`` is the number of weight vectors of one expert; with ``unseen`` the last one is for
    a class that never occurs.
    """

    votes: Annotated[Votes, Saved()]
    groups: Annotated[list[Model], Saved()]

    # The single row that is being learned in place, if any.
    ballot: Any = None

    def __init__(self, spec: ModelSpec, problems: int, unseen: bool, groups: list[Model]) -> None:
        self.spec, self.unseen, self.groups = spec, unseen, groups
        self.tail, self.tally, self.unsettled = NO_TAIL, new_tally(), False
        self._problems = problems
        self.votes = new_votes(sum(self.sizes()))

    def sizes(self) -> list[int]:
        """The number of experts of each group."""
        return [count for _, count in self.spec.experts]

    def classes(self) -> int:
        """The number of classes that can be predicted."""
        return 2 if self._problems == 1 else self._problems - self.unseen

    @property
    def p(self) -> Any:  # type: ignore[override]
        """One for each group."""
        return tuple(model.p for model in self.groups)

    def problems(self) -> int:
        return self._problems

    def width(self) -> int:
        return self.groups[0].width()

    def _with(self, groups: list[Model]) -> VoteModel:
        """A copy with other models in the groups."""
        model = copy.copy(self)
        model.groups, model.tally = groups, self.tally.copy()
        model.votes = own_arrays(self.votes)
        return model

    # ------------------------------------------------------------------------------------ learning
    def rows(self, X: Any, sample_weight: np.ndarray | None = None) -> list[Any]:
        return [model.rows(X, sample_weight) for model in self.groups]

    def fit_rows(self, X: Any, sample_weight: np.ndarray | None = None) -> list[Any]:
        return [model.fit_rows(X, sample_weight) for model in self.groups]

    def begin_fit(self, rows: list[Any]) -> None:
        for model, own in zip(self.groups, rows, strict=True):
            model.begin_fit(own)

    def end_fit(self) -> None:
        for model in self.groups:
            model.end_fit()

    def twin(self) -> VoteModel:
        return self._with([model.twin() for model in self.groups])

    def continued(self) -> VoteModel:
        return self._with([model.continued() for model in self.groups])

    def streaming(self, rows: int, alone: bool = False) -> VoteModel:
        """Always a copy, so that no interruption leaves some experts with more rows than others."""
        pairs = [(model.streaming(rows), model) for model in self.groups]
        return self._with([new.twin() if new is old else new for new, old in pairs])

    def settle(self) -> None:
        if self.ballot is not None:
            self.ballot.finish()
        for model in self.groups:
            model.settle()
        vars(self).pop("ballot", None)
        self.unsettled = False

    def can_learn_in_place(self) -> bool:
        """True if all experts are linear, so that `Ballot` can learn single rows."""
        linear = all(isinstance(model, LinearModel) for model in self.groups)
        return linear and not any(model.keeps_row_numbers() for model in self.groups)  # type: ignore[attr-defined]

    def grown(self, width: int, which: Sequence[int], codes: np.ndarray) -> VoteModel:
        groups = []
        for model, count in zip(self.groups, self.sizes(), strict=True):
            firsts = range(0, count * self._problems, self._problems)
            groups.append(model.grown(width, [first + c for first in firsts for c in which], codes))
        more = self._with(groups)
        more._problems = len(which)
        return more

    def allows_unused_columns(self, width: int) -> bool:
        return all(model.allows_unused_columns(width) for model in self.groups)

    def present(
        self, rows: list[Any], targets: Any, order: np.ndarray, rule: Any, trace: Trace = NO_TRACE
    ) -> None:
        size, made = _rows_per_block(rows[0]), 0.0
        self.unsettled = True
        if order.size == 0:  # all rows have weight 0
            for model, own, rules in zip(self.groups, rows, rule.rules, strict=True):
                model.present(own, targets, order, rules)
        for start in range(0, order.size, size):
            part, history = order[start : start + size], trace.history[start : start + size]
            scores, updates = self._vote(rows, targets, part, rule)
            if history.size:
                history[:, :-1], history[:, -1] = scores, made + updates
            made += updates[-1]
        self.unsettled = any(model.unsettled for model in self.groups)

    def _vote(
        self, rows: list[Any], targets: Any, order: np.ndarray, rule: VoteRule
    ) -> tuple[np.ndarray, np.ndarray]:
        """Let all experts predict and learn rows; returns scores and updates after each row."""
        predicted = np.empty((order.size, self.votes.weights.size), np.int32)
        updates, first = np.zeros(order.size), 0
        classes = self.classes()
        groups = zip(self.groups, rows, rule.rules, self.sizes(), strict=True)
        for model, own, rules, count in groups:
            history = np.empty((order.size, count * self._problems + 1))
            group_targets = targets
            if count > 1:
                rules = rules._replace(each=self._problems)
                group_targets = experts_of(targets, self._problems, count)
            model.present(own, group_targets, order, rules, NO_TRACE._replace(history=history))
            predict_classes(history, self._problems, classes, first, first + count, predicted)
            updates += history[:, -1]
            first += count
        scores = np.empty((order.size, self._problems))
        result = scores, self.tally
        vote(predicted, order, targets, classes, self.votes, rule.keep, rule.share, *result)
        return scores, updates

    # ----------------------------------------------------------------------------- what was learned
    def updates(self) -> int:
        return sum(model.updates() for model in self.groups)

    def is_finite(self) -> bool:
        return all(model.is_finite() for model in self.groups)

    def outputs(self, X: Any) -> np.ndarray:
        """The weight of the experts who vote for a class minus that of the others."""
        predicted, first = np.empty((X.shape[0], self.votes.weights.size), np.int32), 0
        for model, count in zip(self.groups, self.sizes(), strict=True):
            outputs = np.ascontiguousarray(model.outputs(X))
            predict_classes(
                outputs, self._problems, self.classes(), first, first + count, predicted
            )
            first += count
        scores = np.empty((X.shape[0], self._problems))
        score_votes(predicted, self.votes, scores)
        return scores

    def formula(self, features: int) -> model_formulas.Votes:
        groups = [model.formula(features) for model in self.groups]
        return model_formulas.Votes(
            groups, self.votes.weights.copy(), self._problems, self.classes()
        )

    def weights(self) -> np.ndarray:
        raise AttributeError("A vote has no weights of features: see weights_, those of experts.")

    coefficients = intercepts = weights

    def margins(self, rows: Any, targets: Any) -> np.ndarray:
        """NaN: a vote has no hyperplane."""
        return np.full(self._problems, np.nan)

    def bounds(self) -> np.ndarray:
        return np.full(self._problems, np.inf)

    def ceiling(self, rows: Any, radius: float) -> float:
        return np.inf


class Ballot:
    """Learns single rows in place, through a vote of linear models.

    The machine code of each group of experts is looked up once, since that takes longer than
    learning. A row takes several calls. If an interruption comes between two of them, `finish`
    makes the missing ones, which the counts of the models identify.

    ``rows`` and ``targets`` are a row and its label, of the same types as all later ones.
    """

    def __init__(
        self, model: VoteModel, rule: VoteRule, rows: Any, targets: Any, order: np.ndarray
    ) -> None:
        self.model, self.order, self.rows, self.targets = model, order, rows, targets
        self.counts, self.trials, self.needs_maintenance = trials_in(model), -1, False
        self.group_targets: dict[int, tuple[Any, list[Any]]] = {}
        self.groups: list[tuple[Any, ...]] = []
        each, first = model.problems(), 0
        predicted = np.empty((1, model.votes.weights.size), np.int32)
        by_group = self._targets_of_groups(targets)
        parts = zip(model.groups, model.sizes(), rule.rules, by_group, strict=True)
        for group, count, rules, own_targets in parts:
            assert isinstance(group, LinearModel)
            trace = NO_TRACE._replace(history=np.empty((1, count * each + 1)))
            rules = rules._replace(each=each) if count > 1 else rules
            given = rules, group.space, group.tally, trace
            loop: Any = group.loop
            learn = loop.entry(rows._replace(tail=group.tail), own_targets, order, 0, *given)
            arguments = trace.history, each, model.classes(), first, first + count, predicted
            calls = learn, given, predict_classes.entry(*arguments), arguments
            self.groups.append((group, trials_in(group), *calls))
            first += count
        scores = np.empty((1, each))
        self.held = model.classes(), model.votes, rule.keep, rule.share, scores, model.tally
        self.predicted, self.vote = predicted, vote.entry(predicted, order, targets, *self.held)

    def _targets_of_groups(self, targets: Any) -> list[Any]:
        """The targets of each group, cached by object: there is one for each label."""
        if id(targets) not in self.group_targets:
            each, sizes = self.model.problems(), self.model.sizes()
            by_group = [targets if n == 1 else experts_of(targets, each, n) for n in sizes]
            self.group_targets[id(targets)] = targets, by_group
        return self.group_targets[id(targets)][1]

    def learn(self, rows: Any, targets: Any) -> bool:
        """Learn from a row; True if a group needed maintenance."""
        model = self.model
        self._targets_of_groups(targets)
        self.rows, self.targets = rows, targets
        self.trials, self.needs_maintenance, model.unsettled = model.trials(), False, True
        model.ballot = self  # from here on the row counts as learned
        self.finish()
        del model.ballot
        model.unsettled = False
        return self.needs_maintenance

    def finish(self) -> None:
        """Learn the row with the groups that have not learned it yet."""
        rows, order, trials = self.rows, self.order, self.trials
        groups = zip(self.groups, self._targets_of_groups(self.targets), strict=True)
        for (group, counts, learn, given, predict, arguments), targets in groups:
            if counts[0] == trials:
                row = rows if rows.tail == group.tail else rows._replace(tail=group.tail)
                _, needs_maintenance = learn(row, targets, order, 0, *given)
                if needs_maintenance:
                    self.needs_maintenance = True
                    group.maintain(group.space)
                group.begin_rows()
            predict(*arguments)
        if self.counts[0] == trials:
            self.vote(self.predicted, order, self.targets, *self.held)


def trials_in(model: Model) -> np.ndarray:
    """A view of the number of trials of a model."""
    return np.asarray(model.tally)["trials"]


def _rows_per_block(rows: Any) -> int:
    values = getattr(rows, "values", None)  # kernel models read nothing twice
    if values is None:
        return MOST_ROWS
    per_row = max(1, values.nbytes // max(1, rows.size()))
    return min(max(BLOCK_BYTES // per_row, LEAST_ROWS), MOST_ROWS)
