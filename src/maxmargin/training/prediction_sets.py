"""Prediction sets with a target coverage, followed row by row under any drift.

Every class has a score in [0, 1] for a row, by the outputs before the row is learned from, and the
set has the classes whose score is at most a threshold. Where the learner has probabilities, they
are sorted and cumulated: the score of a class is the mean of the mass of likelier classes and of
the mass of all other classes, so sets are the likeliest classes. Otherwise it is

    (1 - lead / (|lead| + scale)) / 2

where a class leads over the best of the others, and the scale is the mean lead of the winners of
the last rows.

Thresholds that eight rates ``g`` propose follow the score s of the right class,

    q <- q + g ((s > q) - alpha)

and the proposal is their mean, with weights by their pinball losses, of which a part is shared
(Gibbs and Candès 2022). On top of it one fixed rate carries the theorem of
`certificates.coverage_bounds`: its miscoverage level follows from counts alone,

    alpha_t = alpha + CORRECTION (alpha rows - errors)

and moves the threshold from the proposal, where ``alpha_t = alpha``, towards 1 (a full set) as
alpha_t falls to 0, and towards 0 as it rises to 1, by the fourth power of the distance: errors that
cancel out move it hardly, and those that add up move it all the way. Sets are full where
alpha_t < 0, and empty where it is above 1.

A classifier that does not learn any more has sets by rows that were held out. The score of a class
is how far it is behind the best of the others. If the held-out rows and a new one are exchangeable,
the rank of the score of its label among the ``m + 1`` scores is uniform, up to ties. So the label
has a score of at most the ``ceil((m + 1) coverage)``-th smallest of the m held-out ones with a
probability of at least the coverage (Vovk, Gammerman and Shafer 2005), and of at most ``coverage +
1 / (m + 1)`` if no scores are equal.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.certificates.coverage_bounds import Coverage, coverage_bound
from maxmargin.core.array_fields import Array
from maxmargin.core.numba_backend import Compiled, bridge, helper
from maxmargin.training.inputs import shown
from maxmargin.training.protocol import Batch, Fitted, Learned, Trainer
from maxmargin.training.state import State

# Any 2000 consecutive rows are within 2 points of the target, whatever comes: (1 + g) / (2000 g) is
# 0.02 for this rate.
CORRECTION = 1.0 / 39.0
# Rates that propose thresholds, and the rows within which one of them is to be found.
RATES = 0.001 * 2.0 ** np.arange(8)
HORIZON = 500.0
SHARED = 0.5 / HORIZON
# The scale of outputs is the mean over so many rows.
RECENT = 300.0
# Outputs beyond, and leads beyond, mean the same.
LARGEST_VALUE, LARGEST_LEAD = 1e300, 1e300
# A threshold below all scores, and a score that is in no set.
EMPTY, OUTSIDE = -1.0, 2.0
NO_SETS = np.empty((0, 2), np.int32)
# Keys of `State.more`: the tracker, and the sorted scores of held-out rows.
SETS, HELD_OUT = "sets", "held_out"
# Of the order in which rows are held out.
SEED = 0


@helper
def falling(x):  # type: ignore[no-untyped-def]
    """``exp(-x)`` for x >= 0, up to 1e-9; unlike that of a library, eight of them run at once."""
    u = x * (1.0 / 32.0)
    square = u * u
    odd = 1.0 + square * (1.0 / 6.0 + square * (1.0 / 120.0))
    even = 1.0 + square * (1.0 / 2.0 + square * (1.0 / 24.0 + square * (1.0 / 720.0)))
    grown = even + u * odd
    grown *= grown
    grown *= grown
    grown *= grown
    grown *= grown
    return 1.0 / (grown * grown)


class SetTracker(NamedTuple):
    """What the threshold of prediction sets follows from.

    Attributes
    ----------
    target : the coverage asked for
    counts : rows, rows whose label was outside of the set, and the sum of the sizes of sets
    thresholds, shares : those of each rate, and their weights in the proposal
    mean_lead : the mean lead of the winners of the last rows
    """

    target: Annotated[np.ndarray, Array(1, finite=True)]
    counts: Annotated[np.ndarray, Array(3, finite=True, at_least=0.0)]
    thresholds: Annotated[np.ndarray, Array("rates", finite=True)]
    shares: Annotated[np.ndarray, Array("rates", finite=True)]
    mean_lead: Annotated[np.ndarray, Array(1, finite=True, at_least=0.0)]

    def set_threshold(self):
        """The highest score of a class in the next set."""
        alpha = 1.0 - self.target[0]
        level = alpha + CORRECTION * (alpha * self.counts[0] - self.counts[1])
        if level < 0.0:
            return 1.0
        if level > 1.0:
            return EMPTY
        proposal = 0.0
        for k in range(self.shares.size):
            proposal += self.shares[k] * self.thresholds[k]
        proposal = max(0.0, min(1.0, proposal))
        if level <= alpha:
            return proposal + (1.0 - proposal) * ((alpha - level) / alpha) ** 4
        return proposal - proposal * ((level - alpha) / (1.0 - alpha)) ** 4

    def learn_score(self, score, outside, size, loss_rate):
        """Follow the score of the right class of a row, whose set had so many classes."""
        coverage, rates, total = self.target[0], self.shares.size, 0.0
        alpha = 1.0 - coverage
        self.counts[0] += 1.0
        self.counts[1] += outside
        self.counts[2] += size
        for k in range(rates):
            beyond = score - self.thresholds[k]
            step = coverage if beyond > 0.0 else -alpha
            self.shares[k] *= falling(loss_rate * (step * beyond))
            self.thresholds[k] += RATES[k] * step
        for k in range(rates):
            total += self.shares[k]
        factor = (1.0 - SHARED) / total if total > 0.0 else 0.0
        equal = (SHARED if total > 0.0 else 1.0) / rates
        for k in range(rates):
            self.shares[k] = factor * self.shares[k] + equal


bridge("set_threshold", "learn_score")


@helper
def score_by_odds(values, limit, own, scores):  # type: ignore[no-untyped-def]
    """Scores of classes by their log-odds, from the likeliest on: up to the limit and ``own``.

    Those further down become `OUTSIDE`. The values become probabilities, unless there are two.
    """
    classes, highest, total = values.size, -np.inf, 0.0
    if classes == 2 and values[0] == -values[1]:
        likely, top = 1 if values[1] > 0.0 else 0, 1.0 / (1.0 + np.exp(-abs(values[1])))
        scores[likely] = 0.5 * (1.0 - top)
        scores[1 - likely] = top if values[1] != 0.0 else 0.25
        return
    for c in range(classes):
        values[c] = min(values[c], 0.0) - np.log1p(np.exp(-abs(values[c])))
        highest = max(highest, values[c])
        scores[c] = OUTSIDE
    for c in range(classes):
        values[c] = np.exp(values[c] - highest)
        total += values[c]
    for c in range(classes):
        values[c] /= total
    likelier, before, placed = 0.0, np.inf, 0
    while placed < classes:
        top, mass = -1.0, 0.0
        for c in range(classes):
            if values[c] < before:
                top = max(top, values[c])
        score = max(0.0, min(1.0, 0.5 * (likelier + 1.0 - top)))
        for c in range(classes):
            if values[c] == top:
                scores[c] = score
                mass += top
                placed += 1
        likelier, before = likelier + mass, top
        if score > limit and (own < 0 or scores[own] < OUTSIDE):
            break


@helper
def score_by_leads(values, scale, scores):  # type: ignore[no-untyped-def]
    """Scores of classes by their outputs; returns the lead of the winner."""
    winner, best, second = 0, -np.inf, -np.inf
    for c in range(values.size):
        if values[c] > best:
            winner, best, second = c, values[c], best
        else:
            second = max(second, values[c])
    for c in range(values.size):
        lead = best - second if c == winner else values[c] - best
        lead = max(-LARGEST_LEAD, min(LARGEST_LEAD, lead))
        scores[c] = 0.5 - 0.5 * (lead / (abs(lead) + scale)) if lead != 0.0 else 0.5
    return min(LARGEST_LEAD, best - second)


@helper
def read_values(evidence, n, first, shown, values):  # type: ignore[no-untyped-def]
    """The outputs, or log-odds, of each class; of two classes there may be one, of the second.

    They are finite then, so that leads and shares are: infinite ones are clipped, NaN becomes 0.
    """
    for c in range(values.size):
        value = evidence[n, first + min(c, shown - 1)]
        value = value if value == value else 0.0
        values[c] = max(-LARGEST_VALUE, min(LARGEST_VALUE, value))
    if shown == 1 and values.size == 2:
        values[0] = -values[1]


@Compiled
def cover(evidence, is_odds, codes, order, first, shown, loss_rate, tracker, values, scores, seen):  # type: ignore[no-untyped-def]
    """Let the sets follow the rows ``order``, one after another.

    A row i that stands there as ``-1 - i`` is only looked at. ``evidence`` has the log-odds of each
    problem at each place, or else its output, before the row is learned; those that users see begin
    with ``first``. Write into ``seen``, unless it is empty, whether the label was outside of the
    set, and the number of classes in the set.
    """
    for n in range(order.size):
        i = order[n]
        own, threshold, lead = codes[i if i >= 0 else -1 - i], tracker.set_threshold(), 0.0
        read_values(evidence, n, first, shown, values)
        if is_odds:
            score_by_odds(values, threshold, own, scores)
        else:
            lead = score_by_leads(values, tracker.mean_lead[0], scores)
        size = 0
        for c in range(scores.size):
            size += scores[c] <= threshold
        outside = 1.0 if scores[own] > threshold else 0.0
        if n < seen.shape[0]:
            seen[n, 0], seen[n, 1] = outside, size
        if i >= 0:
            tracker.learn_score(scores[own], outside, size, loss_rate)
            if scores.size > 1:
                tracker.mean_lead[0] += (lead - tracker.mean_lead[0]) / min(
                    tracker.counts[0], RECENT
                )


@Compiled
def fill_sets(evidence, is_odds, tracker, values, scores, sets):  # type: ignore[no-untyped-def]
    """Which classes are in the set of each row, by the threshold of the next one."""
    threshold = tracker.set_threshold()
    for n in range(sets.shape[0]):
        read_values(evidence, n, 0, evidence.shape[1], values)
        if is_odds:
            score_by_odds(values, threshold, -1, scores)
        else:
            score_by_leads(values, tracker.mean_lead[0], scores)
        for c in range(scores.size):
            sets[n, c] = scores[c] <= threshold


def new_tracker(coverage: float) -> SetTracker:
    """One that has followed no rows."""
    return SetTracker(
        target=np.array([float(coverage)]),
        counts=np.zeros(3),
        thresholds=np.full(RATES.size, float(coverage)),
        shares=np.full(RATES.size, 1.0 / RATES.size),
        mean_lead=np.zeros(1),
    )


def tracker_for(coverage: float, before: SetTracker | None) -> SetTracker:
    """A copy of the one before, or a new one if it was for another target."""
    if before is None or before.target[0] != coverage:
        return new_tracker(coverage)
    return SetTracker(*(array.copy() for array in before))


def loss_rate(coverage: float) -> float:
    """How much losses count for the weights of rates; as in Gibbs and Candès 2022."""
    alpha = 1.0 - coverage
    spread = coverage**2 * alpha**3 + alpha**2 * coverage**3
    return float(np.sqrt(3.0 / HORIZON * (np.log(HORIZON * RATES.size) + 2.0) / spread))


def follow_sets(
    tracker: SetTracker,
    evidence: np.ndarray,
    is_odds: bool,
    labels: np.ndarray,
    order: np.ndarray,
    shown: slice,
    classes: int,
    seen: np.ndarray = NO_SETS,
) -> None:
    """`cover` for these problems, of so many classes."""
    first, stop = shown.start or 0, shown.stop
    columns = 1 if classes == 2 and (stop is None or stop - first == 1) else classes
    rate, values, scores = loss_rate(float(tracker.target[0])), np.empty(classes), np.empty(classes)
    cover(evidence, is_odds, labels, order, first, columns, rate, tracker, values, scores, seen)


def prediction_sets(
    tracker: SetTracker, evidence: np.ndarray, is_odds: bool, classes: int
) -> np.ndarray:
    """Which classes are in the set of each row, by the log-odds or outputs that users see."""
    sets = np.empty((evidence.shape[0], classes), dtype=bool)
    values, scores = np.empty(classes), np.empty(classes)
    fill_sets(np.ascontiguousarray(evidence), is_odds, tracker, values, scores, sets)
    return sets


def coverage_of(tracker: SetTracker) -> Coverage:
    """What was observed, and the theorem's bound."""
    target, (rows, outside, sizes) = float(tracker.target[0]), tracker.counts.tolist()
    return Coverage(
        target=target,
        observed=1.0 - outside / rows if rows else np.nan,
        bound=coverage_bound(int(rows), rate=CORRECTION, start=1.0 - target),
        rows=int(rows),
        mean_size=sizes / rows if rows else np.nan,
    )


