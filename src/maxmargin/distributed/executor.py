"""Rounds: one question to all shards, and the tree by which their answers become one.

Answers are pure functions of shard and question, and are merged in an order that depends on the
number of shards only. So the result does not know how many workers there were, which of them were
lost and computed anew, or who was first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from maxmargin.distributed.shards import ShardError
from maxmargin.models.blas_threads import one_thread

# So many answers are merged at a time.
FAN_IN = 8


class Question(Protocol):
    """What all shards are asked; it must be possible to send it to them."""

    def answer(self, shard: Any) -> Any:
        """What one shard has to say."""

    def merged(self, answers: Sequence[Any]) -> Any:
        """What several shards have to say together, in the order of their numbers."""


class Executor(Protocol):
    """Who asks shards, wherever they are; what stands for a shard is the executor's business."""

    def place(self, shards: Sequence[Any]) -> Sequence[Any]:
        """Bring shards to where they are asked; what stands for them from then on."""

    def derive(self, function: Callable[..., Any], shards: Sequence[Any], *given: Any) -> Any:
        """Shards ``function(shard, *given)`` in place of these, which are not asked any more."""

    def ask(self, question: Question, shards: Sequence[Any]) -> Any:
        """The answers of all shards, merged as by `tree`; raises a `ShardError` if one fails."""


def answer(question: Question, shard: Any) -> Any:
    """What a shard answers, by one thread; its errors name it."""
    with one_thread():
        return derived(question.answer, shard)


def derived(function: Callable[..., Any], shard: Any, *given: Any) -> Any:
    """``function(shard, *given)``, whose errors name the shard."""
    try:
        return function(shard, *given)
    except ShardError:
        raise
    except Exception as error:
        raise ShardError.naming(shard.name, error) from error


def merged(question: Question, answers: Sequence[Any]) -> Any:
    return question.merged(answers)


def tree(answers: Sequence[Any], merge: Callable[[list[Any]], Any]) -> Any:
    """Merge neighbours, `FAN_IN` at a time, until one answer is left.

    ``merge`` may give a promise of an answer, if it takes promises as well.
    """
    left = list(answers)
    while True:
        left = [merge(left[k : k + FAN_IN]) for k in range(0, len(left), FAN_IN)]
        if len(left) == 1:
            return left[0]


class Plain:
    """Asks shards of this process, one after the other, or in so many threads."""

    def __init__(self, n_jobs: int = 1) -> None:
        self.n_jobs = n_jobs

    def place(self, shards: Sequence[Any]) -> Sequence[Any]:
        return shards

    def derive(self, function: Callable[..., Any], shards: Sequence[Any], *given: Any) -> Any:
        return self._map(lambda shard: derived(function, shard, *given), shards)

    def ask(self, question: Question, shards: Sequence[Any]) -> Any:
        answers = self._map(lambda shard: answer(question, shard), shards)
        return tree(answers, lambda some: merged(question, some))

    def _map(self, function: Callable[[Any], Any], shards: Sequence[Any]) -> list[Any]:
        if self.n_jobs == 1:
            return [function(shard) for shard in shards]
        with ThreadPoolExecutor(self.n_jobs) as threads:
            return list(threads.map(function, shards))
