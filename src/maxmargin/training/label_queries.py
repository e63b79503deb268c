"""Asking for labels near the margin, row by row; what is proved is in `certificates.query_bounds`.

With a share of labels to ask for, ``b`` follows the margins and the labels asked for so far,

    b = share / (1 - share) * (mean margin) * exp(-RATE (queries - share rows - FIRST))

so that it does not depend on units, and rises until the share is met; the mean is over recent rows.
A stream begins with more labels than its share, since the first ones are worth the most. The
constants were chosen on the development tables and the first half of electricity.
"""

from __future__ import annotations

import copy
import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from maxmargin.certificates.query_bounds import SLACK
from maxmargin.core.array_fields import Array
from maxmargin.core.trace import NO_TRACE
from maxmargin.models.base import OnlineModel
from maxmargin.training import inputs
from maxmargin.training.online import check_wider_X, known_classes, more_classes
from maxmargin.training.protocol import Batch, Fitted, Learned, Trainer
from maxmargin.training.sample_weights import check_weights, only_counted
from maxmargin.training.state import Features, Matrix, State

# How fast b follows the labels asked for.
RATE = 0.1
# Labels by which a stream is to be ahead of its share from the beginning; at most SLACK.
FIRST = 30.0
# The mean margin is over so many rows.
RECENT = 300.0
# Margins beyond mean the same.
LARGEST = 1e100
# Rows whose scores are computed at once: they are valid up to the next row that is learned from.
AHEAD = 16
NO_QUERIES = np.empty((0, 2))
# The key of `State.more`.
QUERIES = "queries"
MASK = 2**64 - 1


class AccuracyEstimate(NamedTuple):
    """The accuracy of all predictions, from the labels that were asked for.

    A mistake on a row that was asked for with probability p counts ``1 / p``.

    Attributes
    ----------
    accuracy : float
        NaN if a label that was asked for was not learned before the next row.
    standard_error : float
        From an unbiased estimate of the variance of the sum of weighted mistakes.
    rows : int
        Rows that could have been asked for. Those that were not, because the share of labels was
        used up, are not part of the estimate.
    """

    accuracy: float
    standard_error: float
    rows: int


class QuerySampler(NamedTuple):
    """What decides whether to ask for a label.

    Attributes
    ----------
    rule : the share of labels, or 0; and a fixed b, or 0
    seed : of the random numbers; that of a row depends on its place alone
    counts : rows, and labels asked for
    mean_margin : over recent rows
    judged : rows with a probability above 0, labels learned that were asked for, mistakes on them
        weighted by ``1 / p``, and the estimated variance of this sum
    pending : of a row whose label was asked for and has not come: the probability, and the code of
        the predicted class; without such a class, the probability is 0
    """

    rule: Annotated[np.ndarray, Array(2, finite=True, at_least=0.0)]
    seed: Annotated[np.ndarray, Array(1, finite=True, at_least=0.0)]
    counts: Annotated[np.ndarray, Array(2, finite=True, at_least=0.0)]
    mean_margin: Annotated[np.ndarray, Array(1, finite=True, at_least=0.0)]
    judged: Annotated[np.ndarray, Array(4, finite=True, at_least=0.0)]
    pending: Annotated[np.ndarray, Array(2, finite=True, at_least=0.0)]

    def b(self) -> float:
        """That of the next row."""
        share, fixed = self.rule.tolist()
        if fixed > 0.0:
            return fixed
        rows, queries = self.counts.tolist()
        if self.is_used_up():
            return 0.0
        if share == 1.0 or queries < share * (rows + 1.0) - SLACK:
            return math.inf
        ahead = queries - share * rows - FIRST
        return share / (1.0 - share) * self.mean_margin.item() * math.exp(-RATE * ahead)

    def is_used_up(self) -> bool:
        """True if the share allows no label now."""
        (share, fixed), (rows, queries) = self.rule.tolist(), self.counts.tolist()
        return fixed == 0.0 and queries + 1.0 > share * (rows + 1.0) + SLACK

    def ask(self, scores: np.ndarray, classes: int) -> tuple[bool, float]:
        """Whether to ask for the label of a row with these scores, and with which probability."""
        margin, predicted = margin_of(scores) if classes > 1 else (0.0, 0)
        rows = self.counts.item(0)
        self.mean_margin[0] += (margin - self.mean_margin.item()) / min(rows + 1.0, RECENT)
        b = self.b()
        if margin == 0.0 or b == math.inf:
            chance = 0.0 if self.is_used_up() else 1.0
        else:
            chance = b / (b + margin)
        asked = uniform(self.seed.item(), rows) < chance
        self.counts[:] += (1.0, asked)
        self.judged[0] += chance > 0.0
        self.pending[:] = (chance, predicted) if asked else (0.0, 0.0)
        return asked, chance

    def judge(self, code: int) -> None:
        """Count the label of the row that was asked for last; -1 is one that was unknown."""
        chance, predicted = self.pending.tolist()
        if chance > 0.0:
            wrong = code != predicted
            self.judged[1:] += (1.0, wrong / chance, wrong * (1.0 - chance) / chance**2)
            self.pending[:] = 0.0

    def accuracy(self) -> AccuracyEstimate:
        rows, answers, mistakes, variance = self.judged.tolist()
        waits = self.pending.item(0) > 0.0
        if rows == 0.0 or answers + waits < self.counts.item(1):
            return AccuracyEstimate(math.nan, math.nan, int(rows))
        return AccuracyEstimate(1.0 - mistakes / rows, math.sqrt(variance) / rows, int(rows))


