"""The first round: statistics of all rows, and a sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from maxmargin.distributed.executor import Executor, Question
from maxmargin.distributed.shards import Columns, ShardError
from maxmargin.solvers.linear_oracle import MOST_DIRECT
from maxmargin.training import inputs
from maxmargin.training.inputs import check_number_of_labels, likely_classes, only_one_class
from maxmargin.training.protocol import trainer_of
from maxmargin.training.sample_weights import (
    check_any,
    check_products,
    check_weights,
    weights_by_totals,
)
from maxmargin.training.state import Features

# The least number of rows of a sample, rows per feature up to `MOST_DIRECT`, and most values.
LEAST_SAMPLE, PER_FEATURE, MOST_NUMBERS = 4000, 40, 2**23


class SampledRows(NamedTuple):
    """Rows with labels, weighted so that they represent all rows of their shards."""

    X: Any
    y: np.ndarray
    weight: np.ndarray


class ShardTotals(NamedTuple):
    """The content of some shards."""

    rows: int  # of positive weight
    stored: int  # their number of stored values
    name: str  # of the first shard
    columns: Features | None  # None if there are no rows
    kinds: tuple[str, str]  # of labels: numbers, text, or several a row; of rows: sparse or dense
    labels: np.ndarray
    totals: np.ndarray  # of the weights of each label; numbers of rows, if several per row
    total_weight: float
    least: float  # weight
    radius: float  # the largest norm of a row
    samples: tuple[SampledRows, ...]  # of each shard


NOTHING = ShardTotals(0, 0, "", None, ("", ""), np.zeros(0), np.zeros(0), 0.0, np.inf, 0.0, ())


class SurveyQuestion(NamedTuple):
    """The question about the content of a shard."""

    learner: BaseEstimator  # for its checks
    shards: int  # the number of shards

    def answer(self, shard: Any) -> ShardTotals:
        seen, reservoir, features = NOTHING, None, None
        random, trainer = np.random.default_rng(shard.number), trainer_of(self.learner)
        for block in shard.blocks():
            X, features = inputs.check_X(trainer.options, block.X, features)
            y = inputs.check_y(block.y, X.shape[0], multilabel=True)
            check_number_of_labels(trainer, y)
            inputs.check_labels(y)
            radius = inputs.check_values(X, features)
            weight = check_weights(block.weight, X.shape[0])
            if not weight.all():
                X, y, weight = X[weight > 0.0], y[weight > 0.0], weight[weight > 0.0]
            layout = "sparse" if sparse.issparse(X) else "dense"
            here = self._counted(X, y, weight)._replace(
                name=shard.name,
                columns=features,
                kinds=(_kind_of(y), layout),
                radius=radius,
            )
            if reservoir is None:
                reservoir = Reservoir(self._wanted(X), random)
            reservoir.add(X, y, weight)
            seen = self.merged([seen, here])
        if reservoir is None or seen.rows == 0:
            return seen
        return seen._replace(samples=(reservoir.sample(),))

    def _wanted(self, X: Any) -> int:
        filled = X.nnz / max(X.shape[0], 1) if sparse.issparse(X) else X.shape[1]
        rows = max(LEAST_SAMPLE, PER_FEATURE * min(X.shape[1], MOST_DIRECT))
        rows = min(rows, int(MOST_NUMBERS / max(filled, 1.0)))
        return -(-rows // self.shards)

    def _counted(self, X: Any, y: np.ndarray, weight: np.ndarray) -> ShardTotals:
        if y.ndim == 2:
            labels, totals = np.arange(y.shape[1]), (y.T @ np.ones(y.shape[0])).astype(float)
        else:
            labels, codes = np.unique(y, return_inverse=True)
            totals = np.bincount(codes, weight, labels.size)
        return NOTHING._replace(
            rows=X.shape[0],
            stored=int(X.nnz) if sparse.issparse(X) else X.size,
            labels=labels,
            totals=totals,
            total_weight=float(weight.sum()),
            least=float(weight.min(initial=np.inf)),
        )

    def merged(self, answers: Sequence[ShardTotals]) -> ShardTotals:
        parts = [part for part in answers if part.columns is not None]
        if not parts:
            return NOTHING
        for other in parts[1:]:
            _check_same(parts[0], other)
        labels, codes = np.unique(np.concatenate([p.labels for p in parts]), return_inverse=True)
        totals = np.zeros(labels.size)
        np.add.at(totals, codes, np.concatenate([part.totals for part in parts]))
        return parts[0]._replace(
            rows=sum(part.rows for part in parts),
            stored=sum(part.stored for part in parts),
            labels=labels,
            totals=totals,
            total_weight=float(np.sum([part.total_weight for part in parts])),
            least=min(part.least for part in parts),
            radius=max(part.radius for part in parts),
            samples=tuple(sample for part in parts for sample in part.samples),
        )


def _kind_of(y: np.ndarray) -> str:
    if y.ndim == 2:
        return f"{y.shape[1]} labels a row"
    return "numbers" if y.dtype.kind in "biuf" else "text"


def _check_same(first: ShardTotals, other: ShardTotals) -> None:
    """Raise a `ShardError` if labels, rows or columns are of different kinds."""
    for what, here, there in zip(("labels", "rows"), other.kinds, first.kinds, strict=True):
        if here != there:
            raise ShardError(
                f"{other.name}: the {what} are {here}, those of {first.name} are {there}."
            )
    (mine, own), (count, names) = map(_columns_of, (other, first))
    if mine != count:
        raise ShardError(f"{other.name}: there are {mine} columns, {first.name} has {count}.")
    if own != names:
        raise ShardError(f"{other.name}: the columns are {own}, those of {first.name} are {names}.")


def _columns_of(part: ShardTotals) -> tuple[int, str]:
    assert part.columns is not None
    names = part.columns.names
    return part.columns.count, "without names" if names is None else str(names.tolist())


class Reservoir:
    """A random sample of a stream: the rows with the smallest random numbers."""

    def __init__(self, size: int, random: np.random.Generator) -> None:
        self.size, self.random, self.seen = size, random, 0
        self.parts = list[tuple[Any, np.ndarray, np.ndarray, np.ndarray]]()

    def add(self, X: Any, y: np.ndarray, weight: np.ndarray) -> None:
        self.seen += X.shape[0]
        self.parts.append(self._lowest(X, y, weight, self.random.random(X.shape[0])))
        if sum(part[1].shape[0] for part in self.parts) > 4 * self.size:
            self._prune()

    def _lowest(self, *arrays: Any) -> Any:
        chosen = np.sort(np.argsort(arrays[-1], kind="stable")[: self.size])
        return tuple(array[chosen] for array in arrays)

    def _prune(self) -> None:
        self.parts = [self._lowest(*map(stacked, zip(*self.parts, strict=True)))]

    def sample(self) -> SampledRows:
        self._prune()
        ((X, y, weight, _),) = self.parts
        return SampledRows(X, y, weight * (self.seen / max(y.shape[0], 1)))


def stacked(parts: Sequence[Any]) -> Any:
    """Vertically stacked rows, or joined arrays."""
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


# ---------------------------------------------------------------------------------------- overview
class Overview(NamedTuple):
    """The survey of all rows, whose sums and sample take weights of classes into account."""

    columns: Columns
    found: ShardTotals
    sample: SampledRows

    @property
    def filled(self) -> float:
        """The mean number of stored values of a row."""
        return self.found.stored / self.found.rows


class Job(NamedTuple):
    """A learner, the survey of all rows, and the encoded shards with their executor."""

    learner: BaseEstimator
    overview: Overview
    executor: Executor
    shards: Sequence[Any]

    def ask(self, question: Question) -> Any:
        return self.executor.ask(question, self.shards)


def overview_of(learner: BaseEstimator, found: ShardTotals) -> Overview:
    """The overview of a survey; raises if the shards are incompatible."""
    if found.columns is None:
        raise ValueError("There are no rows to learn from: all partitions are empty.")
    check_any(found.rows)
    features, multilabel = found.columns, found.kinds[0].endswith("labels a row")
    classes = found.labels
    if multilabel:
        same = np.flatnonzero((found.totals == 0.0) | (found.totals == found.rows))
        if same.size:
            raise ValueError(f"All rows have the same value of label {same[0]}: leave it out.")
    elif classes.size < 2:
        raise ValueError(only_one_class(classes))
    else:
        likely_classes(classes, found.rows)
    class_weight = np.ones(classes.size)
    if not multilabel and learner.class_weight is not None:
        class_weight = weights_by_totals(learner.class_weight, classes, found.totals)
        total, least = float(found.totals @ class_weight), found.least * float(class_weight.min())
        check_products(np.array([least, total]))
        found = found._replace(total_weight=total, least=least)
    columns = Columns(learner, features, classes, class_weight, multilabel)
    X, y, weight = (stacked([part[k] for part in found.samples]) for k in range(3))
    if not multilabel:
        weight = weight * class_weight[inputs.class_codes(y, classes)]
    return Overview(columns, found, SampledRows(X, y, weight))