def what_is_wrong(tracker: SetTracker) -> str:
    """Why this cannot be what has followed rows, if it cannot."""
    if not 0.0 < tracker.target[0] < 1.0:
        return "the target is not between 0 and 1"
    rows, outside, _ = tracker.counts
    if outside > rows:
        return "more labels were outside of sets than there were rows"
    if (tracker.shares <= 0.0).any() or not np.isclose(tracker.shares.sum(), 1.0):
        return "the weights of rates are not shares of 1"
    return ""


# ------------------------------------------------------------------------------- on streams
def tracker_in(state: State | None) -> SetTracker | None:
    """The tracker of prediction sets of a state, if it has one."""
    return None if state is None else state.more.get(SETS)


class ConformalTrainer:
    """Lets another trainer learn, and prediction sets follow.

    Parameters
    ----------
    inner : the trainer of the learner
    coverage : the target
    seen : array of shape (places, 2), which receives for each place of the order whether the label
        was outside of its set, and the number of classes inside; empty if that is not needed
    """

    def __init__(self, inner: Trainer, coverage: float, seen: np.ndarray = NO_SETS) -> None:
        self.inner, self.coverage, self.seen = inner, coverage, seen
        self.options, self.can_grow = inner.options, inner.can_grow

    @property
    def spec(self) -> Any:
        return self.inner.spec

    def fit(self, *given: Any, **more: Any) -> Fitted:
        return self.inner.fit(*given, **more)

    def learn(self, state: State | None, batch: Batch, **how: Any) -> Learned:
        """Learn from each row once; the sets follow the scores from before."""
        if np.ndim(batch.y) == 2 or (state is not None and state.multilabel):
            raise ValueError(
                "ConformalClassifier needs rows with one label each: the sets of several labels a "
                "row are not nested."
            )
        before = tracker_in(state)
        learned = self.inner.learn(state, batch._replace(traced=True), **how)
        after, tracker = learned.state, tracker_for(self.coverage, before)
        assert learned.trace is not None
        follow_sets(
            tracker,
            learned.trace.scores(),
            after.model.outputs_are_odds,
            learned.codes,
            learned.order,
            shown(after),
            after.classes.size,
            self.seen,
        )
        more = {name: value for name, value in after.more.items() if name != HELD_OUT}
        return learned._replace(state=after._replace(more={**more, SETS: tracker}))

    def outputs(self, state: State, X: ArrayLike) -> np.ndarray:
        return self.inner.outputs(state, X)

    def check_can_stream(self) -> None:
        self.inner.check_can_stream()


