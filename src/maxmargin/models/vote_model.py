"""Models of several experts, which predict by a weighted vote."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from maxmargin.core.array_fields import Saved, own_arrays
from maxmargin.core.rows import NO_TAIL
from maxmargin.core.trace import NO_TRACE, Trace
from maxmargin.experts.votes import (
    Votes,
    invalid_weights,
    new_votes,
    predict_classes,
    score_votes,
    vote,
)
from maxmargin.models import model_formulas
from maxmargin.models.base import Beginning, Built, OnlineModel, build_for, new_tally
from maxmargin.models.spec import VoteSpec

# Rows that all experts learn before the next ones, few enough to stay in the cache.
BLOCK_BYTES = 2**18
LEAST_ROWS, MOST_ROWS = 64, 2048


class VoteRule(NamedTuple):
    """The rules of experts, and how their weights change.

    Attributes
    ----------
    rules : one for each expert
    keep : the part of its weight that a wrong expert keeps
    share : the part of its weight that every expert gives to the others
    """

    rules: tuple[Any, ...]
    keep: float
    share: float


class VoteModel(OnlineModel):
    """The models of all experts, which learn independently, and their votes.

    A block of rows is learned expert by expert, and each records what it predicts for a row before
    it learns from it; the votes are counted from these records.

    ``problems`` is the number of weight vectors of each expert; with ``unseen`` the last one is for
    a class that never occurs.
    """

    votes: Annotated[Votes, Saved()]
    members: Annotated[list[OnlineModel], Saved()]
    spec: VoteSpec

    def __init__(
        self, spec: VoteSpec, problems: int, unseen: bool, members: list[OnlineModel]
    ) -> None:
        self.spec, self.unseen, self.members = spec, unseen, members
        self.tail, self.tally = NO_TAIL, new_tally()
        self._problems = problems
        self.votes = new_votes(len(spec.experts))

    def classes(self) -> int:
        """The number of classes that can be predicted."""
        return 2 if self._problems == 1 else self._problems - self.unseen

    @property
    def p(self) -> Any:  # type: ignore[override]
        """One for each expert."""
        return tuple(model.p for model in self.members)

    def problems(self) -> int:
        return self._problems

    def width(self) -> int:
        return self.members[0].width()

    def _with(self, members: list[OnlineModel]) -> VoteModel:
        """A copy with other models of the experts."""
        model = copy.copy(self)
        model.members, model.tally = members, self.tally.copy()
        model.votes = own_arrays(self.votes)
        return model

    # ------------------------------------------------------------------------------------ learning
    def rows(self, X: Any, sample_weight: np.ndarray | None = None) -> list[Any]:
        return [model.rows(X, sample_weight) for model in self.members]

    def fit_rows(self, X: Any, sample_weight: np.ndarray | None = None) -> list[Any]:
        return [model.fit_rows(X, sample_weight) for model in self.members]

    def begin_fit(self, rows: list[Any]) -> None:
        for model, own in zip(self.members, rows, strict=True):
            model.begin_fit(own)

    def end_fit(self) -> None:
        for model in self.members:
            model.end_fit()

    def copy(self) -> VoteModel:
        return self._with([model.copy() for model in self.members])

    def continued(self) -> VoteModel:
        return self._with([model.continued() for model in self.members])

    def streaming(self, rows: int, owned: bool = False) -> VoteModel:
        """Always a copy, so that an error leaves no expert with more rows than others."""
        pairs = [(model.streaming(rows), model) for model in self.members]
        return self._with([new.copy() if new is old else new for new, old in pairs])

    def grown(self, width: int, which: Sequence[int], codes: np.ndarray) -> VoteModel:
        more = self._with([model.grown(width, which, codes) for model in self.members])
        more._problems = len(which)
        return more

    def allows_unused_columns(self, width: int) -> bool:
        return all(model.allows_unused_columns(width) for model in self.members)

    def learn_from(
        self, rows: list[Any], targets: Any, order: np.ndarray, rule: Any, trace: Trace = NO_TRACE
    ) -> None:
        size, made = _rows_per_block(rows[0]), 0.0
        if order.size == 0:  # all rows have weight 0
            for model, own, rules in zip(self.members, rows, rule.rules, strict=True):
                model.learn_from(own, targets, order, rules)
        for start in range(0, order.size, size):
            part, history = order[start : start + size], trace.history[start : start + size]
            scores, updates = self._vote(rows, targets, part, rule)
            if history.size:
                history[:, :-1], history[:, -1] = scores, made + updates
            made += updates[-1]

    def _vote(
        self, rows: list[Any], targets: Any, order: np.ndarray, rule: VoteRule
    ) -> tuple[np.ndarray, np.ndarray]:
        """Let all experts predict and learn rows; returns scores and updates after each row."""
        problems, classes = self._problems, self.classes()
        predicted = np.empty((order.size, len(self.members)), np.int32)
        updates, history = np.zeros(order.size), np.empty((order.size, problems + 1))
        trace = NO_TRACE._replace(history=history)
        for e, (model, own, own_rule) in enumerate(
            zip(self.members, rows, rule.rules, strict=True)
        ):
            model.learn_from(own, targets, order, own_rule, trace)
            predict_classes(history, problems, classes, e, predicted)
            updates += history[:, -1]
        scores = np.empty((order.size, problems))
        result = scores, self.tally
        vote(predicted, order, targets, classes, self.votes, rule.keep, rule.share, *result)
        return scores, updates

    # ----------------------------------------------------------------------------- what was learned
    def updates(self) -> int:
        return sum(model.updates() for model in self.members)

    def invalid_reason(self) -> str:
        return invalid_weights(self.votes.weights)

    def is_finite(self) -> bool:
        return all(model.is_finite() for model in self.members)

    def outputs(self, X: Any) -> np.ndarray:
        """The weight of the experts who vote for a class minus that of the others."""
        predicted = np.empty((X.shape[0], len(self.members)), np.int32)
        for e, model in enumerate(self.members):
            outputs = np.ascontiguousarray(model.outputs(X))
            predict_classes(outputs, self._problems, self.classes(), e, predicted)
        scores = np.empty((X.shape[0], self._problems))
        score_votes(predicted, self.votes, scores)
        return scores

    def formula(self, features: int) -> model_formulas.VoteFormula:
        members = [model.formula(features) for model in self.members]
        return model_formulas.VoteFormula(
            members, self.votes.weights.copy(), self._problems, self.classes()
        )


def _rows_per_block(rows: Any) -> int:
    values = getattr(rows, "values", None)  # kernel models read nothing twice
    if values is None:
        return MOST_ROWS
    per_row = max(1, values.nbytes // max(1, rows.size()))
    return min(max(BLOCK_BYTES // per_row, LEAST_ROWS), MOST_ROWS)


@build_for.register
def _vote(spec: VoteSpec, given: Beginning) -> Built:
    each = [build_for(one, given) for one in spec.experts]
    model = VoteModel(spec, given.problems, given.unseen, [built.model for built in each])
    return Built(model, [built.rows for built in each], max(built.radius for built in each))