def margin_of(scores: np.ndarray) -> tuple[float, int]:
    """How far the prediction is ahead of the next class, and its code."""
    if scores.size == 1:
        (score,) = scores.tolist()
        margin, code = abs(score), int(score >= 0.0)
    else:
        second, best = np.partition(scores, -2)[-2:].tolist()
        margin, code = best - second, int(scores.argmax())
    return (min(margin, LARGEST) if margin == margin else 0.0), code


def uniform(seed: float, place: float) -> float:
    """A random number of [0, 1) by its place in a sequence (SplitMix64)."""
    z = (int(seed) * 0xD1342543DE82EF95 + (int(place) + 1) * 0x9E3779B97F4A7C15) & MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return ((z ^ z >> 31) >> 11) * 2.0**-53


def new_sampler(share: float, b: float | None, seed: int) -> QuerySampler:
    """One that has seen no rows."""
    return QuerySampler(
        rule=np.array([share, 0.0] if b is None else [0.0, b]),
        seed=np.array([float(seed)]),
        counts=np.zeros(2),
        mean_margin=np.zeros(1),
        judged=np.zeros(4),
        pending=np.zeros(2),
    )


def what_is_wrong(sampler: QuerySampler) -> str:
    """Why this cannot be what has asked for labels, if it cannot."""
    share, b = sampler.rule.tolist()
    if (share > 0.0) == (b > 0.0) or share > 1.0:
        return "there is neither a share of labels nor a fixed b"
    rows, queries = sampler.counts.tolist()
    judged, answers, _, _ = sampler.judged.tolist()
    chance, predicted = sampler.pending.tolist()
    if queries > rows or judged > rows or answers > queries:
        return "there are more labels than rows"
    if chance > 1.0 or predicted != int(predicted):
        return "a probability is above 1"
    return ""


class Questions(NamedTuple):
    """The hyper-parameters of questions."""

    share: float
    b: float | None
    random_state: Any

    def sampler_for(self, before: QuerySampler | None) -> QuerySampler:
        """The one before, or a new one if there was none, or one for another rule."""
        if before is not None:
            fixed = 0.0 if self.b is None else self.b
            if before.rule.tolist() == [0.0 if fixed else self.share, fixed]:
                return before
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        return new_sampler(self.share, self.b, seed)


def sampler_in(state: State | None) -> QuerySampler | None:
    return None if state is None else state.more.get(QUERIES)