# ------------------------------------------------------------------------------ held-out rows
def held_out_rows(weights: np.ndarray, share: float) -> np.ndarray:
    """The numbers of rows to hold out: so many of those that count, in a fixed random order."""
    there = np.flatnonzero(weights)
    return np.random.default_rng(SEED).permutation(there)[: math.ceil(share * there.size)]


def class_scores(outputs: np.ndarray) -> np.ndarray:
    """How far each class is behind the best of the others, for outputs of shape (rows, problems)"""
    if outputs.shape[1] == 1:
        return np.hstack([outputs, -outputs])
    best = np.sort(outputs, axis=1)[:, -2:]
    return np.where(outputs == best[:, 1:], best[:, :1], best[:, 1:]) - outputs


def label_scores(outputs: np.ndarray, labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """The scores of labels, sorted; infinite for one that is not among the classes."""
    places = np.minimum(np.searchsorted(classes, labels), classes.size - 1)
    scores = class_scores(outputs)[np.arange(labels.size), places]
    return np.sort(np.where(classes[places] == labels, scores, np.inf))


def threshold(held_out: np.ndarray, coverage: float) -> float:
    """The highest score of a class in a set, by the sorted scores of held-out labels."""
    rank = math.ceil((held_out.size + 1) * coverage)
    return float(held_out[rank - 1]) if rank <= held_out.size else math.inf