class QueryTrainer:
    """Lets another trainer learn from the rows whose labels a sampler asks for.

    Parameters
    ----------
    inner : the trainer of the learner
    questions : the hyper-parameters
    seen : array of shape (places, 2), which receives for each place of the order whether the label
        was asked for, and the probability of that; empty if that is not needed
    """

    def __init__(self, inner: Trainer, questions: Questions, seen: np.ndarray = NO_QUERIES) -> None:
        self.inner, self.questions, self.seen = inner, questions, seen
        self.options, self.can_grow = inner.options, inner.can_grow

    @property
    def spec(self) -> Any:
        return self.inner.spec

    def fit(self, *given: Any, **more: Any) -> Fitted:
        return self.inner.fit(*given, **more)

    def learn(self, state: State | None, batch: Batch, *, owned: bool = False) -> Learned:
        """Ask for the label of each row, and learn from it if it was asked for."""
        rows = self._rows(state, batch)
        if not owned:
            state = copy.deepcopy(state)  # an error in a later row must not change it
        sampler = self.questions.sampler_for(sampler_in(state))
        if state is not None:
            # The rows of the matrix have no names.
            state = state._replace(features=Features(state.features.count))
        scores, updates, places = list[np.ndarray](), list[int](), rows.order.tolist()
        before = 0 if state is None else state.model.updates()
        ahead, first = np.empty((0, 1)), 0  # scores, and the place of the first
        for n, i in enumerate(places):
            if state is None:
                found = np.zeros(1 if rows.classes.size == 2 else rows.classes.size)
            else:
                if n >= first + ahead.shape[0]:
                    first, ahead = n, self._scores(state, rows, n)
                found = ahead[n - first]
            scores.append(found)
            if i >= 0:
                known = (rows.classes if state is None else state.classes).size
                asked, chance = sampler.ask(found, known)
                if n < self.seen.shape[0]:
                    self.seen[n] = asked, chance
                if asked:
                    code = rows.code(i, state)
                    state, ahead = self._learn_row(state, rows, i), ahead[:0]
                    sampler.judge(code)
            updates.append(0 if state is None else state.model.updates() - before)
        if state is None:  # no row counts
            state = self.inner.learn(None, batch).state
        state = state._replace(features=rows.features, more={**state.more, QUERIES: sampler})
        trace = NO_TRACE._replace(history=_history(state, scores, updates))
        return Learned(state, trace, rows.codes, rows.order)

    def _rows(self, state: State | None, batch: Batch) -> QueriedRows:
        """The rows of a batch, validated; raises if they cannot be learned from."""
        if np.ndim(batch.y) == 2 or (state is not None and state.multilabel):
            raise ValueError("LabelQueries needs rows with one label each.")
        features = None if state is None else state.features
        if batch.grow and features is not None:
            X, features = check_wider_X(self.options, batch.X, features)
        else:
            X, features = inputs.check_X(self.options, batch.X, features)
        inputs.check_values(X, features)
        y = inputs.check_y(batch.y, X.shape[0])
        before = None if state is None else state.classes
        if batch.grow:
            classes = more_classes(batch.classes, before, y)
        else:
            classes = known_classes(batch.classes, before, can_grow=self.can_grow)
        codes = inputs.class_codes(y, classes)
        order = np.arange(y.size, dtype=np.int32) if batch.order is None else batch.order
        weight = None
        if batch.weight is not None:
            weight = check_weights(batch.weight, y.size)
            order = only_counted(order, weight, look=batch.traced)
        return QueriedRows(X, y, codes, classes, features, order, weight, batch)

    def _scores(self, state: State, rows: QueriedRows, n: int) -> np.ndarray:
        """The scores of the row at this place, and possibly of some that follow."""
        model, width = state.model, state.features.count
        many = isinstance(model, OnlineModel) and not model.has_supports
        numbers = rows.order[n : n + (AHEAD if many else 1)]
        X = rows.X[np.where(numbers < 0, -1 - numbers, numbers)]
        X = X[:, :width] if X.shape[1] > width else X
        if (
            not many
        ):  # products of matrices are rounded by their shapes: one row has always the same
            return self.inner.outputs(state, X)
        # As the loops compute them: the same bits in every block.
        only_scored = -1 - np.arange(numbers.size, dtype=np.int32)
        labels = np.repeat(state.classes[:1], numbers.size)
        batch = Batch(X, labels, order=only_scored, traced=True)
        trace = self.inner.learn(state, batch, owned=True).trace
        assert trace is not None
        return trace.scores()[:, : model.problems()][:, inputs.shown(state)]

    def _learn_row(self, state: State | None, rows: QueriedRows, i: int) -> State:
        weight = None if rows.weight is None else rows.weight[i : i + 1]
        given, one = rows.batch, slice(i, i + 1)
        classes = rows.batch.classes if state is None else None
        batch = Batch(rows.X[one], rows.y[one], classes, weight, grow=given.grow)
        return self.inner.learn(state, batch, owned=state is not None).state

    def outputs(self, state: State, X: ArrayLike) -> np.ndarray:
        return self.inner.outputs(state, X)

    def check_can_stream(self) -> None:
        self.inner.check_can_stream()


class QueriedRows(NamedTuple):
    """The validated rows of a batch, as `training.online.CheckedRows`."""

    X: Matrix
    y: np.ndarray
    codes: np.ndarray
    classes: np.ndarray
    features: Features
    order: np.ndarray
    weight: np.ndarray | None
    batch: Batch

    def code(self, i: int, state: State | None) -> int:
        """The code of the label of a row, as far as it is known."""
        if state is None:
            return int(self.codes[i])
        return code_of(self.y[i], state.classes)


def code_of(label: Any, classes: np.ndarray) -> int:
    """The code of a label; -1 if it is not among the classes."""
    place = int(np.searchsorted(classes, label))
    return place if place < classes.size and classes[place] == label else -1


def _history(state: State, scores: list[np.ndarray], updates: list[int]) -> np.ndarray:
    """The scores of each place, as the loops record them."""
    problems = state.model.problems()
    history, visible = np.zeros((len(scores), problems + 1)), inputs.shown(state)
    for row, found in zip(history, scores, strict=True):
        shown = row[:problems][visible]
        shown[: found.size] = found[: shown.size]
    history[:, -1] = updates
    return history
